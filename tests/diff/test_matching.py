"""Which ops are taken for one: by what tells most of them, and each only once."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from test_compare import compared, opened

from tracehound.diff.identity import IDENTITY
from tracehound.diff.matching import ALONE, WAYS, Match, matched

LINEAR = "jit(step)/RowParallelLinear"


def ops(*rows: dict[str, str]) -> pl.DataFrame:
    """Ops of which only these words are known."""
    return pl.DataFrame(
        [{name: row.get(name, "") for name in IDENTITY} for row in rows], dict.fromkeys(IDENTITY, pl.String)
    )


def kernel(name: str, path: str, category: str = "kernel") -> dict[str, str]:
    return {"name": f"void {name}<int>", "family": name, "category": category, "path": path,
            "operator": path.partition(" > ")[0]}  # fmt: skip


def pairs(base: pl.DataFrame, other: pl.DataFrame) -> list[tuple[tuple[int, ...], tuple[int, ...], str]]:
    return sorted((match.base, match.other, match.how) for match in matched(base, other))


CONTIGUOUS, TO = "aten::contiguous > aten::clone > aten::copy_", "aten::to > aten::_to_copy > aten::copy_"


def test_the_operators_around_a_kernel_tell_more_than_its_family() -> None:
    base = ops(kernel("elementwise[copy]", CONTIGUOUS), kernel("unrolled[copy]", TO))
    other = ops(kernel("manual_unroll[copy]", CONTIGUOUS), kernel("elementwise[copy]", TO) | {"name": "another"})
    how = "call path and category"
    assert pairs(base, other) == [((0,), (0,), how), ((1,), (1,), how)]


def test_under_one_call_path_kernels_of_one_family_meet_first() -> None:
    base = ops(kernel("gemm", TO), kernel("add", TO))
    other = ops(kernel("add", TO) | {"name": "add on another device"}, kernel("dot", TO))
    assert pairs(base, other) == [((0,), (1,), "call path and category"), ((1,), (0,), "call path and family")]


def test_clearing_memory_is_no_part_of_the_kernel_that_replaced_another() -> None:
    base = ops(kernel("gemm", TO), kernel("Memset", TO, "memset"))
    assert pairs(base, ops(kernel("Cijk", TO))) == [((0,), (0,), "call path and category"), ((1,), (), ALONE)]


def test_a_copy_and_a_kernel_that_copies_meet_where_nothing_else_is_left() -> None:
    assert pairs(ops(kernel("Memcpy", TO, "copy")), ops(kernel("copy_kernel", TO))) == [((0,), (0,), "call path")]


WORDS = st.fixed_dictionaries({name: st.sampled_from(("", "a/b", "jit(f)/a/c", "a/d")) for name in IDENTITY})
RUNS = st.lists(WORDS, max_size=8, unique_by=lambda row: tuple(row.values()))


@given(RUNS, RUNS)
def test_each_op_is_in_one_match_and_the_ways_are_true(base: list[dict[str, str]], other: list[dict[str, str]]) -> None:
    sides = (ops(*base), ops(*other))
    found = matched(*sides)
    for side, rows in enumerate((base, other)):
        assert sorted(row for match in found for row in match.sides[side]) == list(range(len(rows)))
    columns = {how: set(columns) & {*IDENTITY} for columns, how in WAYS}
    for match in found:
        members = [base[row] for row in match.base] + [other[row] for row in match.other]
        assert match.how == ALONE or bool(match.base) == bool(match.other) is True
        assert all(len({row[name] for row in members}) == 1 for name in columns.get(match.how, ()))
    swapped = [Match(match.other, match.base, match.how) for match in matched(*reversed(sides))]
    assert sorted(map(repr, swapped)) == sorted(map(repr, found))


def test_an_mi300_lacks_no_op_of_an_h100_but_what_clears_memory(shared: Path) -> None:
    folder = shared / "traces/kineto/compare_h100_mi300"
    found = compared(*(opened(folder / f"{device}_qwen1.5-0.5b.json.gz") for device in ("h100", "mi300")))
    table = found.ops.table
    rows = table.filter(pl.col("name").str.contains("direct_copy_kernel")).select(
        "operator", "base_count", "other_count", (pl.col("base", "other") / 1e8).round(1)
    )
    assert sorted(rows.rows()) == [(CONTIGUOUS, 96, 96, 27.7, 14.5), (TO, 50, 50, 14.3, 10.6)]
    alone = table.filter(matched_by=ALONE)
    assert sorted(alone["name"].str.extract(r"(Memset|FillFunctor)")) == ["FillFunctor", "Memset", "Memset"]
