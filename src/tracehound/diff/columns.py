"""The columns of the tables of a comparison.

Owns what each of them means. All times are of a step: averaged over the ranks that have it, then over the steps.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tracehound.analysis.result import Column

VERDICT: Final = "what the steps tell from chance; unclear: they differ too much among themselves"

STEP: Final = (
    Column("part", "text", "the step, and what it goes to (memsets are copies)"),
    Column("base", "time", "average of a step in the base"),
    Column("other", "time", "average of a step in the other run"),
    Column("change", "difference", "other less base"),
    Column("relative", "growth", "change / base"),
    Column("base_median", "time", "median step of the base", brief=False),
    Column("other_median", "time", "median step of the other run", brief=False),
    Column("base_spread", "time", "standard deviation of a sample, of the steps of the base", brief=False),
    Column("other_spread", "time", "standard deviation of a sample, of the steps of the other run", brief=False),
    Column("verdict", "text", VERDICT, found=True),
)

_SPREADS: Final = tuple(column for column in STEP if column.name.endswith(("_median", "_spread")))

_ALIKE: Final = (
    "base",
    "other",
    "change",
    "relative",
    "exposed_change",
    "of_step",
    "verdict",
    *(column.name for column in _SPREADS),
)

OPS: Final = (
    Column("name", "text", "op, or the largest of those that are one"),
    Column("category", "text", "kind of kernel, or HLO category", brief=False),
    Column("other_category", "text", "that of the other run, where it is another", brief=False),
    Column("base", "time", "own time in a step of the base"),
    Column("other", "time", "own time in a step of the other run"),
    Column("change", "difference", "other less base"),
    Column("relative", "growth", "change / base", brief=False),
    Column("verdict", "text", VERDICT, found=True),
    Column("other_name", "text", "what the other run calls it, where that is something else", brief=False),
    Column("exposed_change", "difference", "of the time that the step goes to", brief=False),
    Column("of_step", "growth", "exposed change / base step"),
    Column("base_count", "decimal", "executions in a step of the base", brief=False),
    Column("other_count", "decimal", "executions in a step of the other run", brief=False),
    *_SPREADS,
    Column("base_ops", "count", "distinct ops of the base in it", brief=False),
    Column("other_ops", "count", "distinct ops of the other run in it", brief=False),
    Column("module", "text", "XLA module", brief=False),
    Column("operator", "text", "operators or scope that it runs for, from the outermost inwards", brief=False),
    Column("matched_by", "text", "what both have in common", brief=False),
    Column("base_event", "id", "the longest execution in the base"),
    Column("other_event", "id", "the longest execution in the other run"),
)


CATEGORIES: Final = (
    Column("category", "text", "kind of work (memsets are copies), or HLO category"),
    *(replace(column, brief=column not in _SPREADS) for column in OPS if column.name in _ALIKE),
)


CAUSES: Final = (
    Column("part", "text", "launches, pauses of the device by cause, or compiling"),
    Column("base_count", "decimal", "how often in a step of the base", brief=False),
    Column("other_count", "decimal", "how often in a step of the other run", brief=False),
    *(column for column in STEP if column.name in _ALIKE),
)

MARKS: Final = (
    Column("mark", "text", "annotation or class of modules: open on the host, or its work on the device"),
    *CAUSES[1:],
)

MEMORY: Final = (
    Column("counter", "text", "what is counted in bytes"),
    Column("base", "bytes", "peak in a step of the base"),
    Column("other", "bytes", "peak in a step of the other run"),
    Column("relative", "growth", "(other - base) / base"),
    *(replace(column, unit="bytes") for column in _SPREADS),
    STEP[-1],
)

COUNTERS: Final = (
    Column("counter", "text", "what is counted"),
    Column("base", "decimal", "average over a step of the base"),
    Column("other", "decimal", "average over a step of the other run"),
    MEMORY[3],
    *(replace(column, unit="decimal") for column in _SPREADS),
    STEP[-1],
)

WATERFALL: Final = (
    Column("part", "text", "kind of ops, or idle; first and last the step itself"),
    Column("from", "time", "the step before this change; none for the step itself"),
    Column("to", "time", "the step after it"),
    Column("change", "difference", "of the time that the step goes to"),
    Column("of_step", "growth", "change / base step"),
    Column("verdict", "text", "what the steps tell from chance of its own time", found=True),
)
