"""Two profiles -> what differs, and by how much of the step's difference.

Owns the results of a comparison. All times are of a step: averaged over the ranks that have it, then over the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.result import Column, Result
from tracehound.diff.columns import CATEGORIES, OPS, STEP, WATERFALL
from tracehound.diff.identity import IDENTITY, ONLY_MEMORY
from tracehound.diff.matching import ALONE, Match, matched
from tracehound.diff.noise import LEAST
from tracehound.diff.numbers import ADDED, REMOVED, UNCLEAR, Pair, Side, grouped, more, often, tabled, verdicts
from tracehound.diff.outliers import outliers
from tracehound.diff.profile import PARTS, Profile, not_alike, not_whole
from tracehound.diff.quantities import filled
from tracehound.diff.sections import sections
from tracehound.diff.stretches import WHOLE, WINDOW
from tracehound.notes import Note, note

DEFINITION: Final = """\
Compared are steps: those that the profiler marked, else the inferred ones, else the executions of the module that takes
most time, else the whole run. A step lasts until the device work that it launched has ended, and begins no earlier than
the step before has ended (as in step_parts); partial steps are left out, and of the work in no step a note says how
much it is. A device with a clock of its own (TPU) measures its steps, ops and pauses. Where no work of a device was
recorded the operators of the host are compared. A time is that of one step, averaged over the ranks that have it and
then over the steps. compute, communication, copy and idle add up to the step: communication that computation hides
costs nothing, copies that either hides neither. Memsets are among the copies, in the step as in the categories; where a
file tells HLO categories, those are the categories, and what copies has several. An op's time is its own (what is
nested inside does not count), and ops of several streams add up to more than the time that passes; exposed is the part
of it that the step's time goes to: an instant belongs to one op alone, of the classes in that order, then to the one
that began first. So the differences in exposed time and in idle time add up to the difference of the step.

Ops are the same in both runs by the surest of these that finds a partner: module, scope, shapes, name and operator
alike; then fewer of them. Numbers that a compiler gives (.123, .clone, .remat) are no part of a name, and of a match
one op may stand against many: it has the name and category of the longest in the base, and beside them those of the
other run's longest where they are others. Of categories each run's ops count in their own. What has no partner is
listed as added or removed, and so is a category, an annotation or a class of modules that one run alone has.

Pauses of the whole device are put down to causes as `tracehound report PATH idle` does. Of a counter of bytes the peak
in a step is compared, of others the average over its time; only counters that both runs have. What PyTorch's allocator
of the host has is counted while a profiler records: of it, what is left from before a recording and never taken back in
it is not compared.

A change is called one (slower, faster, more, less; more or less often, alone or behind the others, where the count
tells and changed in proportion by no less than the time, so that each is no slower, or no faster, than before) only
where the steps tell it from chance: a permutation test over the steps of both runs, of the step by itself and of all
rows of all tables at once, so that each of the two errs in one comparison of a hundred at most (of thirty-five with 4
steps on a side); "perhaps" stands before what errs in one of twenty. With fewer than 4 steps on a side nothing is
called a change. "noise" is said where they tell that there is next to none (with three standard errors on top the
change is below 5 % of the larger average), and of what differs by less than 0.01 % of the larger average, however sure;
"unclear" where they tell neither, since they differ too much among themselves: however large a change of averages is,
it may be of a single step (the medians and spreads tell). With more than 1,000 on a side the test, and no other number,
takes the average of neighbouring steps for one, as many as leave 1,000 at most."""


TOLD: Final = 0.0005
"""So much of a run's work in no step is told of: a tenth of a per cent, as it is printed."""


class Comparison(Struct, frozen=True, eq=False):
    """What differs between two runs, in results for any form: categories and ops come by what they do to the step.

    `waterfall` leads from the step of the base to that of the other run; `sections` are about what else was measured.
    `keys` has for both sides which ops (`IDENTITY`) were taken for one: those with the same number in `match`.
    """

    base: Profile
    other: Profile
    step: Result
    categories: Result
    ops: Result
    waterfall: Result
    sections: tuple[Result, ...]
    keys: tuple[pl.DataFrame, pl.DataFrame]

    @property
    def results(self) -> tuple[Result, ...]:
        """The tables that there is anything to say in: of a memory timeline nothing else is known."""
        if ONLY_MEMORY in (self.base.of, self.other.of):
            return self.sections
        return (self.step, self.categories, self.ops, *self.sections)

    @property
    def scope(self) -> str:
        """What a figure of the tables is of, in words: ``in an average step``; of both runs where that is not alike."""
        scopes = [_SCOPES.get(side.unit, side.unit) for side in (self.base, self.other)]
        return " against ".join(dict.fromkeys(scopes))


