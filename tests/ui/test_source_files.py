"""Where a source file lies here: mappings, and names that were made to mislead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.errors import TracehoundError
from tracehound.ui.source_files import SourceFolders, SourceMapping, parse_source_maps


def made(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x = 1\n")
    return path


def test_the_longest_mapping_is_tried_first(tmp_path: Path) -> None:
    outer, inner = made(tmp_path / "a", "lib/m.py"), made(tmp_path / "b", "m.py")
    found = parse_source_maps([f"/srv={tmp_path / 'a'}", f"/srv/lib={tmp_path / 'b'}"])
    assert found.find("/srv/lib/m.py") == inner
    inner.unlink()
    assert found.find("/srv/lib/m.py") == outer


def test_a_mapping_is_about_whole_folders(tmp_path: Path) -> None:
    made(tmp_path, "2/m.py")
    with pytest.raises(TracehoundError, match="looked for /srv/demo2/m"):
        parse_source_maps([f"/srv/demo={tmp_path}"]).find("/srv/demo2/m.py")


def test_the_root_can_be_mapped(tmp_path: Path) -> None:
    path = made(tmp_path, "srv/m.py")
    assert parse_source_maps([f"/={tmp_path}"]).find("/srv/m.py") == path


def test_names_without_a_folder_are_looked_for_in_the_mapped_one_and_here(tmp_path: Path) -> None:
    there, here = made(tmp_path / "site", "torch/nn.py"), made(tmp_path / "work", "train.py")
    found = SourceFolders((SourceMapping.parsed(f".={tmp_path / 'site'}"),), tmp_path / "work")
    assert found.find("torch/nn.py") == there
    assert found.find("train.py") == here
    assert found.find("./train.py") == here


def test_windows_names_are_mapped(tmp_path: Path) -> None:
    path = made(tmp_path, "net/model.py")
    assert parse_source_maps([rf"C:\lab={tmp_path}"]).find(r"C:\lab\net\model.py") == path
    with pytest.raises(TracehoundError, match="is not on this machine"):
        SourceFolders().find(r"C:\lab\net\model.py")


def test_a_name_as_it_was_recorded(tmp_path: Path) -> None:
    path = made(tmp_path, "m.py")
    assert SourceFolders().find(f"{tmp_path}/sub/../m.py") == path


def test_links_are_followed_by_who_reads(tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(made(tmp_path, "m.py"))
    assert parse_source_maps([f"/srv={tmp_path}"]).find("/srv/link.py") == link


@pytest.mark.parametrize("name", ["../secret.py", "a/../../secret.py", "/srv/../secret.py", "/srv/a/../../secret.py"])
def test_dots_do_not_lead_out_of_a_folder(tmp_path: Path, name: str) -> None:
    made(tmp_path, "secret.py")
    (tmp_path / "in").mkdir()
    found = SourceFolders(
        (SourceMapping.parsed(f"/srv={tmp_path / 'in'}"), SourceMapping.parsed(f".={tmp_path / 'in'}")), tmp_path / "in"
    )
    with pytest.raises(TracehoundError, match="is not on this machine"):
        found.find(name)


def test_a_current_folder_that_is_gone_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped, whole = made(tmp_path / "site", "nn.py"), made(tmp_path, "m.py")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(TracehoundError, match=r"looked for nothing: the current folder is gone; start with"):
        SourceFolders().find("train.py")
    assert SourceFolders((SourceMapping.parsed(f"/srv={tmp_path / 'site'}"),)).find("/srv/nn.py") == mapped
    assert SourceFolders(here=tmp_path).find("m.py") == SourceFolders().find(str(whole)) == whole


def test_what_is_missing_says_where_was_looked_and_how_to_map_it(tmp_path: Path) -> None:
    with pytest.raises(TracehoundError) as caught:
        parse_source_maps([f"/srv/demo={tmp_path}"]).find("/srv/demo/net/m.py")
    assert f"looked for {tmp_path}/net/m.py and /srv/demo/net/m.py" in str(caught.value)
    assert "--source-map /srv/demo/net=FOLDER" in str(caught.value)
    with pytest.raises(TracehoundError, match=r"--source-map \.=FOLDER"):
        SourceFolders((), tmp_path).find("torch/nn.py")


@pytest.mark.parametrize("name", ["a\x1b[31m.py", "a\0.py", "a\nb.py", "\u202ea.py"])
def test_unprintable_names_are_no_files(name: str) -> None:
    with pytest.raises(TracehoundError, match="no source file is called") as caught:
        SourceFolders().find(name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["nothing", "/srv=", "/srv=/no/such/folder", "/srv=~no-such-user/x", "="])
def test_what_is_no_mapping(text: str) -> None:
    with pytest.raises(TracehoundError, match="--source-map"):
        parse_source_maps([text])


PART = st.sampled_from(["..", ".", "", "a", "-c", "~", "$(x)", "in", "*"])


@given(st.booleans(), st.lists(PART, min_size=1, max_size=8))
def test_no_mapped_or_relative_name_leaves_its_folder(absolute: bool, parts: list[str]) -> None:  # noqa: FBT001, drawn
    name = "/srv/" * absolute + "/".join(parts)
    root = Path("/no/such/root")
    moved = SourceMapping("/srv" if absolute else "", root).map_path(name)
    assert moved is None or os.path.normpath(moved).startswith(f"{root}/")
    assert moved is None or ".." not in moved.parts
