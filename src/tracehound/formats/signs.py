"""What the first bytes of a file look like in each format.

Owns recognising, and imports nothing that only reading needs: whoever opens what was read before does not wait for it.
"""

from __future__ import annotations

import re
from typing import Final

from tracehound.formats.wire import BYTES, VARINT, WireError, field_at, varint

CONVERTED = b"\xef\xbf\xbd"
"""What a converter of text puts where bytes are no UTF-8."""

BOM: Final = b"\xef\xbb\xbf"
"""What editors put before a text in UTF-8."""

_CATEGORIES: Final = (
    "cpu_op", "operator", "kernel", "cuda_runtime", "runtime", "python_function", "user_annotation", "ac2g", "trace",
    "cpu_instant_event", "gpu_memcpy", "gpu_memset", "memcpy", "cuda_driver", "gpu_user_annotation", "xpu_runtime",
    "mtia_runtime", "mtia_ccp_events", "hpu_op", "privateuse1_runtime", "fwdbwd", "cpu_to_cuda",
)  # fmt: skip
_KEYS: Final = (b'"deviceproperties"', b'"computeproperties"', b'"distributedinfo"', b'"traceevents"')
_LEGACY: Final = (b'"pid":"cpufunctions"', b'"pid":"cudafunctions"')
"""The processes of the autograd profiler, older than Kineto, which writes no categories."""

_MARKS: Final = (b'"name":"/device:', b'"name":"/host:', b'"highres-ticks":')


def kineto(start: bytes) -> bool:
    """Whether this is the start of a Kineto file: its own keys before the events, or its categories in them."""
    dense = _dense(start).lower()
    if not _begins(dense):
        return False
    if b'"schemaversion"' in dense and any(key in dense for key in _KEYS):
        return True
    return b'"ph":"' in dense and (
        any(f'"cat":"{category}"'.encode() in dense for category in _CATEGORIES) or any(pid in dense for pid in _LEGACY)
    )


def chrome(start: bytes) -> bool:
    """Whether this is the start of XLA's trace.json: processes named after planes, and no category on any event."""
    dense = _dense(start)
    if not _begins(dense):
        return False
    return b'"ph":"' in dense and b'"cat":' not in dense and any(mark in dense for mark in _MARKS)


_ROW: Final = re.compile(rb"\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*\d\s*\]")


def memory_timeline(start: bytes) -> bool:
    """Whether this is the start of a raw memory timeline: rows of a time, an action, a size and a category."""
    return _ROW.match(start.removeprefix(BOM)) is not None


def _dense(start: bytes) -> bytes:
    return b"".join(start.removeprefix(BOM).split())


_BEGINNING: Final = re.compile(rb'[{\[]|.\{|.?"[^"]+":', re.DOTALL)


def _begins(dense: bytes) -> bool:
    """Whether what starts so, blanks left out, may be a document; its first byte may be damaged, or missing.

    A program that begins with a sentence in quotes and writes traces is none.
    """
    return _BEGINNING.match(dense) is not None


def xplane(head: bytes) -> bool:
    """Whether the bytes begin an XSpace: a plane that begins with an id and a name, and holds what a plane may hold.

    One that went through a converter of text is taken too, so that reading can say what happened to it.
    """
    end = len(head)
    if head.startswith(b"\n") and CONVERTED in head and any(name in head[:64] for name in (b"/device:", b"/host:")):
        return True
    try:
        key, at = varint(head, 0, end)
        if key != 1 << 3 | BYTES:
            return False
        size, at = varint(head, at, end)
        return size > 0 and _is_plane(head, at, min(at + size, end), cut=at + size > end)
    except WireError:
        return False


_PLANE_WIRES = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: BYTES, 6: BYTES}


def _is_plane(head: bytes, at: int, end: int, *, cut: bool) -> bool:
    """Whether `[at, end)` reads as an XPlane, as far as it goes."""
    named = False
    while at < end:
        try:
            part, at = field_at(head, at, end)
        except WireError as error:
            return cut and error.overrun and named
        if _PLANE_WIRES.get(part.number) != part.wire:
            return False
        if part.number == 2:
            name = head[part.at : part.at + part.value]
            named = len(name) > 0 and name.isascii() and name.decode("ascii").isprintable()
        if not named and part.number > 2:
            return False
    return named


_PACKET_WIRES: Final = {3: VARINT, 6: BYTES, 8: VARINT, 10: VARINT, 11: BYTES, 33: BYTES, 36: BYTES, 60: BYTES}
"""Fields of Perfetto's TracePacket: user, clocks, timestamp, sequence, event, configuration, marker, track."""


def perfetto(start: bytes) -> bool:
    """Whether the bytes begin a Perfetto trace: a packet that reads as one, and another behind it. No XSpace does."""
    end = len(start)
    try:
        packet, after = field_at(start, 0, end)
        told = set()
        at = packet.at
        while packet.number == 1 and packet.wire == BYTES and at < after:
            part, at = field_at(start, at, after)
            if _PACKET_WIRES.get(part.number, part.wire) != part.wire:
                return False
            told.add(part.number)
    except WireError:
        return False
    return bool(told & _PACKET_WIRES.keys()) and start[after : after + 1] in (b"", b"\n")
