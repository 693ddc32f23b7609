"""Groups of HLO ops: by category, by program, by source line, by scope and others.

Owns the keys of the groups and the tree of scopes. Works on the rows of `hlo_op_costs`; knows no events and no peaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl

from tracehound.analysis.hlo.hlo_op_executions import OP_KEY
from tracehound.analysis.result import JOINED_EVENTS

OP_GROUPINGS: Final = (
    "op",
    "category",
    "program",
    "framework",
    "scope",
    "source",
    "duplicates",
    "bound",
    "rematerialized",
)

NO_SCOPE: Final = "(no scope)"
NOT_KNOWN: Final = "(not known)"

_OPERAND_NAMES: Final = r"%[\w.\-]+"

_SUMMED_COLUMNS: Final = ("count", "kernels", "self", "total")
_SUMMED_AMOUNTS: Final = ("work", "normalized_work", "moved", "hbm_moved", "host_moved")


def is_rematerialized() -> pl.Expr:
    """True for an op that computes again to save memory; like XProf, by its names."""
    named = pl.col("name").str.contains(r"\.remat")
    return named | pl.col("framework").str.contains("rematted_computation", literal=True).fill_null(value=False)


_SORT_DESCENDING: Final = (True, *[False] * len(OP_KEY))
"""The largest first, then by the key of ops."""

_CONTAINER_CATEGORIES: Final = ("while", "call", "conditional", "megacore fusion")


def may_contain_ops() -> pl.Expr:
    """True for an op that may contain others, whose operations and bytes it includes; the same rule as XProf's."""
    return pl.col("category").is_in(_CONTAINER_CATEGORIES).fill_null(value=False)


