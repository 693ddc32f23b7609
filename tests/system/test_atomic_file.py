"""Files that appear whole or not at all, whoever else writes there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from tracehound.system.atomic_file import atomic_write


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with atomic_write(place) as file:
        file.write(b"new")
        assert not place.exists()
    assert place.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    place = tmp_path / "out"
    place.write_bytes(b"old")
    with pytest.raises(error), atomic_write(place) as file:
        _written(file, error)
    assert place.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [place]


def _written(file: BinaryIO, error: type[BaseException]) -> None:
    file.write(b"new")
    raise error


def test_two_who_write_at_once_do_not_meet(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with atomic_write(place) as one, atomic_write(place) as other:
        one.write(b"1" * 10)
        other.write(b"2")
    assert place.read_bytes() == b"1" * 10
    assert list(tmp_path.iterdir()) == [place]


def test_a_link_stays_one_and_leads_to_what_is_new(tmp_path: Path) -> None:
    place, link = tmp_path / "out", tmp_path / "link"
    place.write_bytes(b"old")
    link.symlink_to("out")
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert place.read_bytes() == b"new"


def test_permissions_are_those_of_the_old_file_else_those_of_a_new_one(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for name, mode in (("public", 0o666), ("private", 0o600)):
            with atomic_write(tmp_path / name, mode) as file:
                file.write(b"")
        (tmp_path / "shared").touch()
        (tmp_path / "shared").chmod(0o664)
        with atomic_write(tmp_path / "shared") as file:
            file.write(b"new")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"public": 0o640, "private": 0o600, "shared": 0o664}


def test_a_name_as_long_as_names_may_be_can_be_written(tmp_path: Path) -> None:
    place = tmp_path / ("n" * 255)
    with atomic_write(place) as file:
        file.write(b"new")
    assert place.read_bytes() == b"new"
