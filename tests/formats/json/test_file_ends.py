from __future__ import annotations

import gzip
import json

import pytest
from msgspec.structs import replace

from tracehound.errors import TracehoundError
from tracehound.formats import CHROME, KINETO
from tracehound.formats.json.json_document import END_SIZE, find_value, read_file_ends
from tracehound.formats.kineto import kineto_reader as kineto
from tracehound.formats.xla_json import trace_json_reader as chrome
from tracehound.model.file_facts import PeekedFacts, ProcessGroup

JOB = {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{"pg_name": "0", "ranks": list(range(8))}]}
AROUND = {
    "deviceProperties": [{"id": 0, "name": "NVIDIA X"}, {"id": 1, "name": "NVIDIA Y"}],
    "distributedInfo": JOB,
    "host_name": "node1",
}
CLAIMS = PeekedFacts(rank=3, world_size=8, backend="nccl", devices=("NVIDIA X", "NVIDIA Y"), host="node1")
MANY = [{"ph": "X", "name": f"event {n}", "ts": n, "dur": 1} for n in range(5000)]


def claims_of(path):
    """The claims of a file beside its events."""
    claims = kineto.read_claims(path)
    return replace(claims, process=None, merged=False, start_ns=None, end_ns=None, wall=False, first_events=())


def host_event(ts, pid=4711):
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": 1, "ts": ts, "dur": 2.5}


def test_events_at_the_ends_claim_the_process_and_the_times(tmp_path):
    events = [{"ph": "M", "name": "process_name", "pid": 1}, host_event(10), host_event(5.5), *MANY, host_event(9000)]
    for name, end in (("t.json", 9_002_500), ("t.json.gz", None)):
        path = tmp_path / name
        data = json.dumps({"baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": events}).encode()
        path.write_bytes(gzip.compress(data) if end is None else data)
        claims = kineto.read_claims(path)
        base = 1_700_000_000_000_000_000
        assert (claims.process, claims.merged, claims.wall) == (4711, False, True)
        assert (claims.start_ns, claims.end_ns) == (base, None if end is None else base + end)
        assert claims.first_events[:2] == (("aten::mm", 10, 2.5), ("aten::mm", 5.5, 2.5))


@pytest.mark.parametrize("pid", ["[TP01] 4711", "rank 1: 4711"])
def test_a_mark_in_the_id_of_a_process_claims_a_merged_file(tmp_path, pid):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"distributedInfo": JOB, "traceEvents": [host_event("10.5", pid)]}))
    claims = kineto.read_claims(path)
    assert (claims.process, claims.merged, claims.rank) == (4711, True, None)
    assert (claims.start_ns, claims.end_ns, claims.wall) == (10_500, 13_000, False)


@pytest.mark.parametrize("broken", [{"ts": None}, {"ts": "soon"}, {"ts": [1]}, {"pid": [1]}, {"pid": 1.5}, {"cat": 3}])
def test_broken_events_claim_no_more_than_they_say(tmp_path, broken):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [{**host_event(10), **broken}]}))
    claims = kineto.read_claims(path)
    assert claims.process in (None, 4711)
    assert claims.start_ns in (None, 10_000)


def test_the_ends_of_a_file_claim_what_it_is(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**AROUND, "traceEvents": MANY}))
    assert path.stat().st_size > 2 * END_SIZE
    assert claims_of(path) == CLAIMS
    path.write_text(json.dumps({"traceEvents": MANY, **AROUND}, indent=1))
    assert claims_of(path) == CLAIMS
    read = KINETO.read(path).facts
    assert (read.backend, read.rank, read.world_size) == ("nccl", 3, 8)
    assert read.groups == (ProcessGroup("0", tuple(range(8))),)


def test_of_gzip_only_the_start_is_read(tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps({**AROUND, "traceEvents": MANY}).encode()))
    assert claims_of(path) == CLAIMS
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": MANY, **AROUND}).encode()))
    assert claims_of(path) == PeekedFacts()


def test_a_list_of_groups_longer_than_the_end_hides_nothing_before_it(tmp_path):
    groups = {**JOB, "pg_config": [{"pg_name": str(n), "ranks": list(range(99))} for n in range(999)]}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"distributedInfo": groups, "traceEvents": MANY}))
    assert claims_of(path) == PeekedFacts(rank=3, world_size=8, backend="nccl")


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("{}", PeekedFacts()),
        ("hello", PeekedFacts()),
        ('{"distributedInfo": 5, "host_name": [1], "deviceProperties": {"a": 1}}', PeekedFacts()),
        (
            '{"distributedInfo": {"rank": "soon", "world_size": "x", "backend": 3}, "deviceProperties": [{"name": 1}]}',
            PeekedFacts(),
        ),
        ('{"distributedInfo": {"rank": 2', PeekedFacts()),
        ('{"distributedInfo": {"rank": 2, "worl', PeekedFacts(rank=2)),
        ('{"distributedInfo": ' + "[" * 50_000, PeekedFacts()),
        ('{"distributedInfo": {"rank": 2}, "host_name": "a\xff\x00b"}', PeekedFacts(rank=2, host="a\ufffd\x00b")),
    ],
)
def test_damage_is_no_error(tmp_path, text, claims):
    path = tmp_path / "t.json"
    path.write_bytes(text.encode("latin-1"))
    assert kineto.read_claims(path) == claims


def test_real_files_claim_what_they_say_when_read(shared):
    paths = [path for path in (shared / "traces" / "kineto").glob("*/*") if path.stat().st_size < 300_000]
    paths = [path for path in paths if path.parent.name != "memory_timeline"]
    claimed = 0
    for path in paths:
        facts, claims = KINETO.read(path).facts, kineto.read_claims(path)
        for claim, fact in ((claims.world_size, facts.world_size), (claims.backend, facts.backend)):
            claimed += claim is not None
            assert claim in (None, fact), path
    assert claimed > 3


def test_what_cannot_be_opened_is_an_error(tmp_path):
    for glance in (kineto.read_claims, chrome.read_claims):
        with pytest.raises(TracehoundError, match="no such file"):
            glance(tmp_path / "none.json")


def test_gzip_cut_short_claims_what_is_left(tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps({**AROUND, "traceEvents": MANY}).encode())[:-5000])
    assert claims_of(path) == CLAIMS


def test_a_file_of_xla_names_its_devices(tmp_path):
    names = ["/device:TPU:0", "/host:CPU", "/device:TPU:1 SparseCore 0", "/device:TPU:1"]
    path = tmp_path / "node7.trace.json.gz"
    events = [{"ph": "M", "pid": n, "name": "process_name", "args": {"name": name}} for n, name in enumerate(names)]
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    assert chrome.read_claims(path) == PeekedFacts(devices=("TPU:0", "TPU:1"), host="node7")
    assert CHROME.read(path).hosts == ("node7",)


def test_a_value_inside_a_string_is_none():
    assert find_value("rank", json.dumps({"name": '"rank": 3'})) is None
    assert find_value("rank", '{"rank" : 3}') == 3


def test_both_ends_of_a_short_file_are_one(tmp_path):
    path = tmp_path / "t"
    path.write_text("short")
    assert read_file_ends(path).text.strip() == "short"