def group_ops(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """A row for each group, with `depth` (of a tree), `ops` (their number), and sums; the largest self time first.

    `category`, `module` and others of a group are the values that all its ops share. `scope` gives a tree, depth first:
    a row includes all rows below it.
    """
    marked_rows = rows.with_columns(is_rematerialized().alias("rematerialized"))
    if by == "op":
        flat = marked_rows.with_columns(pl.lit(1, pl.Int64).alias("ops"), pl.lit(None, pl.Int64).alias("depth"))
        return flat.sort("self", *OP_KEY, descending=_SORT_DESCENDING, nulls_last=True)
    if by == "scope":
        return _scope_tree(marked_rows)
    named = marked_rows.with_columns(_GROUP_KEYS[by]().alias("group"))
    table = _aggregate_ops(named, ["group"]).with_columns(pl.lit(None, pl.Int64).alias("depth"))
    if by == "duplicates":
        more = pl.col("ops") - 1
        words = pl.concat_str("leader", pl.lit(" and its "), more.cast(pl.String), pl.lit(" duplicates"))
        named_so = pl.when(more > 1).then(words).when(more == 1).then(
            pl.concat_str("leader", pl.lit(" and its duplicate"))
        ).otherwise("leader")  # fmt: skip
        table = table.with_columns(named_so.alias("name"))
    else:
        table = table.with_columns(pl.col("group").alias("name"))
    return table.sort("self", "name", "group", descending=[True, False, False])


def _program_title() -> pl.Expr:
    """The program as XLA writes it: ``jit_f(12)``."""
    number = pl.col("program").reinterpret(signed=False).cast(pl.String)
    named = pl.col("module").fill_null(NOT_KNOWN)
    return pl.when(number.is_null()).then(named).otherwise(pl.concat_str(named, pl.lit("("), number, pl.lit(")")))


def _duplicate_key() -> pl.Expr:
    """A key that ops with equal HLO share.

    The compiler names the first of them; where it does not, their lines are compared without the names in them, and
    without the computations that they call.
    """
    line = (
        pl.col("text")
        .str.replace_all(_OPERAND_NAMES, "%")
        .str.replace(r", calls=[^,]*", "")
        .str.replace(r", metadata=.*", "")
        .str.replace(r", channel_id=\d+", "")
    )
    twin = pl.coalesce("twin", "name")
    has_twins = pl.col("twin").is_not_null().any().over("module", "program")
    own_key = pl.concat_str(
        line, pl.col("estimated_flops", "estimated_bytes").cast(pl.String), separator="|", ignore_nulls=True
    )
    key = pl.when(has_twins | line.is_null()).then(twin).otherwise(own_key)
    return pl.concat_str(
        key, pl.col("module").fill_null(""), pl.col("program").cast(pl.String).fill_null(""), separator="|"
    )


_GROUP_KEYS: Final[dict[str, Callable[[], pl.Expr]]] = {
    "category": lambda: pl.col("category").fill_null(NOT_KNOWN),
    "program": _program_title,
    "framework": lambda: pl.coalesce("framework", "name"),
    "source": lambda: pl.col("source").fill_null(NOT_KNOWN),
    "duplicates": _duplicate_key,
    "bound": lambda: pl.col("bound").fill_null(NOT_KNOWN),
    "rematerialized": lambda: pl.when("rematerialized")
    .then(pl.lit("rematerialized"))
    .otherwise(pl.lit("computed once")),
}


def _aggregate_ops(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Sums over the ops of each group.

    Their time is their self time. Halves of asynchronous ops are left out of the amounts, since they move data while
    other ops run, and so are loops, whose inner ops are counted. In a group of nothing but such halves and loops the
    time is that from start to end, and all amounts count.
    """
    uncounted = pl.col("half") | may_contain_ops()
    all_uncounted = uncounted.all()
    counted = ~uncounted | all_uncounted
    return (
        rows.sort("self", *OP_KEY, descending=_SORT_DESCENDING)
        .group_by(key, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("ops"),
            pl.col("name").first().alias("leader"),
            *(_sum_of_known(pl.col(name)) for name in _SUMMED_COLUMNS),
            *(_sum_of_known(pl.col(name).filter(counted)) for name in _SUMMED_AMOUNTS),
            pl.when(all_uncounted).then(pl.col("time").sum()).otherwise(pl.col("self").sum()).alias("time"),
            pl.col("min").min(),
            pl.col("max").max(),
            pl.col("event").first(),
            pl.col("ranks").max(),
            *(
                _common_value(name)
                for name in ("category", "module", "program", "core", "framework", "source", "above", "text")
            ),
            pl.col("bound").first(),
            pl.col("estimated").any(),
            pl.col("rematerialized").all(),
            JOINED_EVENTS,
        )
    )


def _sum_of_known(values: pl.Expr) -> pl.Expr:
    """The sum, null where no value is known."""
    return pl.when(values.is_not_null().any()).then(values.sum())


def _common_value(name: str) -> pl.Expr:
    """The value that all rows share, else null."""
    return pl.when(pl.col(name).n_unique() == 1).then(pl.col(name).first()).alias(name)


def scope_parts(path: str) -> list[str]:
    """The scopes of an op's framework name, from outside in: ``jit(f)/transpose(jvp(a/b))/dot`` has three."""
    parts, depth, last = list[str](), 0, 0
    for at, char in enumerate(path):
        depth += (char in "([{") - (char in ")]}")
        if char == "/" and depth <= 0:
            parts.append(path[last:at])
            last = at + 1
    return [part for part in (*parts, path[last:]) if part] or [NO_SCOPE]


def _scope_tree(rows: pl.DataFrame) -> pl.DataFrame:
    """A row for each scope and for each op's kind at its end, depth first; siblings by time, the largest first."""
    nodes, members = dict[tuple[int, str], _ScopeNode](), list[tuple[str | None, int]]()
    for path in rows["framework"].unique().to_list():
        node = _ROOT_SCOPE
        for part in scope_parts(path) if path else [NO_SCOPE]:
            node = nodes.setdefault((node.number, part), _ScopeNode(len(nodes), node.number, part, node.depth + 1))
            members.append((path, node.number))
    of_node = pl.DataFrame(members, schema={"framework": pl.String, "node": pl.Int64}, orient="row")
    found = _aggregate_ops(rows.join(of_node, on="framework", nulls_equal=True), ["node"])
    ordered = _depth_first_order(list(nodes.values()), dict(found.select("node", "self").iter_rows()))
    table = pl.DataFrame(
        [(node.number, node.name, node.depth) for node in ordered],
        schema={"node": pl.Int64, "name": pl.String, "depth": pl.Int64},
        orient="row",
    )
    return table.join(found, on="node", maintain_order="left")


class _ScopeNode(NamedTuple):
    """A scope, or an op's kind at the end of one: `above` is the number of the scope around it."""

    number: int
    above: int
    name: str
    depth: int


_ROOT_SCOPE: Final = _ScopeNode(-1, -1, "", -1)
"""The parent of the outermost scopes."""


def _depth_first_order(nodes: Sequence[_ScopeNode], weights: Mapping[int, int]) -> list[_ScopeNode]:
    """The nodes, each followed by its descendants; siblings by weight, the heaviest first."""
    below: dict[int, list[_ScopeNode]] = {}
    for node in sorted(nodes, key=lambda node: (weights[node.number], node.name)):
        below.setdefault(node.above, []).append(node)
    ordered, waiting = list[_ScopeNode](), list(below.get(_ROOT_SCOPE.number, ()))
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        waiting += below.get(node.number, ())
    return ordered
