"""Files are written in the form of their names, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from building import Building, stream
from results import every_unit
from tracehound.errors import TracehoundError
from tracehound.model.notes import text_note
from tracehound.model.trace import Window
from tracehound.report import build_header
from tracehound.report.report_output import FORMAT_BY_ENDING, create_result_file, replace_result_file


def facts():
    b = Building()
    b.event(stream(), "gemm", 0, 1)
    return build_header(b.trace(), Window())


@pytest.mark.parametrize("ending", FORMAT_BY_ENDING)
def test_every_form_is_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"ops{ending.upper()}"
    create_result_file(path, facts(), every_unit())
    text = path.read_text("utf-8")
    assert "evil" in text
    if FORMAT_BY_ENDING[ending] == "json":
        assert json.loads(text)["rows_total"] == 12


def test_what_is_hardly_one_run_is_saved_with_that(tmp_path: Path) -> None:
    for name in ("ops.md", "ops.json"):
        create_result_file(
            tmp_path / name, structs.replace(facts(), doubt=text_note("hardly one run: why")), every_unit()
        )
        assert "hardly one run: why" in (tmp_path / name).read_text("utf-8")


def test_what_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "ops.csv"
    path.write_text("precious", "utf-8")
    with pytest.raises(FileExistsError):
        create_result_file(path, facts(), every_unit())
    assert path.read_text("utf-8") == "precious"


def test_what_is_there_is_replaced_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "ops.csv"
    path.write_text("old", "utf-8")
    path.chmod(0o640)
    replace_result_file(path, facts(), every_unit())
    assert path.read_text("utf-8").startswith("name,")
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [create_result_file, replace_result_file])
@pytest.mark.parametrize(
    ("name", "what"), [("ops.xls", "which form"), ("no/ops.csv", "no such file"), ("a\0.md", "null")]
)
def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, write, name: str, what: str) -> None:
    with pytest.raises(TracehoundError, match=what):
        write(tmp_path / name, facts(), every_unit())
    assert list(tmp_path.iterdir()) == []