_SCOPES: Final = {
    "steps": "in an average step",
    "executions": "in an average execution",
    WHOLE: "in the whole run",
    WINDOW: "in the window",
}


def compare(base: Profile, other: Profile, top: int | None = None) -> Comparison:
    """The two runs side by side; at most `top` rows of a table."""
    sides = Side(base, IDENTITY), Side(other, IDENTITY)
    kinds = Side(_in_categories(base), ("category",)), Side(_in_categories(other), ("category",))
    ops, categories = matched(*(side.ops for side in sides)), _by_category(*kinds)
    step, parts = (_of_steps(base, other, names) for names in (("duration",), PARTS))
    own, of_kind = (grouped(*each, "time") for each in ((sides, ops), (kinds, categories)))
    counts, beside = grouped(sides, ops, "count"), sections(base, other)
    of_step, (of_parts, of_kinds, of_ops, of_counts, *rest) = (
        verdicts(step),
        verdicts(parts, of_kind, own, counts, *(pair for each in beside for pair in (each.time, each.count))),
    )
    of_ops = often(own, of_ops, counts, of_counts)
    table = _ops(base, sides, ops, own, of_ops)
    by_kind = _categories(base, kinds, categories, of_kind, of_kinds)
    whole_step, of_category, of_op, *others = _explained(
        base,
        other,
        [
            _step(step.beside(parts), [*of_step[0], *map(more, of_parts)], _about_steps(base, other)),
            _result("diff-categories", "Categories", CATEGORIES, by_kind, top, _about_categories(table)),
            _result("diff-ops", "Ops", _columns(table), table, top, [*_about_ops(ops, own, table), *_across(table)]),
            *(
                each.result(often(each.time, list(map(more, of_time)), each.count, of_count), top)
                for each, of_time, of_count in zip(beside, rest[::2], rest[1::2], strict=True)
            ),
        ],
    )
    waterfall = _waterfall(whole_step.table, by_kind)
    return Comparison(base, other, whole_step, of_category, of_op, waterfall, tuple(others), _keys(sides, ops))


def _explained(base: Profile, other: Profile, tables: Sequence[Result]) -> list[Result]:
    """The tables, of which the first that has an unclear row says why there is such a thing."""
    why = note("steps_inconclusive", base=base.steps.height, other=other.steps.height)
    first = next((table for table in tables if UNCLEAR in table.table["verdict"]), None)
    return [replace(table, notes=(why, *table.notes)) if table is first else table for table in tables]


def _strangers(base: Profile, other: Profile) -> list[Note]:
    """What cannot be compared where different profilers wrote the runs; nothing where that is everything."""
    if base.form == other.form or not base.form or not other.form:
        return []
    return [note("profilers_differ", base=base.form, other=other.form)]


def doubts(base: Profile, other: Profile) -> list[Note]:
    """What to know before any row is read: what cannot be compared, and which run is hardly one."""
    runs = (("base", base), ("other run", other))
    alone = [note("run_in_doubt", run=name, doubt=run.doubt) for name, run in runs if run.doubt is not None]
    return [*_strangers(base, other), *alone]


def _of_steps(base: Profile, other: Profile, names: Sequence[str]) -> Pair:
    return Pair(*(filled(side.steps.select(names).to_numpy().astype(np.float64)) for side in (base, other)))


def _step(found: Pair, told: Sequence[str], notes: Sequence[Note]) -> Result:
    rows = tabled({"part": ["step", *PARTS], **found.columns(), "verdict": told}, STEP)
    return Result("diff", "Step", STEP, rows, rows.height, tuple(notes))


def _about_steps(base: Profile, other: Profile) -> list[Note]:
    notes = []
    if min(base.steps.height, other.steps.height) < LEAST:
        notes.append(note("too_few_steps", least=LEAST))
    if (unlike := not_alike(base, other)) is not None:
        notes.append(unlike)
    notes += _strangers(base, other)
    if max(base.outside, other.outside) >= TOLD:
        notes.append(note("work_in_no_step", base=base.outside, other=other.outside))
    runs = {"base": base, "other run": other}
    far = [line for name, run in runs.items() for line in outliers(run, name)]
    return [*notes, *far, *not_whole(runs)]


