"""What is compared beside the ops: launches, why the device idles, compiling, annotations, modules, and counters.

Owns these tables. Knows no trace: a profile has what was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl
from msgspec import Struct

from tracehound.analysis.result import Column, Result
from tracehound.diff.columns import CAUSES, COUNTERS, MARKS, MEMORY
from tracehound.diff.identity import ON_DEVICE, ONLY_MEMORY
from tracehound.diff.numbers import ADDED, REMOVED, Pair, tabled
from tracehound.diff.profile import Profile, not_alike
from tracehound.diff.quantities import Quantities, summed
from tracehound.formats.exported import exported
from tracehound.formats.torch_names import CURVES
from tracehound.notes import Note, note

TOPICS: Final = ("launches", "idle", "compiling")
"""What is measured in ps, in the order of the table."""

MARKED: Final = ("annotations", "modules")
"""What the program marked, in the order of the table."""


class Section(Struct, frozen=True, eq=False):
    """A table of quantities that have names; `time` and `count` have a column for each of them."""

    analysis: str
    title: str
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    time: Pair
    count: Pair
    notes: tuple[Note, ...] = ()
    program: bool = False
    """Whether the rows are of the program, so that what one run has none of was added to it, or removed."""

    def result(self, verdicts: Sequence[str], top: int | None) -> Result:
        """The table, given what the steps say of each quantity."""
        base_count, other_count = self.count.means
        rows = {
            self.columns[0].name: pl.Series(self.names, dtype=pl.String),
            **self.time.columns(),
            "base_count": base_count,
            "other_count": other_count,
            "verdict": pl.Series(self._told(verdicts) if self.program else verdicts, dtype=pl.String),
        }
        shown = tabled(rows, self.columns)
        return Result(
            self.analysis, self.title, self.columns, shown.head(top) if top else shown, shown.height, self.notes
        )

    def _told(self, verdicts: Sequence[str]) -> list[str]:
        base, other = (time + count for time, count in zip(self.time.means, self.count.means, strict=True))
        return [
            word if ours and theirs else ADDED if theirs else REMOVED
            for word, ours, theirs in zip(verdicts, base.tolist(), other.tolist(), strict=True)
        ]


def sections(base: Profile, other: Profile) -> list[Section]:
    """The tables that there is anything to say in."""
    if base.measures.is_empty() and other.measures.is_empty():
        return []
    of_memory = ONLY_MEMORY in (base.of, other.of)
    found = [] if of_memory else [_causes(base, other), _marked(base, other)]
    found += [_counted(base, other, *each) for each in _COUNTED[: 1 if of_memory else None]]
    return [section for section in found if section.names or section.notes]


_COUNTED: Final = (("memory", "Memory", MEMORY), ("counters", "Counters", COUNTERS))


def _causes(base: Profile, other: Profile) -> Section:
    """Launches, pauses and compilations; what one run has none of is 0 there."""
    keys = _keys(base, other, TOPICS)
    notes: tuple[Note, ...] = ()
    without = [run for run, side in (("the base", base), ("the other run", other)) if side.of != ON_DEVICE]
    if without:
        keys = [key for key in keys if key[0] == "compiling"]
        notes = (note("no_device_work_to_compare", runs=tuple(without)),)
    elif keys and (base.measures.is_empty() or other.measures.is_empty()):
        keys, notes = [], (note("not_measured_in_baseline"),)
    names = tuple(f"idle: {name}" if topic == "idle" else name for topic, name in keys)
    time, count = (Pair(_by_step(base, keys, column), _by_step(other, keys, column)) for column in ("value", "count"))
    return Section("diff-causes", "Launches, gaps and compiling", CAUSES, names, time, count, notes)


def _marked(base: Profile, other: Profile) -> Section:
    """Annotations and modules; what one run has none of is 0 there, and is said to be added or removed."""
    keys = _keys(base, other, MARKED)
    time, count = (Pair(_by_step(base, keys, column), _by_step(other, keys, column)) for column in ("value", "count"))
    names = tuple(name for _, name in keys)
    return Section("diff-marks", "Annotations and modules", MARKS, names, time, count, program=True)


def _keys(base: Profile, other: Profile, topics: Sequence[str]) -> list[tuple[str, str]]:
    """What either run has of these topics, topic by topic, the longest first."""
    both = pl.concat([base.measures, other.measures]).filter(pl.col("topic").is_in(topics))
    weights = both.group_by("topic", "name").agg(pl.col("value").sum()).sort("value", "name", descending=[True, False])
    return sorted(weights.select("topic", "name").iter_rows(), key=lambda key: topics.index(key[0]))


def _counted(base: Profile, other: Profile, topic: str, title: str, columns: tuple[Column, ...]) -> Section:
    """Counters that both runs have; the others are named, but for those that an export worked out."""
    ours, theirs = (_in_every_step(side, topic) for side in (base, other))
    names = sorted(ours & theirs)
    alone = ((ours - theirs, "the base"), (theirs - ours, "the other run"))
    recorded = ((sorted(name for name in left if not exported(name)), run) for left, run in alone)
    notes = tuple(note("recorded_in_one_run", run=run, names=tuple(left)) for left, run in recorded if left)
    if ONLY_MEMORY in (base.of, other.of) and (unlike := not_alike(base, other)) is not None:
        notes = (*notes, unlike)
    keys = [(topic, name) for name in names]
    if topic == "memory":
        notes = (*notes, *(each for name in names for each in _from_before(base, other, name)))
    time = Pair(_by_step(base, keys, "value"), _by_step(other, keys, "value"))
    told = tuple(f"{name} (%)" if name in CURVES.values() else name for name in names)
    return Section(f"diff-{topic}", title, columns, told, time, time, notes)


def _from_before(base: Profile, other: Profile, name: str) -> Iterator[Note]:
    """What of a counter of bytes is left out, for it was there before the recordings."""
    most = pl.col("value").max().fill_null(0)
    left = [side.measures.filter(topic="before", name=name).select(most).item() for side in (base, other)]
    if any(left):
        yield note("memory_from_before", name=name, base=left[0], other=left[1])


def _in_every_step(profile: Profile, topic: str) -> set[str]:
    """What has a value in all steps."""
    steps = profile.measures.filter(topic=topic).group_by("name").agg(pl.col("step").n_unique())
    return set(steps.filter(pl.col("step") == profile.steps.height)["name"].to_list())


def _by_step(profile: Profile, keys: Sequence[tuple[str, str]], column: str) -> Quantities:
    """A row for each step and a column for each measure; 0 where there is none."""
    places = pl.DataFrame(keys, schema={"topic": pl.String, "name": pl.String}, orient="row").with_row_index("place")
    steps = profile.steps.select("step").with_row_index("row")
    rows = profile.measures.join(places, on=("topic", "name")).join(steps, on="step")
    row, place = (rows[name].cast(pl.Int64).to_numpy() for name in ("row", "place"))
    return summed(row, place, rows[column].to_numpy(), (steps.height, len(keys)))
