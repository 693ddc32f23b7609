"""Asynchronous ops: which start belongs to which end, and all of it against a loop."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane
from tracehound.analysis.devices.async_ops import core_ops, join_async_events, match_done_ops, module_executions
from tracehound.analysis.rank_trace import rank_traces
from tracehound.model.trace import OPS, Trace, Window

CORE = Lane("XLA Ops", 0, "ops", work=True)
MODULES = Lane("XLA Modules", 0, "modules")


def op(number: int, name: str, opcode: str, operand: str, program: int = 1) -> dict[str, object]:
    text = f"%{name} = f32[4]{{0}} {opcode}(f32[4]{{0}} %{operand})"
    return {
        "op": number, "name": name, "category": opcode, "module": "jit_f", "program": program, "framework": None,
        "source": None, "text": text, "flops": None, "bytes_accessed": None,
    }  # fmt: skip


COPY = (op(0, "copy-start.4", "copy-start", "a"), op(1, "copy-done.9", "copy-done", "copy-start.4"))


def pairs(trace: Trace) -> list[tuple[int, ...]]:
    (share,) = rank_traces(trace, Window())
    events = core_ops(share)
    found = join_async_events(events, share.ops, module_executions(share, events["start"]))
    return [tuple(t // US for t in row) for row in found.select("start", "issued", "waited", "end").iter_rows()]


def test_an_end_belongs_to_the_start_that_it_names() -> None:
    b = Building(ops=[*COPY, op(2, "copy-start.9", "copy-start", "b")])
    b.event(CORE, "copy-start.4", 0, 1, "copy", op=0)
    b.event(CORE, "copy-start.9", 1, 2, "copy", op=2)
    b.event(CORE, "copy-done.9", 10, 15, "copy", op=1)
    assert pairs(b.trace()) == [(0, 1, 10, 15)]


def test_an_end_without_a_line_belongs_to_the_start_of_a_like_name() -> None:
    bare = [{**each, "text": None} for each in (*COPY, op(2, "copy-start.9", "copy-start", "b"))]
    b = Building(ops=bare)
    b.event(CORE, "copy-start.4", 0, 1, "copy", op=0)
    b.event(CORE, "copy-start.9", 1, 2, "copy", op=2)
    b.event(CORE, "copy-done.9", 10, 15, "copy", op=1)
    assert pairs(b.trace()) == [(1, 2, 10, 15)]


def test_programs_have_ops_of_the_same_name() -> None:
    others = (op(2, "copy-start.4", "copy-start", "a", 2), op(3, "copy-done.9", "copy-done", "copy-start.4", 2))
    ops = pl.DataFrame([*COPY, *others], schema=OPS)
    assert sorted(match_done_ops(ops).rows()) == [(1, 0), (3, 2)]


def test_what_began_before_the_profile_or_ends_after_it_has_no_pair() -> None:
    b = Building(ops=list(COPY))
    b.event(CORE, "copy-done.9", 0, 5, "copy", op=1)
    b.event(CORE, "copy-start.4", 6, 7, "copy", op=0)
    b.event(CORE, "copy-done.9", 8, 9, "copy", op=1)
    b.event(CORE, "copy-start.4", 10, 11, "copy", op=0)
    assert pairs(b.trace()) == [(6, 7, 8, 9)]


def test_an_execution_does_not_end_what_another_began() -> None:
    b = Building(ops=list(COPY))
    for start in (0, 100, 200):
        b.event(MODULES, "jit_f(1)", start, start + 50, "module")
    b.event(CORE, "copy-start.4", 10, 11, "copy", op=0)
    b.event(CORE, "copy-start.4", 110, 111, "copy", op=0)
    b.event(CORE, "copy-done.9", 120, 130, "copy", op=1)
    b.event(CORE, "copy-done.9", 220, 230, "copy", op=1)
    assert pairs(b.trace()) == [(110, 111, 120, 130)]


def test_ops_of_one_instant_where_a_clock_was_set_anew() -> None:
    b = Building(ops=list(COPY))
    b.event(CORE, "first", 0, 1, "op")
    b.event(CORE, "copy-done.9", 10, 60, "copy", op=1)
    b.event(CORE, "copy-start.4", 10, 10, "copy", op=0)
    assert pairs(b.trace()) == [(10, 10, 10, 60)]


@given(st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.integers(1, 5)), max_size=30))
def test_the_first_to_start_ends_first(ops: list[tuple[int, bool, int]]) -> None:
    b = Building(ops=list(COPY))
    b.event(Lane("XLA Ops", 0, "ops", work=True), "first", 0, 0.5, "op")
    open_, expected = defaultdict[int, list[tuple[int, int]]](list), list[tuple[int, ...]]()
    at = 1
    for core, begins, length in ops:
        lane = Lane("XLA Ops" if core == 0 else "XLA Ops #2", 0, "ops", work=True)
        b.event(lane, "copy", at, at + length, "copy", op=0 if begins else 1)
        if begins:
            open_[core].append((at, at + length))
        elif open_[core]:
            expected.append((*open_[core].pop(0), at, at + length))
        at += length + 1
    assert pairs(b.trace()) == sorted(expected)
