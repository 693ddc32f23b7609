"""No number in a file breaks an analysis: each is replaced by extreme ones, in a small file of every format."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import polars as pl
import polars.selectors as cs
import pytest

from extremes import BASE, Mutation, chrome, in_json, in_wire, kineto, memory_timeline, xplane
from tracehound.analysis import ANALYSES, Analysis, Options, get_analysis, run_analysis
from tracehound.draw.notes import render_note_columns
from tracehound.errors import TracehoundError
from tracehound.formats.value_bounds import CLOCK_IMPOSSIBLE, LATEST_WALL_CLOCK_NS, MAX_DISTANCE_NS
from tracehound.model.trace import Trace, collect_frame
from tracehound.store import load_trace, open_trace_files
from xspaces import Event, Line, Plane, Stat, space


class Sample(NamedTuple):
    """A sound file: what it is called, its bytes, and what may become of it."""

    name: str
    data: bytes
    mutations: Callable[[], Iterator[Mutation]]


def of_json(name: str, document: object) -> Sample:
    return Sample(name, json.dumps(document).encode(), lambda: in_json(document))


SAMPLES = {
    "kineto": of_json("t.pt.trace.json", kineto()),
    "memory timeline": of_json("memory.raw.json", memory_timeline()),
    "chrome": of_json("vm.trace.json.gz", chrome()),
    "xplane": Sample("vm.xplane.pb", xplane(), lambda: in_wire(xplane())),
}


def read(folder: Path, name: str, data: bytes) -> Trace:
    path = folder / name
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return load_trace(open_trace_files([path]))


def said(trace: Trace) -> set[tuple[Any, ...]]:
    return set(
        render_note_columns(run_analysis(get_analysis("health"), trace)).table.select("level", "what", "count").rows()
    )


def recorded(trace: Trace) -> tuple[int, int]:
    """How many events of files a trace has, and how many samples of counters, or of memory.

    In an xplane these have names of their own, and are none without them.
    """
    events = collect_frame(trace.events().select(pl.col("record").drop_nulls().n_unique())).item()
    rows = [collect_frame(facets["allocated"]).height for facets in trace.facets if "allocated" in facets]
    (part,) = trace.parts
    samples = {"chrome": trace.counters.height, "xplane": 0}
    return events, samples.get(part.format, sum(rows))


def contents(trace: Trace) -> str:
    """All that analyses see, but for the notes."""
    facets = [collect_frame(facet) for each in trace.facets for facet in each.values()]
    frames = [collect_frame(trace.events()), trace.lanes, trace.ranks, trace.steps, trace.ops, trace.counters, *facets]
    rows = [frame.with_columns(cs.categorical().cast(pl.String)).rows() for frame in frames]
    return repr((rows, [(part.wall_ns, part.facts) for part in trace.parts], trace.hosts))


OVERLAPPING = ("ops.time_share", "hlo_ops.time_share", "findings.share")
"""Shares of a time in which several things may run at once: events of one stream, of which one lasts too long."""


def check_result(analysis: Analysis, trace: Trace) -> None:
    """The analysis answers, with times and shares that can be true."""
    for given in ((), *((("by", by),) for by in analysis.columns_by_setting)):
        result = run_analysis(analysis, trace, options=Options(None, given))
        for column in result.columns:
            values = result.table[column.name].drop_nulls()
            if column.unit in ("time", "share", "rate", "count", "decimal") and len(values):
                where = f"{analysis.name}.{column.name}"
                if values.dtype.is_float():
                    assert values.is_finite().all(), where
                assert column.name == "step" or values.min() >= 0, (
                    f"{where}: only the number that a file gives a step may be"
                )
                assert column.unit != "share" or where in OVERLAPPING or values.max() <= 1.000001, where
            if column.unit == "bytes" and len(values):
                assert values.min() > -(1 << 60), f"{analysis.name}.{column.name}"


def check(
    folder: Path, sample: Sample, mutation: Mutation, sound: Trace, analyses: Sequence[Analysis], seen: set[str]
) -> None:
    try:
        trace = read(folder, sample.name, mutation.data())
    except TracehoundError as error:
        if re.search(r"cannot be read: \w+Error", str(error)):  # an exception that no reader expected
            raise
        return
    fewer = [now < before for now, before in zip(recorded(trace), recorded(sound), strict=True)]
    assert not any(fewer) or said(trace) - said(sound), "lost without a note"
    if (found := contents(trace)) not in seen:
        seen.add(found)
        for analysis in analyses:
            check_result(analysis, trace)


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_number_of_a_file_may_be_extreme(kind: str, tmp_path: Path) -> None:
    """Some numbers, and some of the analyses for each."""
    sample, random = SAMPLES[kind], Random(7)
    sound, seen = read(tmp_path, sample.name, sample.data), set[str]()
    for mutation in random.sample(list(sample.mutations()), 4):
        try:
            check(tmp_path, sample, mutation, sound, random.sample(ANALYSES, 3), seen)
        except Exception as error:
            raise AssertionError(f"{mutation.where} = {mutation.extreme}") from error


@pytest.mark.thorough
@pytest.mark.parametrize("kind", SAMPLES)
def test_each_number_of_a_file_may_be_extreme(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All analyses: of a sample of the numbers, or with ``--every-extreme`` of each, which takes hours."""
    sample = SAMPLES[kind]
    sound, seen, wrong = read(tmp_path, sample.name, sample.data), set[str](), list[str]()
    mutations = list(sample.mutations())
    if not request.config.getoption("--every-extreme"):
        mutations = Random(8).sample(mutations, min(len(mutations), 3))
    for mutation in mutations:
        try:
            check(tmp_path, sample, mutation, sound, ANALYSES, seen)
        except Exception as error:  # noqa: BLE001  # all of them are told together
            wrong.append(f"{mutation.where} = {mutation.extreme}: {type(error).__name__}: {error}"[:200])
    assert not wrong


