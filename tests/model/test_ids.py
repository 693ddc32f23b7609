"""Ids hold a part and a row."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tracehound.model.ids import MAX_ROWS, file_index_of, id_of, is_in_file, row_of

parts = st.integers(0, 1 << 20)
rows = st.integers(0, MAX_ROWS - 1)


@given(parts, rows)
def test_an_id_gives_back_its_part_and_its_row(part: int, row: int) -> None:
    number = id_of(part, row)
    assert (file_index_of(number), row_of(number)) == (part, row) == (number >> 32, number & 0xFFFFFFFF)


@given(parts, st.lists(rows, min_size=1))
def test_arrays_and_expressions_say_the_same(part: int, several: list[int]) -> None:
    array = id_of(part, np.array(several, np.int64))
    frame = pl.DataFrame({"row": several}).select(id_of(part, pl.col("row")).alias("id"))
    found = frame.select(file_index_of(pl.col("id")).alias("part"), row_of(pl.col("id")).alias("row"))
    assert frame["id"].to_list() == array.tolist() == [id_of(part, row) for row in several]
    assert found["part"].to_list() == file_index_of(array).tolist() == [part] * len(several)
    assert found["row"].to_list() == row_of(array).tolist() == several


def test_ids_of_a_part_are_told_from_those_beside_it() -> None:
    ids = [id_of(1, MAX_ROWS - 1), id_of(2, 0), id_of(2, MAX_ROWS - 1), id_of(3, 0)]
    assert pl.DataFrame({"id": ids}).filter(is_in_file("id", 2))["id"].to_list() == ids[1:3]
