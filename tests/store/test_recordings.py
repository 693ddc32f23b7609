"""Folders that have the same processes more than once: other recordings, copies, derived and merged files."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs import Rank
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files
from tracehound.store.merge_files import not_one_run_note

KERNELS = 20

Document = dict[str, Any]


def document(rank: int, start: int = 0, *, pid: int | None = None, kernels: int = KERNELS, seed: int = 0) -> Document:
    """What a rank writes that launches kernels from `start` (us) on; other seeds have other times."""
    drawn, made, at = random.Random(1000 * seed + rank), Rank(rank), start
    for number in range(kernels):
        length = drawn.randrange(5, 30)
        made.kernel(f"kernel_{number % 7}", at, at + 3, at + 3 + length)
        at += length + drawn.randrange(5, 20)
    written = made.document()
    for event in written["traceEvents"]:
        if event["cat"] == "cuda_runtime":
            event["pid"] = pid or 4100 + rank
    return written


def padded(written: Document) -> Document:
    """The document with so much before its events that they are not seen before the file is read."""
    events = written["traceEvents"]
    return {**without(written, "traceEvents"), "deviceProperties": [], "padding": "x" * 65_000, "traceEvents": events}


def write(path: Path, written: Document | list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(written).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def opened(*paths: Path, run: str | None = None) -> Trace:
    return load_trace(open_trace_files(list(paths), run))


def kernels(trace: Trace) -> int:
    return int(trace.lanes.filter("work")["events"].sum())


def ranks(trace: Trace) -> list[int]:
    found: list[int] = trace.ranks["rank"].to_list()
    return found


def told(trace: Trace, code: str) -> list[str]:
    return [note_text(note) for note in trace.notes if note.code == code]


def without(written: Document, *keys: str) -> Document:
    return {key: value for key, value in written.items() if key not in keys}


STAGES = ("PREFILL", "DECODE")
LATER = 500_000


def write_stages(folder: Path, name: str, change: Callable[[Document], Document] = lambda each: each) -> None:
    """Two recordings of two ranks: the first with 20 kernels of a rank, the second with 8."""
    for rank in (0, 1):
        write(folder / name.format(rank=rank, stage=STAGES[0], step=100), change(document(rank)))
        second = document(rank, LATER, kernels=8, seed=1)
        write(folder / name.format(rank=rank, stage=STAGES[1], step=200), change(second))


@pytest.mark.parametrize("change", [lambda each: each, padded, lambda each: without(each, "distributedInfo")])
@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("17.5-TP-{rank}-{stage}.trace.json.gz", STAGES),
        ("{stage}_rank{rank}.json", STAGES),
        ("ep0-ba{step}-rank{rank}.json", ("ba100", "ba200")),
        ("rank{rank}.{step}.pt.trace.json.gz", ("100", "200")),
        ("rank{rank}/step_{step}.json", ("100", "200")),
        ("17{step}.5-TP-{rank}.trace.json.gz", ("17100", "17200")),
    ],
)
def test_other_recordings_of_the_same_ranks_are_not_counted_with_the_newest(
    tmp_path: Path, name: str, names: tuple[str, str], change: Callable[[Document], Document]
) -> None:
    write_stages(tmp_path, name, change)
    trace = opened(tmp_path)
    assert (ranks(trace), kernels(trace)) == ([0, 1], 16)
    (note,) = told(trace, "older_recordings")
    assert f"({names[0]}; opened: {names[1]})" in note
    first = opened(tmp_path, run=names[0])
    assert (ranks(first), kernels(first)) == ([0, 1], 40)
    assert kernels(opened(tmp_path, run=names[1])) == 16
    with pytest.raises(TracehoundError, match=f"no run 'third'; there are {names[0]}, {names[1]}"):
        open_trace_files([tmp_path], "third")


def test_the_recording_with_most_ranks_is_opened(tmp_path: Path) -> None:
    write_stages(tmp_path, "TP-{rank}-{stage}.json")
    (tmp_path / "TP-1-DECODE.json").unlink()
    trace = opened(tmp_path)
    assert (ranks(trace), kernels(trace)) == ([0, 1], 40)
    assert "(DECODE; opened: PREFILL)" in told(trace, "newer_recordings")[0]
    assert ranks(opened(tmp_path, run="DECODE")) == [0]


def test_named_files_of_several_recordings_are_all_opened_and_doubted(tmp_path: Path) -> None:
    write_stages(tmp_path, "TP-{rank}-{stage}.json")
    trace = opened(*sorted(tmp_path.iterdir()))
    assert len(ranks(trace)) == 4
    note = not_one_run_note(trace)
    assert note is not None
    assert "do not overlap in time" in note_text(note)


def test_processes_of_other_containers_may_have_equal_ids(tmp_path: Path) -> None:
    """Two engines, each with a rank 0 of its own, which run at the same time."""
    for change in (padded, lambda each: each):
        for engine in ("a", "b"):
            written = document(0, 10 if engine == "b" else 0, pid=7, seed=ord(engine))
            write(tmp_path / f"engine-{engine}.json.gz", change(written))
        trace = opened(tmp_path)
        assert (len(ranks(trace)), kernels(trace)) == (2, 2 * KERNELS)
        assert not told(trace, "copies_left_out")
        assert not told(trace, "older_recordings")


def merged(marked: Callable[[int, object], object], *parts: Document) -> Document:
    """One file of the events of several ranks, with the ids of their processes changed."""
    events = [
        {**event, "pid": marked(rank, event["pid"])} for rank, part in enumerate(parts) for event in part["traceEvents"]
    ]
    return {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}


@pytest.mark.parametrize("change", [lambda each: each, padded])
@pytest.mark.parametrize(
    ("name", "marked"),
    [
        ("merged-17.5.trace.json.gz", lambda rank, pid: f"[TP{rank:02}] {pid}"),
        ("all.json", lambda rank, pid: f"rank {rank}: {pid}"),
        ("0.json", lambda rank, pid: f"[DP00-TP{rank:02}] {pid}"),
    ],
)
def test_a_merged_file_is_not_counted_beside_its_parts(
    tmp_path: Path, name: str, marked: Callable[[int, object], object], change: Callable[[Document], Document]
) -> None:
    parts = [document(rank) for rank in (0, 1)]
    for rank, part in enumerate(parts):
        write(tmp_path / f"17.5-TP-{rank}.trace.json.gz", change(part))
    whole = write(tmp_path / name, change(merged(marked, *parts)))
    trace = opened(tmp_path)
    assert (ranks(trace), kernels(trace)) == ([0, 1], 2 * KERNELS)
    assert [note.file for note in trace.notes if note.code == "copies_left_out"] in ([name], [str(whole)])
    assert kernels(opened(whole)) == 2 * KERNELS
    (tmp_path / "17.5-TP-1.trace.json.gz").unlink()
    trace = opened(tmp_path)
    assert kernels(trace) == 2 * KERNELS, "a merged file has more ranks than the files beside it"


@pytest.mark.parametrize("kinds", [("kernel", "cuda_runtime"), ("kernel",)])
def test_a_merged_file_may_have_other_ids_of_processes_and_fewer_events(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    parts = [document(rank) for rank in (0, 1)]
    for rank, part in enumerate(parts):
        for event in part["traceEvents"]:
            if event["cat"] == "kernel":
                event["args"]["device"] = rank
        write(tmp_path / f"profile_rank{rank}_step120.json", part)
    whole = merged(lambda rank, pid: 10**7 * rank + int(str(pid)), *parts)
    whole["traceEvents"] = [event for event in whole["traceEvents"] if event["cat"] in kinds]
    write(tmp_path / "merged_trace.json", whole)
    trace = opened(tmp_path)
    assert (ranks(trace), kernels(trace)) == ([0, 1], 2 * KERNELS)
    assert told(trace, "copies_left_out")


def with_counters(written: Document) -> Document:
    samples = [{"ph": "C", "name": "Queue", "pid": 0, "ts": at, "args": {"length": at % 5}} for at in range(50)]
    return {**written, "traceEvents": [*written["traceEvents"], *samples]}


def with_some_events(written: Document) -> Document:
    return {**written, "traceEvents": written["traceEvents"][6:-4]}


@pytest.mark.parametrize("change", [lambda each: each, padded])
@pytest.mark.parametrize(
    ("derived", "made"),
    [
        ("rank0_with_counters.json.gz", with_counters),
        ("overlaid_critical_path_rank0.json", with_some_events),
        ("critical_path.json", with_some_events),
        ("rank0 (1).json", lambda each: each),
        ("rank0 copy.json.gz", lambda each: each),
        ("rank0.json.1", lambda each: each),
    ],
)
def test_what_was_made_of_a_file_is_not_counted_beside_it(
    tmp_path: Path,
    derived: str,
    made: Callable[[Document], Document],
    change: Callable[[Document], Document],
) -> None:
    for rank in (0, 1):
        write(tmp_path / f"rank{rank}.json", change(document(rank)))
    write(tmp_path / derived, change(made(document(0))))
    trace = opened(tmp_path)
    assert (ranks(trace), kernels(trace)) == ([0, 1], 2 * KERNELS)
    assert told(trace, "copies_left_out") == ["the same events as rank0.json, a copy or made from it: not counted"]
    named = opened(tmp_path / "rank0.json", tmp_path / derived)
    assert kernels(named) == KERNELS, "also if both are named"


def test_equal_files_whose_names_tell_ranks_apart_are_ranks(tmp_path: Path) -> None:
    first = write(tmp_path / "rank0.json", without(document(0), "distributedInfo"))
    for name in ("rank1.json", "rank2.json"):
        shutil.copy(first, tmp_path / name)
    (tmp_path / "rank3.json").symlink_to(first)
    trace = opened(tmp_path)
    assert (ranks(trace), kernels(trace)) == ([0, 1, 2, 3], 4 * KERNELS)
    assert told(trace, "equal_files")


def test_recordings_apart_in_time_by_two_processes_are_doubted(tmp_path: Path) -> None:
    """A job that was started again: the same rank of another process, later."""
    write(tmp_path / "first.json", document(0))
    write(tmp_path / "second.json", document(0, 3_600_000_000, pid=9000))
    trace = opened(tmp_path)
    assert len(ranks(trace)) == 2
    assert not_one_run_note(trace) is not None


def test_ranks_whose_clocks_are_apart_are_one_run(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", document(0))
    write(tmp_path / "rank1.json", document(1, 3_600_000_000))
    assert not_one_run_note(opened(tmp_path)) is None


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("15-sglang-by-stage", ([0, 1], 16)),
        ("16-merged-beside", ([0, 1], 64)),
        ("17-both-forms", ([0], 32)),
        ("19-download-copy", ([0, 1], 64)),
        ("13-megatron-layout/pytorch_profile", ([0, 1], 64)),
        ("14-vllm-dp", ([0, 1, 2, 3], 128)),
        ("48a-accelerate", ([0, 1, 2], 48)),
        ("48c-dynolog", ([0, 1, 2], 48)),
        ("48e-nodes", ([0, 1, 2, 3], 64)),
        ("48f-trtllm", ([0, 1], 32)),
        ("48g-tb", ([0, 1], 32)),
        ("48h-tp-pp", ([0, 1, 2, 3], 64)),
        ("x07-perfetto-alone", ([0, 1], None)),
        ("x13-two-stamps", ([0, 1], None)),
        ("x04-partial-hosts", ([0, 1], None)),
        ("05-ascend-dir", ([0, 1], None)),
    ],
)
def test_folders_that_users_meet(shared: Path, case: str, expected: tuple[list[int], int | None]) -> None:
    if not (shared / "cases" / case).exists():
        pytest.skip("no such case")
    trace = opened(shared / "cases" / case)
    assert ranks(trace) == expected[0]
    if expected[1] is not None:
        assert kernels(trace) == expected[1]
