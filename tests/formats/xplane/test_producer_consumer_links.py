"""The facet of what XLA's events hand to one another, against all of them sorted at once."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracehound.formats.spill import Spill
from tracehound.formats.xplane.xplane_reader import producer_consumer_frames
from tracehound.model.facet_schemas import FACET_SCHEMAS

LINK = st.none() | st.integers(0, 9)


def facet(frames: list[pl.DataFrame], spill: Spill) -> list[tuple[object, ...]]:
    kept = [spill.spill_frame(frame, f"{number}") for number, frame in enumerate(frames)]
    return pl.concat([pl.DataFrame(schema=FACET_SCHEMAS["handed"]), *producer_consumer_frames(kept)]).rows()


@pytest.mark.parametrize("on_disk", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    links=st.lists(st.tuples(LINK, LINK), min_size=20, max_size=20),
    pieces=st.lists(st.lists(st.integers(0, 19), unique=True, max_size=6), max_size=5),
)
def test_each_event_that_hands_anything_over_is_there_once(
    tmp_path: Path, links: list[tuple[int | None, int | None]], pieces: list[list[int]], *, on_disk: bool
) -> None:
    """Whether pieces have events of one place in the file or of several; some events are in more than one piece."""
    schema = FACET_SCHEMAS["handed"]
    frames = [pl.DataFrame([(record, *links[record]) for record in piece], schema, orient="row") for piece in pieces]
    there = sorted({record for piece in pieces for record in piece if links[record] != (None, None)})
    found = facet(frames, Spill(tmp_path if on_disk else None))
    assert found == [(record, *links[record]) for record in there]


def test_what_a_piece_has_no_column_of_is_null() -> None:
    makers = pl.DataFrame({"record": [5, 1], "produces": [7, 8]})
    takers = pl.DataFrame({"record": [3], "consumes": [7]})
    neither = pl.DataFrame({"record": [2]})
    assert facet([makers, takers, neither], Spill()) == [(1, 8, None), (3, None, 7), (5, 7, None)]
