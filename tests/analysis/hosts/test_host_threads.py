"""What threads did in windows: against a loop that asks every instant for the innermost event."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import Building, Lane
from tracehound.analysis.hosts.host_threads import THREAD_COLUMNS, classify_by_name, innermost_per_window, match_names
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.formats import name_filter
from tracehound.formats.name_filter import NameFilter
from tracehound.numeric.intervals import union

US = 1_000_000


@st.composite
def nested(draw: st.DrawFn, low: int = 0, high: int = 40) -> list[tuple[int, int, str, str]]:
    """Events of a thread that nest: start, end, name and kind."""
    if high - low < 2 or not draw(st.booleans()):
        return []
    start = draw(st.integers(low, high - 1))
    end = draw(st.integers(start + 1, high))
    name, kind = draw(st.sampled_from("abc")), draw(st.sampled_from(["op", "annotation"]))
    own = (start, end, name, kind)
    return [own, *draw(nested(start, end)), *draw(nested(end, high))]


windows = st.lists(st.tuples(st.integers(0, 39), st.integers(1, 15)), max_size=4)


overlapping = st.lists(
    st.tuples(
        st.integers(0, 30), st.integers(1, 10), st.sampled_from("abc"), st.sampled_from(["op", "annotation"])
    ).map(lambda event: (event[0], event[0] + event[1], *event[2:])),
    max_size=8,
)


@given(st.lists(nested() | overlapping, min_size=1, max_size=2), windows)
def test_any_threads_in_any_windows(lanes: list[list[tuple[int, int, str, str]]], cuts: list[tuple[int, int]]) -> None:
    built = Building()
    built.event(Lane("first"), "begin", 0, 0, "other")
    for number, events in enumerate(lanes):
        for start, end, name, kind in events:
            built.event(Lane(f"thread {number}"), name, start, end, kind)
    trace = built.trace()
    threads = trace.events().select(*THREAD_COLUMNS).collect()
    begin, length = (np.array([cut[place] * US for cut in cuts], np.int64) for place in (0, 1))
    stretches = union(begin, begin + length)
    found = innermost_per_window(threads, stretches)
    assert found.rows() == slow(threads, list(zip(*(times.tolist() for times in stretches), strict=True)))


def slow(threads: pl.DataFrame, stretches: list[tuple[int, int]]) -> list[tuple[object, ...]]:
    events = {row["id"]: row for row in threads.to_dicts()}
    spent: dict[tuple[int, int], int] = defaultdict(int)
    for window, (start, end) in enumerate(stretches):
        for at in range(start, end, US):
            for lane in {row["lane"] for row in events.values()}:
                there = [key for key, row in events.items() if row["lane"] == lane and row["start"] <= at < row["end"]]
                if there:
                    spent[window, running(there, events)] += US
    groups: dict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
    for (window, event), time in spent.items():
        row = events[event]
        groups[window, row["lane"], row["name"], inside(row, events)].append((-time, event))
    rows = [
        (window, lane, name, around, min(all_)[1], len(all_), -sum(time for time, _ in all_))
        for (window, lane, name, around), all_ in groups.items()
    ]
    return sorted(rows, key=lambda row: (row[0], -row[6], row[1], row[2], (row[3] is not None, row[3] or "")))


def running(there: list[int], events: dict[int, dict[str, object]]) -> int:
    """Of the events of a thread that are there at an instant the innermost; of several the earliest, and so inside."""
    at = None
    while within := [key for key in there if events[key]["parent"] == at]:
        at = min(within)
    assert at is not None
    return at


def inside(row: dict[str, object], events: dict[int, dict[str, object]]) -> object:
    """The name of the nearest annotation around an event."""
    parent = row["parent"]
    while parent is not None:
        around = events[parent]
        if around["kind"] == "annotation":
            return around["name"]
        parent = around["parent"]
    return None


@given(st.dictionaries(st.integers(0, 90), st.none() | st.integers(0, 90), max_size=12), st.sampled_from([1, 1000]))
def test_the_row_of_the_event_around_each(around: dict[int, int | None], apart: int) -> None:
    """Of events that are all there, nearly all, or few of many."""
    ids = sorted(around)
    parents = [None if (parent := around[event]) is None else parent * apart for event in ids]
    events = pl.DataFrame({"id": [event * apart for event in ids], "parent": pl.Series(parents, dtype=pl.Int64)})
    expected = [ids.index(p) if (p := around[event]) in around else -1 for event in ids]
    assert parent_rows(events).tolist() == expected


named = st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from(["op", "runtime", None]))


@given(st.lists(named, max_size=9))
def test_each_name_and_kind_is_asked_about_once(rows: list[tuple[str | None, str | None]]) -> None:
    schema = {"name": pl.Categorical(), "kind": pl.Enum(["op", "runtime"])}
    asked = []

    def say(name: str, kind: str) -> int | None:
        asked.append((name, kind))
        return {"a": 1, "b": 2}.get(name, None if kind == "op" else 3)

    found = classify_by_name(pl.DataFrame(rows, schema, orient="row"), say).tolist()
    assert sorted(asked) == sorted({(name or "", kind or "") for name, kind in rows})
    assert found == [{"a": 1, "b": 2}.get(name or "", -1 if kind == "op" else 3) for name, kind in rows]


def test_names_that_match_nothing_are_classified_by_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_filter, "MANY_NAMES", 0)
    schema = {"name": pl.Categorical(), "kind": pl.Enum(["op", "runtime"])}
    rows = [("wait 1", "op"), ("mm 1", "op"), ("mm 2", "runtime"), ("wait 2", "runtime"), (None, "op"), ("mm 3", "op")]
    pattern, asked = re.compile("wait"), []

    def classify(name: str, kind: str) -> int | None:
        asked.append(name)
        return 2 if pattern.search(name) else 1 if kind == "op" else None

    events = pl.DataFrame(rows, schema, orient="row")
    assert classify_by_name(events, classify, NameFilter(pattern)).tolist() == [2, 1, -1, 2, 1, 1]
    assert sorted(asked) == ["", "", "wait 1", "wait 2"]
    assert match_names(events, pattern).tolist() == [True, False, False, True, False, False]
