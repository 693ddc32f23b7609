"""Small files that users met, one kind of trouble each: the essential fact of each."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.result import Result
from tracehound.cli.main import main
from tracehound.draw.notes import note_texts, render_note_columns
from tracehound.model.trace import Trace, collect_frame
from tracehound.store import load_trace, open_trace_files
from tracehound.store.clock_choice import set_alignment

pytestmark = pytest.mark.thorough

MS = 10**9
US = 10**6
STEP = 9_990_000_000


@pytest.fixture(scope="module")
def cases(shared: Path) -> Path:
    folder = shared / "cases"
    if not folder.is_dir():
        pytest.skip("no folder of field cases beside the checkout")
    return folder


def read(path: Path) -> Trace:
    return load_trace(set_alignment(open_trace_files([path]), "auto"))


def analyze(trace: Trace, analysis: str) -> Result:
    return run_analysis(get_analysis(analysis), trace)


def kernels(trace: Trace) -> int:
    return int(trace.lanes.filter("work")["events"].sum())


def health(trace: Trace) -> list[tuple[str, int, str]]:
    table = render_note_columns(analyze(trace, "health")).table
    return [row for row in table.select("level", "count", "what").iter_rows() if row[0] != "info"]


# What health tells, besides what is only information: level, count, and the beginning of the sentence.
IN_HEALTH: dict[str, list[tuple[str, int, str]]] = {
    "01-rocm-duration-spills.json": [("repaired", 1, "kernels or copies with impossible ends")],
    "03-kernels-at-zero.json": [
        ("missing", 7, "launches whose device work was not recorded, of 32"),
        ("dropped", 8, "events that last a day"),
    ],
    "06-xpu-no-device-records.json": [("missing", 1, "device activity: launches were recorded, but none of the work")],
    "07-one-endless-frame.json": [("dropped", 1, "events that last a day")],
    "08-unfinished-minus-one.json": [("repaired", 3, "negative durations")],
    "09-graphs-underrecorded.json": [
        ("missing", 30, "launches whose device work was not recorded, of 32 on rank 0"),
        ("missing", 7, "the job has 8 ranks"),
        ("inferred", 32, "no step marks"),
    ],
    "10-half-overlaps.json": [],
    "13-megatron-layout": [],
    "16-merged-beside": [],
    "17-both-forms": [],
    "19-download-copy": [],
    "29-hip-stream-64bit.json": [],
    "31-clock-skew": [("inferred", 2, "clock aligned by collective end times")],
    "31b-clock-skew-200ms": [("inferred", 2, "clock aligned by collective end times")],
    "32-two-bases": [],
    "33-ndjson.json": [("repaired", 1, "the file begins with an event")],
    "33b-unclosed-list.json": [("repaired", 1, "the array of events has no end")],
    "38-unicode.json": [],
    "40-rocm-shared-correlations.json": [("missing", 8, "device events with the correlation id of another")],
    "43-orphan-kernels.json": [("missing", 5, "device events without a known launch, of 37")],
    "45-capture-launches.json": [],
    "46-rocm-mild-spills.json": [("repaired", 3, "kernels or copies with impossible ends")],
    "49-one-process-two-devices.json": [("inferred", 1, "several devices and no rank recorded")],
    "damage/early-bracket.pt.trace.json": [("repaired", 1, "stray characters between events")],
    "x12-tpu-planes-empty": [("missing", 2, "devices without events: TPU:0, TPU:1")],
    "x08-no-modules.xplane.pb": [("inferred", 4, "no step marks: steps are inferred from the repeating module")],
}


@pytest.mark.parametrize("name", IN_HEALTH)
def test_health_tells_what_is_wrong_and_nothing_else(name: str, cases: Path) -> None:
    found, expected = health(read(cases / name)), IN_HEALTH[name]
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    for (*_, said), (*_, beginning) in zip(found, expected, strict=True):
        assert said.startswith(beginning)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("20-two-ranks-one-file.json", 32),
        ("22-concatenated-gzips.trace.json.gz", 32),
        ("22b-interleaved-gzips.trace.json.gz", 66),
        ("21b-interleaved-appends.json", 472),
        ("23-nul-hole.json", 261),
        ("33-ndjson.json", 32),
        ("33b-unclosed-list.json", 32),
        ("03-kernels-at-zero.json", 24),
        ("damage/early-bracket.pt.trace.json", 60),
        ("damage/block-swap.pt.trace.json.gz", 60),
        ("27-viztracer-log_torch.json", 24),
        ("13-megatron-layout", 64),
        ("49-one-process-two-devices.json", 32),
    ],
)
def test_device_events_that_are_kept(name: str, count: int, cases: Path) -> None:
    assert kernels(read(cases / name)) == count


@pytest.mark.parametrize(
    ("name", "count", "low", "high"),
    [
        ("01-rocm-duration-spills.json", 4, 0.72, 0.73),
        ("46-rocm-mild-spills.json", 10, 0.72, 0.73),
        ("33-ndjson.json", 4, 0.72, 0.73),
        ("10-half-overlaps.json", 4, 0.72, 0.73),
        ("07-one-endless-frame.json", 4, 0.72, 0.73),
        ("08-unfinished-minus-one.json", 4, 0.72, 0.73),
    ],
)
def test_steps_and_their_busy_time(name: str, count: int, low: float, high: float, cases: Path) -> None:
    table = analyze(read(cases / name), "steps").table
    assert table["duration"].to_list() == [STEP] * count
    assert low < float(table["busy"].sum()) / count < high


def test_of_a_kernel_with_an_impossible_end_nothing_comes_of_it(cases: Path) -> None:
    trace = read(cases / "01-rocm-duration-spills.json")
    assert max(analyze(trace, "ops").table["share"].to_list()) <= 1
    assert "longer" not in str(analyze(trace, "findings").table["finding"].to_list())


def test_idle_time_of_launches_that_were_not_recorded_is_not_judged(cases: Path) -> None:
    found = analyze(read(cases / "09-graphs-underrecorded.json"), "findings")
    assert found.table.height == 0
    assert any("idle time of rank 0 is not judged" in text for text in note_texts(found.notes))


def test_delays_of_launches(cases: Path) -> None:
    clocks = analyze(read(cases / "02-kernel-before-launch.json"), "launches")
    assert any(text.startswith("3 device events begin before their launch") for text in note_texts(clocks.notes))
    assert clocks.table["events"].to_list() == [6]
    assert all(delay >= 0 for delay in clocks.table["delay"].to_list())
    shared_ids = analyze(read(cases / "40-rocm-shared-correlations.json"), "launches")
    assert shared_ids.table["launches"].to_list() == [24]
    captured = read(cases / "45-capture-launches.json")
    table = render_note_columns(analyze(captured, "health")).table
    assert table.filter(pl.col("what").str.starts_with("launches captured into graphs"))["count"].to_list() == [100]


def test_every_name_of_a_communication_kernel_is_known(cases: Path) -> None:
    assert set(analyze(read(cases / "11-collective-names.json"), "ops").table["category"]) == {"collective"}


def test_what_a_receive_waits_for(cases: Path) -> None:
    table = analyze(read(cases / "12-pipeline-p2p"), "collectives").table
    waits = dict(table.select("collective", "wait").iter_rows())
    assert waits == {"recv": 20 * MS, "send": 0}


def test_engines_of_one_group_are_matched_apart(cases: Path) -> None:
    calls = analyze(read(cases / "14b-vllm-dp-collectives"), "collective_calls")
    assert calls.total == 10
    assert not any("not matched" in text for text in note_texts(calls.notes))


@pytest.mark.parametrize("name", ["31-clock-skew", "31b-clock-skew-200ms", "32-two-bases"])
def test_clocks_apart_leave_the_waits_as_they_are(name: str, cases: Path) -> None:
    (row,) = analyze(read(cases / name), "collectives").table.rows(named=True)
    assert (row["count"], row["wait"]) == (12, 1800 * US)


def test_lanes_of_streams_with_long_ids(cases: Path) -> None:
    lanes = read(cases / "29-hip-stream-64bit.json").lanes.filter("work")
    assert sorted(lanes.select("stream", "events").iter_rows()) == [
        (140_234_567_890_123_456, 16),
        (140_234_567_890_123_520, 16),
    ]


def test_no_self_time_is_negative(cases: Path) -> None:
    trace = read(cases / "10-half-overlaps.json")
    events = collect_frame(trace.events(trace.lanes["lane"].to_list()).select(pl.col("self").min()))
    assert events.item() >= 0


@pytest.mark.parametrize(
    "name",
    [
        "24-memory-snapshot.pickle",
        "34-list-of-docs.json",
        "36-rocprof-v1.json",
        "37-tf1-timeline.json",
        "41-nsys2json.json",
        "42-tb-logdir",
        "x05-containers/riegeli",
    ],
)
def test_what_is_no_trace_gets_one_line(name: str, cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(cases / name), "--no-cache"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1


def test_no_control_character_of_a_name_is_printed(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for analysis in ("ops", "operators", "annotations"):
        assert main(["report", str(cases / "38-unicode.json"), analysis, "--no-cache", "--width", "0"]) == 0
    text = capsys.readouterr().out
    assert not [sign for sign in text if sign != "\n" and (ord(sign) < 32 or "\u202a" <= sign <= "\u202e")]
    assert not [sign for sign in text if "\u2066" <= sign <= "\u2069" or sign in "\u200e\u200f\x7f"]


def test_losses_that_the_profiler_reports_come_first(cases: Path) -> None:
    trace = read(cases / "x01-errors-warnings")
    first, second, *_ = health(trace)
    assert first[2].startswith("the profiler reports an error: Failed to load libcupti")
    assert second[:2] == ("missing", 6_317_194)
    assert any("dropped 6,317,194 events" in text for text in note_texts(analyze(trace, "breakdown").notes))


def test_advice_on_planes_without_events_names_options_that_exist(cases: Path) -> None:
    (said,) = note_texts(analyze(read(cases / "x12-tpu-planes-empty"), "breakdown").notes)
    assert "raise_error_on_start_failure" in said
    assert "device_tracer_level" not in said


def test_a_packed_xplane_and_the_chrome_form(cases: Path) -> None:
    assert kernels(read(cases / "x05-containers" / "gz")) > 0
    for name in ("x06-gpu-trace-json", "x07-perfetto-alone"):
        table = analyze(read(cases / name), "breakdown").table
        assert [round(share, 4) for share in table["communication_share"].to_list()] == [0.2067, 0.2067]


def test_a_clock_that_cannot_be_true_costs_nothing_else(cases: Path) -> None:
    trace = read(cases / "damage" / "basetime-overflow.pt.trace.json")
    assert kernels(trace) == 1
    assert [note.code for note in trace.notes if note.level == "dropped"] == ["clock_impossible"]
    for analysis in ("findings", "stragglers", "distributed", "clocks", "arrivals", "collective_calls"):
        analyze(trace, analysis)
