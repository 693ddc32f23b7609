"""Rows of csv: of ranks alone, without those that are sums over all ranks."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from jobs import files, sized
from tracehound.cli.main import main


@pytest.mark.parametrize("analysis", ["kernel_types", "overlap"])
def test_rows_of_all_ranks_are_left_out(analysis: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files(tmp_path, *sized())
    assert main(["--no-cache", "report", *map(str, paths), analysis, "--format", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {row["rank"] for row in rows} == {"0", "1"}