def kernels(folder: Path, *lengths: float, **around: object) -> Trace:
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1e6 + at, "dur": length,
         "args": {"device": 0, "stream": 7 + at}}
        for at, length in enumerate(lengths)
    ]  # fmt: skip
    document = {"schemaVersion": 1, **around, "traceEvents": events}
    return read(folder, "t.pt.trace.json", json.dumps(document).encode())


@pytest.mark.parametrize("device", [1 << 31, (1 << 63) - 1, (1 << 64) - 1])
def test_memory_of_a_device_that_there_cannot_be(device: int, tmp_path: Path) -> None:
    args = {"Bytes": 10, "Device Type": 1, "Device Id": device, "Addr": 1}
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": args}
    document = {"schemaVersion": 1, "traceEvents": [event]}
    trace = read(tmp_path, "t.pt.trace.json", json.dumps(document).encode())
    assert collect_frame(trace.facets[0]["allocated"])["device"].to_list() == [0]


def clocks_refused(trace: Trace) -> list[str]:
    return [note.location_text for note in trace.notes if note.code == CLOCK_IMPOSSIBLE]


ON_CLOCKS = ("findings", "stragglers", "distributed", "clocks", "arrivals", "collective_calls", "overview")


def test_all_but_a_wall_clock_that_cannot_be_true_is_told_as_always(tmp_path: Path) -> None:
    sound, trace = kernels(tmp_path, 10), kernels(tmp_path, 10, baseTimeNanoseconds=(1 << 63) - 1)
    for name in ON_CLOCKS:
        assert run_analysis(get_analysis(name), trace).table.equals(run_analysis(get_analysis(name), sound).table), name


@pytest.mark.parametrize("base", [(1 << 63) - 1, LATEST_WALL_CLOCK_NS, 1 << 53, (1 << 64) - 1, -1, "soon"])
def test_a_wall_clock_of_pytorch_that_cannot_be_true(base: object, tmp_path: Path) -> None:
    trace = kernels(tmp_path, 10, baseTimeNanoseconds=base)
    assert (trace.origin_ns, clocks_refused(trace)) == (None, ["t.pt.trace.json, baseTimeNanoseconds"])


