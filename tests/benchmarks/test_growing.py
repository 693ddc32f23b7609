"""The big traces that are measured say what their sources say, so often as there are copies."""

from __future__ import annotations

import gzip
from pathlib import Path

import grow_kineto
import grow_ranks
import grow_xplane
import polars as pl
import pytest

from tracehound.analysis import get_analysis, run_analysis
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files

pytestmark = pytest.mark.thorough

TRACES = Path(__file__).parents[2] / "traces"
STACKS = next((TRACES / "torch_stacks").glob("*.json.gz"))
GLOO = next((TRACES / "torch_ddp_gloo").glob("rank0*.json.gz"))
PROFILE = next((TRACES / "jax_cpu8_b128").rglob("*.xplane.pb"))
COPIES = 3


def trace(path: Path) -> Trace:
    return load_trace(open_trace_files([path]))


def sums(of: Trace) -> pl.DataFrame:
    """Events, their time and what is linked, for each kind."""
    events = of.events()
    return (
        events.group_by("kind")
        .agg(
            pl.len(),
            (pl.col("end") - pl.col("start")).sum().alias("time"),
            pl.col("self").sum(),
            pl.col("parent").count(),
            pl.col("launch").count(),
        )
        .sort("kind")
        .collect()
    )


def ops(of: Trace) -> pl.DataFrame:
    return (
        run_analysis(get_analysis("ops"), of).table.select("name", "program", "count", "total").sort("name", "program")
    )


def times(frame: pl.DataFrame, factor: int) -> pl.DataFrame:
    return frame.with_columns(pl.exclude("kind") * factor)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_big_kineto_trace_is_its_source_so_often(tmp_path: Path, suffix: str) -> None:
    big = tmp_path / f"big.json{suffix}"
    grown = grow_kineto.grow(STACKS, big, COPIES * len(gzip.decompress(STACKS.read_bytes())))
    assert grown.copies == COPIES
    one, all_of_them = trace(STACKS), trace(big)
    assert sums(all_of_them).equals(times(sums(one), COPIES))
    assert not [note for note in all_of_them.notes if note.level in ("dropped", "repaired")]
    first, last = one.steps["step"].min(), one.steps["step"].max()
    assert all_of_them.steps["step"].to_list() == list(range(first, first + COPIES * (last - first + 1)))


def test_a_copy_of_one_is_the_source(tmp_path: Path) -> None:
    assert grow_xplane.grow(PROFILE, tmp_path / "same.xplane.pb", 0).copies == 1
    assert (tmp_path / "same.xplane.pb").read_bytes() == PROFILE.read_bytes()


def test_a_big_profile_is_its_source_so_often(tmp_path: Path) -> None:
    big = tmp_path / "big.xplane.pb"
    grown = grow_xplane.grow(PROFILE, big, COPIES * PROFILE.stat().st_size * 9 // 10)
    assert grown.copies == COPIES
    one, all_of_them = trace(PROFILE), trace(big)
    assert sums(all_of_them).equals(times(sums(one), COPIES))
    assert ops(all_of_them).equals(ops(one).with_columns(pl.col("count", "total") * COPIES))


def test_the_slow_rank_of_a_grown_job_is_the_one_that_all_wait_for(tmp_path: Path) -> None:
    grow_ranks.write_job(GLOO, tmp_path, 4)
    job = trace(tmp_path)
    assert job.ranks["rank"].to_list() == list(range(4))
    late = run_analysis(get_analysis("stragglers"), job).table
    assert late["rank"].unique().to_list() == [grow_ranks.slow_rank(4)]
    calls = run_analysis(get_analysis("collective_calls"), job).table
    assert calls["ranks"].to_list() == [4] * calls.height
