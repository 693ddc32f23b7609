"""Steps of a rank: bounds by mark or by work, partial steps at the edges of the recording, phases of inference."""

from __future__ import annotations

import re
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.rank_trace import RankTrace, SharedRankResult
from tracehound.analysis.window_bounds import UNBOUNDED, TimeBounds, intersect_bounds
from tracehound.formats.assembly.step_detection import GRAPH_LAUNCHES
from tracehound.model.notes import Note, note
from tracehound.model.trace import CPU_LABEL, collect_frame
from tracehound.numeric.intervals import Ints

PARTIAL_STEPS_DEFINITION: Final = """\
The first or last step of a rank is partial if the recording began or ended inside it: it has less than 80 % as many
device events (with or without a known launch) as the median of the rank's other steps, leaving out the step at the
other edge if three or more remain. A marked step with device events is whole if the recording began long before it, or
went on long after it: by half of the median length or more, counted from the mark and all its work (in an XLA profile,
in the recording of the device). If no device work of steps is recorded and there are three or more steps, a first or
last step is partial if its mark is less than half as long as the median of the others. PyTorch records no mark that
began before the recording, so its first step is whole then, as is a last one with at least 80 % as many host operators
as the median. The last of inferred steps that last until the next one starts (module executions, graph replays) is
partial, too, since its end is unknown. In an exported window, the window counts as the recording: every step whose
mark or work crosses an edge is partial, and work without a known launch counts only if no work has one. Partial steps
are shown, and left out of means, percentiles and shares."""
"""For the definitions of analyses. It does not depend on the window."""

_COMPLETE_SHARE: Final = 0.8
_COMPLETE_MARK_SHARE: Final = 0.5
_RECORDED_BEYOND: Final = 0.5
_MIN_STEPS: Final = 3
"""With fewer steps the usual length of a step is unknown."""


def partial_steps(rank_trace: RankTrace, events: pl.DataFrame) -> pl.Series:
    """Mask of the partial steps among all steps of a rank, ordered by start.

    `events` is all work of the rank's device, with the columns `step` and `launch`.
    """
    return _PARTIAL_STEPS.result_for(rank_trace, events)


def _find_partial_steps(rank_trace: RankTrace, events: pl.DataFrame) -> pl.Series:
    steps = rank_trace.steps
    own = (
        _work_of_steps(events, rank_trace)
        .group_by("step")
        .agg(pl.len().alias("work"), begun=pl.col("start").min(), done=pl.col("end").max())
    )
    worked = steps.join(own, on="step", how="left", maintain_order="left")
    size = worked["work"].fill_null(0).to_numpy()
    least, fewest, on_host = _COMPLETE_SHARE, 2, not size.any()
    if on_host:
        size, least, fewest = (steps["end"] - steps["start"]).to_numpy(), _COMPLETE_MARK_SHARE, _MIN_STEPS
    found = np.zeros(len(size), np.bool_)
    if len(size) >= fewest:
        for edge in (0, -1):
            lacks = size[edge] < least * np.median(_values_of_other_steps(size, edge))
            found[edge] = lacks and not (
                _is_recorded_around(worked, edge, rank_trace) or (on_host and _is_complete_mark(rank_trace, edge))
            )
    found |= steps_without_end(rank_trace).to_numpy()
    found |= _cross_recorded_bounds(worked, rank_trace.recorded_bounds)
    return pl.Series("partial", found)


_PARTIAL_STEPS: Final = SharedRankResult(_find_partial_steps)


