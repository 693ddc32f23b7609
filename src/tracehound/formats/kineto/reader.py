"""PyTorch profiler traces: Kineto's JSON, and that of the autograd profiler before it.

Owns reading such a file; what its events mean is in `kineto.events` and `kineto.lanes`, and the bytes
are the business of `json.slices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from tracehound.file_facts import Claims
from tracehound.formats.ahead import aside
from tracehound.formats.assembly.assemble import Decoded, part
from tracehound.formats.assembly.facets import beside
from tracehound.formats.assembly.recurring import recurring
from tracehound.formats.exported import cut, ended
from tracehound.formats.format import ALL, Portion, Progress, Reader, silent
from tracehound.formats.json.document import args, chained, document
from tracehound.formats.json.glance import ends
from tracehound.formats.json.slices import Extent, Shape, segments
from tracehound.formats.json.window import SIZES, Sizes
from tracehound.formats.kineto.columns import Columns
from tracehound.formats.kineto.curves import with_curves
from tracehound.formats.kineto.elements import decoded, lenient
from tracehound.formats.kineto.events import Share, share
from tracehound.formats.kineto.facets import Known
from tracehound.formats.kineto.facts import calls_modules, claims, clocks, facts, host_only, merged, spelled
from tracehound.formats.kineto.kinds import KnownKinds
from tracehound.formats.kineto.scan import scan
from tracehound.formats.kineto.whole import whole
from tracehound.formats.spill import Spill
from tracehound.trace import Part


def glance(path: Path) -> Claims:
    """The claims at the ends of a file, without reading the rest.

    Of a gzip file only the start is looked at. Raises TracehoundError for what cannot be opened.
    """
    return claims(ends(path))


class Portioned(NamedTuple):
    """The segments of one portion, and how they were cut."""

    segments: tuple[tuple[Extent, Share], ...]
    sizes: Sizes


def decode(path: Path, portion: Portion, spill: Spill, progress: Progress, sizes: Sizes = SIZES) -> Portioned:
    """Segments `portion.number`, and each `portion.of`-th after it, of a file's array of events.

    `progress` is told of this portion's share of the bytes. Raises TracehoundError where the file has no events.
    """
    scanned = scan()
    shape = Shape(decoded if scanned is None else scanned.decoded, lenient)
    found = segments(path, portion, shape, partial(Columns, Known()), progress, sizes)
    known = KnownKinds()
    shares = tuple((extent, share(columns, known, spill, f"{extent.number}")) for extent, columns in found)
    return Portioned(shares, sizes)


def finish(path: Path, portions: Sequence[Portioned], spill: Spill) -> Part:
    """The part of all portions; a file whose segments do not meet is decoded once more, from end to end."""
    found = {extent.number: (extent, share) for portion in portions for extent, share in portion.segments}
    chain = chained(extent for extent, _ in found.values())
    if chain is None:
        return finish(path, [decode(path, ALL, spill, silent, portions[0].sizes)], spill)
    read = document(chain)
    metadata = spelled(read.metadata)
    events = whole([found[extent.number][1] for extent in chain], read.firsts, metadata, spill)
    with aside(events.facets) as facets:
        made = part(
            Decoded(
                path=path,
                format="kineto",
                pieces=events.pieces,
                lanes=events.placed.lanes,
                ranks=events.placed.ranks,
                hosts=events.placed.hosts,
                wall_ns=events.wall_ns,
                facts=facts(metadata, events),
                notes=(
                    *read.notes,
                    *events.notes,
                    *merged(metadata, events.placed.members),
                    *clocks(metadata),
                    *ended(metadata),
                    *cut(events.exported_window),
                ),
                places=read.places,
                counters=events.counters,
                unmarked=recurring,
            ),
            spill,
        )
        made = replace(made, facets=beside(facets()))
    without_work = None if made.lanes["work"].any() else host_only(made)
    told = replace(made.facts, modules=calls_modules(made.scan), host_only=without_work)
    return with_curves(replace(made, facts=told))


READER: Final = Reader(decode, finish, args, np.ndarray, glance)
