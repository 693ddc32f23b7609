"""Args of any event, from any place of a file."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import pytest

from tracehound.errors import TracehoundError
from tracehound.store import Sections, args, load, open_paths


def test_any_place_of_a_gzip_file_before_and_after_it_is_prepared(tmp_path: Path) -> None:
    random = Random(5)
    data = b"".join(b"%d," % random.randrange(10**9) for _ in range(3_000_000))
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(data, 1))
    sections = Sections()
    for _ in range(2):
        for at in (0, 17, len(data) // 2, len(data) - 1000, len(data) - 3):
            assert sections.read(path, at, 500) == data[at : at + 500]
        sections.build(path)
    path.write_bytes(gzip.compress(data[1:], 1))
    with pytest.raises(TracehoundError, match="has changed"):
        sections.read(path, 0, 5)
    with pytest.raises(TracehoundError, match="no such file"):
        sections.read(tmp_path / "none", 0, 5)


@pytest.mark.parametrize("sample", ["torch_stacks", "jax_cpu8_b128"])
def test_args_are_the_same_through_it(sample: str, samples: Path) -> None:
    trace, sections = load(open_paths([samples / sample])), Sections()
    for part in trace.parts:
        sections.build(part.path)
    some = trace.events().collect()["id"].gather_every(501).to_list()
    assert [args(trace, event, sections.read) for event in some] == [args(trace, event) for event in some]
    assert any(args(trace, event) for event in some)
