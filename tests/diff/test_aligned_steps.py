"""Two steps side by side: equal ops in equal slots, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from runs import MODEL, Kernel, changed, measured, run
from test_run_comparison import opened

from building import Building, Lane
from short import some
from tracehound.diff import compare_runs
from tracehound.diff.aligned_steps import SLOT_KINDS, AlignedSteps, StepInterval, align_steps
from tracehound.model.trace import Trace, collect_frame


def side_by_side(baseline: Trace, candidate: Trace, step: int = 2) -> AlignedSteps:
    profiles = measured(baseline), measured(candidate)
    places = []
    for each in profiles:
        rows = (
            each.step_intervals.filter(step=step)
            if step in each.step_intervals["step"]
            else each.step_intervals.head(1)
        )
        places.append(StepInterval(*rows.select("rank", "start", "end").row(0)))
    return align_steps((baseline, candidate), (places[0], places[1]), compare_runs(*profiles).keys)


def told(trace: Trace) -> list[tuple[str, str]]:
    """The ops of a side in order, each with what is said of it."""
    rows = collect_frame(trace.events()).sort("start", "lane").select(pl.col("name").cast(pl.String), "op").rows()
    return [(name, SLOT_KINDS[op]) for name, op in rows]


def counts(found: AlignedSteps) -> dict[str, int]:
    return {kind: count for kind, count in zip(SLOT_KINDS, found.counts, strict=True) if count}


def test_a_step_against_itself_is_the_same_in_every_slot() -> None:
    trace = run(noise=0)
    found = side_by_side(trace, trace)
    assert counts(found) == {"the same": len(MODEL)}
    for each in found.traces:
        assert each.lanes["name"].to_list() == ["stream 7", "stream 9"]
    starts = [collect_frame(each.events())["start"].to_list() for each in found.traces]
    assert starts[0] == starts[1]


def test_what_one_side_has_alone_carries_its_sign_and_keeps_its_slot_free_on_the_other() -> None:
    new = (*MODEL[:2], Kernel("extra", "aten::extra", 70), *MODEL[2:4], *MODEL[5:])
    found = side_by_side(run(noise=0), run(new, noise=0))
    assert ("- elementwise_add", "removed") in told(found.traces[0])
    assert ("+ extra", "added") in told(found.traces[1])
    assert counts(found) == {"the same": len(MODEL) - 1, "added": 1, "removed": 1}
    alone = (
        collect_frame(found.traces[1].events()).filter(pl.col("name").cast(pl.String) == "+ extra").row(0, named=True)
    )
    baseline = collect_frame(found.traces[0].events()).filter(lane=alone["lane"])
    assert baseline.filter((pl.col("start") < alone["end"]) & (pl.col("end") > alone["start"])).is_empty()


def test_a_slot_is_as_long_as_the_longer_of_its_ops() -> None:
    found = side_by_side(run(noise=0), run(changed(0, length=300.0), noise=0))
    assert told(found.traces[0])[0] == ("gemm_nt", "slower")
    first = [collect_frame(each.events()).row(0, named=True) for each in found.traces]
    assert [row["end"] - row["start"] for row in first] == [200_000_000, 300_000_000]
    second = [collect_frame(each.events()).row(1, named=True)["start"] for each in found.traces]
    assert second == [300_000_000, 300_000_000]
    assert counts(found)["slower"] == 1


def test_every_slice_leads_back_to_its_event() -> None:
    baseline = run()
    found = side_by_side(baseline, run(seed=1))
    rows = collect_frame(found.traces[0].events())
    for at, event in enumerate(found.origins[0].tolist()):
        there = baseline.event(event)
        assert there["end"] - there["start"] == rows["end"][at] - rows["start"][at]
        assert there["name"] == rows["name"][at]


def test_both_last_equally_long_and_nothing_overlaps() -> None:
    found = side_by_side(run(), run(MODEL[:3], seed=1))
    assert found.traces[0].span == found.traces[1].span
    for each in found.traces:
        rows = collect_frame(each.events()).sort("lane", "start")
        inside = rows.filter(pl.col("lane") == pl.col("lane").shift(-1))["end"]
        after = rows.filter(pl.col("lane") == pl.col("lane").shift(1))["start"]
        assert (inside <= after).all()


def test_lanes_of_one_name_are_all_there() -> None:
    built = Building()
    for number in range(2):
        lane = Lane("XLA Ops", 0, "ops", work=True, host=0)
        twin = Lane("XLA Ops", 0, "stream" if number else "ops", work=True)
        built.event(lane if number == 0 else twin, f"op {number}", 0, 10 + number)
    found = side_by_side(built.trace(), built.trace(), step=-1)
    assert counts(found) == {"the same": 2}
    assert found.traces[0].lanes.height == 2


def test_walking_stops_at_what_is_not_the_same() -> None:
    found = side_by_side(run(noise=0), run(changed(2, length=300.0, name="gemm_nn")[:6], noise=0))
    seen, at = [], -1
    while (step := found.next_changed_op(at, 1)) is not None:
        side, event = step
        row = found.traces[side].event(event)
        seen.append((side, row["name"]))
        at = (row["start"] + row["end"]) // 2
    assert set(seen) == {(1, "gemm_nn"), (0, "- Memcpy HtoD")}
    assert found.next_changed_op(at, -1) is not None
    assert found.next_changed_op(-1, -1) is None


REAL = ("torch_ddp_gloo torch_stacks", "jax_cpu8_b128 jax_cpu8_b4096", "torch_stacks jax_cpu8_b128")


@pytest.mark.parametrize(
    "names",
    some(REAL, REAL[:1]),
)
def test_real_steps_have_all_their_ops_in_slots(samples: Path, names: str) -> None:
    found = side_by_side(*(opened(samples / name) for name in names.split()), step=-1)
    for side in range(2):
        assert len(found.origins[side]) == int(found.traces[side].lanes["events"].sum()) > 0
        assert len(set(found.origins[side].tolist())) == len(found.origins[side])
