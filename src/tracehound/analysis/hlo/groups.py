"""HLO ops laid together: by category, by program, by the source line or the scope that they come from.

Owns what tells ops apart and the tree of scopes. Works on the rows of `hlo.costs`; knows no events and no peaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl

from tracehound.analysis.hlo.rows import KEY
from tracehound.analysis.members import JOINED

WAYS: Final = ("op", "category", "program", "framework", "scope", "source", "duplicates", "bound", "rematerialised")

UNSCOPED: Final = "(no scope)"
NOWHERE: Final = "(not known)"

_OPERANDS: Final = r"%[\w.\-]+"

_COUNTED: Final = ("count", "kernels", "self", "total")
_AMOUNTS: Final = ("work", "normalized_work", "moved", "hbm_moved", "host_moved")


def rematerialised() -> pl.Expr:
    """Whether an op computes again what was computed before, to save memory: as XProf tells it, by names."""
    named = pl.col("name").str.contains(r"\.remat")
    return named | pl.col("framework").str.contains("rematted_computation", literal=True).fill_null(value=False)


_ORDER: Final = (True, *[False] * len(KEY))
"""The largest first, else by what tells ops apart."""

_HOLDING: Final = ("while", "call", "conditional", "megacore fusion")


def holds() -> pl.Expr:
    """Whether an op may have others nested inside, whose operations and bytes its own are then: as XProf tells it."""
    return pl.col("category").is_in(_HOLDING).fill_null(value=False)


def grouped(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """A row for each group, with `depth` (of a tree), `ops` (how many it holds), and sums; the largest self first.

    Of a group `category`, `module` and the like are what all its ops have in common. `scope` gives a tree, depth first:
    a row holds all below it.
    """
    told = rows.with_columns(rematerialised().alias("rematerialised"))
    if by == "op":
        flat = told.with_columns(pl.lit(1, pl.Int64).alias("ops"), pl.lit(None, pl.Int64).alias("depth"))
        return flat.sort("self", *KEY, descending=_ORDER, nulls_last=True)
    if by == "scope":
        return _tree(told)
    named = told.with_columns(_NAMES[by]().alias("group"))
    table = _summed(named, ["group"]).with_columns(pl.lit(None, pl.Int64).alias("depth"))
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


def _program() -> pl.Expr:
    number = pl.col("program").reinterpret(signed=False).cast(pl.String)
    named = pl.col("module").fill_null(NOWHERE)
    return pl.when(number.is_null()).then(named).otherwise(pl.concat_str(named, pl.lit("("), number, pl.lit(")")))


def _fingerprint() -> pl.Expr:
    """What two ops with the same HLO have in common.

    The compiler names the first of them; where it does not, their lines are compared without the names in them, and
    without what is called inside.
    """
    line = (
        pl.col("text")
        .str.replace_all(_OPERANDS, "%")
        .str.replace(r", calls=[^,]*", "")
        .str.replace(r", metadata=.*", "")
        .str.replace(r", channel_id=\d+", "")
    )
    twin = pl.coalesce("twin", "name")
    told = pl.col("twin").is_not_null().any().over("module", "program")
    alike = pl.concat_str(
        line, pl.col("estimated_flops", "estimated_bytes").cast(pl.String), separator="|", ignore_nulls=True
    )
    key = pl.when(told | line.is_null()).then(twin).otherwise(alike)
    return pl.concat_str(
        key, pl.col("module").fill_null(""), pl.col("program").cast(pl.String).fill_null(""), separator="|"
    )


_NAMES: Final[dict[str, Callable[[], pl.Expr]]] = {
    "category": lambda: pl.col("category").fill_null(NOWHERE),
    "program": _program,
    "framework": lambda: pl.coalesce("framework", "name"),
    "source": lambda: pl.col("source").fill_null(NOWHERE),
    "duplicates": _fingerprint,
    "bound": lambda: pl.col("bound").fill_null(NOWHERE),
    "rematerialised": lambda: pl.when("rematerialised")
    .then(pl.lit("rematerialised"))
    .otherwise(pl.lit("computed once")),
}


def _summed(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The ops of each group together.

    Their time is their self time, in which halves of asynchronous ops do not move what they move while others run, and
    loops do not do what the ops inside do. Of a group of nothing but such halves and loops it is the times from start
    to end, in which they did what they did.
    """
    elsewhere = pl.col("half") | holds()
    alone = elsewhere.all()
    mine = ~elsewhere | alone
    return (
        rows.sort("self", *KEY, descending=_ORDER)
        .group_by(key, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("ops"),
            pl.col("name").first().alias("leader"),
            *(_sum(pl.col(name)) for name in _COUNTED),
            *(_sum(pl.col(name).filter(mine)) for name in _AMOUNTS),
            pl.when(alone).then(pl.col("time").sum()).otherwise(pl.col("self").sum()).alias("time"),
            pl.col("min").min(),
            pl.col("max").max(),
            pl.col("event").first(),
            pl.col("ranks").max(),
            *(_common(name) for name in ("category", "module", "program", "framework", "source", "above", "text")),
            pl.col("bound").first(),
            pl.col("estimated").any(),
            pl.col("rematerialised").all(),
            JOINED,
        )
    )


