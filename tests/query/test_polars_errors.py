"""What polars refuses is said in the words of who asked."""

from __future__ import annotations

from typing import Literal

import polars as pl
import pytest

from building import Building, stream
from short import first
from tracehound.errors import TracehoundError
from tracehound.query import answer_query, prepare_query
from tracehound.query.polars_errors import translate_polars_errors
from tracehound.query.sql_statement import parse_statement


@pytest.mark.parametrize("engine", first(1, ("in-memory", "streaming")))
def test_tables_that_multiply_beyond_what_there_can_be(engine: Literal["in-memory", "streaming"]) -> None:
    many = pl.LazyFrame({"id": range(70_000)})
    statement = parse_statement("SELECT count(*) FROM events a, events b")
    with pytest.raises(TracehoundError) as refused, translate_polars_errors(statement):
        many.join(many, how="cross").select(pl.len(), pl.col("id").sum()).collect(engine=engine)
    said = str(refused.value)
    assert "more than 4,294,967,295 rows" in said
    assert "ON" in said
    assert "polars" not in said.lower()


@pytest.mark.parametrize("number", ["2", "2.5", "e.bytes"])
def test_a_time_and_a_number_are_called_so(number: str) -> None:
    built = Building("one")
    built.event(stream(0, 7), "gemm", 1, 5, "kernel")
    with pytest.raises(TracehoundError, match=r"^query: [+] not allowed on time and number; divide a time by a unit"):
        answer_query(prepare_query(f"SELECT 3us + {number} AS sum FROM events e"), built.trace())
