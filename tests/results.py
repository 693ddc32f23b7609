"""Results made by hand: every unit, awkward names, no values."""

from __future__ import annotations

import polars as pl

from tracehound.analysis.result import HOST_ACTIVITY, Column, Result
from tracehound.model.notes import text_note

EVERY_UNIT = (
    Column("name", "text", "kernel, HLO op or operator"),
    Column("category", "text", "kind of kernel", brief=False),
    Column("start", "instant", "start since the first event"),
    Column("total", "time", "sum of lengths"),
    Column("share", "share", "self time", "the self time of all ops"),
    Column("calls", "count", "executions"),
    Column("size", "bytes", "moved", brief=False),
    Column("bandwidth", "rate", "moved in the time it took", brief=False),
    Column("inferred", "flag", "not marked by the profiler", brief=False),
    Column("host", "host", "what host threads did meanwhile", brief=False),
    Column("event", "id", "the longest execution"),
)

LONG = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)"
)
EVIL = "evil\x1b[31m|\n<b>`*_[x](y)\\ \x9b2J"


def every_unit() -> Result:
    """Three of twelve rows: a long name, an evil one, and one without a value."""
    covers = [
        {"thread": "python 123", "event": "aten::addmm", "inside": None, "share": 0.62, "time": 620},
        {"thread": "data\x1bloader", "event": "read, parse", "inside": "epoch", "share": 0.3, "time": 300},
    ]
    table = pl.DataFrame(
        {
            "name": [LONG, EVIL, None],
            "category": ["kernel", "größe 中文", None],
            "start": [12_345_678_901, 0, None],
            "total": [77_773_215_731_000, 1, None],
            "share": [0.133654, float("nan"), None],
            "calls": [1312, 0, None],
            "size": [15 * 2**30, 3, None],
            "bandwidth": [26.4e9, float("inf"), None],
            "inferred": [True, False, None],
            "host": [covers, [], None],
            "event": [(1 << 32) + 5, 0, None],
        },
        schema_overrides={"host": HOST_ACTIVITY},
    )
    notes = text_note("counted: kernels, on 2 ranks"), text_note("a note \x1b[31m from a trace")
    return Result("ops", "Ops", EVERY_UNIT, table, 12, notes, (10_000_000_000, 20_000_000_000))


def empty() -> Result:
    """The same without rows, notes and window."""
    table = every_unit().table.clear()
    return Result("ops", "Ops", EVERY_UNIT, table, 0)


def plain(rows: int = 3) -> Result:
    """Two columns that fit everywhere."""
    columns = (Column("name", "text", "op"), Column("total", "time", "sum of lengths"))
    names = [f"op{number}" for number in range(rows)]
    table = pl.DataFrame({"name": names, "total": [(number + 1) * 10**9 for number in range(rows)]})
    return Result("plain", "Plain", columns, table, rows)


TREE = (
    Column("call", "text", "what was called"),
    Column("total", "time", "sum of lengths"),
    Column("depth", "depth", "calls around it"),
    Column("event", "id", "the longest", brief=False),
)


def tree() -> Result:
    """Two roots, the first with two branches."""
    rows = [
        ("main", 90, 0, 1), ("train", 60, 1, 2), ("forward", 25, 2, 3), ("backward", 35, 2, 4),
        ("save", 20, 1, 5), ("worker", 40, 0, 6), ("load", 40, 1, 7),
    ]  # fmt: skip
    table = pl.DataFrame(rows, schema=["call", "total", "depth", "event"], orient="row")
    return Result("stacks", "Stacks", TREE, table.with_columns(pl.col("total") * 10**9), len(rows))
