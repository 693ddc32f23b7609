"""What polars refuses is said in the words of who asked."""

from __future__ import annotations

from typing import Literal

import polars as pl
import pytest

from tracehound.errors import TracehoundError
from tracehound.query.refusal import refusals
from tracehound.query.statement import read


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_tables_that_multiply_beyond_what_there_can_be(engine: Literal["in-memory", "streaming"]) -> None:
    many = pl.LazyFrame({"id": range(70_000)})
    statement = read("SELECT count(*) FROM events a, events b")
    with pytest.raises(TracehoundError) as refused, refusals(statement):
        many.join(many, how="cross").select(pl.len(), pl.col("id").sum()).collect(engine=engine)
    said = str(refused.value)
    assert "more than 4,294,967,295 rows" in said
    assert "ON" in said
    assert "polars" not in said.lower()
