"""Finding, rule, and the evidence that rules draw on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal

import polars as pl
from msgspec import Struct

from tracehound.analysis.findings.host_causes import HostCause, collect_host_causes
from tracehound.analysis.hosts.host_time_parts import PART_NAMES
from tracehound.analysis.idle import DEVICE_STREAM
from tracehound.analysis.rank_trace import RunContext
from tracehound.analysis.ranks.lateness import LateRanks, group_late_ranks
from tracehound.analysis.result import Result, merge_in_turn
from tracehound.formats.device_occupancy import matching_devices
from tracehound.model.file_facts import DeviceProperties, FileFacts
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.trace import schema


class FindingLocation(Struct, frozen=True):
    """Location in the timeline that shows a finding best: an interval (ps), an event, or both."""

    start: int | None = None
    duration: int | None = None
    event: int | None = None
    rank: int | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> FindingLocation:
        """The location of a row of a result."""
        return cls(row.get("start"), row.get("duration"), row.get("event"), row.get("rank"))


Certainty = Literal["recorded", "inferred", "not recorded"]
"""Whether events of the trace name a cause, rules conclude it from them, or nothing says what it is."""


class Finding(Struct, frozen=True):
    """One cause of lost time, or what may be one.

    `cost` is the time per step (of a run without steps: of the run) that the run would win on an average rank without
    it, None where that is not known; `share` is its share of `base`, "" for an average step (else the run or window).
    `effects` are what it causes in turn, and what so has no finding of its own; `command` has the arguments of
    `tracehound report PATH` that show more of it.
    """

    title: str
    evidence: str
    advice: str
    location: FindingLocation
    cost: int | None = None
    share: float | None = None
    base: str = ""
    certainty: Certainty = "recorded"
    effects: tuple[str, ...] = ()
    command: str = ""


class Evidence(Struct, frozen=True, dict=True):
    """Input of all rules: `results` by the names of their analyses, and `rank_traits` (a row for each rank).

    `kernel_times` has for each rank the work of streams in whole steps (or the window, or the run) by name, which of
    many ranks is too much for one frame (`kernels` sums it, `computation_times` has numbers for names). `step_factors`
    says how much longer kernels are in each step than usual, `collectives` has the calls of the ranks by kind and size,
    where much communication is exposed. `step_causes` says what takes the time of steps on hosts without device work.
    """

    results: Mapping[str, Result]
    rank_traits: pl.DataFrame
    kernel_times: Sequence[pl.DataFrame]
    step_factors: pl.DataFrame
    collectives: pl.DataFrame
    step_causes: pl.DataFrame
    context: RunContext
    steps: int
    """Whole steps of an average rank; 0 where the run, or the window, has none."""
    base_time: int
    """Length of an average step, else of the window or the run; ps, 0 where it is not known."""

    @cached_property
    def _findings(self) -> dict[FindFunction, tuple[Finding, ...]]:
        return {}

    def findings_of(self, find: FindFunction) -> tuple[Finding, ...]:
        """The findings of a rule. They are computed once, however many other rules depend on them."""
        if find not in self._findings:
            self._findings[find] = tuple(find(self))
        return self._findings[find]

    @cached_property
    def late_groups(self) -> list[LateRanks]:
        """The late ranks that others waited for, longest wait first; nobody is judged by what was not recorded."""
        groups = group_late_ranks(self.table("stragglers"), self.context.ranks)
        return [group for group in groups if not set(self.untrusted_ranks) & {*group.ranks, *group.waiting}]

    @cached_property
    def device_idle(self) -> pl.DataFrame:
        """Idle time in whole steps, else in the window or the run, of the ranks whose device works: rows of `idle`."""
        trusted = set(self.device_times["rank"].to_list()) - set(self.untrusted_ranks)
        return self.table("idle").filter(pl.col("rank").is_in(list(trusted)) & (pl.col("stream") == DEVICE_STREAM))

    @cached_property
    def untrusted_ranks(self) -> tuple[int, ...]:
        """Ranks of which much device work was not recorded: their idle time may be that, and is not judged."""
        working = self.rank_traits.filter(pl.col("rank").is_in(self.device_times["rank"].implode()))
        return tuple(working.filter("work_missing")["rank"].to_list())

    @cached_property
    def host_causes(self) -> list[HostCause]:
        """The causes on the host of the devices' idle time, those with most of it first."""
        return collect_host_causes(self.device_idle, PART_NAMES)

    @cached_property
    def device_times(self) -> pl.DataFrame:
        """Time of each rank's device in its whole steps, else in the window or the run.

        The columns are rank, span, idle, communication and copy; the last two are exposed times, as in `breakdown`.
        """
        if not self.steps:
            return self.table("breakdown").select("rank", "span", "idle", "communication", "copy")
        steps = self.table("steps").filter(~pl.col("partial")).rename({"duration": "span"})
        return steps.select("rank", "span", "idle", "communication", "copy")

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Work of streams in the time of `device_times`, summed over the ranks of each `capability`.

        The columns are name, capability, total (ps), most (ps; the largest total of a rank), its rank and event, and
        of the name class and tensor_cores. `capability` is the major compute capability of the rank's own device, 0 if
        that is unknown.
        """
        largest = pl.col("most").arg_max()
        capability = pl.DataFrame(
            {"rank": list(self.compute_capabilities), "capability": list(self.compute_capabilities.values())},
            schema={"rank": pl.Int64, "capability": pl.Int64},
        )

        def sum_ranks(rows: pl.DataFrame) -> pl.DataFrame:
            return rows.group_by("name", "capability", maintain_order=True).agg(
                pl.col("total").sum(), pl.col("most", "rank", "event").get(largest)
            )

        of_ranks = (
            rows.join(capability, on="rank", maintain_order="left").with_columns(most="total").drop("count")
            for rows in stacks_of(self.kernel_times)
        )
        sums = merge_in_turn(map(sum_ranks, of_ranks), sum_ranks)
        kernels = sums if sums.height else pl.DataFrame(schema=_KERNEL_SCHEMA)
        names = self._kernel_names.select("name", "class", "tensor_cores")
        return kernels.join(names, on="name", how="left", maintain_order="left")

    @property
    def _kernel_names(self) -> pl.DataFrame:
        """The classified kernels, each name once."""
        return self.table("kernels").unique("name", maintain_order=True)

    @cached_property
    def computation_times(self) -> pl.DataFrame:
        """Work of streams that computes, in the time of `device_times`: rank, name (a number), total (ps), count."""
        numbers = self._kernel_names.with_row_index("number").filter(pl.col("type") == "computation")
        ranks = pl.Series(list(self.compute_capabilities), dtype=pl.Int64).implode()
        return pl.concat(
            rows.filter(pl.col("rank").is_in(ranks))
            .join(numbers.select("name", "number"), on="name", maintain_order="left")
            .select("rank", pl.col("number").alias("name"), "total", "count")
            for rows in stacks_of(self.kernel_times)
        )

    @cached_property
    def compute_capabilities(self) -> Mapping[int, int]:
        """The major compute capability of each rank of `device_times`, 0 where it is unknown."""
        ranks = self.device_times["rank"].unique().sort().to_list()
        return {rank: compute_capability(matching_devices(*self.facts_and_device(rank))) for rank in ranks}

    def facts_and_device(self, rank: int) -> tuple[FileFacts, int | None]:
        """The facts of a rank's file, and the number that it gives the rank's device."""
        host, device = self._host_and_device[rank]
        return self.context.facts[self.context.hosts[host].part], device

    @cached_property
    def _host_and_device(self) -> Mapping[int, tuple[int, int | None]]:
        """The host of each rank, and the number of its device."""
        return {rank: (host, device) for rank, host, device in self.context.ranks["rank", "host", "device"].iter_rows()}

    @cached_property
    def device_ranks(self) -> int:
        """Number of ranks whose device works."""
        return int(self.device_times["rank"].n_unique())

    @cached_property
    def device_word(self) -> str:
        """``GPU``, ``TPU``, ``CPU device`` or ``device``: what the working devices are called."""
        labels = self.context.ranks.filter(pl.col("rank").is_in(self.device_times["rank"].implode()))["label"]
        words = {word for label in labels for word in _DEVICE_WORDS if str(label).upper().startswith(word)}
        return words.pop() if len(words) == 1 else "device"

    def table(self, name: str) -> pl.DataFrame:
        """The rows of a result."""
        return self.results[name].table

    def per_step(self, total: float, ranks: int) -> int:
        """A total over this many ranks, per step of one rank."""
        return round(total / max(ranks, 1) / max(self.steps, 1))

    def step_at(self, rank: int, instant: int) -> int | None:
        """The whole step of a rank that has begun last at an instant (ps); None before the first, or without any."""
        steps = self.table("whole_steps")
        if steps.is_empty():
            return None
        begun = steps.filter((pl.col("rank") == rank) & (pl.col("start") <= instant)).sort("start")
        return int(begun["step"][-1]) if begun.height else None

    def share_of_base(self, cost: float) -> float:
        """A time per step, as a share of `base_time`."""
        return cost / self.base_time if self.base_time else 0.0

    @property
    def is_xla(self) -> bool:
        """True if XLA recorded the run: PyTorch's terms mean nothing to its users."""
        return self.context.is_xla

    @property
    def is_pytorch_xla(self) -> bool:
        """True if PyTorch/XLA recorded the run: JAX's terms mean nothing to its users."""
        return self.is_xla and bool(self.rank_traits["lazy"].sum())

    @property
    def where_phrase(self) -> str:
        """``steps``, ``the window``, or ``the run``: the extent of the rules' measures."""
        return "steps" if self.steps else self.extent_phrase

    @property
    def base_phrase(self) -> str:
        """``an average step``, ``the window``, or ``the run``."""
        return "an average step" if self.steps else self.extent_phrase

    @property
    def time_phrase(self) -> str:
        """``the steps' time``, or ``the devices' time`` of the window or the run: the base of `device_times`."""
        return "the steps' time" if self.steps else "the devices' time"

    @property
    def base_word(self) -> str:
        """``step``, ``window``, or ``run``: the base of most shares."""
        return "step" if self.steps else self.extent_word

    @property
    def extent_word(self) -> str:
        """``window``, or ``run``."""
        return "window" if self.context.windowed else "run"

    @property
    def extent_phrase(self) -> str:
        """``the window``, or ``the run``: all that was analyzed."""
        return f"the {self.extent_word}"


_KERNEL_SCHEMA: Final = schema(
    {"name": pl.String(), **dict.fromkeys(("capability", "total", "most", "rank", "event"), pl.Int64())}
)

_DEVICE_WORDS: Final = ("GPU", "TPU")


def compute_capability(devices: Iterable[DeviceProperties]) -> int:
    """The highest major compute capability of these devices; 0 where it is unknown, or none is NVIDIA's."""
    nvidia = (device for device in devices if device.warp_size == 32 and "AMD" not in device.name)
    return max((device.compute_major for device in nvidia), default=0)


FindFunction = Callable[[Evidence], Iterator[Finding]]
"""A function that finds the findings of a rule."""


class Rule(Struct, frozen=True):
    """A rule: its `condition` in words, with its source; `find` gives the findings in a trace.

    A finding of a rule `about_idle_time` may be lost work, where a file was cut short.
    """

    name: str
    condition: str
    find: FindFunction
    about_idle_time: bool = False
