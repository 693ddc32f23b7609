"""Queries in the explorer: asked, answered, followed, stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from test_explorer import caption, lines, table
from textual import events
from textual.pilot import Pilot

from exploring import explored, press, selected, until
from tracehound.model.trace import Trace
from tracehound.query import CheckedQuery
from tracehound.store import TraceReader
from tracehound.ui.screens.explorer_screen import ExplorerScreen


async def asked(pilot: Pilot[None], explorer: ExplorerScreen, statement: str) -> None:
    await press(pilot, ":")
    explorer.pane_stack.query_pane.prompt.input.value = statement
    await press(pilot, "enter")


def rows(explorer: ExplorerScreen) -> list[tuple[Any, ...]]:
    result = table(explorer, "query").result
    assert result is not None
    return result.table.rows()


async def test_a_query_is_typed_and_answered(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, ":")
        assert pilot.app.focused is explorer.pane_stack.query_pane.prompt.input
        told = " ".join(lines(table(explorer, "query"))).split()
        assert told[:3] == ["tables:", "events,", "lanes,"]
        assert told[-3:] == ["lists", "the", "columns."], "to its end, on a small screen, too"
        await press(pilot, *"select count(*) from events where kind = 'kernel'", "enter")
        assert rows(explorer) == [(8,)]
        assert pilot.app.focused is table(explorer, "query"), "the rows have the keys"
        assert "whole run" in caption(explorer, "query")


async def test_what_is_pasted_has_all_its_lines(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, ":")
        prompt = explorer.pane_stack.query_pane.prompt.input
        prompt.post_message(events.Paste("SELECT count(*) -- all\n  FROM events\r\n\nWHERE kind != '--'"))
        await pilot.pause()
        assert prompt.value == "SELECT count(*) FROM events WHERE kind != '--'"
        prompt.post_message(events.Paste(" AND kind = 'kernel' "))
        await pilot.pause()
        assert prompt.value == "SELECT count(*) FROM events WHERE kind != '--' AND kind = 'kernel' "
        prompt.value = ""
        prompt.post_message(events.Paste("SELECT count(*)\n  FROM events\r\n\nWHERE kind = 'kernel'\n"))
        await pilot.pause()
        assert prompt.value == "SELECT count(*) FROM events WHERE kind = 'kernel'"
        await press(pilot, "enter")
        assert rows(explorer) == [(8,)]


async def test_rows_lead_to_events_and_to_windows(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await asked(pilot, explorer, "SELECT id, name FROM events WHERE kind = 'kernel' ORDER BY duration DESC")
        await press(pilot, "down", "enter")
        assert selected(explorer) == "gemm"
        await asked(pilot, explorer, "SELECT start, duration FROM events WHERE name = 'load batch'")
        await press(pilot, "space")
        assert explorer.view.selection is not None
        assert explorer.view.selection[1] - explorer.view.selection[0] == 400_000_000
        await asked(pilot, explorer, "SELECT name FROM events WHERE kind = 'op'")
        assert rows(explorer) == [("aten::copy_",)], "a query is about the selected window"
        assert "in the 400 us window" in caption(explorer, "query")


NOWHERE = (
    "SELECT 7777777777777 AS id FROM ranks",
    "SELECT -1 AS event FROM ranks",
    "SELECT 99 AS id FROM ranks",
    "SELECT 9s AS start, 1ms AS duration FROM ranks",
    "SELECT 'x' AS id FROM ranks",
    "SELECT true AS id FROM ranks",
)


async def test_numbers_that_are_no_event_lead_nowhere(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        view = explorer.view
        for statement in NOWHERE:
            await asked(pilot, explorer, statement)
            assert len(rows(explorer)) == 1, statement
            await press(pilot, "enter", "space")
            assert explorer.view.selection is None, statement
            assert (explorer.view.start, explorer.view.end) == (view.start, view.end), statement


async def test_what_is_wrong_is_one_line_and_the_prompt_keeps_the_keys(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await asked(pilot, explorer, "SELECT dur FROM events")
        assert " query, column 8: no column 'dur'; did you mean duration?" in lines(table(explorer, "query"))
        assert caption(explorer, "query").split() == ["Query", "answer"]
        assert pilot.app.focused is explorer.pane_stack.query_pane.prompt.input
        await asked(pilot, explorer, "SELECT 1 / ")
        assert "query" in "".join(lines(table(explorer, "query")))


@pytest.mark.thorough
async def test_queries_come_back_with_up_and_down(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        prompt = explorer.pane_stack.query_pane.prompt
        await asked(pilot, explorer, "SELECT 1 AS one FROM ranks")
        await asked(pilot, explorer, "SELECT 2 AS two FROM ranks")
        await press(pilot, ":", "up")
        assert prompt.input.value == "SELECT 2 AS two FROM ranks"
        await press(pilot, "up", "up")
        assert prompt.input.value == "SELECT 1 AS one FROM ranks"
        await press(pilot, "enter")
        assert rows(explorer) == [(1,)]
        assert explorer.pane_stack.query_pane.history == ["SELECT 2 AS two FROM ranks", "SELECT 1 AS one FROM ranks"]
        await press(pilot, ":", "up", "down")
        assert prompt.input.value == ""
        await press(pilot, "down")
        assert pilot.app.focused is table(explorer, "query")


@pytest.mark.thorough
async def test_a_query_is_stopped(opening: TraceReader, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(
        _query: CheckedQuery, trace: Trace, *_rest: object, collect: Callable[[pl.LazyFrame], pl.DataFrame]
    ) -> None:
        while True:
            collect(trace.events())

    async with explored(opening) as (explorer, pilot):
        with monkeypatch.context() as patch:
            patch.setattr("tracehound.ui.actions.pane_requests.answer_query", endless)
            await press(pilot, ":")
            explorer.pane_stack.query_pane.prompt.input.value = "SELECT * FROM events"
            await pilot.press("enter")
            await until(pilot, lambda: "running, Esc stops it" in caption(explorer, "query"))
            assert explorer.query_runner.busy
            await press(pilot, "escape")
            assert " Query: stopped" in lines(table(explorer, "query"))
            assert not explorer.query_runner.busy
        await asked(pilot, explorer, "SELECT 1 AS one FROM ranks")
        assert rows(explorer) == [(1,)]
