"""How intervals nest, against loops that look at all pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_intervals import LANES, PAIRS, arrays, in_lanes

from short import first
from slow_assembly import stacked
from tracehound.numeric.nesting import (
    MAX_LANE_ROWS,
    Nesting,
    has_equal_ancestor,
    inherit_values,
    lane_sort_order,
    nest_intervals,
    still_open_rows,
)


def firsts(lane: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.append(True, lane[1:] != lane[:-1]))


def in_python(start: np.ndarray, end: np.ndarray, known: np.ndarray | None = None) -> Nesting:
    """Of one lane, without the compiled library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracehound.numeric.nesting.nest_in_c", lambda *_: None)
        return nest_intervals(start, end) if known is None else nest_intervals(start, end, known=known)


@given(LANES)
def test_nesting(found: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_lanes(found)
    nest = nest_intervals(start, end, firsts(lane))
    for low, high in zip(firsts(lane), [*firsts(lane)[1:], len(lane)], strict=True):
        parent, depth = stacked(list(zip(start[low:high].tolist(), end[low:high].tolist(), strict=True)))
        assert nest.parent[low:high].tolist() == [p if p < 0 else p + low for p in parent]
        assert nest.depth[low:high].tolist() == depth


@given(LANES, st.sampled_from([1, 10**9, 10**17, 25 * 10**16]))
def test_nesting_of_lanes_far_apart(found: list[tuple[int, int, int]], unit: int) -> None:
    """Lanes are laid end to end where Int64 has room for that, and only there."""
    lane, start, end = in_lanes(found)
    near = nest_intervals(start, np.maximum(end, start + 1), firsts(lane))
    wide = nest_intervals(start * unit, np.maximum(end, start + 1) * unit, firsts(lane))
    assert wide.parent.tolist() == near.parent.tolist()
    assert wide.depth.tolist() == near.depth.tolist()


@given(PAIRS)
def test_nothing_is_drawn_on_top_of_another(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs, key=lambda p: (p[0], -p[1]))
    depth = nest_intervals(*arrays(pairs)).depth
    reach = [max(e, s + 1) for s, e in pairs]
    for i, (s, _) in enumerate(pairs):
        assert not [j for j in range(i) if depth[j] == depth[i] and s < reach[j]]


@given(st.lists(st.integers(-2, 9)))
def test_what_is_still_open_ends_no_earlier_than_all_later(ends: list[int]) -> None:
    assert still_open_rows(np.array(ends, np.int64)).tolist() == [
        i for i, end in enumerate(ends) if end >= max(ends[i:])
    ]


@given(PAIRS, st.integers(0, 14))
def test_nesting_goes_on_with_what_is_still_open(pairs: list[tuple[int, int]], cut: int) -> None:
    pairs = sorted(pairs, key=lambda p: (p[0], -p[1]))
    start, end = arrays(pairs)
    whole = nest_intervals(start, end)
    kept = np.flatnonzero(np.maximum(end, start + 1)[:cut] > start[:cut].max(initial=start.min(initial=0)))
    rest = nest_intervals(
        np.append(start[kept], start[cut:]), np.append(end[kept], end[cut:]), known=whole.depth[:cut][kept]
    )
    rows = np.concatenate([kept, np.arange(cut, len(pairs)), [-1]])
    if cut < len(pairs) and (cut == 0 or start[cut] > start[cut - 1]):
        assert rows[rest.parent[len(kept) :]].tolist() == whole.parent[cut:].tolist()
        assert rest.depth[len(kept) :].tolist() == whole.depth[cut:].tolist()


@pytest.mark.parametrize("count", first(1, (10, 500)))
def test_nesting_of_hard_cases(count: int) -> None:
    """Many rounds of the fast way are not enough for these; what is left is settled one by one."""
    down = [(i, 2 * count - i) for i in range(count)]
    after = [(2 * count + 2 * i, 2 * count + 2 * i + 1) for i in range(count)]
    stairs = [(5 * count + i, 7 * count + i) for i in range(count)]
    buried = [(9 * count + i, 20 * count - (count - i if i % 2 else i)) for i in range(count)]
    pairs = sorted([(-1, 30 * count), *down, *after, *stairs, *buried], key=lambda p: (p[0], -p[1]))
    nest = nest_intervals(*arrays(pairs))
    parent, depth = stacked(pairs)
    assert nest.parent.tolist() == parent
    assert nest.depth.tolist() == depth


@pytest.mark.parametrize("nested", [nest_intervals, in_python])
def test_a_chain_in_which_each_begins_before_the_one_before_ends_needs_two_rows(nested: Callable[..., Nesting]) -> None:
    """As kernels do that are launched before the one before has ended (CUDA's programmatic dependent launch)."""
    start = 2 * np.arange(70_000)
    nest = nested(start, start + 3)
    assert nest.depth.tolist() == [number % 2 for number in range(len(start))]
    assert nest.overlaps


@pytest.mark.parametrize("nested", [nest_intervals, in_python])
def test_more_that_are_open_at_once_than_there_are_rows_share_the_last(nested: Callable[..., Nesting]) -> None:
    count = MAX_LANE_ROWS + 300
    start = np.append(np.arange(count), [count, 2 * count])
    end = np.append(np.arange(count) + count, [count + 1, 3 * count])
    nest = nested(start, end)
    assert nest.depth[:MAX_LANE_ROWS].tolist() == list(range(MAX_LANE_ROWS))
    assert set(nest.depth[MAX_LANE_ROWS:count].tolist()) == {MAX_LANE_ROWS - 1}
    assert nest.depth[count:].tolist() == [MAX_LANE_ROWS - 1, 0]


@pytest.mark.parametrize("nested", [nest_intervals, in_python])
def test_what_is_still_open_may_be_deeper_than_there_are_rows(nested: Callable[..., Nesting]) -> None:
    """As of a thread whose calls go ever deeper, which comes in batches."""
    count = MAX_LANE_ROWS + 300
    start, end = np.arange(count), 3 * count - np.arange(count)
    rows = [*range(MAX_LANE_ROWS), *[MAX_LANE_ROWS - 1] * 300]
    assert nested(start, end).depth.tolist() == rows
    more = nested(np.append(start, count), np.append(end, count + 1), known=np.arange(count))
    assert more.depth.tolist() == [*rows, MAX_LANE_ROWS - 1]
    assert more.parent.tolist() == list(range(-1, count))


@given(LANES)
def test_lane_order(found: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_lanes(found)
    assert lane_sort_order(lane, start, end) is None
    mixed = np.random.default_rng(len(found)).permutation(len(found))
    mixed = mixed[np.argsort(start[mixed] // 8, kind="stable")]
    lane, start, end = lane[mixed], start[mixed], end[mixed]
    order = lane_sort_order(lane, start, end)
    expected = sorted(range(len(found)), key=lambda i: (lane[i], start[i], -end[i]))
    assert (list(range(len(found))) if order is None else order.tolist()) == expected


LABELS = st.lists(st.integers(-1, 1), min_size=100, max_size=100)


@given(st.lists(st.integers(0, 9)), LABELS)
def test_what_rows_say_is_inherited(distances: list[int], labels: list[int]) -> None:
    parent = [row - up if 0 < up <= row else -1 for row, up in enumerate(distances[:100])]
    own = labels[: len(parent)]
    said: list[int] = []
    for up, mine in zip(parent, own, strict=True):
        said.append(mine if mine >= 0 or up < 0 else said[up])
    assert inherit_values(np.array(parent, np.int64), np.array(own, np.int8)).tolist() == said


@given(PAIRS, st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=14, max_size=14))
def test_what_is_inside_its_like(pairs: list[tuple[int, int]], what: list[tuple[bool, int]]) -> None:
    """Of what nests, and of what overlaps in part."""
    pairs = sorted(pairs, key=lambda p: (p[0], -p[1]))
    parent = nest_intervals(*arrays(pairs)).parent
    chosen, number = (np.array(values[: len(pairs)]) for values in zip(*what, strict=True))
    caller = parent.copy()
    for row in range(len(pairs)):
        while caller[row] >= 0 and not chosen[caller[row]]:
            caller[row] = parent[caller[row]]
    expected = []
    for row in range(len(pairs)):
        above, found = caller[row], False
        while above >= 0 and not found:
            above, found = caller[above], number[above] == number[row]
        expected.append(bool(found and chosen[row]))
    assert has_equal_ancestor(caller, chosen.astype(bool), number.astype(np.int64)).tolist() == expected
