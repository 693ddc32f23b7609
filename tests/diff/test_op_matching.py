"""Which ops are taken for one: by what tells most of them, and each only once."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from test_run_comparison import compared, opened

from tracehound.diff.op_identity import (
    IDENTITY_COLUMNS,
    MATCH_CRITERIA,
    NO_MATCH,
    OpMatch,
    instruction_signature,
    match_ops,
    named_scope,
)

LINEAR = "jit(step)/RowParallelLinear"


def ops(*rows: dict[str, str]) -> pl.DataFrame:
    """Ops of which only these words are known."""
    return pl.DataFrame(
        [{name: row.get(name, "") for name in IDENTITY_COLUMNS} for row in rows],
        dict.fromkeys(IDENTITY_COLUMNS, pl.String),
    )


def kernel(name: str, path: str, category: str = "kernel") -> dict[str, str]:
    return {"name": f"void {name}<int>", "family": name, "category": category, "path": path,
            "operator": path.partition(" > ")[0]}  # fmt: skip


def hlo(name: str, category: str, scope: str, text: str = "", family: str = "") -> dict[str, str]:
    return {"name": name, "category": category, "module": "jit_step", "scope": scope,
            "signature": instruction_signature(text), "family": family}  # fmt: skip


def pairs(baseline: pl.DataFrame, candidate: pl.DataFrame) -> list[tuple[tuple[int, ...], tuple[int, ...], str]]:
    return sorted((match.baseline, match.candidate, match.how) for match in match_ops(baseline, candidate))


CONTIGUOUS, TO = "aten::contiguous > aten::clone > aten::copy_", "aten::to > aten::_to_copy > aten::copy_"


def test_the_operators_around_a_kernel_tell_more_than_its_family() -> None:
    baseline = ops(kernel("elementwise[copy]", CONTIGUOUS), kernel("unrolled[copy]", TO))
    candidate = ops(kernel("manual_unroll[copy]", CONTIGUOUS), kernel("elementwise[copy]", TO) | {"name": "another"})
    how = "call path and category"
    assert pairs(baseline, candidate) == [((0,), (0,), how), ((1,), (1,), how)]


def test_under_one_call_path_kernels_of_one_family_meet_first() -> None:
    baseline = ops(kernel("gemm", TO), kernel("add", TO))
    candidate = ops(kernel("add", TO) | {"name": "add on another device"}, kernel("dot", TO))
    assert pairs(baseline, candidate) == [((0,), (1,), "call path and category"), ((1,), (0,), "call path and family")]


def test_clearing_memory_is_no_part_of_the_kernel_that_replaced_another() -> None:
    baseline = ops(kernel("gemm", TO), kernel("Memset", TO, "memset"))
    assert pairs(baseline, ops(kernel("Cijk", TO))) == [((0,), (0,), "call path and category"), ((1,), (), NO_MATCH)]


def test_a_copy_and_a_kernel_that_copies_meet_where_nothing_else_is_left() -> None:
    assert pairs(ops(kernel("Memcpy", TO, "copy")), ops(kernel("copy_kernel", TO))) == [((0,), (0,), "call path")]


def all_reduce(groups: str, space: str) -> str:
    shape = f"bf16[1024,5120]{{1,0:T(8,128)(2,1){space}}}"
    return f"%x.1 = {shape} all-reduce({shape} %y.2), channel_id=3, replica_groups={groups}, to_apply=%add.1.clone"


def test_collectives_of_one_place_meet_whatever_they_are_called() -> None:
    baseline = ops(
        hlo("all-reduce", "all-reduce", f"{LINEAR}/mn,pn->mp/dot_general", all_reduce("[1,2]<=[2]", "S(1)")),
        hlo("all-reduce", "all-reduce", "jit(step)/Embedding/gather", all_reduce("[1,2]<=[2]", "S(1)")),
    )
    candidate = ops(
        hlo("psum", "all-reduce", "jit(step)/Embedding/take/gather", all_reduce("{{0,1}}", "")),
        hlo("psum", "all-reduce", f"{LINEAR}/shard_map/psum", all_reduce("{{0,1}}", "")),
    )
    how = "module, category, place and shapes"
    assert ((0,), (1,), how) in pairs(baseline, candidate)


def test_a_custom_call_is_the_same_with_other_settings() -> None:
    scope = "jit(step)/jit(attention)/{}/pallas_call"
    baseline, candidate = (
        ops(
            hlo(name, "custom-call", scope.format(name), shape, "RPA-bq-p"),
            hlo("update", "custom-call", scope.format(f"update_{name}"), shape, "update"),
        )
        for name, shape in (("RPA-bq_32-p_64-", "f32[3] custom-call()"), ("RPA-bq_16-p_128-", "f32[4] custom-call()"))
    )
    how = "module, category and family"
    assert pairs(baseline, candidate) == [((0,), (0,), how), ((1,), (1,), how)]


def test_many_may_do_the_work_of_one_in_its_place() -> None:
    baseline = ops(hlo("fusion", "convolution fusion", f"{LINEAR}/mn,pn->mp/dot_general", "f32[1] fusion()"))
    call = f"{LINEAR}/shard_map/jit(kernel)/kernel_{{}}/pallas_call"
    candidate = ops(
        hlo("kernel", "custom-call", call.format(1), "f32[1] custom-call()", "kernel"),
        hlo("kernel", "custom-call", call.format(2), "f32[2] custom-call()", "kernel"),
        hlo("kernel", "custom-call", "jit(step)/Attention/jit(kernel)/pallas_call", "f32[2] custom-call()", "kernel"),
    )
    assert pairs(baseline, candidate) == [((), (2,), NO_MATCH), ((0,), (0, 1), "module, kind and place")]


def test_where_nothing_is_named_only_a_whole_scope_brings_unlike_ops_together() -> None:
    baseline = ops(hlo("fusion", "loop fusion", "jit(step)/while/body/mul", "f32[1] fusion()"))
    candidate = ops(hlo("copy", "copy", "jit(step)/while/body/transpose", "f32[1] copy()"))
    assert {how for *_, how in pairs(baseline, candidate)} == {NO_MATCH}


def test_the_name_that_a_compiler_gave_tells_nothing_where_scopes_do() -> None:
    baseline, candidate = (
        hlo("fusion", "loop fusion", f"jit(step)/{place}/mul", f"f32[{len(place)}]") for place in ("a", "bc")
    )
    assert {how for *_, how in pairs(ops(baseline), ops(candidate))} == {NO_MATCH}
    assert pairs(ops(baseline | {"scope": ""}), ops(candidate | {"scope": ""})) == [((0,), (0,), "name")]
    assert pairs(ops(baseline), ops(candidate | {"scope": ""})) == [((0,), (0,), "name")], "one run tells of no scopes"


def test_what_communicates_in_a_scope_is_not_what_computes_there() -> None:
    scope = f"{LINEAR}/dot_general"
    baseline = ops(
        hlo("all-reduce", "all-reduce", scope, "f32[1] all-reduce()"),
        hlo("copy", "copy", scope, "f32[1] copy()"),
        hlo("fusion", "loop fusion", scope, "f32[1] fusion()"),
    )
    candidate = ops(hlo("dot", "dot", scope, "f32[1] dot()"))
    assert pairs(baseline, candidate) == [
        ((0,), (), NO_MATCH),
        ((1,), (), NO_MATCH),
        ((2,), (0,), "module, kind and scope"),
    ]


WORDS = st.fixed_dictionaries({name: st.sampled_from(("", "a/b", "jit(f)/a/c", "a/d")) for name in IDENTITY_COLUMNS})
RUNS = st.lists(WORDS, max_size=8, unique_by=lambda row: tuple(row.values()))


@given(RUNS, RUNS)
def test_each_op_is_in_one_match_and_the_ways_are_true(
    baseline: list[dict[str, str]], candidate: list[dict[str, str]]
) -> None:
    sides = (ops(*baseline), ops(*candidate))
    found = match_ops(*sides)
    for side, rows in enumerate((baseline, candidate)):
        assert sorted(row for match in found for row in match.sides[side]) == list(range(len(rows)))
    columns = {how: set(columns) & {*IDENTITY_COLUMNS} for columns, how in MATCH_CRITERIA}
    for match in found:
        members = [baseline[row] for row in match.baseline] + [candidate[row] for row in match.candidate]
        assert match.how == NO_MATCH or bool(match.baseline) == bool(match.candidate) is True
        assert all(len({row[name] for row in members}) == 1 for name in columns.get(match.how, ()))
        assert "place" not in match.how or len({named_scope(row["scope"]) for row in members}) == 1
    swapped = [OpMatch(match.candidate, match.baseline, match.how) for match in match_ops(*reversed(sides))]
    assert sorted(map(repr, swapped)) == sorted(map(repr, found))


def test_an_mi300_lacks_no_op_of_an_h100_but_what_clears_memory(shared: Path) -> None:
    folder = shared / "traces/kineto/compare_h100_mi300"
    found = compared(*(opened(folder / f"{device}_qwen1.5-0.5b.json.gz") for device in ("h100", "mi300")))
    table = found.ops.table
    rows = table.filter(pl.col("name").str.contains("direct_copy_kernel")).select(
        "operator", "baseline_count", "candidate_count", (pl.col("baseline", "candidate") / 1e8).round(1)
    )
    assert sorted(rows.rows()) == [(CONTIGUOUS, 96, 96, 27.7, 14.5), (TO, 50, 50, 14.3, 10.6)]
    alone = table.filter(matched_by=NO_MATCH)
    assert sorted(alone["name"].str.extract(r"(Memset|FillFunctor)")) == ["FillFunctor", "Memset", "Memset"]


def test_on_a_tpu_collectives_attention_and_matrix_products_meet(shared: Path) -> None:
    found = compared(*(opened(shared / "traces/xla" / f"tpu_vllm_qwen3_{run}") for run in "ab"))
    both = found.ops.table.filter((pl.col("baseline") > 1e9) & (pl.col("candidate") > 1e9))
    rows = {(row["category"], row["operator"].split("/")[1]): row for row in both.to_dicts()}
    reduce = rows["all-reduce", "RowParallelLinear"]
    assert (reduce["baseline_count"], reduce["candidate_count"]) == (128, 128)
    attention = rows["custom-call", "jit(_jax_attn_func)"]
    assert (attention["baseline_count"], attention["candidate_count"], attention["verdict"]) == (
        64,
        64,
        "too few steps",
    )
    product = rows["convolution fusion", "MergedColumnParallelLinear"]
    assert (product["baseline_count"], product["candidate_count"], product["matched_by"]) == (
        64,
        64,
        "module, kind and place",
    )
