"""Findings as a whole: notes, bases of shares, cut files, bounds of costs, and time outside of steps."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from building import US, Building, listing, stream
from finding_runs import (
    MAIN,
    V100,
    add_each_step,
    add_work,
    find_row,
    find_rows,
    has_share,
    has_time,
    location,
    make_steps,
    only_row,
    read_rows,
    rows_with,
    run_findings,
)
from samples import sample
from short import first
from tracehound.analysis.findings import ANALYSIS, RULES
from tracehound.analysis.findings.advice import _PYTORCH
from tracehound.draw.notes import note_texts
from tracehound.model.notes import Note
from tracehound.model.trace import Window
from tracehound.store import load_trace, merge_file_frames, open_trace_files


def test_a_busy_run_has_no_finding() -> None:
    result = run_findings(make_steps(busy=99).trace())
    assert result.table.is_empty()
    assert [note.code for note in result.notes] == ["no_findings"]
    assert str(len(RULES)) in note_texts(result.notes)[0]


def test_every_rule_is_in_the_definition() -> None:
    assert all(rule.condition in ANALYSIS.definition for rule in RULES)
    conditions = {rule.name: rule.condition for rule in RULES}
    assert len(conditions) == len(RULES)
    assert "any thread of a host compiles" in conditions["compiling"]
    assert "1.5 times" in conditions["slow steps"]


def test_findings_come_by_their_cost_and_those_without_one_last() -> None:
    b = add_each_step(make_steps(busy=60), "cudaStreamSynchronize", 60, 99, "sync")
    for number in range(4):
        add_work(b, "ncclDevKernel_AllReduce", number * 100 + 60, number * 100 + 80, "collective", 8)
    b.facets = {"allocated": [{"record": 0, "time": 5 * US, "device": 0, "bytes": 990, "allocated": 990}]}
    rows = find_rows(b.trace())
    assert len(rows) == 3
    assert [row["cost"] for row in rows] == [20 * US, 20 * US, None]


@pytest.mark.thorough
def test_every_finding_has_a_certainty_and_text() -> None:
    rows = find_rows(add_each_step(make_steps(busy=60), "cudaStreamSynchronize", 60, 99, "sync").trace())
    for row in rows:
        assert row["certainty"] in ("recorded", "inferred", "not recorded")
        assert all(row[name] for name in ("finding", "evidence", "advice"))
        assert row["effects"] is not None


@pytest.mark.thorough
def test_every_share_says_what_it_is_of(samples: Path) -> None:
    bases = {row["finding"]: row["share_of"] for row in read_rows(samples / "torch_xla_remote")}
    (between,) = (words for words in bases if "between steps" in words)
    assert bases.pop(between) == "step to step"
    assert set(bases.values()) == {"step"}
    without = Building()
    without.event(stream(), "k", 0, 10)
    without.event(stream(), "k", 90, 100)
    assert only_row(find_rows(without.trace()))["share_of"] == "run"
    assert only_row(find_rows(without.trace(), Window(0, 95 * US)))["share_of"] == "window"


def test_notes_tell_what_costs_are_of() -> None:
    b = make_steps(busy=60)
    (whole,) = run_findings(b.trace()).notes
    assert whole.code == "mean_step_time"
    assert has_time(note_texts([whole])[0], 100 * US)
    assert [note.code for note in run_findings(b.trace(), Window(150 * US, 190 * US)).notes] == ["costs_of_window"]
    b.rows = [row for row in b.rows if row["kind"] != "step"]
    assert [note.code for note in run_findings(b.trace()).notes] == ["costs_of_run"]
    host = Building()
    host.event(MAIN, "aten::mm", 0, 10, "op")
    assert [note.code for note in run_findings(host.trace()).notes] == ["findings_without_device_work"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["worker0.json", "worker0.json.gz"])
def test_a_file_that_was_cut_short_is_told_beside_the_findings(samples: Path, tmp_path: Path, name: str) -> None:
    content = next((samples / "torch_stacks").glob("*.json.gz")).read_bytes()
    content = content if name.endswith(".gz") else gzip.decompress(content)
    for part, cut in ((2 / 3, True), (1, False)):
        (tmp_path / name).write_bytes(content[: int(len(content) * part)])
        notes = run_findings(load_trace(open_trace_files([tmp_path / name]))).notes
        assert (notes[0].code == "files_cut_short") == cut
        assert any("cut short" in text for text in note_texts(notes)) == cut


def test_idle_time_of_a_rank_whose_file_was_cut_short_is_told_to_be_doubtful() -> None:
    parts = []
    for rank, notes in enumerate([(), (Note("dropped", "event_cut_off", where="byte 7"),)]):
        b = Building(name=f"rank {rank}", claim=rank, wall_ns=10**18, notes=notes, path=Path(f"rank{rank}.json"))
        b.facts = listing(V100)
        for start in (0, 90):
            add_work(b, "k", start, start + 10)
        add_work(b, "Memcpy DtoH (Device -> Pageable)", 10, 30, "copy")
        parts.append(b.part())
    cut, whole = (find_rows(merge_file_frames("job", some)) for some in (parts, parts[:1]))
    doubtful = [row for row in cut if "rank 1 was cut short" in row["evidence"]]
    assert doubtful == rows_with(cut, "the GPU idles")
    assert 0 < len(doubtful) < len(cut)
    assert [row for row in whole if "cut short" in row["evidence"]] == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["torch_ddp_gloo", "torch_xla_spmd4", "jax_cpu8_b128"])
def test_nothing_costs_more_than_there_is(name: str) -> None:
    trace = sample(name)
    (low, high), random = trace.span, np.random.default_rng(0)
    for _ in range(4):
        start, end = np.sort(random.integers(low, high, 2)).tolist()
        shares = [row["share"] for row in find_rows(trace, Window(start, end)) if row["share"] is not None]
        assert all(share <= 1 for share in shares), (start, end)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", first(1, range(3)))
def test_idle_time_is_told_once(seed: int) -> None:
    """Costs of causes of idle time add up to no more than the idle time, whatever the host did in the gaps."""
    random = np.random.default_rng(seed)
    names = [
        ("Python GC", "python"),
        ("cudaStreamSynchronize", "sync"),
        ("aten::mm", "op"),
        ("cudaMalloc", "runtime"),
        ("enumerate(DataLoader)#X.__next__", "annotation"),
        ("mine", "annotation"),
        ("compile f", "compile"),
    ]
    b = Building(facts=listing(V100), unit=1000 * US)
    for number in range(6):
        start = number * 100
        b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
        begin = start
        for gap in random.integers(0, 12, 4).tolist():
            end = min(begin + 20, start + 100 - gap)
            add_work(b, "k", begin, end)
            name, kind = names[random.integers(len(names))]
            b.event(MAIN, name, end, end + max(gap - random.integers(0, 3), 0), kind)
            begin = end + gap
        add_work(b, "k", begin, start + 100)
    trace = b.trace()
    busy = sum(row["end"] - row["start"] for row in b.rows if row["kind"] == "kernel")  # type: ignore[operator]
    idle = 600 * 1000 * US - busy
    rows = rows_with(find_rows(trace), "the GPU idles")
    assert rows
    assert sum(row["cost"] for row in rows) <= idle / 6 * 1.0001


@pytest.mark.parametrize("variant", ["legacy", "real2024", "nogpuann"])
def test_what_the_plugin_advises_on_is_found_on_every_variant(shared: Path, variant: str) -> None:
    """Its rule 4: 9 % of a step are waiting for rank 1, of the 12.5 % that are exposed communication.

    In place of its utilization (rank 1 is busy for 40.6 % of the steps, rank 0 for 47.6 %) are the reasons of most
    of the idle time, 55.9 %.
    """
    rows = read_rows(shared / "golden" / "two_rank" / variant)
    assert find_row(rows, "rank 1")["share"] == pytest.approx(0.09)
    assert rows_with(rows, "idle for more than half") == []
    reasons = [row["share"] for row in rows_with(rows, "the GPU idles")]
    assert sum(reasons) == pytest.approx(0.514, abs=0.005)


@pytest.mark.thorough
def test_the_data_loader_of_the_plugin_s_rule_is_found(shared: Path) -> None:
    """It takes 10 % of each step, and less than half of the one gap in which it waits."""
    rows = read_rows(shared / "golden" / "two_rank" / "real2024")
    assert find_row(rows, "data loading")["share"] == pytest.approx(0.10)


OUTSIDE = "the device does nothing for"


def extend_recording(b: Building, end: float) -> Building:
    """Extend the recording to last from 0 to `end`, with the host in Python."""
    b.event(MAIN, "$serve.py:1 loop", 0, end, "python")
    return b


def test_a_device_that_works_in_one_burst_of_a_long_recording_is_found() -> None:
    """It works from 300 to 340 us, of 1000."""
    b = Building(facts=listing(V100))
    add_work(b, "elementwise_kernel", 300, 340)
    row = only_row(find_rows(extend_recording(b, 1000).trace()), OUTSIDE)
    assert (row["share"], row["share_of"]) == (pytest.approx(0.96), "recording")
    assert location(row) == (0, 340, 660)
    assert has_share(row["evidence"], 0.96)
    assert all(has_time(row["evidence"], time * US) for time in (300, 660, 1000))
    assert "running Python" in row["evidence"]
    assert "torch.profiler.schedule" in row["advice"]


@pytest.mark.thorough
def test_a_device_that_works_for_half_of_the_recording_is_none_that_does_nothing() -> None:
    b = Building(facts=listing(V100))
    add_work(b, "elementwise_kernel", 300, 810)
    assert find_rows(extend_recording(b, 1000).trace()) == []


@pytest.mark.thorough
def test_idle_time_outside_of_steps_costs_them_nothing() -> None:
    row = only_row(find_rows(extend_recording(make_steps(busy=99), 2000).trace()), OUTSIDE, "after the last whole step")
    assert (row["cost"], row["share"], row["share_of"]) == (None, pytest.approx(0.8), "recording")
    assert location(row) == (0, 400, 1600)
    assert rows_with(find_rows(extend_recording(make_steps(busy=20), 400).trace()), OUTSIDE) == []


@pytest.mark.thorough
def test_idle_time_between_steps_is_no_share_of_a_step() -> None:
    """In steps the device waits for launches, for 30 us of each; between steps for the data loader, for longer."""
    b = Building(facts=listing(V100))
    for number in range(4):
        start = number * 300
        b.event(MAIN, f"ProfilerStep#{number}", start, start + 100, "step", step=number)
        add_work(b, "elementwise_kernel", start, start + 40)
        add_work(b, "elementwise_kernel", start + 70, start + 100)
        b.event(MAIN, "enumerate(DataLoader)#X.__next__", start + 100, start + 299, "annotation")
    rows = find_rows(b.trace())
    inside, outside = find_row(rows, "the GPU idles"), find_row(rows, OUTSIDE)
    assert (inside["cost"], inside["share"]) == (30 * US, pytest.approx(0.3))
    assert has_share(outside["evidence"], 799 / 1199)
    assert all(has_time(outside["evidence"], time * US) for time in (600, 199, 1199))
    assert (outside["cost"], outside["advice"]) == (None, _PYTORCH["data loading"])


@pytest.mark.thorough
def test_a_rank_is_idle_in_the_recording_of_its_own_host_alone() -> None:
    parts = []
    for rank, end in enumerate((400, 4000)):
        b = extend_recording(make_steps(busy=99), end)
        b.claim = rank
        parts.append(b.part())
    row = find_row(find_rows(merge_file_frames("job", parts)), OUTSIDE)
    assert "rank 1" in row["evidence"]
    assert has_share(row["evidence"], 0.9)
    assert row["rank"] == 1
