"""The lanes of HLO ops and of modules that a profile has none of, made of what portions put aside for them.

Owns which rows they show. Rows pass through memory a piece at a time; of what tells executions of modules apart more is
there only where neither runs nor calls do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracehound.facets import LINKS
from tracehound.formats.assembly.assemble import Piece
from tracehound.formats.spill import Kept, Spill
from tracehound.formats.wire import Rows
from tracehound.formats.xla.ends import BEGUN, TrueEnds, with_run
from tracehound.formats.xla.gathered import Gathered, raw
from tracehound.formats.xla.lanes import TELLING, by_execution, executions, in_calls, of_calls, with_calls
from tracehound.formats.xla.names import lane_of_ops
from tracehound.trace import KIND

DERIVED: Final = 1 << 20
"""Derived lanes come after a device's own of the same role."""


class Named(NamedTuple):
    """Rows that name an op, and the file's numbers of the ops that they count."""

    kept: Kept
    ops: Rows


class Derived(Struct):
    """The pieces of derived lanes so far; their lanes and ranks are among those gathered."""

    gathered: Gathered
    spill: Spill
    pieces: list[Piece] = field(default_factory=list)

    def of_gpu(self, process: str, named: Sequence[Named], lane_of: Rows, rank: int) -> None:
        """Lanes of HLO ops: one event per kernel that names its op, as XProf counts them.

        Streams run at once, so each has a lane of ops of its own. `lane_of` has the lane of every line.
        """
        if not named:
            return
        lines = np.unique(np.concatenate([kept.runs.lane for kept, _ in named if kept.runs is not None]))
        streams = np.unique(lane_of[lines])
        target = np.full(len(lane_of), -1, np.int64)
        for at, lane in enumerate(streams.tolist()):
            name = lane_of_ops(self.gathered.lanes[lane]["name"], len(streams))
            of_stream = lines[lane_of[lines] == lane]
            target[of_stream] = self.gathered.lane(name, "ops", DERIVED + at, rank=rank, process=process)
        self.pieces += [Piece(kept, lanes=target, ops=ops) for kept, ops in named]

    def executed(
        self,
        process: str,
        named: Sequence[Named],
        unnamed: Sequence[Kept],
        calls: pl.DataFrame,
        programs: Mapping[str, int],
        rank: int,
    ) -> None:
        """A lane of the executions of modules on a GPU, if there are any.

        `calls` are those of `with_calls`, `unnamed` is work that names no op; for `programs` see `in_calls`.
        """
        runs = _executed(named, unnamed, calls, programs)
        if runs.height:
            self._add_modules(process, {0: rank}, runs)

    def of_cpu(self, process: str, named: Sequence[Named], marks: pl.DataFrame, users: pl.DataFrame) -> None:
        """The devices of the CPU backend, whose ops run on the host's threads: a lane of ops and one of modules each.

        `marks` and `users` are those of `TrueEnds`.
        """
        devices = sorted({device for kept, _ in named for device in kept.rows(columns=["device"])["device"].unique()})
        ranks = {device: self.gathered.rank("CPU", device, "") for device in devices}
        lanes = {
            device: self.gathered.lane("XLA Ops", "ops", 0, rank=rank, process=process, work=True)
            for device, rank in ranks.items()
        }
        ends, told = TrueEnds(marks, users, _begun(named if users.height else ())), list[pl.DataFrame | None]()
        for kept, ops in named:
            rows = ends.of(kept.rows())
            told.append(by_execution(rows))
            lane = pl.col("device").replace_strict(lanes, return_dtype=pl.Int64)
            self._add(rows.drop(LINKS, strict=False).with_columns(lane.alias("lane")), ops)
        if named:
            known = [runs for runs in told if runs is not None]
            runs = pl.concat(known, how="diagonal") if len(known) == len(told) else _whole(named, ends.of)
            self._add_modules(process, ranks, executions(runs))

    def dispatched(self, named: Named, lanes: Rows) -> None:
        """Host events of which those with the name of an op are its dispatch; `lanes` has the lane of every line."""
        names = pl.Series([row["name"] for row in self.gathered.ops.rows], dtype=pl.String)
        overruled = pl.col("name").cast(pl.String).is_in(names.implode()) & ~pl.col("kind").is_in(_OWN)
        rows = named.kept.rows(columns=["name", "kind"])
        kind = rows.select(pl.when(overruled).then(pl.lit("runtime", KIND)).otherwise("kind").to_physical()).to_series()
        self.pieces.append(Piece(named.kept.replaced("kind", kind.to_numpy()), lanes=lanes, ops=named.ops))

    def _add(self, rows: pl.DataFrame, ops: Rows | None = None) -> None:
        self.pieces.append(Piece(self.spill.keep(raw(rows), f"derived-{len(self.pieces)}"), ops=ops))

    def _add_modules(self, process: str, ranks: Mapping[int, int], runs: pl.DataFrame) -> None:
        """A lane of module executions for each device (key of `ranks`)."""
        for device, rank in ranks.items():
            mine = runs.filter(pl.col("device") == device)
            lane = self.gathered.lane("XLA Modules", "modules", DERIVED, rank=rank, process=process)
            self._add(
                mine.with_columns(
                    pl.lit(lane).alias("lane"),
                    pl.col("name").cast(pl.Categorical),
                    pl.lit("module", KIND).alias("kind"),
                )
            )


def _executed(
    named: Sequence[Named], unnamed: Sequence[Kept], calls: pl.DataFrame, programs: Mapping[str, int]
) -> pl.DataFrame:
    """The executions of modules on a GPU."""

    def called(ops: pl.DataFrame) -> pl.DataFrame:
        return with_calls(ops, calls) if calls.height and "correlation" in ops.columns else ops

    told, tell = list[pl.DataFrame](), list[pl.DataFrame]()
    for kept, _ in named:
        ops = called(_telling(kept))
        runs = by_execution(ops)
        if runs is None:
            told = tell = [_whole(named, called)]
            break
        told.append(runs)
        tell.append(of_calls(ops))
    for kept in unnamed if calls.height else ():
        told.append(in_calls(kept.rows().with_columns(pl.lit(0, pl.Int64).alias("device")), tell, calls, programs))
    return executions(pl.concat(told, how="diagonal")) if told else pl.DataFrame()


def _whole(named: Sequence[Named], made: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
    """What is made of all rows, as far as it tells executions, in the order of the file."""
    return pl.concat([made(_telling(kept)) for kept, _ in named], how="diagonal").sort("record", maintain_order=True)


def _begun(named: Sequence[Named]) -> Iterator[pl.DataFrame]:
    """When each op began, with the columns of `BEGUN`."""
    for kept, _ in named:
        yield with_run(kept.rows(columns=[name for name in BEGUN if name in kept.dtypes]))


def _telling(kept: Kept) -> pl.DataFrame:
    return kept.rows(columns=[name for name in TELLING if name in kept.dtypes])


_OWN: Final = ("compile", "step", "op")
"""Kinds of host events that stay what they are, whatever ops are called."""
