"""Trees of rows: parents, levels, sums, orders and filters, against the obvious walk."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracehound.numeric.trees import Trees, group_by_path
from tracehound.numeric.trees import trees_from_depths as of_depths

DEPTHS = st.lists(st.integers(-2, 6), max_size=40)


def nested(steps: list[int]) -> list[int]:
    """Depths that never skip a level."""
    depths, now = list[int](), -1
    for step in steps:
        now = max(0, min(step, now + 1))
        depths.append(now)
    return depths


def above(depths: list[int], row: int) -> int:
    return next((other for other in range(row - 1, -1, -1) if depths[other] < depths[row]), -1)


def path(depths: list[int], row: int) -> list[int]:
    return [*path(depths, up), row] if (up := above(depths, row)) >= 0 else [row]


def forest(depths: list[int]) -> Trees:
    return of_depths(np.array(depths, np.int64))


@given(DEPTHS)
def test_above_a_row_is_the_nearest_earlier_one_that_is_less_deep(steps: list[int]) -> None:
    for depths in (steps, nested(steps)):
        trees = forest(depths)
        assert trees.parent.tolist() == [above(depths, row) for row in range(len(depths))]
        assert trees.depths.tolist() == [len(path(depths, row)) - 1 for row in range(len(depths))]
        levels = [[row for row, level in enumerate(trees.depths) if level == n] for n in range(len(trees.levels))]
        assert [rows.tolist() for rows in trees.levels] == levels
        assert trees.has_children.tolist() == [row in trees.parent for row in range(len(depths))]
        assert all(list(trees.ancestors(row)) == path(depths, row)[::-1] for row in range(len(depths)))


@given(DEPTHS, st.randoms(use_true_random=False))
def test_sums_filters_and_folds_are_those_of_paths(steps: list[int], chance) -> None:  # type: ignore[no-untyped-def]
    rows = range(len(steps))
    trees, paths = forest(steps), [path(steps, row) for row in rows]
    values = [chance.randrange(100) for _ in rows]
    chosen = [chance.random() < 0.3 for _ in rows]
    mask = np.array(chosen, np.bool_)
    assert trees.subtree_sums(np.array(values, np.int64)).tolist() == [
        sum(values[other] for other in rows if row in paths[other]) for row in rows
    ]
    assert trees.with_ancestors(mask).tolist() == [any(chosen[o] and row in paths[o] for o in rows) for row in rows]
    assert trees.below_closed(mask).tolist() == [any(chosen[up] for up in paths[row][:-1]) for row in rows]


@given(DEPTHS, st.randoms(use_true_random=False))
def test_sorting_sorts_those_with_one_parent(steps: list[int], chance) -> None:  # type: ignore[no-untyped-def]
    ranks = [chance.randrange(4) for _ in steps]
    paths = [[(ranks[up], up) for up in path(steps, row)] for row in range(len(steps))]
    expected = sorted(range(len(steps)), key=paths.__getitem__)
    assert forest(steps).sort_siblings(np.array(ranks, np.int64)).tolist() == expected


@given(DEPTHS, st.lists(st.integers(0, 2), min_size=40, max_size=40))
def test_a_row_has_the_key_of_its_path(steps: list[int], names: list[int]) -> None:
    trees = forest(steps)
    keys = trees.path_keys(np.array(names[: len(steps)], np.uint64)).tolist()

    def told(row: int) -> tuple[object, ...]:
        up = above(steps, row)
        earlier = sum(above(steps, o) == up and names[o] == names[row] for o in range(row))
        return (*(told(up) if up >= 0 else ()), (names[row], earlier))

    assert len(set(keys)) == len(keys)
    cut = len(steps) * 2 // 3
    assert keys[:cut] == forest(steps[:cut]).path_keys(np.array(names[:cut], np.uint64)).tolist()
    assert len({told(row) for row in range(len(steps))}) == len(keys)


def test_a_row_keeps_its_key_when_others_come_and_go() -> None:
    one = forest([0, 1, 2, 1]).path_keys(np.array([7, 8, 9, 6], np.uint64))
    two = forest([0, 0, 1, 1, 2]).path_keys(np.array([5, 7, 6, 8, 9], np.uint64))
    assert one.tolist() == [two[row] for row in (1, 3, 4, 2)]


def test_the_heaviest_rows_keep_what_is_above_them() -> None:
    trees = forest([0, 1, 1, 0, 1])
    assert trees.heaviest_rows(np.array([9, 5, 5, 4, 8]), 3).tolist() == [0, 3, 4]
    assert trees.heaviest_rows(np.array([9, 5, 5, 7, 4]), 3).tolist() == [0, 1, 3]
    assert trees.heaviest_rows(np.array([9, 5, 5, 7, 4]), 7).tolist() == [0, 1, 2, 3, 4]
    assert forest([]).heaviest_rows(np.array([], np.int64), 3).tolist() == []


@given(DEPTHS, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=40, max_size=40))
def test_rows_with_the_same_names_above_are_one_node(steps: list[int], named: list[tuple[int, int]]) -> None:
    trees = forest(steps)
    name, root = (np.array([pair[side] for pair in named[: len(steps)]], np.int64) for side in (0, 1))
    found = group_by_path(trees, name, root)

    def told(row: int) -> tuple[int, ...]:
        way = path(steps, row)
        return (int(root[way[0]]), *(int(name[up]) for up in way))

    nodes: dict[tuple[int, ...], int] = {}
    for row in range(len(steps)):
        node = int(found.node[row])
        assert nodes.setdefault(told(row), node) == node
        assert found.parent[node] == (found.node[trees.parent[row]] if trees.parent[row] >= 0 else -1)
        assert found.parent[node] < node
        assert found.first[node] == min(other for other in range(len(steps)) if told(other) == told(row))
    assert sorted(nodes.values()) == list(range(len(found.parent)))
    assert found.first.tolist() == sorted(found.first)


@given(DEPTHS, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=40, max_size=40))
def test_rows_before_the_one_above_them_are_of_the_same_nodes(steps: list[int], named: list[tuple[int, int]]) -> None:
    trees = forest(steps)
    name, root = (np.array([pair[side] for pair in named[: len(steps)]], np.int64) for side in (0, 1))
    found = group_by_path(trees, name, root)
    above = np.where(trees.parent < 0, -1, len(steps) - 1 - trees.parent)[::-1]  # the rows the other way round
    turned = group_by_path(Trees(above), name[::-1], root[::-1])
    node = dict(zip(turned.node[::-1].tolist(), found.node.tolist(), strict=True))
    assert [node[one] for one in turned.node[::-1].tolist()] == found.node.tolist()
    assert sorted(node) == sorted(node.values()) == list(range(len(found.parent)))
    assert [node.get(up, -1) for up in turned.parent.tolist()] == [found.parent[node[n]] for n in range(len(node))]
    assert all(up < one for one, up in enumerate(turned.parent.tolist()))


def test_many_paths_are_each_a_node() -> None:
    count = 5_000
    parent = np.maximum(np.arange(count) - 3, -1) // 2
    found = group_by_path(Trees(parent), np.arange(count) % 7, np.zeros(count, np.int64))
    known: dict[tuple[int, int], int] = {}
    for row in range(count):
        up = int(found.node[parent[row]]) if parent[row] >= 0 else -1
        assert known.setdefault((up, row % 7), int(found.node[row])) == found.node[row]
    assert len(known) == len(found.parent) > 1_024
