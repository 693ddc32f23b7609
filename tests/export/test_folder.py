"""Several ranks in a folder: it reads back as it was, rank by rank and host by host."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from exporting import document, job, opened, own, rank, rows
from short import some
from tracehound.cli.main import main
from tracehound.draw.notes import note_text
from tracehound.export import EXPORT_FORMATS, ExportFormat, find_format
from tracehound.export.export_destination import output_paths, ranks_by_part
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    job(tmp_path / "job", rank(0), rank(1, at=150), rank(2, at=90))
    return tmp_path / "job"


def exported(*words: str | Path) -> Trace:
    """What is read back from the folder that is named last, once all is written there."""
    assert main(["export", *map(str, words[:-1]), f"{words[-1]}/"]) == 0
    return load_trace(open_trace_files([str(words[-1])]))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["job/rank0.json"], ["rank0.json.gz"]),
        (["job/rank0.pt.trace.json.gz", "job/rank1.json"], ["rank0.pt.trace.json.gz", "rank1.json.gz"]),
        (["job/r0/trace.json", "job/r1/trace.json"], ["r0/trace.json.gz", "r1/trace.json.gz"]),
        (["run/a.xplane.pb", "run/b"], ["a.json.gz", "b.json.gz"]),
        (["job/a.json", "job/a.json.gz"], ["a.json.json.gz", "a.json.gz.json.gz"]),
        (["job/.json"], [".json.json.gz"]),
        (["a.json", "a.json.gz", "a.json.json"], ["0-a.json.json.gz", "1-a.json.gz.json.gz", "2-a.json.json.gz"]),
        (["q/rank0.json", "q/b/rank1.json"], ["rank0.json.gz", "rank1.json.gz"]),
        (["before/t.json", "after/t.json"], ["before-t.json.gz", "after-t.json.gz"]),
        (["run_a/r0/t.json", "run_b/r0/t.json"], ["run_a-r0-t.json.gz", "run_b-r0-t.json.gz"]),
        ([], []),
    ],
)
def test_a_file_keeps_its_place_and_its_name(files: list[str], expected: list[str]) -> None:
    assert [str(name) for name in output_paths([Path(file) for file in files], ".json.gz")] == expected


def test_it_reads_back_as_the_ranks_and_hosts_that_it_was(folder: Path) -> None:
    trace = opened(folder)
    again = exported(folder, folder.parent / "out")
    assert rows(again) == rows(trace)
    assert again.ranks.equals(trace.ranks)
    assert [host.name for host in again.hosts] == [host.name for host in trace.hosts]
    assert again.origin_ns == trace.origin_ns
    assert not [note for note in again.notes if "several ranks" in note_text(note)]


@pytest.mark.thorough
def test_files_of_several_folders_are_read_back_together(folder: Path, samples: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "rank2.json").rename(folder / "deep" / "rank2.json")
    files = [*sorted(folder.glob("*.json")), folder / "deep" / "rank2.json"]
    assert exported(*files, folder.parent / "out").ranks["rank"].to_list() == [0, 1, 2]
    beside = exported(files[0], samples / "torch_xla_spmd4", folder.parent / "mixed")
    assert sorted(part.format for part in beside.parts) == ["chrome", "kineto"]


def test_one_rank_after_the_other_can_be_put_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank_, status in (("0", 0), ("1", 0), ("0,2", 2)):
        assert main(["export", str(folder), f"{folder.parent / 'out'}/", "--rank", rank_]) == status
    assert "rank0.json.gz: exists already; --force replaces it" in capsys.readouterr().err
    assert sorted(path.name for path in (folder.parent / "out").iterdir()) == ["rank0.json.gz", "rank1.json.gz"]


def test_an_empty_name_is_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert main(["export", str(folder), ""]) == 2
    assert [path.name for path in folder.parent.iterdir()] == ["job"]


@pytest.mark.thorough
def test_every_element_stays_as_it_is(folder: Path) -> None:
    exported(folder, "--format", "json", folder.parent / "out")
    for number in range(3):
        mine = document(opened(folder.parent / "out" / f"rank{number}.json"))
        assert own(mine) == own(document(opened(folder / f"rank{number}.json")))


def test_of_ranks_that_are_not_asked_for_there_is_no_file(folder: Path) -> None:
    again = exported(folder, "--rank", "0,2", folder.parent / "out")
    assert again.ranks["rank"].to_list() == [0, 2]
    assert sorted(path.name for path in (folder.parent / "out").iterdir()) == ["rank0.json.gz", "rank2.json.gz"]


def test_a_window_lies_on_the_clock_of_them_all(folder: Path) -> None:
    again = exported(folder, "--window", "58us..60us", folder.parent / "out")
    found = again.events().filter(pl.col("rank").is_not_null()).select(pl.col("name").cast(pl.String), "rank")
    kept = (
        opened(folder)
        .events()
        .filter(pl.col("rank").is_not_null(), pl.col("start") < 60_000_000, pl.col("end") > 58_000_000)
    )
    assert found.collect().rows() == kept.select(pl.col("name").cast(pl.String), "rank").collect().rows()


@pytest.mark.parametrize(
    "form", some(EXPORT_FORMATS, (find_format("json", ""), find_format("parquet", ""))), ids=lambda form: form.name
)
def test_every_form_can_be_in_a_folder(folder: Path, form: ExportFormat) -> None:
    out = folder.parent / "out"
    assert main(["export", str(folder), f"{out}/", "--format", form.name]) == 0
    assert sorted(path.name for path in out.iterdir()) == [f"rank{number}{form.suffix}" for number in range(3)]
    if form.name == "parquet":
        assert pl.read_parquet(out / "*.parquet")["rank"].drop_nulls().unique().sort().to_list() == [0, 1, 2]


def test_what_two_kinds_of_profilers_wrote_fits_a_folder(
    folder: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(folder), str(samples / "torch_xla_spmd4")]
    assert main(["export", *paths, str(folder.parent / "out.json")]) == 2
    assert "do not fit one document; export each alone, or all of them to a folder" in capsys.readouterr().err
    assert main(["export", *paths, f"{folder.parent / 'out'}/"]) == 0
    assert capsys.readouterr().err.startswith("tracehound: out/: 4 files, ")


def test_nothing_is_begun_where_one_of_the_files_exists(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder.parent / "out"
    out.mkdir()
    (out / "rank1.json.gz").write_bytes(b"old")
    assert main(["export", str(folder), str(out)]) == 2
    assert capsys.readouterr().err == f"tracehound: {out}/rank1.json.gz: exists already; --force replaces it\n"
    assert [path.name for path in out.iterdir()] == ["rank1.json.gz"]
    assert main(["export", str(folder), str(out), "--force"]) == 0
    assert rows(opened(out)) == rows(opened(folder))


@pytest.mark.parametrize("form", ["", "json"])
def test_into_the_folder_that_is_read_it_goes_only_by_force(
    folder: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    assert main(["export", str(folder), f"{folder}/more/", "--format", form]) == 2
    assert "lies in the folder that is read" in capsys.readouterr().err
    assert main(["export", str(folder), str(folder), "--format", "json", "--force"]) == 2
    assert "is the trace that is read; write to another file" in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before


def test_a_folder_in_no_folder_is_a_slip_of_the_pen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(folder), f"{folder.parent}/none/out/"]) == 2
    assert capsys.readouterr().err.endswith("there is no such folder\n")
    assert not (folder.parent / "none").exists()


def test_parts_of_a_window_have_its_ranks(folder: Path) -> None:
    trace = opened(folder)
    assert ranks_by_part(trace, Window()) == {0: (0,), 1: (1,), 2: (2,)}
    assert ranks_by_part(trace, Window(ranks=(2,))) == {2: (2,)}


def test_a_name_without_a_form_says_how_folders_end() -> None:
    with pytest.raises(Exception, match=r"end a file with .*, a folder with /"):
        find_format("", "out")
