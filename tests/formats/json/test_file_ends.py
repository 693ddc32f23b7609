from __future__ import annotations

import gzip
import json

import pytest

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


def test_the_ends_of_a_file_claim_what_it_is(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**AROUND, "traceEvents": MANY}))
    assert path.stat().st_size > 2 * END_SIZE
    assert kineto.read_claims(path) == CLAIMS
    path.write_text(json.dumps({"traceEvents": MANY, **AROUND}, indent=1))
    assert kineto.read_claims(path) == CLAIMS
    read = KINETO.read(path).facts
    assert (read.backend, read.rank, read.world_size) == ("nccl", 3, 8)
    assert read.groups == (ProcessGroup("0", tuple(range(8))),)


def test_of_gzip_only_the_start_is_read(tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps({**AROUND, "traceEvents": MANY}).encode()))
    assert kineto.read_claims(path) == CLAIMS
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": MANY, **AROUND}).encode()))
    assert kineto.read_claims(path) == PeekedFacts()


def test_a_list_of_groups_longer_than_the_end_hides_nothing_before_it(tmp_path):
    groups = {**JOB, "pg_config": [{"pg_name": str(n), "ranks": list(range(99))} for n in range(999)]}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"distributedInfo": groups, "traceEvents": MANY}))
    assert kineto.read_claims(path) == PeekedFacts(rank=3, world_size=8, backend="nccl")


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
    assert kineto.read_claims(path) == CLAIMS


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
    assert read_file_ends(path).strip() == "short"
