"""Walking through events of one sort, and finding them by name."""

from __future__ import annotations

import polars as pl
import pytest

from building import US, Building, stream, thread
from tracehound.draw.notes import note_texts
from tracehound.model.trace import OPS, Trace
from tracehound.ui.actions.pane_requests import event_durations
from tracehound.ui.state import name_search
from tracehound.ui.state.event_walk import walk_events, walk_op_executions


def built() -> Trace:
    b = Building()
    b.event(stream(0), "gemm", 100, 200)
    b.event(stream(1), "gemm", 50, 90)
    b.event(stream(0), "gemm", 300, 350)
    b.event(stream(0), "Gemm_small", 400, 410)
    b.event(thread(), "gemm", 0, 10, "op")
    return b.trace()


TRACE = built()


def starts(found: list[int]) -> list[int]:
    return [TRACE.event(event)["start"] // US for event in found]


def test_instances_are_in_the_order_of_time_over_all_ranks() -> None:
    longest = next(e for e in TRACE.events().collect()["id"] if TRACE.event(e)["start"] == 100 * US)
    found = walk_op_executions(TRACE, longest)
    assert starts(found.events.tolist()) == [50, 100, 300], "the host's operator of that name is another thing"
    assert found.event == longest
    assert found.words == "2 of 3"


def test_steps_wrap_at_both_ends() -> None:
    found = walk_events(TRACE, "gemm", pl.col("name") == "gemm")
    assert found.words == "4"
    assert found.event is None
    assert found.step(1).place == 0
    assert found.step(-1).place == 3
    assert found.step(1).step(-1).place == 3
    assert found.step(-1).step(1).place == 0


def test_after_is_the_first_one_from_there_on() -> None:
    found = walk_events(TRACE, "gemm", pl.col("name") == "gemm")
    assert [found.after(time * US).place for time in (0, 1, 100, 101, 301)] == [0, 1, 2, 3, 0]


def test_before_is_the_last_one_that_began_by_then() -> None:
    found = walk_events(TRACE, "gemm", pl.col("name") == "gemm")
    assert [found.before(time * US).place for time in (-1, 0, 49, 50, 299, 300, 900)] == [-1, 0, 0, 1, 2, 3, 3]


def test_a_walk_without_events_stays() -> None:
    empty = walk_events(TRACE, "none", pl.col("name") == "none")
    assert empty.words == "no match"
    assert empty.step(1) is empty
    assert empty.after(5) is empty
    assert empty.before(5).words == "no match"


def test_an_hlo_op_is_its_name_in_its_module() -> None:
    b = Building()
    row = dict.fromkeys(OPS.names())
    b.ops = [row | {"op": 0, "name": "fusion.3", "module": "a"}, row | {"op": 1, "name": "fusion.3", "module": "b"}]
    for number, op in enumerate((0, 1, 0)):
        b.event(stream(), "fusion.3", number * 10, number * 10 + 5, op=op)
    trace = b.trace()
    ids = trace.events().collect()["id"].to_list()
    assert walk_op_executions(trace, ids[0]).events.tolist() == [ids[0], ids[2]]
    assert walk_op_executions(trace, ids[1]).events.tolist() == [ids[1]]


@pytest.mark.parametrize(
    ("needle", "count"),
    [("gemm", 5), ("GEMM", 5), ("~^gemm$", 4), ("~ ^Gemm_", 1), ("~^gemm|^x", 5), ("mm_", 1), ("(", 0), ("", 0)],
)
def test_needles(needle: str, count: int) -> None:
    found = name_search.match_names(name_search.index_names(TRACE), needle)
    assert len(found.walk) == count
    assert found.result.table["count"].sum() == count


def test_what_a_device_repeats_of_the_host_is_a_row_of_its_own() -> None:
    b = Building()
    b.event(thread(), "forward", 0, 50, "annotation")
    b.event(stream(), "forward", 30, 90, "annotation")
    rows = (
        name_search.match_names(name_search.index_names(b.trace()), "forward")
        .result.table.select("name", "on", "count", "total")
        .rows()
    )
    assert rows == [("forward", "device", 1, 60 * US), ("forward", "host", 1, 50 * US)]


def test_matches_are_gone_through_like_any_events() -> None:
    for needle, condition in (("~^gemm$", pl.col("name") == "gemm"), ("_small", pl.col("name") == "Gemm_small")):
        found, alike = (
            name_search.match_names(name_search.index_names(TRACE), needle).walk,
            walk_events(TRACE, needle, condition),
        )
        ids = TRACE.events().collect()["id"].to_list()
        assert [found.step(number).event for number in range(-5, 6)] == [
            alike.step(number).event for number in range(-5, 6)
        ]
        assert [found.after(time * US).event for time in range(500)] == [
            alike.after(time * US).event for time in range(500)
        ]
        assert [found.at(event).event for event in ids] == [alike.at(event).event for event in ids]


def test_a_broken_expression_matches_nothing_and_says_why() -> None:
    found = name_search.match_names(name_search.index_names(TRACE), "~(")
    assert found.result.table.is_empty()
    assert found.failure == "not a regular expression: unclosed group"
    assert found.failure in note_texts(found.result.notes)
    assert len(found.walk) == 0


def test_what_has_a_clock_of_its_own_is_as_long_as_tables_say() -> None:
    b = Building()
    b.event(stream(), "dot", 0, 60, device_start=0, device_end=40 * US)
    b.event(stream(), "dot", 60, 100, device_start=40 * US, device_end=90 * US)
    trace = b.trace()
    row = name_search.index_names(trace).table.row(0, named=True)
    assert (row["total"], trace.event(row["event"])["start"]) == (90 * US, 60 * US)
    assert event_durations(trace, name_search.name_row_condition(row), trace.span).rows() == [
        (40 * US, 0),
        (50 * US, 0),
    ]


def test_names_are_summed_up() -> None:
    table = name_search.index_names(TRACE).table
    row = table.row(by_predicate=(pl.col("name") == "gemm") & (pl.col("kind") == "kernel"), named=True)
    assert (row["count"], row["total"], row["mean"]) == (3, 190 * US, 190 * US / 3)
    assert TRACE.event(row["event"])["start"] == 100 * US
