"""JSON copied through: its events unchanged, curves behind them."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporting import document, job, opened, own, points, rank, rows, written, x
from short import first
from tracehound.diff import compare_runs, profile_run
from tracehound.draw.notes import note_texts
from tracehound.errors import TracehoundError
from tracehound.export import EXPORT_FORMATS
from tracehound.formats.inflate import read_all
from tracehound.model.trace import Trace, Window

US = 1_000_000


def source(path: Path) -> dict:
    found = json.loads(read_all(path)[0])
    return found if isinstance(found, dict) else {"traceEvents": found}


def own_lanes(trace: Trace) -> pl.DataFrame:
    """The lanes of events."""
    return trace.lanes.filter(pl.col("events") > 0)


def test_events_and_facts_are_those_of_the_file(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0))
    found = document(opened(path))
    assert own(found) == rank(0)["traceEvents"]
    assert {**found, "traceEvents": []} == {**rank(0), "traceEvents": []}


def test_every_byte_of_an_event_stays(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0))
    events = re.findall(
        r'\{ "ph"[^}]*\}', odd := '{ "ph":"X", "cat" : "cpu_op","name":"\\u00e9/\\/", "ts":1.50000,"dur":2e0 }'
    )
    path.write_text(path.read_text().replace('"traceEvents": [', f'"traceEvents": [{odd},\n\t{odd},'))
    out = tmp_path / "out.json"
    written(opened(path), out)
    assert out.read_text().count(odd) == 2 * len(events)


def test_curves_are_those_of_the_analyses(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0, at=2**40))
    start = 2.0**40
    assert {
        name: [(at - start, value) for at, value in curve] for name, curve in points(document(opened(path))).items()
    } == {
        (0, "Queue length, stream 7"): [(1, 1), (2, 2), (10, 1), (30, 0)],
        (0, "Copy bandwidth, HtoD"): [(50, 0.5), (52, 0)],
        (0, "Utilization, GPU"): [(10, 100), (20, 12.5), (21, 0), (30, 100), (40, 12.5), (41, 0)],
    }


def test_the_export_reads_back_as_it_was(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(3))
    trace = opened(path)
    told = written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert (told.events, told.curves, told.notes) == (len(rank(3)["traceEvents"]), 3, ())
    assert again.events().collect().equals(trace.events().collect())
    assert own_lanes(again).equals(trace.lanes)
    assert again.ranks.equals(trace.ranks)
    assert again.hosts == trace.hosts
    assert again.origin_ns == trace.origin_ns
    counters = again.lanes.filter(pl.col("role") == "counter")
    assert [
        (name, unit, again.samples(lane).rows()) for lane, name, unit in counters.select("lane", "name", "unit").rows()
    ] == [
        ("Queue length, stream 7", "launches", [(0, 1), (1_000_000, 2), (9_000_000, 1), (29_000_000, 0)]),
        ("Copy bandwidth, HtoD", "GB/s", [(49_000_000, 0.5), (51_000_000, 0)]),
        (
            "Utilization, GPU",
            "%",
            [(9 * US, 100), (19 * US, 12.5), (20 * US, 0), (29 * US, 100), (39 * US, 12.5), (40 * US, 0)],
        ),
    ]
    assert counters["rank"].to_list() == [3, 3, 3]


def test_an_export_of_an_export_is_the_same(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0))
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    written(opened(path), first)
    told = written(opened(first), second)
    assert second.read_bytes() == first.read_bytes()
    assert told.events == len(rank(0)["traceEvents"])


def test_a_run_and_its_export_have_the_same_curves(tmp_path: Path) -> None:
    kernels = [x("kernel", "k", 200 + 10 * n, 5, 0, 7, device=0, stream=7, **{"blocks per SM": 0.5}) for n in range(20)]
    (path,) = job(tmp_path, rank(0, files=kernels))
    trace = opened(path)
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert set(again.lanes.filter(role="counter")["name"]) == {
        *("GPU utilization", "SM efficiency"),
        *("Queue length, stream 7", "Copy bandwidth, HtoD"),
    }
    counters = compare_runs(profile_run(trace, Window()), profile_run(again, Window())).sections[-1]
    assert counters.table.select("counter", "verdict").rows() == [
        ("GPU utilization (%)", "the same"), ("SM efficiency (%)", "the same"),
    ]  # fmt: skip
    assert not counters.notes


def test_counters_of_others_stay(tmp_path: Path) -> None:
    counter = {"ph": "C", "name": "GPU util", "pid": 0, "ts": 105, "args": {"%": 50}}
    (path,) = job(tmp_path, rank(0, files=[counter]))
    assert counter in own(document(opened(path)))


def test_a_trace_without_work_has_no_curves(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    path.write_text(
        json.dumps({"schemaVersion": 1, "traceEvents": [x("cpu_op", "aten::mm", 1, 2)], "deviceProperties": []})
    )
    found = document(opened(path))
    assert found == {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [x("cpu_op", "aten::mm", 1, 2)]}


def test_a_bare_list_becomes_a_document(tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    path.write_text(json.dumps(rank(0)["traceEvents"]))
    found = document(opened(path))
    assert own(found) == rank(0)["traceEvents"]
    assert points(found)


def test_gzip_is_gzip_and_the_same_every_time(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0))
    plain, packed, again = (tmp_path / name for name in ("out.json", "out.json.gz", "again.json.gz"))
    written(opened(path), plain)
    written(opened(path), packed, form="json.gz")
    written(opened(packed), again, form="json.gz")
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert again.read_bytes() == packed.read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ('"dur": 10.125', '"dur": 10.125, "loss": NaN', "NaN"),
        ('"k0"', r'"C:\k0"', "backslash"),
        ("]", "", "no end"),
    ],
)
def test_what_was_damaged_is_sound_and_told_of(tmp_path: Path, old: str, new: str, note: str) -> None:
    (path,) = job(tmp_path, rank(0))
    text = path.read_text()
    path.write_text(new.join(text.rsplit(old, 1)) if new == "" else text.replace(old, new, 1))
    trace = opened(path)
    out = tmp_path / "out.json"
    told = written(trace, out)
    assert any(note in each for each in note_texts(told.notes))
    assert len(own(json.loads(out.read_bytes()))) == len(rank(0)["traceEvents"])
    assert rows(opened(out)) == rows(trace)


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0))
    trace = opened(path)
    path.write_text(json.dumps({**rank(0), "traceEvents": rank(0)["traceEvents"][:4]}))
    with pytest.raises(TracehoundError, match="has changed since it was read"):
        document(trace)


def rerecorded(path: Path) -> None:
    """Another recording under the same name, of as many events and bytes."""
    path.write_text(path.read_text().replace('"k0"', '"z9"'))
    os.utime(path, ns=(0, 0))


@pytest.mark.parametrize("window", [Window(), Window(end=25 * US), Window(ranks=(1,))])
@pytest.mark.parametrize("ranks", first(1, (2, 3)))
def test_another_recording_of_the_same_length_is_an_error(tmp_path: Path, ranks: int, window: Window) -> None:
    paths = job(tmp_path, *map(rank, range(ranks)))
    trace = opened(*paths)
    rerecorded(paths[1])
    with pytest.raises(TracehoundError, match=f"{paths[1].name}: the file has changed since it was read; open it"):
        document(trace, window)
    assert own(document(trace, Window(ranks=(0,)))) == rank(0)["traceEvents"]


def test_a_file_that_changes_while_it_is_copied_is_an_error(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0))
    trace = opened(path)
    with (tmp_path / "out").open("wb") as file, pytest.raises(TracehoundError, match="has changed since it was read"):
        EXPORT_FORMATS[0].write(trace, Window(), file, lambda _: rerecorded(path))


def test_progress_ends_at_the_end(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0))
    told: list[float] = []
    with (tmp_path / "out.json").open("wb") as file:
        EXPORT_FORMATS[0].write(opened(path), Window(), file, told.append)
    assert told == sorted(told)
    assert told[-1] == 1


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
FIELDS = st.dictionaries(
    st.sampled_from(["name", "cat", "args", "id", "s", "extra", "tid"]),
    st.none() | st.integers(-(2**70), 2**70) | TEXT | st.dictionaries(TEXT, FLOATS, max_size=3),
)


@given(
    st.lists(
        st.tuples(FIELDS, st.sampled_from(["X", "i", "C", "s", "f", "M", "b", ""]), st.floats(0, 1e15)), max_size=30
    )
)
def test_whatever_stands_in_a_file_comes_out_unchanged(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple[dict, str, float]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    extra = [{"ph": phase, "ts": ts, "pid": 5, **fields} for fields, phase, ts in found]
    (path,) = job(folder, rank(0, files=extra))
    trace = opened(path)
    out = folder / "out.json"
    written(trace, out)
    assert own(json.loads(out.read_bytes())) == rank(0)["traceEvents"] + extra
    assert rows(opened(out)) == rows(trace)


def read_back(shared: Path, tmp_path: Path, size: int) -> int:
    """Export every real file below that size and read it again; how many there were."""
    files = [path for path in sorted((shared / "traces" / "kineto").rglob("*.json*")) if path.stat().st_size < size]
    for path in files:
        trace = opened(path)
        out = tmp_path / "out.json"
        written(trace, out)
        assert own(json.loads(out.read_bytes())) == source(path)["traceEvents"], path
        again = opened(out)
        assert again.events().collect().equals(trace.events().collect()), path
        assert own_lanes(again).equals(own_lanes(trace)), path
        assert again.ranks.equals(trace.ranks), path
        out.unlink()
    return len(files)


def test_small_real_files_read_back_as_they_were(shared: Path, tmp_path: Path) -> None:
    assert read_back(shared, tmp_path, 300_000) > 10


@pytest.mark.thorough
def test_larger_real_files_read_back_as_they_were(shared: Path, tmp_path: Path) -> None:
    assert read_back(shared, tmp_path, 1_000_000) > 20
