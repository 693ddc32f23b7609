from __future__ import annotations

import gzip
import random

import pytest

from tracehound.formats.inflate import GzipSalvage

TEXT = random.Random(9).randbytes(150_000).hex().encode()


def salvaged(path) -> tuple[bytes, GzipSalvage]:
    with path.open("rb", buffering=0) as file:
        salvage, pieces = GzipSalvage(file), []
        while piece := salvage.next_bytes():
            pieces.append(piece)
        return b"".join(pieces), salvage


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:50_000], "ends early"),
        (lambda data: data[:5], "ends early"),
        (lambda data: data[:-3], "ends early"),
        (lambda data: data[:10] + b"\x07" + data[11:], "is damaged here"),
        (lambda data: data[:-6] + b"\0" + data[-5:], "has a wrong checksum"),
        (lambda data: data + b"more", "is followed by bytes that are not gzip"),
        (lambda data: data + bytes(70_000) + b"more", "is followed by bytes that are not gzip"),
        (lambda data: data[:2] + b"\0" + data[3:], "is damaged here"),
    ],
)
def test_each_damage_has_its_words_and_place(tmp_path, change, words):
    path = tmp_path / "a"
    path.write_bytes(change(gzip.compress(TEXT)))
    text, salvage = salvaged(path)
    assert words in salvage.damage.what
    assert salvage.damage.at <= path.stat().st_size
    assert (salvage.inflated_count, salvage.damage.inflated) == (len(text), len(text))
    assert TEXT.startswith(text)


def test_all_of_a_file_that_shrinks_a_thousand_times(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(bytes(50_000_000)))
    text, salvage = salvaged(path)
    assert (len(text), salvage.damage) == (50_000_000, None)


def test_every_cut_of_a_small_file_gives_a_start_of_it(tmp_path):
    path, data, longest = tmp_path / "a", gzip.compress(TEXT[:3000]), -1
    for cut in range(2, len(data)):
        path.write_bytes(data[:cut])
        text, salvage = salvaged(path)
        assert TEXT.startswith(text)
        assert len(text) >= longest
        assert salvage.damage.what == "ends early"
        longest = len(text)
    assert longest == 3000
