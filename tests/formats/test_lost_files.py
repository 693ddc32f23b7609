"""Files of which no event is left are refused in one line; sound ones in which nothing was recorded say so."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tracehound.errors import TracehoundError
from tracehound.formats import detect_format
from xspaces import Event, Line, Plane, space

HEAD = b'{"schemaVersion": 1, "deviceProperties": [], "traceEvents": ['
NAMES = b'{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}'
XLA_HEAD = b'{"displayTimeUnit": "ns", "metadata": {"highres-ticks": true}, "traceEvents": ['
DEVICE = b'{"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "/device:TPU:0"}}'
KERNEL = b'{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 2}'
PROFILE = space(Plane("/device:TPU:0", [Line("XLA Ops", [Event("%a = f32[] add(%x)", 0, 5)])]))


def read(folder: Path, content: bytes) -> tuple[str, ...]:
    """The codes of the notes of a file with this content."""
    path = folder / "file"
    path.write_bytes(content)
    return tuple(note.code for note in detect_format(path).read(path).notes)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (HEAD + b"]}", "holds no trace events"),
        (HEAD + NAMES + b", ", "it ends before the first"),
        (HEAD + NAMES + b", " + NAMES[:30], "it ends before the first"),
        (HEAD + b",".join([NAMES] + [b'{"ph": "X" "cat" kernel, 5: }'] * 5) + b"]}", "all 5 were dropped"),
        (HEAD + KERNEL.replace(b"5", b'"?"') + b"]}", "the only one was dropped"),
        (HEAD + KERNEL.replace(b'"X"', b'"E"') + b"]}", "the only one was dropped"),
        (HEAD + b"1, 2, 3]}", "all 3 were dropped; open the JSON that torch.profiler writes"),
        (XLA_HEAD + DEVICE + b"," + DEVICE[:40], "it ends before the first"),
        (XLA_HEAD + DEVICE + b',{"ph": "X", "pid": 3, "tid": 3, "name": "a", "ts": "?"}]}', "the only one was dropped"),
        (PROFILE[:40], "no event can be read from it"),
    ],
)
def test_a_file_that_lost_all_of_its_events_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(TracehoundError) as refused:
        read(tmp_path, content)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_gzip_that_is_damaged_before_its_first_event_is_never_an_empty_trace(tmp_path: Path) -> None:
    kernels = [KERNEL.replace(b"5", b"%d" % (1000 + at)).replace(b'"k"', b'"k%d"' % (at**3)) for at in range(200)]
    packed = gzip.compress(HEAD + NAMES + b"," + b",".join(kernels) + b"]}")
    for at in range(10, len(packed), 301):
        damaged = bytearray(packed)
        damaged[at] ^= 1 << at % 8
        path = tmp_path / "damaged.gz"
        path.write_bytes(damaged)
        try:
            frames = detect_format(path).read(path)
        except TracehoundError as error:
            assert "gzip" in str(error)  # noqa: PT017, the rest is read
        else:
            assert frames.lanes["events"].sum() > 0


@pytest.mark.parametrize(
    "content",
    [HEAD + NAMES + b"]}", XLA_HEAD + DEVICE + b", {}]}", space(Plane("/host:CPU", [Line("main/1", [])]))],
)
def test_a_sound_file_without_an_event_says_so(tmp_path: Path, content: bytes) -> None:
    assert "no_events_recorded" in read(tmp_path, content)
    assert "no_events_recorded" not in read(tmp_path, HEAD + KERNEL + b"]}")
