"""Messages of the profiler service, ``tensorflow.ProfilerService``: requests to encode, replies to decode.

Encoded by hand, field by field, so that no protobuf runtime is needed. The numbers are those of
``profiler_service.proto`` and ``profiler_options.proto`` of OpenXLA.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from tracehound.errors import TracehoundError, printable
from tracehound.formats.protobuf_wire import BYTES, VARINT, iterate_fields

TraceOption = bool | int | str
"""The value of an advanced option of the tracers."""

# ProfileRequest
_OPTIONS, _REPOSITORY_ROOT, _SESSION, _HOST_NAME, _EMIT_XSPACE = 4, 5, 6, 7, 9

# ProfileOptions
_DATASET_OPS, _HOST_LEVEL, _DEVICE_LEVEL, _PYTHON_LEVEL, _VERSION, _HLO = 1, 2, 3, 4, 5, 7
_START_NS, _DURATION_MS, _ADVANCED, _RAISE_ON_START_FAILURE = 8, 9, 12, 13

_OPTIONS_VERSION: Final = 1
"""Servers replace the levels of options without a version by defaults."""

# AdvancedConfigValue
_STRING_VALUE, _BOOL_VALUE, _INT_VALUE = 1, 2, 3

# TerminateRequest
_TERMINATED_SESSION = 1

# ProfileResponse
_EMPTY_TRACE, _XSPACE = 7, 8


class TracerOptions(Struct, frozen=True):
    """Levels of the tracers of a server, each from 0 for nothing, and advanced options of single devices."""

    host_level: int = 2
    device_level: int = 1
    python_level: int = 1
    advanced: Mapping[str, TraceOption] = field(default_factory=dict)


class ProfileRequest(Struct, frozen=True):
    """A request for a profile.

    `session` identifies the capture: `Terminate` with it ends the capture early. `start_ns` is the wall clock (Unix ns)
    at which to begin, 0 for at once. Servers that cannot send a profile write it to
    `repository_root`/`session`/`host_name`.xplane.pb on their own disk.
    """

    session: str = ""
    duration_ms: int = 0
    tracers: TracerOptions = TracerOptions()
    start_ns: int = 0
    repository_root: str = ""
    host_name: str = ""


class ProfileReply(Struct, frozen=True):
    """A reply to a request for a profile: the bytes `start` to `end` of `data` are the XSpace, if there is one.

    `empty` says that the server found nothing to send.
    """

    data: bytes
    start: int = 0
    end: int = 0
    empty: bool = False

    @property
    def has_xspace(self) -> bool:
        """True if the reply contains a profile."""
        return self.end > self.start

    @property
    def xspace(self) -> memoryview:
        """The profile, without a copy."""
        return memoryview(self.data)[self.start : self.end]


def encode_profile_request(request: ProfileRequest) -> bytes:
    """The bytes of a ProfileRequest."""
    return b"".join(
        (
            _encode_bytes(_OPTIONS, _encode_options(request)),
            _encode_text(_REPOSITORY_ROOT, request.repository_root),
            _encode_text(_SESSION, request.session),
            _encode_text(_HOST_NAME, request.host_name),
            _encode_number(_EMIT_XSPACE, 1),
        )
    )


def encode_terminate_request(session: str) -> bytes:
    """The bytes of a TerminateRequest."""
    return _encode_text(_TERMINATED_SESSION, session)


def parse_profile_reply(data: bytes) -> ProfileReply:
    """The parts of a ProfileResponse. Raises WireError if it is none."""
    reply = ProfileReply(data)
    for part in iterate_fields(data, 0, len(data)):
        if part.number == _XSPACE and part.wire == BYTES:
            reply = ProfileReply(data, part.at, part.at + part.value, reply.empty)
        elif part.number == _EMPTY_TRACE and part.wire == VARINT:
            reply = ProfileReply(data, reply.start, reply.end, bool(part.value))
    return reply


def parse_trace_option(word: str) -> tuple[str, TraceOption]:
    """Name and value of ``NAME=VALUE``: true and false are switches, whole numbers are numbers, all else is text."""
    name, equals, value = word.partition("=")
    if not (name and equals and value):
        remedy = "write NAME=VALUE, such as tpu_trace_mode=TRACE_ONLY_HOST"
        raise TracehoundError(f"{printable(word)!r} is no option of a tracer", remedy=remedy)
    if value in ("true", "false"):
        return name, value == "true"
    digits = value.removeprefix("-")
    return name, int(value) if digits.isascii() and digits.isdigit() and len(digits) < 19 else value


def _encode_options(request: ProfileRequest) -> bytes:
    tracers = request.tracers
    return b"".join(
        (
            _encode_number(_DATASET_OPS, 1),
            _encode_number(_HOST_LEVEL, tracers.host_level),
            _encode_number(_DEVICE_LEVEL, tracers.device_level),
            _encode_number(_PYTHON_LEVEL, tracers.python_level),
            _encode_number(_VERSION, _OPTIONS_VERSION),
            _encode_number(_HLO, 1),
            _encode_number(_START_NS, request.start_ns),
            _encode_number(_DURATION_MS, request.duration_ms),
            *(_encode_bytes(_ADVANCED, _encode_advanced(*option)) for option in tracers.advanced.items()),
            # A wrong option is an error then, in place of a profile without devices.
            _encode_number(_RAISE_ON_START_FAILURE, 1 if tracers.advanced else 0),
        )
    )


def _encode_advanced(name: str, value: TraceOption) -> bytes:
    """An entry of the map of advanced options."""
    if isinstance(value, bool):
        encoded = _encode_varint(_BOOL_VALUE << 3) + _encode_varint(value)
    elif isinstance(value, int):
        encoded = _encode_varint(_INT_VALUE << 3) + _encode_varint(value)
    else:
        encoded = _encode_text(_STRING_VALUE, value)
    return _encode_text(1, name) + _encode_bytes(2, encoded)


def _encode_number(number: int, value: int) -> bytes:
    """A field with a number; nothing for 0, which is the default of every field."""
    return _encode_varint(number << 3 | VARINT) + _encode_varint(value) if value else b""


def _encode_text(number: int, text: str) -> bytes:
    """A field with text; nothing for an empty one."""
    return _encode_bytes(number, text.encode()) if text else b""


def _encode_bytes(number: int, data: bytes) -> bytes:
    return _encode_varint(number << 3 | BYTES) + _encode_varint(len(data)) + data


def _encode_varint(value: int) -> bytes:
    """A whole number in seven bits a byte, the lowest first; a negative one as its unsigned 64 bits."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
