"""Time by call path against a loop, whatever nests in what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.model.trace import Trace, Window

KINDS = ("op", "python", "runtime", "annotation")
HOST = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(KINDS), st.sampled_from(["a", "b", "nn.Module: C_0", "nn.Module: C_1"]),
        st.integers(0, 20), st.integers(0, 20),
    ),
    min_size=1, max_size=16,
)  # fmt: skip
WORK = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50), st.integers(1, 9)), max_size=8)
SPAN = st.tuples(st.integers(0, 30), st.integers(1, 30))

Told = dict[tuple[str, ...], list[int]]


def built(host: list[tuple[int, str, str, int, int]], work: list[tuple[int, int, int]]) -> Trace:
    b = Building()
    for i, (number, kind, name, start, length) in enumerate(host):
        b.event(Lane(f"python {number}"), name, start, start + length, kind, correlation=i)
    for call, start, length in work:
        b.event(stream(), "kernel", start, start + length, correlation=call)
    return b.trace()


def told(trace: Trace, analysis: str, window: Window, *columns: str, **chosen: str) -> Told:
    """The columns of each path, by the names on it."""
    result = run_analysis(get_analysis(analysis), trace, window, Options(given=tuple(sorted(chosen.items()))))
    way, found = list[str](), Told()
    for row in result.table.iter_rows(named=True):
        way[row["depth"] :] = [row[result.columns[0].name]]
        assert tuple(way) not in found
        assert len(way) == row["depth"] + 1
        found[tuple(way)] = [row[column] or 0 for column in columns]
    return found


def slow(trace: Trace, window: Window, chosen: list[str], prefix: str = "") -> Told:
    """Event by event, up the parents: count, total, self, device total, device self, launched."""
    low, high = window.clip_bounds(*trace.span)
    events = {row["id"]: row for row in trace.events().collect().iter_rows(named=True)}
    length = {i: max(min(e["end"], high) - max(e["start"], low), 0) for i, e in events.items()}
    found: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * 6)

    def way(event: int | None) -> list[int]:
        chain = []
        while event is not None:
            here = events[event]
            if here["kind"] in chosen and here["name"].startswith(prefix):
                chain.insert(0, event)
            event = here["parent"]
        return chain

    def path(chain: list[int]) -> tuple[str, ...]:
        return tuple(events[i]["name"].removeprefix(prefix) for i in chain)

    _on_the_host(events, _own(events, low, high, way), (low, high), way, lambda chain: found[path(chain)])
    for i, event in events.items():
        above = way(event["launch"]) if length[i] else []
        for depth in range(len(above)):
            found[path(above[: depth + 1])][3] += length[i]
        if above:
            found[path(above)][4] += length[i]
            found[path(above)][5] += 1
    return {way: row for way, row in found.items() if row[0] or row[3]}


def _own(events: dict[int, dict[str, Any]], low: int, high: int, way: Callable[[int], list[int]]) -> dict[int, int]:
    """What every chosen event has of the window, less what it shares with an earlier one that is not around it."""
    begin: dict[int, int] = {}
    chains = {i: chain for i in sorted(events) if (chain := way(i))[-1:] == [i]}
    for i, chain in chains.items():
        beside = [events[at]["end"] for at, other in chains.items()
                  if at < i and (events[at]["lane"], other[:-1]) == (events[i]["lane"], chain[:-1])]  # fmt: skip
        begin[i] = max([events[i]["start"], *beside, *(begin[above] for above in chain[-2:-1])])
    return {i: max(min(events[i]["end"], high) - max(at, low), 0) for i, at in begin.items()}


@given(HOST, WORK, SPAN)
def test_stacks_against_a_loop(
    host: list[tuple[int, str, str, int, int]], work: list[tuple[int, int, int]], span: tuple[int, int]
) -> None:
    trace = built(host, work)
    window = Window(span[0] * US, (span[0] + span[1]) * US)
    columns = ("count", "total", "self", "device_total", "device_self", "launched")
    assert told(trace, "stacks", window, *columns) == slow(trace, window, list(KINDS))
    assert told(trace, "stacks", window, *columns, frames="python") == slow(trace, window, ["python"])


@given(HOST, WORK, SPAN)
def test_annotations_against_a_loop(
    host: list[tuple[int, str, str, int, int]], work: list[tuple[int, int, int]], span: tuple[int, int]
) -> None:
    trace = built(host, work)
    window = Window(span[0] * US, (span[0] + span[1]) * US)
    columns = ("count", "total", "self", "device", "launched")
    directly = slow(trace, window, ["annotation"])
    launched = {way: sum(row[5] for below, row in directly.items() if below[: len(way)] == way) for way in directly}
    expected = {way: [*row[:4], launched[way]] for way, row in directly.items()}
    assert told(trace, "annotations", window, *columns, by="path") == expected


@given(HOST, WORK, SPAN)
def test_modules_against_a_loop(
    host: list[tuple[int, str, str, int, int]], work: list[tuple[int, int, int]], span: tuple[int, int]
) -> None:
    trace = built(host, work)
    window = Window(span[0] * US, (span[0] + span[1]) * US)
    columns = ("count", "host_total", "host_self", "device_total", "device_self", "launched")
    assert told(trace, "modules", window, *columns) == slow(trace, window, ["python"], "nn.Module: ")


def _on_the_host(
    events: dict[int, dict[str, Any]], length: dict[int, int], span: tuple[int, int],
    way: Callable[[int], list[int]], row: Callable[[list[int]], list[int]],
) -> None:  # fmt: skip
    """Count, total and self of every event on its own path."""
    inside: dict[int, int] = defaultdict(int)
    chains = {i: chain for i in events if (chain := way(i))[-1:] == [i]}
    for i, chain in chains.items():
        if len(chain) > 1:
            inside[chain[-2]] += length[i]
    for i, chain in chains.items():
        event = events[i]
        inside_it = min(event["end"], span[1]) > max(event["start"], span[0])
        seen = inside_it or (event["start"] == event["end"] and span[0] <= event["start"] <= span[1])
        for column, value in enumerate([int(seen), length[i], max(length[i] - inside[i], 0)]):
            row(chain)[column] += value
