from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis import get_analysis
from tracehound.formats.xplane.derived_lanes import OP_STARTS_SCHEMA, OP_USERS_SCHEMA, OpEnds

NO_USERS = pl.DataFrame(schema=OP_USERS_SCHEMA)


def ops(*rows: tuple[str, int, int, int | None], device: int = 0, run: int | None = 5) -> pl.DataFrame:
    """Ops of program 1: name, start, end of the dispatch, and what it produces."""
    made = [(device, start, end, name, 1, run, produces) for name, start, end, produces in rows]
    known = {**OP_STARTS_SCHEMA, "end": pl.Int64(), "produces": pl.Int64()}
    columns = ("device", "start", "end", "name", "program", "run", "produces")
    return pl.DataFrame(made, {column: known[column] for column in columns}, orient="row")


def marks(**ends: int) -> pl.DataFrame:
    """Marks by the number in their names: ``_2=40``."""
    return pl.DataFrame({"consumes": [int(name[1:]) for name in ends], "end": list(ends.values())})


def users(*rows: tuple[str, str]) -> pl.DataFrame:
    return pl.DataFrame([(1, *row) for row in rows], OP_USERS_SCHEMA, orient="row")


def ends(frame: pl.DataFrame, marked: pl.DataFrame, needing: pl.DataFrame = NO_USERS) -> list[int]:
    return OpEnds(marked, needing, [frame[:2], frame[2:]]).correct_ends(frame)["end"].to_list()


def test_an_op_ends_with_the_later_of_itself_and_its_mark() -> None:
    frame = ops(("a", 0, 10, 1), ("b", 10, 11, 2), ("c", 20, 21, None))
    assert ends(frame, pl.DataFrame({"consumes": [1, 2, None], "end": [9, 40, 99]})) == [10, 40, 21]


def test_an_op_has_ended_when_what_needs_its_result_begins() -> None:
    frame = ops(("dot", 0, 1, 1), ("add", 5, 6, 2), ("all-reduce", 8, 60, 3))
    needing = users(("dot", "all-reduce"), ("add", "all-reduce"))
    assert ends(frame, marks(_1=61, _2=7, _3=60), needing) == [8, 7, 60]


def test_an_op_does_not_end_before_its_dispatch() -> None:
    frame = ops(("dot", 0, 9, 1), ("add", 5, 6, 2))
    assert ends(frame, marks(_1=61), users(("dot", "add"))) == [9, 6]


def test_what_another_device_or_another_run_needs_tells_nothing() -> None:
    own = ops(("dot", 0, 1, 1))
    frame = pl.concat([own, ops(("add", 5, 6, None), device=1), ops(("add", 7, 8, None), run=6)])
    assert ends(frame, marks(_1=61), users(("dot", "add")))[0] == 61


def test_in_a_loop_every_turn_has_its_own_end() -> None:
    frame = ops(("dot", 0, 1, 1), ("add", 5, 6, None), ("dot", 10, 11, 2), ("add", 15, 16, None), run=None)
    assert ends(frame, marks(_1=31, _2=30), users(("dot", "add"))) == [5, 6, 15, 16]


def test_of_devices_that_nothing_tells_apart_what_one_needs_says_nothing_of_another() -> None:
    frame = ops(("dot", 0, 1, 1), ("dot", 2, 3, 2), ("add", 5, 6, None), ("add", 15, 16, None), run=None)
    assert ends(frame, marks(_1=4, _2=14), users(("dot", "add"))) == [4, 14, 6, 16]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(1, 4), st.integers(0, 40)), max_size=12),
    st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), max_size=6),
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from([None, 5, 6])), min_size=12, max_size=12),
)
def test_ends_are_those_of_a_slow_loop(
    rows: list[tuple[str, int, int, int]],
    needed: set[tuple[str, str]],
    where: list[tuple[int, int | None]],
) -> None:
    frame = pl.concat(
        [
            ops(),
            *(
                ops((name, start, start + length, number), device=device, run=run)
                for number, ((name, start, length, _), (device, run)) in enumerate(zip(rows, where, strict=False))
            ),
        ]
    )
    marked = pl.DataFrame(
        {"consumes": list(range(len(rows))), "end": [end for *_, end in rows]}, {"consumes": pl.Int64, "end": pl.Int64}
    )
    numbered = list(enumerate(zip(rows, where, strict=False)))

    def begins(called: set[str], place: tuple[int, int | None], since: int) -> list[int]:
        return [
            start for _, ((name, start, *_), there) in numbered if name in called and there == place and start >= since
        ]

    bounds: dict[int, int] = {}
    for number, ((name, start, *_), place) in numbered:
        found = begins({user for op, user in needed if op == name}, place, start)
        if found:
            bounds[number] = min(found)
    again = {
        number: min(begins({rows[number][0]}, where[number], rows[number][1] + 1), default=99) for number in bounds
    }
    expected = []
    for number, ((_, start, length, end), place) in numbered:
        fellows = [other for other in bounds if where[other] == place]
        mingled = place[1] is None and 20 * sum(again[other] < bounds[other] for other in fellows) > len(fellows)
        expected.append(max(start + length, end if mingled else min(end, bounds.get(number, end))))
    assert ends(frame, marked, users(*sorted(needed))) == expected


@pytest.mark.parametrize("name", ["hlo_ops", "ops"])
def test_definitions_say_what_ends_an_op(name: str) -> None:
    told = " ".join(get_analysis(name).definition.split())
    assert "its end mark, if there" in told
    assert "no longer than until the first op of the same run begins that needs its result" in told
