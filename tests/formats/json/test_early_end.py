"""Lists of events that seem to end early: what follows is kept, or counted where another process wrote it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tracehound.formats import KINETO, WorkerShard, ignore_progress
from tracehound.formats.json.array_window import ChunkSizes
from tracehound.formats.kineto.kineto_reader import build_file_frames, decode_shard
from tracehound.formats.spill import Spill
from tracehound.model.trace import FileFrames, collect_frame

SMALL = ChunkSizes(chunk=1 << 10, segment=4 << 10, preview=1 << 8)


def document(pid: int, events: int, name: str = "k") -> bytes:
    rows = [
        {"ph": "X", "cat": "cpu_op", "name": f"{name}{n}", "pid": pid, "tid": pid, "ts": 10 * n, "dur": 5}
        for n in range(events)
    ]
    head = {"schemaVersion": 1, "distributedInfo": {"rank": 0}}
    return json.dumps({**head, "traceEvents": rows, "traceName": "t.json"}).encode()


def names(frames: FileFrames) -> list[str]:
    return collect_frame(frames.scan.select("name"))["name"].cast(str).to_list()


def codes(frames: FileFrames) -> dict[str, int]:
    return {note.code: note.count for note in frames.notes}


def read_in_shards(path: Path, shards: int) -> FileFrames:
    parts = [decode_shard(path, WorkerShard(n, shards), Spill(), ignore_progress, SMALL) for n in range(shards)]
    return build_file_frames(path, parts, Spill())


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(8))
def test_a_list_that_ends_in_the_middle_keeps_what_follows(seed: int, shards: int, tmp_path: Path) -> None:
    rng, whole = random.Random(seed), document(77, 400)
    first, second = sorted(rng.sample(range(1, len(whole) // 512 - 1), 2))
    blocks = [whole[at : at + 512] for at in range(0, len(whole), 512)]
    blocks[-1], blocks[first] = blocks[first], blocks[-1]
    blocks[second], blocks[-2] = blocks[-2], blocks[second]
    path = tmp_path / "t.pt.trace.json"
    path.write_bytes(b"".join(blocks))
    frames = read_in_shards(path, shards)
    kept = set(names(frames))
    assert len(kept) > 370
    assert kept == set(names(KINETO.read(path)))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("separator", ["\n", ",\n", "\r\n"])
def test_of_a_file_with_one_event_a_line_the_first_is_read_too(separator: str, shards: int, tmp_path: Path) -> None:
    rows = json.loads(document(77, 100))["traceEvents"]
    path = tmp_path / "t.pt.trace.json"
    path.write_text(separator.join(map(json.dumps, rows)))
    frames = read_in_shards(path, shards)
    assert sorted(names(frames)) == sorted(row["name"] for row in rows)
    assert codes(frames) == {"events_without_bracket": 1}
    path.write_text(path.read_text()[:-9])
    assert {"events_without_end", "event_cut_off"} < set(codes(read_in_shards(path, shards)))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("longer", [120, 1000])
def test_remains_of_another_process_are_counted_and_not_read(longer: int, shards: int, tmp_path: Path) -> None:
    short, long = document(77, 100), document(99, longer, "other")
    path = tmp_path / "t.pt.trace.json"
    path.write_bytes(short + long[len(short) :])
    frames = read_in_shards(path, shards)
    assert set(names(frames)) == {f"k{n}" for n in range(100)}
    left = long[len(short) :].count(b'"ph"')
    assert codes(frames)["events_of_another_recording"] in (left, left - 1)


def test_metadata_before_the_events_that_follow_an_early_end_is_kept(tmp_path: Path) -> None:
    whole = document(77, 50).replace(b'"distributedInfo": {"rank": 0}, ', b"")
    cut = whole.index(b', {"ph"', len(whole) // 2)
    path = tmp_path / "t.pt.trace.json"
    path.write_bytes(whole[:cut] + b'], "distributedInfo": {"rank": 5}}' + whole[cut + 2 :])
    frames = KINETO.read(path)
    assert len(names(frames)) == 50
    assert frames.ranks["rank"].to_list() == [5]


def test_events_among_the_metadata_of_a_sound_file_are_none(tmp_path: Path) -> None:
    whole = document(77, 50)[:-1] + b', "more": [{"ph": "X", "name": "no event", "pid": 77, "ts": 3}]}'
    path = tmp_path / "t.pt.trace.json"
    path.write_bytes(whole)
    assert len(names(KINETO.read(path))) == 50


def test_cases_of_files_that_end_early(shared: Path) -> None:
    kept = KINETO.read(shared / "cases" / "damage" / "end-in-the-middle.pt.trace.json")
    assert sum(name.startswith("nvjet") for name in names(kept)) >= 58
    other = KINETO.read(shared / "cases" / "20-two-ranks-one-file.json")
    assert codes(other)["events_of_another_recording"] == 81
