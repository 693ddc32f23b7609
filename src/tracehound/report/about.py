"""A trace -> the facts that head every report, and how a report is to look.

Owns what is said of a trace beside the results: where it came from, what it was recorded on, with which versions. Knows
no form.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.draw.notes import note_text
from tracehound.errors import printable
from tracehound.notes import Note
from tracehound.store.strangers import doubt
from tracehound.trace import Part, Trace, Window
from tracehound.units import (
    TimeUnit,
    bytes_,
    duration,
    hosts_and_processes,
    instant,
    plural,
    runs,
    several,
    which_ranks,
)


class File(Struct, frozen=True):
    """One file of the trace; `size` in bytes when it was read, None where nobody noted it."""

    path: str
    format: str
    size: int | None


class Rank(Struct, frozen=True):
    """One accelerator's view; `inferred` when the file did not say which rank it is."""

    rank: int
    device: str
    model: str
    host: str
    inferred: bool


class About(Struct, frozen=True):
    """What a report says of its trace. All text is safe to print.

    `origin_ns` is the wall clock (Unix, ns) of time 0, `span` the first start and last end in ps, `versions` those of
    drivers and libraries as the files name them, `window` what the caller asked for, `inferred` whether its steps
    are inferred, none being marked. `doubt` says why the files are hardly of one run; None where they may be.
    """

    name: str
    files: tuple[File, ...]
    hosts: tuple[str, ...]
    ranks: tuple[Rank, ...]
    origin_ns: int | None
    span: tuple[int, int]
    versions: Mapping[str, str]
    window: Window
    inferred: bool = False
    doubt: Note | None = None

    @property
    def recorded(self) -> str:
        """When time 0 was, in UTC and to the second; empty where the files do not say."""
        if self.origin_ns is None:
            return ""
        try:
            moment = datetime.fromtimestamp(self.origin_ns // 10**9, tz=UTC)
        except (OverflowError, OSError, ValueError):
            return ""
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


class Look(Struct, frozen=True):
    """How a report is written: for text its `width`, for text and markdown the `unit` of times."""

    width: int = 80
    unit: TimeUnit = "auto"


def about(trace: Trace, window: Window) -> About:
    """The facts of a trace, of which a report shows one window."""
    hosts = tuple(printable(host.name) for host in trace.hosts)
    rows = trace.ranks.select("rank", "label", "model", "host", "inferred").rows()
    return About(
        name=printable(trace.name),
        files=tuple(map(_file, trace.parts)),
        hosts=hosts,
        ranks=tuple(
            Rank(rank, printable(label or ""), printable(model or ""), hosts[host], bool(inferred))
            for rank, label, model, host, inferred in rows
        ),
        origin_ns=trace.origin_ns,
        span=trace.span,
        versions=_versions(trace),
        window=window,
        inferred=trace.steps.height > 0 and bool(trace.steps["inferred"].all()),
        doubt=doubt(trace, window.ranks),
    )


def noted(result: Result, facts: About) -> Result:
    """The result with a note, before its own, of why the files are hardly of one run, where they are."""
    return replace(result, notes=(facts.doubt, *result.notes)) if facts.doubt else result


def sentences(facts: About, unit: TimeUnit = "auto") -> list[str]:
    """What the trace is, in a few lines of words."""
    formats = sorted({file.format for file in facts.files})
    size = sum(file.size or 0 for file in facts.files)
    what = [
        f"{' and '.join(formats) or 'no format'}, {plural(len(facts.files), 'file')}, {bytes_(size)}",
        hosts_and_processes(facts.hosts),
        plural(len(facts.ranks), "rank"),
        f"{duration(facts.span[1] - facts.span[0], unit)} long",
    ]
    lines = [*([note_text(facts.doubt)] if facts.doubt else []), " · ".join(what)]
    if facts.recorded:
        lines.append(f"recorded {facts.recorded}")
    if facts.versions:
        lines.append(", ".join(f"{name} {value}" for name, value in facts.versions.items()))
    if facts.hosts:
        lines.append(f"on {several(list(dict.fromkeys(facts.hosts)), 6)}")
    if not facts.window.whole:
        lines.append(narrowed(facts, facts.window, unit))
    return lines


def narrowed(facts: About, window: Window, unit: TimeUnit = "auto") -> str:
    """What a window leaves of the trace: ``only 10.000 ms to 20.000 ms, ranks 0, 2``."""
    parts = []
    if window.steps is not None:
        how = "inferred" if facts.inferred else "marked"
        parts.append(f"step {runs(window.steps)} of each rank, as {how}")
    if window.start is not None or window.end is not None:
        start, end = window.within(*facts.span)
        parts.append(f"{instant(start, unit)} to {instant(end, unit)}")
    if window.ranks is not None:
        parts.append(which_ranks(window.ranks))
    return f"only {', '.join(parts)}"


def _file(part: Part) -> File:
    return File(printable(str(part.path)), part.format, part.state.size if part.state else None)


def _versions(trace: Trace) -> dict[str, str]:
    """Those of all files; where two files differ, all that occur."""
    found: dict[str, list[str]] = {}
    for part in trace.parts:
        for key, value in part.facts.versions.items():
            word = printable(value)[:40]
            if any(char.isdigit() for char in word):
                values = found.setdefault(printable(key.removesuffix("_version").replace("_", " ")), [])
                values.extend([word] if word not in values else [])
    return {name: " or ".join(values[:3]) for name, values in sorted(found.items())}
