"""XLA profiles in their Chrome form, the trace.json.gz beside an xplane.pb.

Owns reading such a file. It holds less than the xplane: notes say what. What its rows mean is in
`chrome.rows`, the bytes are the business of `json.slices`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.errors import file_name
from tracehound.file_facts import Claims, FileFacts
from tracehound.formats.assembly.assemble import Decoded, held, part
from tracehound.formats.chrome.columns import SHAPE, Columns
from tracehound.formats.chrome.hosts import hosts
from tracehound.formats.chrome.rows import counted, gather, kernels_launched
from tracehound.formats.exported import cut, ended, exported_window, repeating
from tracehound.formats.format import ALL, Portion, Progress, Reader
from tracehound.formats.json.document import args, document
from tracehound.formats.json.glance import ends
from tracehound.formats.json.slices import Extent, segments
from tracehound.formats.json.window import SIZES, Sizes
from tracehound.formats.kineto.facts import clocks
from tracehound.formats.spill import Spill
from tracehound.formats.xla.gathered import Gathered
from tracehound.formats.xla.ops import Ops
from tracehound.notes import Note
from tracehound.trace import ON_CPU, Part, collected


def _lost(read: Part, *, ends: bool) -> Note:
    """What a profile has and this file not; `ends` says whether ops on CPUs end in it when they did."""
    linked = pl.col("launch").is_not_null() & pl.col("rank").is_not_null()
    has_links = collected(read.scan.select(linked.any())).item()
    has_ends = ends or not read.ranks["label"].str.starts_with(ON_CPU).any()
    return Note("missing", "chrome_form_of_xla", values=(("has_links", has_links), ("has_ends", bool(has_ends))))


_DEVICE: Final = re.compile(r'"name"\s*:\s*"/device:((?:TPU|GPU):\d{1,9})[" ]')


def glance(path: Path) -> Claims:
    """The claims at the start of a file, without reading the rest: `devices` and `host`.

    Raises TracehoundError for what cannot be opened.
    """
    devices = dict.fromkeys(_DEVICE.findall(ends(path)))
    return Claims(devices=tuple(devices), host=_host(path))


def _host(path: Path) -> str:
    """XLA names the file after the machine."""
    return file_name(path).split(".trace.json")[0]


class Portioned(NamedTuple):
    """What one portion holds: all that is in the file, or nothing."""

    columns: Columns
    extents: tuple[Extent, ...]


def decode(path: Path, portion: Portion, _spill: Spill, progress: Progress, sizes: Sizes = SIZES) -> Portioned:
    """The first portion is the whole file, the others are empty: XLA's writers stop at a million events or five.

    Raises TracehoundError where it has no events.
    """
    columns = Columns()
    if portion.number:
        return Portioned(columns, ())
    found = segments(path, ALL, SHAPE, lambda: columns, progress, sizes)
    return Portioned(columns, tuple(extent for extent, _ in found))


def finish(path: Path, portions: Sequence[Portioned], spill: Spill) -> Part:
    """The part of all portions."""
    columns, extents = portions[0]
    read = document(extents)
    gathered, places = Gathered(Ops()), hosts(columns, _host(path))
    left_out = gather(columns, places, gathered)
    counters, told = counted(columns, places, gathered)
    launches, of_window = kernels_launched(columns), exported_window(read.metadata, 0)
    found = part(
        Decoded(
            path=path,
            format="chrome",
            pieces=held(gathered.event_frame()),
            lanes=gathered.lane_frame(),
            ranks=gathered.rank_frame(),
            hosts=places.names,
            wall_ns=None,
            ops=gathered.ops.frame(),
            facts=FileFacts(exported_window=of_window),
            notes=(*read.notes, *left_out, *told, *clocks(read.metadata), *ended(read.metadata), *cut(of_window)),
            places=read.places,
            repeating=repeating(read.metadata),
            facets={"launched": launches.lazy()} if launches.height else {},
            counters=counters,
        ),
        spill,
    )
    return replace(found, notes=(*found.notes, _lost(found, ends=bool(columns.ranks))))


READER: Final = Reader(decode, finish, args, np.ndarray, glance)
