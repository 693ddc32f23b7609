"""The profiler service of one process, as a client meets it: its calls, and its errors in plain sentences.

The only module that knows gRPC, which is imported when a client is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, Final, Literal, Self, cast

from tracehound.capture.profiler_messages import (
    ProfileReply,
    ProfileRequest,
    encode_profile_request,
    encode_terminate_request,
    parse_profile_reply,
)
from tracehound.capture.server_address import ServerAddress
from tracehound.errors import TracehoundError
from tracehound.formats.protobuf_wire import WireError
from tracehound.model.units import PS_PER_S, format_bytes, format_duration_in_words

SERVICE: Final = "/tensorflow.ProfilerService/"

MAX_MESSAGE_BYTES: Final = 2**31 - 1
"""The largest reply that is accepted. No server can send more: the length of a protobuf message is a signed int32."""

CONTROL_SECONDS: Final = 10.0
"""Deadline of calls that only start or end something."""

MAX_ERROR_CHARS: Final = 200
"""Characters of a server's own error that are shown."""

Failure = Literal[
    "busy",
    "cancelled",
    "died",
    "late",
    "none_running",
    "refused",
    "running",
    "too_large",
    "unknown_call",
    "unreachable",
]
"""The ways in which a call fails.

`busy`: another capture runs. `died`: the connection broke. `late`: no answer before the deadline. `running` and
`none_running` are of continuous profiling. `unknown_call`: the server lacks this call. `refused`: any other error that
the server reports.
"""


@dataclass(eq=False)
class ProfilerServerError(Exception):
    """A call that failed: how, in a sentence that follows the address of the server, and what to do."""

    failure: Failure
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


def import_grpc() -> ModuleType:
    """The module `grpc`. Raises TracehoundError where it is not installed."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its log would go to the terminal, between the messages
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # forks of this process make no calls
    try:
        import grpc  # noqa: PLC0415, imported when used
    except ImportError as error:
        remedy = "pip install 'tracehound[capture]', or pip install grpcio"
        raise TracehoundError("a capture needs the package grpcio, which is not installed", remedy=remedy) from error
    return cast("ModuleType", grpc)


class PendingProfile:
    """A call `Profile` or `GetSnapshot` in flight."""

    def __init__(self, call: Any, translate: Callable[[Any], ProfilerServerError]) -> None:  # noqa: ANN401, untyped
        self._call = call
        self._translate = translate

    @property
    def in_flight(self) -> bool:
        """True until the reply has arrived or the call has failed."""
        return not self._call.done()

    def cancel(self) -> None:
        """Give the call up; the server ends the capture, and its data is lost."""
        self._call.cancel()

    def wait_for_reply(self) -> ProfileReply:
        """Wait for the reply. Raises ProfilerServerError."""
        grpc = import_grpc()
        try:
            return parse_profile_reply(self._call.result())
        except WireError as error:
            raise ProfilerServerError("refused", f"the answer is no profile ({error.what})") from error
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            raise self._translate(error) from error


class ProfilerClient:
    """A connection to the profiler server of one process. Use it as a context, which closes the connection."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self._grpc = import_grpc()
        options = (
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.enable_http_proxy", 0),  # a proxy for web pages seldom leads to the hosts of a job
        )
        self._channel = self._grpc.insecure_channel(str(address), options)
        self._end_request: Any = None  # a call that nothing refers to is cancelled

    def __enter__(self) -> Self:
        """Connects with the first call."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the connection; calls in flight are given up."""
        self._channel.close()

    def start_profile(self, request: ProfileRequest, timeout_s: float) -> PendingProfile:
        """Begin a capture, whose profile arrives at its end."""
        return self._start("Profile", encode_profile_request(request), timeout_s)

    def request_end(self, session: str) -> None:
        """Ask the server to end the capture of this session early; its reply then arrives. Does not wait.

        Only for a capture in flight: servers remember the session, and would end a later capture of it at once.
        """
        self._end_request = self._channel.unary_unary(SERVICE + "Terminate").future(
            encode_terminate_request(session), timeout=CONTROL_SECONDS
        )

    def call_continuous(self, method: str, request: ProfileRequest | None = None) -> None:
        """Call a method that starts or stops continuous profiling. Raises ProfilerServerError."""
        self._call(method, b"" if request is None else encode_profile_request(request))

    def start_snapshot(self, method: str, timeout_s: float) -> PendingProfile:
        """Ask for the events since continuous profiling began, or since the last snapshot."""
        return self._start(method, b"", timeout_s)

    def _start(self, method: str, request: bytes, timeout_s: float) -> PendingProfile:
        call = self._channel.unary_unary(SERVICE + method).future(request, timeout=timeout_s)
        return PendingProfile(call, lambda error: self._translate(error, method, timeout_s))

    def _call(self, method: str, request: bytes) -> None:
        """Call a method whose reply is empty. Raises ProfilerServerError."""
        try:
            self._channel.unary_unary(SERVICE + method)(request, timeout=CONTROL_SECONDS)
        except self._grpc.RpcError as error:
            raise self._translate(error, method, CONTROL_SECONDS) from error

    def _translate(self, error: Any, method: str, timeout_s: float) -> ProfilerServerError:  # noqa: ANN401, untyped
        """The error of a call as one that users understand."""
        if not isinstance(error, self._grpc.RpcError):
            return explain_status("CANCELLED", "", method, timeout_s, self.address.port)
        details = " ".join((error.details() or "").split())
        return explain_status(error.code().name, details, method, timeout_s, self.address.port)


