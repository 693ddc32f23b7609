"""Where a device's time goes: compute, exposed communication, exposed copy, idle."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.busy import busy
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank

DEFINITION = """\
Per rank, over the span from the start of its first device work to the end of its last (or over the window): compute =
time in which any computation runs; exposed communication = time in which communication runs and no computation;
exposed copy = time in which copies or memsets run and neither of the others; idle = the rest. All are lengths of
unions of intervals over all streams, so the four sum to the span exactly. Communication and copies hidden behind
computation count as compute; "all communication" and "all copies" are the unions with the hidden part. Work that
contains other work (an HLO while) counts only where none of its parts runs.

HolisticTraceAnalysis' temporal breakdown has the same compute and idle, and calls the other two together "non
compute"; it drops the last profiler step first, which we do not, and counts CUDA synchronisation rows as device work,
which they are not. TraceLens' gpu_timeline has the same four, but takes memsets for computation."""

COLUMNS = (
    Column("rank", "count", "number of the rank"),
    Column("device", "text", "what the rank runs on", brief=False),
    Column("span", "time", "from first to last device work, or the window"),
    Column("compute", "time", "computation runs", brief=False),
    Column("compute_share", "share", "computation runs", "span"),
    Column("communication", "time", "communication runs and no computation (exposed)", brief=False),
    Column("communication_share", "share", "communication runs and no computation (exposed)", "span"),
    Column("copy", "time", "only copies or memsets run (exposed)", brief=False),
    Column("copy_share", "share", "only copies or memsets run (exposed)", "span"),
    Column("idle", "time", "nothing runs", brief=False),
    Column("idle_share", "share", "nothing runs", "span"),
    Column("all_communication", "time", "communication runs, hidden or not", brief=False),
    Column("all_copy", "time", "copies or memsets run, hidden or not", brief=False),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """One row: lengths in ps."""
    del options
    state = busy(share)
    lengths = {
        "span": state.end - state.start,
        "compute": state.compute.length,
        "communication": state.exposed_communication.length,
        "copy": state.exposed_copy.length,
        "idle": state.idle.length,
        "all_communication": state.communication.length,
        "all_copy": state.copy.length,
    }
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height
    row = {"rank": share.rank, "device": share.label, "lanes": lanes, **lengths}
    return pl.DataFrame([row], schema_overrides={"rank": pl.Int64, "device": pl.String})


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per rank, in the order of ranks."""
    if not tables:
        return answer(ANALYSIS, blank(COLUMNS), scene, options, ["no rank here"])
    table = pl.concat(tables)
    silent = table.filter(pl.col("lanes") == 0)["rank"].to_list()
    notes = []
    if silent:
        ranks = ", ".join(map(str, silent[:8])) + (", …" if len(silent) > 8 else "")
        notes.append(f"no device activity was recorded on rank {ranks}: profile with ProfilerActivity.CUDA (or XPU)")
    shares = [
        (pl.col(part) / pl.col("span")).fill_nan(None).alias(f"{part}_share")
        for part in ("compute", "communication", "copy", "idle")
    ]
    rows = table.filter(pl.col("lanes") > 0).with_columns(shares).sort("rank")
    return answer(ANALYSIS, rows, scene, options, notes)


ANALYSIS = Analysis(
    name="breakdown",
    title="Breakdown",
    question="Where does each device's time go: computing, waiting for communication or copies, or idle?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