def _work_of_steps(events: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The work that counts for steps: in an exported window only work with a launch there, if launches are known.

    Work for steps outside the export lost its launch, and with it its step.
    """
    if rank_trace.recorded_bounds == UNBOUNDED or events["launch"].null_count() == events.height:
        return events
    return events.filter(pl.col("launch").is_not_null())


def _values_of_other_steps(values: npt.NDArray[np.int64], edge: int) -> npt.NDArray[np.int64]:
    """The values of all steps but the first (0) or last (-1); without both if enough are left."""
    inner = values[1:-1]
    return inner if len(inner) >= _MIN_STEPS else np.delete(values, edge)


def _cross_recorded_bounds(steps: pl.DataFrame, limits: TimeBounds) -> npt.NDArray[np.bool_]:
    """Mask of the steps that, with their work, cross one of the recorded bounds."""
    low, high = limits
    found = np.zeros(steps.height, np.bool_)
    if low is not None:
        found |= steps.select(pl.min_horizontal("start", "begun") < low).to_series().to_numpy()
    if high is not None:
        found |= steps.select(pl.max_horizontal("end", "done") > high).to_series().to_numpy()
    return found


def _is_recorded_around(steps: pl.DataFrame, edge: int, rank_trace: RankTrace) -> bool:
    """True if the first (0) or last (-1) step is a mark with work, and the recording goes on beyond both.

    `steps` have their work and its bounds `begun` and `done`. The threads of an XLA program may be recorded for longer
    than its device.
    """
    row = steps.row(edge, named=True)
    if row["inferred"] or row["work"] is None:
        return False
    recorded = (
        rank_trace.lanes.filter(pl.col("rank").is_not_null()) if rank_trace.profiler == "XLA" else rank_trace.lanes
    )
    lengths = np.delete((steps["end"] - steps["start"]).to_numpy(), edge)
    low, high = intersect_bounds(
        (int(recorded["first"].to_numpy().min()), int(recorded["last"].to_numpy().max())), rank_trace.recorded_bounds
    )
    beyond = min(row["start"], row["begun"]) - low if edge == 0 else high - max(row["end"], row["done"])
    return bool(beyond >= _RECORDED_BEYOND * np.median(lengths))


def _is_complete_mark(rank_trace: RankTrace, edge: int) -> bool:
    """True if the first (0) or last (-1) step is a complete mark of PyTorch, by its host operators."""
    if rank_trace.profiler != "PyTorch" or rank_trace.steps.row(edge, named=True)["inferred"]:
        return False
    if edge == 0:
        return True
    own = collect_frame(rank_trace.threads.filter(pl.col("kind") == "op").group_by("step").agg(pl.len().alias("ops")))
    ops = rank_trace.steps.join(own, on="step", how="left", maintain_order="left")["ops"].fill_null(0).to_numpy()
    return bool(ops[edge] and ops[edge] >= _COMPLETE_SHARE * np.median(ops[:edge]))


def _last_until_next_step(steps: pl.DataFrame) -> bool:
    """True if the steps of a rank were inferred, and each but the last lasts until the next one starts."""
    of_module, of_graph = pl.col("rank").is_not_null(), pl.col("name").is_in(GRAPH_LAUNCHES)
    return bool(steps.select((pl.col("inferred") & (of_module | of_graph)).any()).item())


def complete_steps(rows: pl.DataFrame) -> pl.DataFrame:
    """The steps that statistics use: the complete ones, or all if there are none."""
    complete = rows.filter(~pl.col("partial"))
    return complete if complete.height else rows


def steps_without_end(rank_trace: RankTrace) -> pl.Series:
    """Mask of the steps of a rank, ordered by start, whose end is unknown."""
    found = np.zeros(rank_trace.steps.height, np.bool_)
    found[-1:] = rank_trace.steps.height > 1 and _last_until_next_step(rank_trace.steps)
    return pl.Series("unended", found)


def partial_steps_notes(rows: pl.DataFrame, of: Literal["mean", "lengths", "figures"]) -> list[Note]:
    """A note if some of these steps are partial and left out of something.

    A step counts once, on any number of ranks.
    """
    partial = rows.filter("partial")
    left, cut = (found["step"].n_unique() for found in (partial, partial.filter(~pl.col("unended"))))
    if not left:
        return []
    unended = bool(partial["unended"].any())
    return [note("partial_steps_left_out", level="missing", steps=left, cut=cut, of=of, unended=unended)]


STEP_BOUNDS: Final = Setting(
    "bounds",
    "work",
    "a step lasts until the work that it launched has ended (work), or as long as its mark (mark)",
    choice_parser("work", "mark"),
)


def step_intervals(rank_trace: RankTrace, events: pl.DataFrame, bounds: str) -> pl.DataFrame:
    """A rank's steps, ordered by start, with times by the setting `bounds`; ps.

    `events` is the device's work, with the columns `step` and `launch`; only work with a known launch belongs to a
    step. By work no two steps overlap: each begins when the previous one has ended, and the first when earlier work of
    other steps has ended, if that ended before any of its own work began. These are the bounds of the PyTorch
    TensorBoard plugin; but on CPU devices work without a known launch counts only if it began before the first mark.
    """
    steps = rank_trace.steps
    if bounds == "mark" or steps.is_empty():
        return steps
    work = events.select("start", "end", "launch", pl.when(pl.col("launch").is_not_null()).then("step").alias("step"))
    last = work.group_by("step").agg(pl.col("end").max().alias("last"), pl.col("start").min().alias("begun"))
    found = steps.join(last, on="step", how="left", maintain_order="left")
    start, end = found["start"].to_numpy(), found["end"].to_numpy()
    end = np.maximum.accumulate(np.maximum(end, found["last"].fill_null(int(start[0])).to_numpy()))
    before = np.append(_end_of_earlier_work(rank_trace, found, work), end[:-1])
    start = np.maximum(start, before)
    return found.drop("last", "begun").with_columns(pl.Series("start", start), pl.Series("end", np.maximum(end, start)))


def _end_of_earlier_work(rank_trace: RankTrace, found: pl.DataFrame, work: pl.DataFrame) -> Ints:
    """End of the work before the first step, of no step, that ended before that step's own work began.

    Without such work it is the start of that step. Much work on a CPU has no known launch, and hardly any of it waits:
    work that began in the step was launched there.
    """
    start, begun = int(found["start"][0]), found["begun"][0]
    early = work.filter(pl.col("step").is_null() & (pl.col("start") < (start if begun is None else begun)))
    if rank_trace.label.startswith(CPU_LABEL):
        early = early.filter(pl.col("launch").is_not_null() | (pl.col("start") < start))
    if begun is not None:
        early = early.filter(pl.col("end") <= begun)
    latest = early["end"].max() if begun is not None else start
    return np.array([latest if isinstance(latest, int) else start], np.int64)


PREFILL, DECODE, MIXED = "prefill", "decode", "mixed"

_VLLM_COUNTS: Final = re.compile(r"context_(\d++).*?generation_(\d+)")
"""vLLM's ``execute_8192_context_9(...)_generation_37(...)``: numbers of requests in prefill, and in decode."""

_PHASE_PATTERNS: Final = (
    (MIXED, re.compile(r"(?<![a-z])mixed(?![a-z])", re.IGNORECASE)),
    (PREFILL, re.compile(r"(?<![a-z])(?:prefill|extend|context_?(?:phase|encoding))(?![a-z])", re.IGNORECASE)),
    (DECODE, re.compile(r"(?<![a-z])(?:decode|decoding|generation_?phase|token_?generation)(?![a-z])", re.IGNORECASE)),
)
"""Phases in the names of others: SGLang's ``step[DECODE bs=32]`` and ``step[EXTEND ...]``, ``prefill``."""


def inference_phase(name: str) -> str | None:
    """The phase of a step of this name; None if the name has none."""
    if counts := _VLLM_COUNTS.search(name):
        prompts, tokens = (int(count) > 0 for count in counts.groups())
        return (MIXED if tokens else PREFILL) if prompts else DECODE if tokens else None
    return next((which for which, pattern in _PHASE_PATTERNS if pattern.search(name)), None)


def inference_phases(names: pl.Series) -> pl.Series:
    """The phases of steps of these names, null if they have none."""
    known = {name: inference_phase(name) for name in names.unique().drop_nulls().to_list()}
    return pl.Series("phase", [known.get(name) for name in names.to_list()], pl.String)


def inferred_steps_note(names: pl.Series) -> Note:
    """A note that steps were inferred from events of these names."""
    name = str(names[0])
    if name.startswith("Optimizer."):
        source = "optimizer"
    elif name.endswith("GraphLaunch"):
        source = "graph"
    else:
        source = "execution" if names.n_unique() == 1 else "annotation"
    return note("inferred_steps", level="inferred", source=source, name=name)
