from __future__ import annotations

import gzip
import json

import pytest

from tracehound.errors import TracehoundError
from tracehound.file_facts import Claims, ProcessGroup
from tracehound.formats import CHROME, KINETO
from tracehound.formats.chrome import reader as chrome
from tracehound.formats.json.glance import END, ends, value_of
from tracehound.formats.kineto import reader as kineto

JOB = {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{"pg_name": "0", "ranks": list(range(8))}]}
AROUND = {
    "deviceProperties": [{"id": 0, "name": "NVIDIA X"}, {"id": 1, "name": "NVIDIA Y"}],
    "distributedInfo": JOB,
    "host_name": "node1",
}
CLAIMS = Claims(rank=3, world_size=8, backend="nccl", devices=("NVIDIA X", "NVIDIA Y"), host="node1")
MANY = [{"ph": "X", "name": f"event {n}", "ts": n, "dur": 1} for n in range(5000)]


def test_the_ends_of_a_file_claim_what_it_is(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**AROUND, "traceEvents": MANY}))
    assert path.stat().st_size > 2 * END
    assert kineto.glance(path) == CLAIMS
    path.write_text(json.dumps({"traceEvents": MANY, **AROUND}, indent=1))
    assert kineto.glance(path) == CLAIMS
    read = KINETO.read(path).facts
    assert (read.backend, read.rank, read.world_size) == ("nccl", 3, 8)
    assert read.groups == (ProcessGroup("0", tuple(range(8))),)


def test_of_gzip_only_the_start_is_read(tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps({**AROUND, "traceEvents": MANY}).encode()))
    assert kineto.glance(path) == CLAIMS
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": MANY, **AROUND}).encode()))
    assert kineto.glance(path) == Claims()


def test_a_list_of_groups_longer_than_the_end_hides_nothing_before_it(tmp_path):
    groups = {**JOB, "pg_config": [{"pg_name": str(n), "ranks": list(range(99))} for n in range(999)]}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"distributedInfo": groups, "traceEvents": MANY}))
    assert kineto.glance(path) == Claims(rank=3, world_size=8, backend="nccl")


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("{}", Claims()),
        ("hello", Claims()),
        ('{"distributedInfo": 5, "host_name": [1], "deviceProperties": {"a": 1}}', Claims()),
        (
            '{"distributedInfo": {"rank": "soon", "world_size": "x", "backend": 3}, "deviceProperties": [{"name": 1}]}',
            Claims(),
        ),
        ('{"distributedInfo": {"rank": 2', Claims()),
        ('{"distributedInfo": {"rank": 2, "worl', Claims(rank=2)),
        ('{"distributedInfo": ' + "[" * 50_000, Claims()),
        ('{"distributedInfo": {"rank": 2}, "host_name": "a\xff\x00b"}', Claims(rank=2, host="a\ufffd\x00b")),
    ],
)
def test_damage_is_no_error(tmp_path, text, claims):
    path = tmp_path / "t.json"
    path.write_bytes(text.encode("latin-1"))
    assert kineto.glance(path) == claims


def test_real_files_claim_what_they_say_when_read(shared):
    paths = [path for path in (shared / "traces" / "kineto").glob("*/*") if path.stat().st_size < 300_000]
    claimed = 0
    for path in paths:
        facts, claims = KINETO.read(path).facts, kineto.glance(path)
        for claim, fact in ((claims.world_size, facts.world_size), (claims.backend, facts.backend)):
            claimed += claim is not None
            assert claim in (None, fact), path
    assert claimed > 3


def test_what_cannot_be_opened_is_an_error(tmp_path):
    for glance in (kineto.glance, chrome.glance):
        with pytest.raises(TracehoundError, match="no such file"):
            glance(tmp_path / "none.json")


def test_gzip_cut_short_claims_what_is_left(tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps({**AROUND, "traceEvents": MANY}).encode())[:-5000])
    assert kineto.glance(path) == CLAIMS


def test_a_file_of_xla_names_its_devices(tmp_path):
    names = ["/device:TPU:0", "/host:CPU", "/device:TPU:1 SparseCore 0", "/device:TPU:1"]
    path = tmp_path / "node7.trace.json.gz"
    events = [{"ph": "M", "pid": n, "name": "process_name", "args": {"name": name}} for n, name in enumerate(names)]
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    assert chrome.glance(path) == Claims(devices=("TPU:0", "TPU:1"), host="node7")
    assert CHROME.read(path).hosts == ("node7",)


def test_a_value_inside_a_string_is_none():
    assert value_of("rank", json.dumps({"name": '"rank": 3'})) is None
    assert value_of("rank", '{"rank" : 3}') == 3


def test_both_ends_of_a_short_file_are_one(tmp_path):
    path = tmp_path / "t"
    path.write_text("short")
    assert ends(path).strip() == "short"