def explain_status(status: str, details: str, method: str, timeout_s: float, port: int) -> ProfilerServerError:
    """The error for a status of gRPC, and the server's or gRPC's own details about it."""
    lower = details.lower()
    sizes = _MESSAGE_SIZES.search(details)
    match status:
        case "UNAVAILABLE":
            error = _connection_error(details, port)
        case "RESOURCE_EXHAUSTED" if sizes is not None:
            error = _size_error(f"the profile has {format_bytes(int(sizes[1]))}")
        case "INTERNAL" | "ALREADY_EXISTS" if "another profiling session" in lower:
            error = ProfilerServerError("busy", "another capture runs there", _BUSY_REMEDY)
        case "INTERNAL" if "serializ" in lower:
            error = _size_error("the profile is larger than a message can be")
        case "DEADLINE_EXCEEDED":
            waited = format_duration_in_words(int(timeout_s * PS_PER_S))
            error = ProfilerServerError("late", f"no answer within {waited}", _LATE_REMEDY)
        case "UNIMPLEMENTED":
            error = ProfilerServerError("unknown_call", f"the server has no call {method}", _UNKNOWN_CALL_REMEDY)
        case "CANCELLED":
            error = ProfilerServerError("cancelled", "the capture was given up")
        case _:
            failure = _FAILURES.get(status, "refused")
            remedy = "check the names and values of --option" if status == "INVALID_ARGUMENT" else ""
            error = ProfilerServerError(failure, f"{status}: {details[:MAX_ERROR_CHARS]}", remedy)
    return error


_FAILURES: Final[Mapping[str, Failure]] = {"ALREADY_EXISTS": "running", "NOT_FOUND": "none_running"}

_MESSAGE_SIZES: Final = re.compile(r"larger than max \((\d+) vs")
"""The size of a message that gRPC refuses, in its own error."""

_BUSY_REMEDY: Final = (
    "jax.profiler.trace in the script, another client, or continuous profiling: try again when it has ended"
    " (--snapshot --restart ends what a killed client left on)"
)
_LATE_REMEDY: Final = "give it more time (--timeout 300s), or capture less (a shorter --duration)"
_UNKNOWN_CALL_REMEDY: Final = "give the port that the job passed to start_server"
_SIZE_REMEDY: Final = (
    "capture less: a shorter --duration, --python-tracer-level 0, on TPUs --option tpu_num_chips_to_profile_per_task=1"
)


def _size_error(what: str) -> ProfilerServerError:
    """The error of a profile that gRPC cannot carry."""
    limit = format_bytes(MAX_MESSAGE_BYTES)
    return ProfilerServerError("too_large", f"{what}, gRPC carries at most {limit}", _SIZE_REMEDY)


def _connection_error(details: str, port: int) -> ProfilerServerError:
    """The error of a server that cannot be reached, or that went away."""
    lower = details.lower()
    server = f"does the job call start_server({port}), and does it still run?"
    if "connection refused" in lower:
        return ProfilerServerError("unreachable", "connection refused: no server listens there", server)
    if "resolv" in lower or "name or service" in lower or "domain name" in lower:
        return ProfilerServerError("unreachable", "no machine with this name is known here", "check the name")
    if "http/2" in lower or "http1" in lower:
        return ProfilerServerError("unreachable", "what listens there is no profiler server", _UNKNOWN_CALL_REMEDY)
    if "failed to connect" in lower:
        reason = details.rsplit("Failed to connect to remote host: ", 1)[-1]
        return ProfilerServerError("unreachable", f"cannot connect: {reason[:MAX_ERROR_CHARS]}", "is the host right?")
    return ProfilerServerError("died", "the connection broke during the call", "did the job end or crash?")
