"""Health: what a file does not tell, and how much of what is shown depends on it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import US, Building, Lane, stream
from short import first
from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.devices.missing_data import MissingDevices, missing_devices
from tracehound.analysis.rank_trace import run_context
from tracehound.draw.notes import note_texts, render_note_columns
from tracehound.model.file_facts import FileFacts, HloProgram, PlaneStats
from tracehound.model.notes import PROFILER_ERROR, PROFILER_WARNING, Note, profiler_message_note
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

OPS = Lane("XLA Ops", 0, "ops", work=True)
MANY = "executions of the same HLO op overlap: the file does not tell several devices apart, so they are one rank"


def op(number: int) -> dict[str, object]:
    return {"op": number, "name": f"dot.{number}", "category": "dot", "module": "jit_f", "program": 1}


def health_table(trace: Trace) -> pl.DataFrame:
    return render_note_columns(run_analysis(get_analysis("health"), trace)).table


def overlapping_time(trace: Trace) -> int:
    """Number of ops that the health table reports as overlapping themselves."""
    rows = health_table(trace).rows(named=True)
    return sum(row["count"] for row in rows if row["level"] == "missing" and MANY in row["what"])


@pytest.mark.parametrize(
    ("name", "count"), first(1, [("torch_xla_spmd4", 115), ("torch_xla_single", 0), ("jax_cpu8_b128", 0)])
)
def test_devices_that_a_file_does_not_tell_apart(samples: Path, name: str, count: int) -> None:
    """PyTorch/XLA records no device_ordinal: its four devices are one rank; JAX records it."""
    assert overlapping_time(load_trace(open_trace_files([samples / name]))) == count


@pytest.mark.thorough
def test_the_overview_says_what_was_guessed_to_join_files(samples: Path) -> None:
    """Files of different runs are put side by side, which nobody should take for one run."""
    two = [samples / "torch_ddp_gloo", samples / "torch_xla_irdebug"]
    notes = note_texts(run_analysis(get_analysis("overview"), load_trace(open_trace_files(two))).notes)
    assert "the files do not overlap in time: each is shown from its own first event" in notes
    for one in two:
        alone = note_texts(run_analysis(get_analysis("overview"), load_trace(open_trace_files([one]))).notes)
        assert not any("own first event" in note for note in alone)


def test_different_ops_at_once_are_one_device_and_so_are_lanes_with_a_clock_of_their_own() -> None:
    b = Building(format="xplane", ops=[op(0), op(1)])
    b.event(OPS, "dot.0", 0, 10, "op", op=0)
    b.event(OPS, "dot.1", 5, 15, "op", op=1)
    b.event(OPS, "dot.0", 10, 20, "op", op=0)
    assert overlapping_time(b.trace()) == 0
    for start in (0, 2):
        own = {"device_start": start * US, "device_end": (start + 10) * US}
        b.event(Lane("XLA Ops", 1, "ops", work=True), "dot.0", start, start + 10, "op", op=0, **own)
    assert overlapping_time(b.trace()) == 0


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=9))
def test_ops_beside_themselves_against_pairs(ran: list[tuple[int, int, int]]) -> None:
    b = Building(format="xplane", ops=[op(0), op(1)])
    for number, start, length in ran:
        b.event(OPS, f"dot.{number}", start, start + length, "op", op=number)
    ordered = sorted(ran, key=lambda each: each[1])
    found = sum(
        any(other == number and begin + lasting > start for other, begin, lasting in ordered[:at])
        for at, (number, start, _) in enumerate(ordered)
    )
    assert overlapping_time(b.trace()) == found


def test_ranks_that_the_job_had_and_that_are_not_here_are_missing_by_their_runs() -> None:
    b = Building(facts=FileFacts(world_size=128))
    for rank in (0, 1):
        b.event(stream(rank), "gemm", 0, 10)
    rows = health_table(b.trace()).filter(level="missing").select("count", "what").rows()
    assert (126, "the job has 128 ranks; missing here: ranks 2-127") in rows


def with_device_assignment(devices: int, planes: int, ranks: int = 2, label: str = "TPU") -> Building:
    b, runs = Building(format="xplane"), {"jit_init": 1, "jit_step": devices}
    for rank in range(ranks):
        b.event(Lane(f"XLA Ops {rank}", rank, "ops", work=True), "dot", 0, 10, "op")
    named = [*(f"/device:{label}:{number}" for number in range(planes)), "/device:TPU:0 SparseCore 0"]
    b.facts = FileFacts(
        programs=tuple(HloProgram(name, replicas=many, partitions=1) for name, many in runs.items()),
        planes=dict.fromkeys(named, PlaneStats()),
    )
    return b


def test_devices_of_the_program_that_no_file_tells_of_are_missing() -> None:
    """They are those of hosts whose files are not here; a device that did nothing is here."""
    said = "jit_step runs on 8 devices, but only 2 are here: the files of at least one host are missing"
    trace = with_device_assignment(8, 2).trace()
    rows = health_table(trace).rows(named=True)
    assert ("missing", 6, said) in [(row["level"], row["count"], row["what"]) for row in rows]
    assert said in note_texts(run_analysis(get_analysis("overview"), trace).notes)
    for whole in (
        with_device_assignment(2, 2),
        with_device_assignment(8, 8, label="GPU"),
        with_device_assignment(2, 0),
        with_device_assignment(0, 2),
    ):
        assert not any("host" in row["what"] for row in health_table(whole.trace()).rows(named=True))
        assert len(run_analysis(get_analysis("overview"), whole.trace()).notes) == 1


def test_devices_are_counted_where_nothing_was_recorded_of_any() -> None:
    trace = with_device_assignment(8, 1).trace()
    nobody = replace(run_context(trace, Window()), ranks=trace.ranks.clear())
    assert missing_devices(nobody) == MissingDevices("jit_step", 8, 1)


def test_what_the_profiler_itself_reports_comes_first() -> None:
    dropped = "Profiler has collected 2097153 device events. 6317194 events dropped because total events reaches max."
    b = Building()
    b.event(stream(), "gemm", 0, 10)
    b.notes = [
        Note("dropped", "event_not_json", 3),
        profiler_message_note(PROFILER_WARNING, dropped),
        profiler_message_note(PROFILER_ERROR, "Failed to load libcupti (is it installed and accessible?)"),
    ]
    trace = b.trace()
    rows = health_table(trace).select("level", "count", "what").rows()
    assert rows[:3] == [
        ("missing", 6_317_194, f"the profiler warns: {dropped}"),
        ("missing", 1, "the profiler reports an error: Failed to load libcupti (is it installed and accessible?)"),
        ("dropped", 3, "events that are not valid JSON"),
    ]
    said = note_texts(run_analysis(get_analysis("gaps"), trace).notes)[0]
    assert said == (
        "the profiler dropped 6,317,194 events (see health): idle time here may be work that was not recorded"
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1,024 events were dropped", 1024),
        ("buffers are full: 7 device events lost", 7),
        ("nothing was lost", 1),
        ("9" * 23 + " events dropped", 1 << 62),
        ("0 events dropped", 1),
    ],
)
def test_a_message_has_the_number_of_events_that_it_says_were_dropped(text: str, count: int) -> None:
    assert profiler_message_note(PROFILER_WARNING, text).count == count
