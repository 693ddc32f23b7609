"""Names of the work of devices with their classes and longest executions: what findings need of `kernels`.

A file may have a name for each of its kernels, so this leaves out what costs more per name: the spread of lengths, the
launching lines and the outliers among ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis import kernels
from tracehound.analysis.devices.kernel_classes import classify_kernels
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Options, Result, empty_result, make_result, merge_in_turn
from tracehound.analysis.timing.row_groups import NameKindPairs, category_codes, group_rows, largest_row_per_group
from tracehound.model.stacked_frames import stacks_of
from tracehound.numeric.trees import sum_groups

_KEY: Final = ("name", "kind", "category")
_ROW_KEY: Final = ("name", "type", "class", "tensor_cores")


def sum_per_name(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each name, kind and HLO category: total and max (ps), and `event`, the longest execution.

    Names are categories, of which there may be millions; `combine` gets the texts.
    """
    del options
    rows = kernels.kernel_executions(rank_trace)
    number, category = NameKindPairs(rows["name"], rows["kind"]).pair_numbers, rows["category"].cast(pl.Categorical)
    group, first = group_rows(number, category_codes(category))
    length = rows["length"].cast(pl.Int64).to_numpy()
    longest = largest_row_per_group(group, length, np.zeros_like(length), len(first))
    return (
        rows[first]
        .select(
            "name",
            pl.col("kind", "category").cast(pl.String).cast(pl.Categorical),
            total=sum_groups(group, length, len(first)),
            max=length[longest],
            event=rows["id"].gather(longest),
        )
        .sort("event")
    )


def _sum_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    """A row of `sum_per_name` for all ranks; the event is that of the first rank among equally long ones."""
    longest = pl.col("event").get(pl.col("max").arg_max())
    return rows.group_by(_KEY, maintain_order=True).agg(pl.col("total").sum(), pl.col("max").max(), longest)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows that `kernels` has for each name, in its order, with few of its columns."""
    rows = merge_in_turn((_sum_ranks(table) for table in stacks_of(tables) if table.height), _sum_ranks)
    if rows.is_empty():
        return empty_result(CLASSIFIED_KERNELS, context, options)
    classes = classify_kernels(rows.select(_KEY).unique(maintain_order=True))
    pooled = (
        rows.join(classes, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
        .group_by(_ROW_KEY)
        .agg(pl.col("total").sum(), pl.col("event").get(pl.col("max").arg_max()), pl.col("max").max())
    )
    table = pooled.sort("total", *_ROW_KEY, descending=[True, *[False] * len(_ROW_KEY)])
    return make_result(CLASSIFIED_KERNELS, table, context, options)


CLASSIFIED_KERNELS: Final = replace(
    kernels.ANALYSIS,
    name="classified kernels",
    columns=tuple(each for each in kernels.COLUMNS if each.name in (*_ROW_KEY, "total", "max", "event")),
    per_rank=sum_per_name,
    combine=combine,
    count_column="",
    settings=(),
    columns_by_setting={},
)
"""The analysis `kernels` of these rows, under a name of its own, which is the key of its cached tables."""
