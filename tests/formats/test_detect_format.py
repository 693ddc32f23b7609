from __future__ import annotations

import gzip
import io
import pickle
import tarfile

import pytest

from tracehound.errors import TracehoundError
from tracehound.formats import FORMATS, detect_format
from tracehound.formats.file_signatures import CompanionFileError


@pytest.fixture
def file(tmp_path):
    def write(data: bytes, name: str = "x"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


KINETO = b'{"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}'
LEGACY = b'[{"name": "aten::add", "ph": "X", "ts": 1.5, "dur": 2, "tid": 1, "pid": "CPU functions", "args": {}}]'
LIST = b'[\n {"ph": "X", "cat": "Operator", "name": "a", "ts": 1, "dur": 1}]'
CHROME = (
    b'{"displayTimeUnit":"ns","traceEvents":[{"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}}]}'
)


@pytest.mark.parametrize(
    ("data", "name"), [(KINETO, "kineto"), (LIST, "kineto"), (LEGACY, "kineto"), (CHROME, "chrome")]
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_content_tells_the_format_and_names_do_not(file, data, name, pack):
    assert detect_format(file(pack(data), "trace.xplane.pb")).name == name


def test_formats_have_names_of_their_own():
    assert len({each.name for each in FORMATS}) == len(FORMATS) == 4


CLOCKS = b"\n\x0e\x18\xe8\x07\x32\x07\n\x05\x08\x06\x10\x80\x01\x50\x01"
TRACK = b"\n\x0b\x40\x80\x01\x50\x01\x5a\x04\x48\x01\x58\x07"
"""Packets of Perfetto: clocks by a user, an event of a track with its time."""


def tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"schema": "1.0.1", "nodes": []}', "execution trace"),
        (b"[[1795230314076911, 17952], [[0]]]", "memory timeline"),
        (b'[{"ph":"B","name":"a","ts":1}]', "begin and end events"),
        (b'{"traceEvents":[{"ph":"X","name":"a","ts":1,"cat":"v8"}]}', "neither PyTorch nor XLA"),
        (b'{"a": 1}', "JSON without trace events"),
        (b"PK\x03\x04zip", "zip archive"),
        (gzip.compress(gzip.compress(KINETO)), "a gzip file inside another; unpack it once"),
        (b'{"schema":"tracehound.profile/1","name":"x"}', "baseline: what was measured .*tracehound diff"),
        (b"\x28\xb5\x2f\xfdzstd", "zstd"),
        (b"SQLite format 3\x00", "SQLite"),
        (CLOCKS + TRACK, "a Perfetto trace in its own form"),
        (CLOCKS, "Perfetto"),
        (CLOCKS[:-1], "unknown kind"),
        (b"\n\x05{hello" + TRACK, "unknown kind"),
        (pickle.dumps({}), "pickle"),
        (b"\n\x04\x08\x01\x10\x02\n\x04\x08\x03\x10\x04\x12\x16\n\x02\x01\x02", "pprof"),
        (tar(), "tar archive"),
        (b"HloModule jit_f", "HLO text"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"hello\nworld\n", "text file"),
        (b'"""Writes a trace."""\nHEAD = \'{"schemaVersion": 1, "traceEvents": [\'', "text file"),
        (b"  \n ", "blanks"),
        (KINETO.decode().encode("utf-16"), "UTF-16 text; convert it to UTF-8"),
        (b"\xfe\xff" + KINETO.decode().encode("utf-16-be"), "UTF-16"),
        (LIST.decode().encode("utf-16-le"), "UTF-16"),
        (LIST.decode().encode("utf-16-be"), "UTF-16"),
        (KINETO.decode().encode("utf-32"), "unknown kind"),
        (b"\x00\x01\x02", "unknown kind"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_trace_is_named_in_one_line(file, data, words):
    with pytest.raises(TracehoundError, match=words) as error:
        detect_format(file(data))
    assert "\n" not in str(error.value)
    assert error.value.code == 2


KERNELS = b",".join(b'{"ph":"X","cat":"kernel","name":"k%d","ts":%d}' % (n, n * n) for n in range(999))
EVENTS = KINETO.replace(b"[]}", b"[" + KERNELS + b"]}")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(EVENTS)[:18], "byte 18: gzip ends early, and nothing before that could be read; copy it again"),
        (gzip.compress(EVENTS)[:5], "byte 5: gzip ends early, and nothing before that could be read"),
        (gzip.compress(EVENTS, 0)[:25], r"byte 25: gzip ends early, and .* \(10 bytes\) is too little to tell"),
        (
            gzip.compress(EVENTS)[:10] + b"\x07" + gzip.compress(EVENTS)[11:],
            "byte 10: gzip is damaged here, and nothing before that could be read",
        ),
        (gzip.compress(b"hello world\n" * 9, 0)[:40], r"gzip ends early, and .* \(25 bytes\) looks like a text file"),
        (
            gzip.compress(b" ") + b"more",
            r"followed by bytes that are not gzip, and .* \(1 byte\) is too little to tell",
        ),
    ],
    ids=["few bytes", "within its header", "a stored tenth", "damaged", "text", "one blank and more"],
)
def test_a_gzip_of_which_too_little_can_be_read_is_no_other_kind_of_file(file, data, words):
    with pytest.raises(TracehoundError, match=words):
        detect_format(file(data, "trace.json.gz"))


def test_a_damaged_gzip_is_a_trace_as_long_as_its_start_is_one(file):
    assert detect_format(file(gzip.compress(EVENTS)[:400], "trace.json.gz")).name == "kineto"


def test_real_files_of_other_tools(shared):
    plots = shared / "captures" / "torch" / "full" / "memory_timeline.json"
    paths = [*(shared / "traces" / "not_a_trace").iterdir(), plots]
    assert len(paths) == 3
    for path in paths:
        with pytest.raises(TracehoundError, match="not a trace: looks like a"):
            detect_format(path)


@pytest.mark.parametrize("space", ["", " ", "\n    "])
def test_a_baseline_is_one_however_it_is_spaced(file, space):
    text = f'{{{space}"schema":{space}"tracehound.profile/1",{space}"name": "run"}}'
    with pytest.raises(CompanionFileError, match="looks like a baseline"):
        detect_format(file(text.encode(), "base.json"))