def _in_categories(run: Profile) -> Profile:
    """The run with memsets among the copies, as in the parts of a step."""
    category = pl.when(pl.col("category") == "memset").then(pl.lit("copy")).otherwise("category")
    return replace(run, ops=run.ops.with_columns(category.alias("category")))


def _by_category(base: Side, other: Side) -> list[Match]:
    """Ops that are of a kind, together."""
    ours, theirs = (
        {name: (at,) for at, (name,) in enumerate(side.ops.select("category").iter_rows())} for side in (base, other)
    )
    both = [(ours.get(name, ()), theirs.get(name, ())) for name in sorted({*ours, *theirs})]
    return [Match(here, there, "category" if here and there else ALONE) for here, there in both]


def _categories(
    base: Profile, sides: tuple[Side, Side], found: Sequence[Match], own: Pair, told: Sequence[str]
) -> pl.DataFrame:
    names = [_largest(_members(match, sides))["category"] for match in found]
    said = [_alone(match) or word for match, word in zip(found, told, strict=True)]
    rows = {"category": names, **_weighed(base, sides, found, own), "verdict": said}
    return _by_weight(rows, CATEGORIES)


def _ops(
    base: Profile, sides: tuple[Side, Side], found: Sequence[Match], own: Pair, told: Sequence[str]
) -> pl.DataFrame:
    base_count, other_count = grouped(sides, found, "count").means
    named = [_described(match, sides) for match in found]
    partners = [_partner(match, sides) for match in found]
    events = [side.longest_of([match.sides[number] for match in found]) for number, side in enumerate(sides)]
    rows = {
        **{name: [row[name] for row in named] for name in ("name", "category", "module", "operator")},
        **{f"other_{word}": [row[word] for row in partners] for word in _WORDS},
        **_weighed(base, sides, found, own),
        "verdict": [_alone(match) or word for match, word in zip(found, told, strict=True)],
        "base_count": base_count,
        "other_count": other_count,
        "base_ops": [len(match.base) for match in found],
        "other_ops": [len(match.other) for match in found],
        "matched_by": [match.how for match in found],
        "base_event": events[0],
        "other_event": events[1],
    }
    return _by_weight(rows, OPS)


def _weighed(base: Profile, sides: tuple[Side, Side], found: Sequence[Match], own: Pair) -> dict[str, object]:
    """What tables say of the times of matches, and what these do to the step."""
    before, after = grouped(sides, found, "exposed").means
    step = float(base.steps["duration"].sum()) / max(1, base.steps.height)
    of_step = (after - before) / step if step else np.full(len(before), np.nan)
    return {**own.columns(), "exposed_change": after - before, "of_step": of_step}


def _by_weight(rows: Mapping[str, object], columns: Sequence[Column]) -> pl.DataFrame:
    """The rows that change the step most first; of those that do not, the longest."""
    return tabled(rows, columns).sort(
        pl.col("exposed_change").abs(), pl.max_horizontal("base", "other"), columns[0].name,
        descending=[True, True, False],
    )  # fmt: skip


def _result(
    name: str, title: str, columns: tuple[Column, ...], table: pl.DataFrame, top: int | None, notes: Sequence[Note]
) -> Result:
    shown = table if top is None else table.head(top)
    return Result(name, title, columns, shown, table.height, tuple(notes))


def _waterfall(step: pl.DataFrame, categories: pl.DataFrame) -> Result:
    """From the step of the base to that of the other run, the largest change first."""
    idle = step.filter(part="idle").select("part", "change", "verdict")
    kinds = categories.select(pl.col("category").alias("part"), pl.col("exposed_change").alias("change"), "verdict")
    changes = pl.concat([kinds, idle]).filter(pl.col("change") != 0)
    changes = changes.sort(pl.col("change").abs(), "part", descending=[True, False])
    base, other, whole_change, verdict = step.filter(part="step").select("base", "other", "change", "verdict").row(0)
    after = base + pl.col("change").cum_sum()
    of_step = pl.col("change") / base if base else pl.lit(None, pl.Float64)
    names = [column.name for column in WATERFALL]
    steps = changes.with_columns((after - pl.col("change")).alias("from"), after.alias("to"), of_step.alias("of_step"))
    relative = whole_change / base if base else None
    ends = pl.DataFrame(
        [("base step", None, base, None, None, ""), ("other step", None, other, whole_change, relative, verdict)],
        schema=steps.select(names).schema,
        orient="row",
    )
    table = pl.concat([ends[:1], steps.select(names), ends[1:]])
    return Result("diff-waterfall", "Where the change comes from", WATERFALL, table, table.height)