@pytest.mark.parametrize("base", [None, 0, BASE])
def test_a_wall_clock_that_can_be_true_or_is_not_told(base: int | None, tmp_path: Path) -> None:
    trace = kernels(tmp_path, 10, **({} if base is None else {"baseTimeNanoseconds": base}))
    assert trace.origin_ns == (base + 10**9 if base else None)
    assert not clocks_refused(trace)


@pytest.mark.parametrize("start", [(1 << 63) - 1, (1 << 64) - 1, LATEST_WALL_CLOCK_NS + 1, 1 << 53, -1])
def test_a_wall_clock_of_xla_that_cannot_be_true(start: int, tmp_path: Path) -> None:
    device = Plane("/device:TPU:0", [Line("XLA Ops", [Event("%a = f32[] add(%x)", 0, 5)])])
    environment = Plane("Task Environment", stats=[Stat("profile_start_time", 3, start)])
    trace = read(tmp_path, "vm.xplane.pb", space(environment, device))
    assert (trace.origin_ns, clocks_refused(trace)) == (None, ["vm.xplane.pb, profile_start_time"])
    assert run_analysis(get_analysis("clocks"), trace).table.height == 0


def test_a_line_whose_time_is_damaged_takes_no_others_with_it(tmp_path: Path) -> None:
    events = [Event(f"op{at}", 10 * at, 5) for at in range(3)]
    lines = [Line("python", events, 1, BASE), Line("damaged", events[:1], 2, -(1 << 63))]
    trace = read(tmp_path, "vm.xplane.pb", space(Plane("/host:CPU", lines)))
    assert trace.lanes["events"].to_list() == [3]
    assert trace.origin_ns == BASE
    assert ("dropped", "damaged events", 1) in said(trace)


def test_lengths_that_cannot_be_true_are_in_no_sum(tmp_path: Path) -> None:
    day = MAX_DISTANCE_NS // 1000
    trace = kernels(tmp_path, 10, *[40 * day] * 3, day, day // 2)
    table = run_analysis(get_analysis("kernels"), trace).table
    assert table.select("count", "total").rows() == [(2, (day // 2 + 10) * 10**6)]
    assert ("dropped", "events that last a day, or are a day from the others", 4) in said(trace)


@pytest.mark.parametrize("kept", [1, 3])
def test_of_two_halves_days_apart_one_is_kept(tmp_path: Path, kept: int) -> None:
    two_days = 2 * MAX_DISTANCE_NS // 1000
    starts = [100 * (row + 1) for row in range(kept)]
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": ts, "dur": 5}
        for ts in (*starts, *(two_days + start for start in starts))
    ]
    trace = read(tmp_path, "rank0.json", json.dumps({"schemaVersion": 1, "traceEvents": events}).encode())
    assert collect_frame(trace.events()).height == kept
    assert ("dropped", "events that last a day, or are a day from the others", kept) in said(trace)


def test_clocks_of_devices_that_cannot_be_true(tmp_path: Path) -> None:
    odd = [(1 << 62, 5), (5, 1 << 62), (5, -1), (-(1 << 63), 0)]
    events = [
        Event(
            "%a = f32[] add(%x)",
            10 * at,
            5,
            [Stat("device_offset_ps", 4, offset), Stat("device_duration_ps", 4, length)],
        )
        for at, (offset, length) in enumerate([*odd, (70, 4)])
    ]
    trace = read(tmp_path, "vm.xplane.pb", space(Plane("/device:TPU:0", [Line("XLA Ops", events)])))
    told = collect_frame(trace.events()).select("device_start", "device_end").rows()
    assert told == [(None, None)] * 4 + [(70, 74)]
    assert [(note.level, note.count) for note in trace.notes if note.code == CLOCK_IMPOSSIBLE] == [("dropped", 4)]


def test_free_memory_below_zero_makes_no_share(tmp_path: Path) -> None:
    """An allocator's free memory is -1 in every event: of such a capacity nothing is a share."""
    sample = SAMPLES["xplane"]
    (mutation,) = (each for each in sample.mutations() if (each.where, each.extreme) == ("stat 13 4, 5 of 5", -1))
    rows = run_analysis(get_analysis("allocator"), read(tmp_path, sample.name, mutation.data())).table
    assert (rows.height, rows["share"].to_list()) == (1, [None])
