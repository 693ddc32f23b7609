"""The flat table of events: the same rows and columns as queries see, whatever the file."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from exporting import job, opened, rank, written
from samples import sample
from short import some
from tracehound.export import table_writer
from tracehound.model.trace import Trace, Window
from tracehound.query import answer_query, prepare_query
from tracehound.query.sql_tables import EVENTS_TABLE

READ = {"parquet": pl.read_parquet, "arrow": pl.read_ipc, "csv": pl.read_csv}
WINDOWS = {
    "all": Window(),
    "a time": Window(30_000_000_000, 60_000_000_000),
    "a rank": Window(ranks=(3,)),
    "both": Window(30_000_000_000, None, ranks=(1, 2)),
}


def queried(trace: Trace, window: Window) -> pl.DataFrame:
    return answer_query(prepare_query("SELECT * FROM events ORDER BY id"), trace, window).table


@pytest.fixture(scope="module")
def trace() -> Trace:
    return sample("jax_cpu8_b128")


@pytest.mark.parametrize("window", some(WINDOWS, ("both",)))
def test_it_has_the_rows_of_the_table_events(
    trace: Trace, tmp_path: Path, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = queried(trace, WINDOWS[window])
    assert expected.height > 100
    for batch in (table_writer.ROWS_AT_ONCE, 300):
        monkeypatch.setattr(table_writer, "ROWS_AT_ONCE", batch)
        told = written(trace, tmp_path / "out.parquet", WINDOWS[window], "parquet")
        found = pl.read_parquet(tmp_path / "out.parquet")
        assert told.events == found.height
        assert found.sort("id").equals(expected.cast(dict(found.schema)))


def test_csv_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    evil, seen = 'evil\x1b]0;x\x07\x9b2J\u202e\nname, "quoted"', 'evil␛]0;x␇\ufffd2J\ufffd name, "quoted"'
    document = rank(0)
    document["traceEvents"].append(
        {"ph": "X", "cat": "cpu_op", "name": evil, "ts": 101, "dur": 1, "pid": 10, "tid": 10}
    )
    trace = opened(*job(tmp_path, document))
    for form, name in (("csv", seen), ("parquet", evil), ("arrow", evil)):
        out = tmp_path / f"out.{form}"
        written(trace, out, form=form)
        names = READ[form](out)["name"].cast(pl.String).to_list()
        assert [each for each in names if each.startswith("evil")] == [name]
        assert all(each in (name, "cudaLaunchKernel") or each.isprintable() for each in names)
    assert all(char.isprintable() or char == "\n" for char in (tmp_path / "out.csv").read_text("utf-8"))


@pytest.mark.parametrize("form", READ)
def test_every_form_has_the_same_rows(tmp_path: Path, form: str) -> None:
    trace = opened(*job(tmp_path, rank(0), rank(1)))
    out = tmp_path / f"out.{form}"
    told = written(trace, out, form=form)
    found = READ[form](out)
    assert found.columns == [column.name for column in EVENTS_TABLE.columns]
    assert told.events == found.height == 10
    assert found["name"].to_list().count("k0") == 2
    assert found.filter(pl.col("name") == "k0").select("duration", "start", "stream", "rank").rows() == [
        (10_125_000, 9_000_000, 7, 0), (10_125_000, 9_000_000, 7, 1),
    ]  # fmt: skip


def test_parquet_says_what_its_columns_mean(tmp_path: Path) -> None:
    written(opened(*job(tmp_path, rank(0))), tmp_path / "out.parquet", form="parquet")
    said = pl.read_parquet_metadata(tmp_path / "out.parquet")
    assert {f"tracehound.{column.name}" for column in EVENTS_TABLE.columns} <= set(said)
    assert said["tracehound.duration"].endswith(", ps")


def test_a_trace_without_events_is_a_table_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    named = '{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}'
    path.write_text(f'{{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [{named}]}}')
    written(opened(path), tmp_path / "out.parquet", form="parquet")
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found.height == 0
    assert found.columns == [column.name for column in EVENTS_TABLE.columns]
