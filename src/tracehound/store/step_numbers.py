"""One numbering of the inferred steps of all ranks: sessions of hosts may begin steps apart.

Owns which rank counts from which number. Reads no file.
"""

from __future__ import annotations

from typing import Final

import polars as pl

MOST: Final = 0.5
"""Of so many executions that ranks share, the starts must lie nearer together than half a step."""

_RUN: Final = ("name", "run")


def later(steps: pl.DataFrame) -> dict[int, int]:
    """The number of the first inferred step of each rank where that is not 0; `steps` are those of a trace.

    Steps are the same where they are executions of one program by one run_id: those of the rank that begins first give
    the numbers. What counts runs for itself does not follow: the others keep theirs where the numbers of the runs that
    they share lie apart by more than one distance, or the same run is at another time. The first of all is step 0.
    """
    told = steps.filter(pl.col("rank").is_not_null(), pl.col("run").is_not_null())
    alone = told.filter(pl.len().over("rank", *_RUN) == 1)
    if alone["rank"].n_unique() < 2:
        return {}
    begun = alone.filter(pl.col("start") == pl.col("start").min())["rank"].min()
    first = alone.filter(pl.col("rank") == begun)
    same = alone.join(first.select(*_RUN, "step", "start", "end"), on=_RUN, suffix="_first")
    near = 2 * (pl.col("start") - pl.col("start_first")).abs() < pl.col("end_first") - pl.col("start_first")
    behind = (pl.col("step_first") - pl.col("step")).cast(pl.Int64)
    found = same.group_by("rank").agg(
        behind.first().alias("behind"), (behind.n_unique() == 1).alias("agrees"), near.mean().alias("near")
    )
    known = dict(found.filter("agrees", pl.col("near") >= MOST).select("rank", "behind").rows())
    before = min(known.values(), default=0)
    return {rank: behind - before for rank, behind in known.items() if behind != before}