def _sum(values: pl.Expr) -> pl.Expr:
    """The sum, null where nothing is known."""
    return pl.when(values.is_not_null().any()).then(values.sum())


def _common(name: str) -> pl.Expr:
    """The value that all have, else null."""
    return pl.when(pl.col(name).n_unique() == 1).then(pl.col(name).first()).alias(name)


def parts_of(path: str) -> list[str]:
    """The scopes of an op's framework name, from outside in: ``jit(f)/transpose(jvp(a/b))/dot`` has three."""
    parts, depth, last = list[str](), 0, 0
    for at, char in enumerate(path):
        depth += (char in "([{") - (char in ")]}")
        if char == "/" and depth <= 0:
            parts.append(path[last:at])
            last = at + 1
    return [part for part in (*parts, path[last:]) if part] or [UNSCOPED]


def _tree(rows: pl.DataFrame) -> pl.DataFrame:
    """A row for each scope and each op's kind at its end, depth first, of siblings the largest first."""
    nodes, members = dict[tuple[int, str], _Node](), list[tuple[str | None, int]]()
    for path in rows["framework"].unique().to_list():
        node = _TOP
        for part in parts_of(path) if path else [UNSCOPED]:
            node = nodes.setdefault((node.number, part), _Node(len(nodes), node.number, part, node.depth + 1))
            members.append((path, node.number))
    of_node = pl.DataFrame(members, schema={"framework": pl.String, "node": pl.Int64}, orient="row")
    found = _summed(rows.join(of_node, on="framework", nulls_equal=True), ["node"])
    ordered = _depth_first(list(nodes.values()), dict(found.select("node", "self").iter_rows()))
    table = pl.DataFrame(
        [(node.number, node.name, node.depth) for node in ordered],
        schema={"node": pl.Int64, "name": pl.String, "depth": pl.Int64},
        orient="row",
    )
    return table.join(found, on="node", maintain_order="left")


class _Node(NamedTuple):
    """A scope, or an op's kind at the end of some: `above` is the number of the scope around it."""

    number: int
    above: int
    name: str
    depth: int


_TOP: Final = _Node(-1, -1, "", -1)
"""What is around the outermost scopes."""


def _depth_first(nodes: Sequence[_Node], weights: Mapping[int, int]) -> list[_Node]:
    """The nodes, each followed by what lies below it; of siblings the heaviest first."""
    below: dict[int, list[_Node]] = {}
    for node in sorted(nodes, key=lambda node: (weights[node.number], node.name)):
        below.setdefault(node.above, []).append(node)
    ordered, waiting = list[_Node](), list(below.get(_TOP.number, ()))
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        waiting += below.get(node.number, ())
    return ordered