def _keys(sides: tuple[Side, Side], found: Sequence[Match]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of each op of both sides the number of its match."""
    ours, theirs = (
        [(row, number) for number, match in enumerate(found) for row in match.sides[side]] for side in range(len(sides))
    )
    return _numbered(sides[0], ours), _numbered(sides[1], theirs)


def _numbered(side: Side, numbers: Sequence[tuple[int, int]]) -> pl.DataFrame:
    match = pl.Series("match", [number for _, number in sorted(numbers)], dtype=pl.Int64)
    return side.ops.select(IDENTITY).with_columns(match)


def _described(match: Match, sides: tuple[Side, Side]) -> dict[str, str]:
    """What a match is called: as its op with the most time, in the base where it has one."""
    return _told(_members(match, sides))


def _partner(match: Match, sides: tuple[Side, Side]) -> dict[str, str | None]:
    """What of `_WORDS` the other run calls the largest op of a match, where the base calls its own otherwise."""
    if not (match.base and match.other):
        return dict.fromkeys(_WORDS)
    both = [side.ops[list(members)] for side, members in zip(sides, match.sides, strict=True)]
    base, other = map(_largest, both)
    told = _told(both[1])
    return {word: told[word] if base[word] != other[word] else None for word in _WORDS}


_WORDS: Final = ("name", "category")
"""What is told of both sides of a match."""


def _told(ops: pl.DataFrame) -> dict[str, str]:
    """What ops that are one are called: as the one with the most time."""
    row, alike = _largest(ops), ops["name"].n_unique() - 1
    return {
        "name": f"{row['name']} and {alike} more" if alike else row["name"],
        "category": row["category"],
        "module": row["module"],
        "operator": row["path"] or row["operator"] or row["scope"],
    }


def _members(match: Match, sides: tuple[Side, Side]) -> pl.DataFrame:
    """The ops of a match, in the base where it has some."""
    side, members = (sides[0], match.base) if match.base else (sides[1], match.other)
    return side.ops[list(members)]


def _largest(ops: pl.DataFrame) -> dict[str, str]:
    return ops.row(int(ops["time"].arg_max() or 0), named=True)


def _alone(match: Match) -> str:
    """What is said of an op, or of a category, without a partner; "" for others."""
    return "" if match.how != ALONE else REMOVED if match.base else ADDED


RENAMED: Final = 0.25
"""Of so much of the ops' time names that differ are worth a place in narrow tables, too."""


def _columns(ops: pl.DataFrame) -> tuple[Column, ...]:
    """Those of ops, where the names of the other run are brief if they tell much."""
    times = pl.col("base", "other").sum()
    all_of, renamed = (sum(rows.select(times).row(0)) for rows in (ops, ops.drop_nulls("other_name")))
    told = renamed > RENAMED * all_of
    return tuple(replace(column, brief=told) if column.name == "other_name" else column for column in OPS)


def _about_categories(ops: pl.DataFrame) -> list[Note]:
    """That what one category loses another may have got, where there is such a thing."""
    across = ops.drop_nulls("other_category").height
    return [note("categories_of_own_run", ops=across)] if across else []


def _across(ops: pl.DataFrame) -> list[Note]:
    """Which ops have a partner of another category, and the longest of them."""
    rows = ops.drop_nulls("other_category").sort(pl.max_horizontal("base", "other"), descending=True)
    if rows.is_empty():
        return []
    longest = rows.row(0, named=True)
    return [
        note(
            "matched_across_categories",
            ops=rows.height,
            base=int(rows["base"].sum()),
            other=int(rows["other"].sum()),
            name=longest["name"],
            category=longest["category"],
            other_name=longest["other_name"] or longest["name"],
            other_category=longest["other_category"],
        )
    ]


def _about_ops(found: Sequence[Match], own: Pair, table: pl.DataFrame) -> list[Note]:
    """How much of each run found a partner, and whether anything differs."""
    alone = np.array([match.how == ALONE for match in found], np.bool_)
    whole = [float(side.sum()) for side in own.means]
    if all(whole):
        base, other = (1 - float(side[alone].sum()) / time for side, time in zip(own.means, whole, strict=True))
        notes = [note("ops_matched", base=base, other=other)]
    else:
        notes = [note("no_ops_matched", run="other" if whole[0] else "base")]
    changed = (
        (pl.col("change") != 0) | (pl.col("exposed_change") != 0) | (pl.col("base_count") != pl.col("other_count"))
    )
    if not table.filter(changed).height:
        notes.append(note("no_difference"))
    return notes
