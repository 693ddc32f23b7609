"""PyTorch profiler traces: Kineto's JSON, and that of the autograd profiler before it.

Owns recognising and reading such a file; what its events mean is in `kineto_events` and `kineto_lanes`, and the bytes
are the business of `json_slices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from tracehound.formats.assemble import Decoded, held, part
from tracehound.formats.format import Format, Portion, Progress
from tracehound.formats.json_slices import SLICE, Document, event_at, read_slices
from tracehound.formats.kineto_columns import SHAPE, Columns
from tracehound.formats.kineto_events import raw_events
from tracehound.formats.kineto_facts import facts
from tracehound.formats.kineto_lanes import place
from tracehound.formats.spill import Spill
from tracehound.trace import Part

_CATEGORIES: Final = (
    "cpu_op", "operator", "kernel", "cuda_runtime", "runtime", "python_function", "user_annotation", "ac2g", "trace",
    "cpu_instant_event", "gpu_memcpy", "gpu_memset", "memcpy", "cuda_driver", "gpu_user_annotation", "xpu_runtime",
    "mtia_runtime", "mtia_ccp_events", "hpu_op", "privateuse1_runtime", "fwdbwd", "cpu_to_cuda",
)  # fmt: skip
_KEYS: Final = (b'"deviceproperties"', b'"computeproperties"', b'"distributedinfo"', b'"traceevents"')


def matches(start: bytes) -> bool:
    """Whether this is the start of a Kineto file: its own keys before the events, or its categories in them."""
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return False
    dense = b"".join(start.split()).lower()
    if b'"schemaversion"' in dense and any(key in dense for key in _KEYS):
        return True
    return b'"ph":"' in dense and any(f'"cat":"{category}"'.encode() in dense for category in _CATEGORIES)


class Portioned(NamedTuple):
    """What one portion holds."""

    columns: Columns
    document: Document


def decode(path: Path, portion: Portion, spill: Spill, progress: Progress, size: int = SLICE) -> Portioned:
    """One portion of a file; `size` is that of a slice, in bytes. Raises TracehoundError where it has no events."""
    columns = Columns()
    document = read_slices(path, SHAPE, columns.add, progress, size)
    return Portioned(columns, document)


def finish(path: Path, portions: Sequence[Portioned], spill: Spill) -> Part:
    """The part of all portions."""
    ((columns, document),) = portions
    events = columns.all()
    placed = place(columns, events, document.metadata)
    raw = raw_events(columns, events, placed, document.metadata)
    return part(
        Decoded(
            path=path,
            format="kineto",
            pieces=held(raw.events),
            lanes=placed.lanes,
            ranks=placed.ranks,
            hosts=(placed.host,),
            wall_ns=raw.wall_ns,
            facts=facts(document.metadata, raw.span_ns),
            notes=(*document.notes, *raw.notes),
            places=document.places_array,
        ),
        spill,
    )


def args(of: Part, record: int) -> dict[str, Any]:
    """All that the file says of an event: its whole JSON object."""
    return event_at(of.path, of.places, record)


FORMAT: Final = Format("kineto", "PyTorch profiler trace (Kineto JSON)", matches, decode, finish, args, np.ndarray)
