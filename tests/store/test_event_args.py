"""Args of any event, from any place of a file."""

from __future__ import annotations

import gzip
import os
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from shutil import copytree

import pytest

from short import some
from tracehound.errors import TracehoundError
from tracehound.formats.inflate import open_stream
from tracehound.hlo.hlo_programs import programs_of_trace, read_program
from tracehound.model.trace import Trace
from tracehound.store import (
    CheckpointedFiles,
    ReadContext,
    ingest,
    load_trace,
    make_read_context,
    open_trace_files,
    read_event_args,
    trace_cache,
    trace_reader,
)


def test_any_place_of_a_gzip_file_before_and_after_it_is_prepared(tmp_path: Path) -> None:
    random = Random(5)
    data = b"".join(b"%d," % random.randrange(10**9) for _ in range(1_200_000))
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(data, 1))
    sections = CheckpointedFiles()
    with open_stream(path) as stream:
        state = stream.state
    for _ in range(2):
        for at in (0, 17, len(data) // 2, len(data) - 1000, len(data) - 3):
            assert sections.read(path, at, 500, state) == data[at : at + 500]
        sections.build(path, state)
    path.write_bytes(gzip.compress(data[1:], 1))
    with pytest.raises(TracehoundError, match="has changed"):
        sections.read(path, 0, 5, state)
    with open_stream(path) as stream:
        assert sections.read(path, 0, 5, stream.state) == data[1:6]
    with pytest.raises(TracehoundError, match="no such file"):
        sections.read(tmp_path / "none", 0, 5, state)


@pytest.mark.parametrize("sample", some(("torch_stacks", "jax_cpu8_b128"), ("torch_stacks",)))
def test_args_are_the_same_through_it(sample: str, samples: Path) -> None:
    trace, sections = load_trace(open_trace_files([samples / sample])), CheckpointedFiles()
    for part in trace.parts:
        sections.build(part.path, part.state)
    some = trace.events().collect()["id"].gather_every(501).to_list()
    assert [read_event_args(trace, event, sections.read) for event in some] == [
        read_event_args(trace, event) for event in some
    ]
    assert any(read_event_args(trace, event) for event in some)


WAYS = ("in memory", "copied into the cache", "by workers", "from the cache")
SAMPLES = ("torch_stacks", "torch_xla_single", "jax_cpu8_b128")


def read_in(way: str, folder: Path, shop: ReadContext) -> Trace:
    """The trace of a folder, read in one of the ways there are."""
    if way == "from the cache":
        load_trace(open_trace_files([folder], context=shop))
    return load_trace(open_trace_files([folder], context=None if way == "in memory" else shop))


@pytest.mark.parametrize(("way", "sample"), some(product(WAYS, SAMPLES), zip(WAYS, SAMPLES[:2] * 2, strict=True)))
def test_a_file_that_has_changed_since_it_was_read_is_refused(
    way: str, sample: str, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "by workers":
        monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
        monkeypatch.setattr(ingest, "MIN_SHARED_BYTES", 0)
    with make_read_context(2, partial(trace_cache.open_cache, tmp_path / "kept")) as shop:
        trace = read_in(way, Path(copytree(samples / sample, tmp_path / "trace")), shop)
        events = trace.events().filter(record=trace.events().select("record").max().collect().item()).collect()
        (event,) = events["id"].head(1)
        told, known = read_event_args(trace, event), programs_of_trace(trace)
        assert told
        for part in trace.parts:
            part.path.chmod(0o600)
            os.link(part.path, part.path.with_suffix(".link"))
        sections = CheckpointedFiles()
        assert read_event_args(trace, event) == read_event_args(trace, event, sections.read) == told
        for part in trace.parts:
            state = part.path.stat()
            os.utime(part.path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
        asks = [partial(read_event_args, trace, event, give) for give in (CheckpointedFiles().read, sections.read)]
        asks += [partial(read_event_args, trace, event), *(partial(read_program, program) for program in known)]
        for ask in asks:
            with pytest.raises(TracehoundError, match="the file has changed since it was read; open it again"):
                ask()
