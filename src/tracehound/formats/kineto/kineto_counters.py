"""Counters of a Kineto file: its counter events, and the memory that its allocators hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.formats.assembly.counter_samples import (
    CounterKey,
    CounterSamples,
    CounterValues,
    FileCounters,
    FloatValues,
    build_counters,
    counter_titles,
    finite_numbers,
)
from tracehound.formats.json.value_columns import MISSING, parse_count, parse_counts, parse_integer
from tracehound.formats.kineto.arg_values import parse_byte_size
from tracehound.formats.kineto.json_events import InstantArgs, RawId
from tracehound.formats.kineto.kineto_lanes import normalize_id
from tracehound.formats.kineto.note_counts import MEMORY_WITHOUT_ADDRESS, MEMORY_WITHOUT_SIZE, NoteKind
from tracehound.formats.kineto.process_ids import MergedRuns, without_run_mark
from tracehound.formats.value_bounds import MAX_BYTES
from tracehound.model.memory_devices import memory_device_label, memory_device_numbers, rank_memory_numbers
from tracehound.numeric.intervals import Ints, Mask

MemoryQuantity = Literal["allocated", "reserved", "change"]

MEMORY_COUNTER_NAMES: Final[Mapping[MemoryQuantity, str]] = {
    "allocated": "memory allocated",
    "reserved": "memory reserved",
    "change": "memory change",
}
"""Names of the memory counters. Older files record no totals: there the sum of the changes takes their place."""


CPU_PREFIX: Final = "CPU "
"""Prefix of the names of counters of host memory."""

HOST_MEMORY_COUNTER: Final = f"{CPU_PREFIX}{MEMORY_COUNTER_NAMES['allocated']}"
"""Counter of what the host's allocator holds, as far as recorded: memory allocated before the recording is missing."""


class MemoryCounterKey(NamedTuple):
    """A memory counter: the number of its device (see `memory_devices`), and the quantity that it counts."""

    device: int
    quantity: MemoryQuantity


class TotalsColumn(NamedTuple):
    """A column of memory totals: a mask of the events that record one, and the values (NaN: no number)."""

    recorded: Mask
    values: FloatValues


def allocator_devices_of_args(args: Sequence[InstantArgs]) -> Ints:
    """Number of the device of each event's allocator."""
    return memory_device_numbers(
        parse_counts([args_of_event.memory_device_type for args_of_event in args]),
        parse_counts([args_of_event.memory_device for args_of_event in args]),
    )


def missing_memory_args(args: Sequence[InstantArgs]) -> dict[NoteKind, Mask]:
    """Masks of the events without a size or a device type, and of those without an address."""
    sizes = _none_mask(parse_byte_size(args_of_event.change) for args_of_event in args)
    device_types = _none_mask(parse_integer(args_of_event.memory_device_type) for args_of_event in args)
    return {
        MEMORY_WITHOUT_SIZE: sizes | device_types,
        MEMORY_WITHOUT_ADDRESS: _none_mask(parse_integer(args_of_event.address) for args_of_event in args),
    }


def _none_mask(values: Iterable[int | None]) -> Mask:
    return np.fromiter((value is None for value in values), np.bool_)


def memory_samples_of_args(args: Sequence[InstantArgs], device: Ints) -> CounterValues:
    """Samples of the memory counters of these events; see `memory_samples`."""
    allocated, reserved = (
        _totals_of_args([args_of_event.allocated for args_of_event in args]),
        _totals_of_args([args_of_event.reserved for args_of_event in args]),
    )
    changes = (
        finite_numbers([args_of_event.change for args_of_event in args])
        if _any_without_totals(allocated, reserved)
        else np.zeros(len(args))
    )
    return memory_samples(allocated, reserved, changes, device)


def memory_samples(
    allocated: TotalsColumn, reserved: TotalsColumn, changes: FloatValues, device: Ints
) -> CounterValues:
    """Samples of memory counters, by counter, in the order of `MEMORY_COUNTER_NAMES`.

    A change (allocated bytes, negative when freed) counts only where no total is recorded. Impossible sizes give no
    sample.
    """
    recorded = np.vstack([allocated.recorded, reserved.recorded, ~(allocated.recorded | reserved.recorded)])
    values = np.vstack([allocated.values, reserved.values, changes])
    recorded &= ~(np.abs(values) > MAX_BYTES)
    recorded[:2] &= ~(values[:2] < 0)
    event, quantity = np.nonzero(recorded.T)
    devices, number = np.unique(device, return_inverse=True)
    keys = [MemoryCounterKey(each, quantity) for each in devices.tolist() for quantity in MEMORY_COUNTER_NAMES]
    return CounterValues(event, keys, number[event] * len(MEMORY_COUNTER_NAMES) + quantity, values.T[recorded.T])


def _totals_of_args(column: Sequence[object]) -> TotalsColumn:
    recorded = np.ones(len(column), np.bool_)
    if msgspec.UnsetType in set(map(type, column)):
        recorded = np.array([value is not msgspec.UNSET for value in column])
    return TotalsColumn(recorded, finite_numbers(column) if recorded.any() else np.zeros(len(column)))


def _any_without_totals(allocated: TotalsColumn, reserved: TotalsColumn) -> bool:
    return not (allocated.recorded | reserved.recorded).all()


_DEVICE_NAME: Final = re.compile(r"(?:GPU|MTIA|HPU|XPU)\s*(\d{1,9})(?!\d)")
"""Names of a process or a counter that belongs to a device: ``GPU 0 Counters``, ``GPU 0 Utilization``."""


def counter_lanes(samples: CounterSamples, origin: int, ranks: pl.DataFrame, runs: MergedRuns) -> FileCounters:
    """Counters as lanes: of these ranks by their devices, else of the host; times in ps from `origin`."""
    if not samples.keys:
        return FileCounters()
    samples = _sum_memory_changes(_without_unused_reserved(samples))
    titles = counter_titles([key for key in samples.keys if isinstance(key, CounterKey)])
    made = build_counters(
        samples, lambda ns: (ns - origin) * 1000, partial(_counter_lane, titles, _RankFinder(ranks, runs))
    )
    memory_keys = [number for number, key in enumerate(samples.keys) if isinstance(key, MemoryCounterKey)]
    return (
        replace(made, samples=made.samples.filter(~(pl.col("lane").is_in(memory_keys) & _BETWEEN_EQUAL_SAMPLES)))
        if memory_keys
        else made
    )


_SAME_AS_PREVIOUS: Final = pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in ("lane", "value"))
_BETWEEN_EQUAL_SAMPLES: Final = (_SAME_AS_PREVIOUS & _SAME_AS_PREVIOUS.shift(-1)).fill_null(value=False)
"""Samples between two equal ones of their counter: each memory event repeats the reserved total."""


def renumber_device_process(process: str, devices: Mapping[int, int]) -> str:
    """Name of a process that is called after a device, with the new number of that device."""
    match = _DEVICE_NAME.match(process)
    if match is None or int(match[1]) not in devices:
        return process
    return f"{process[: match.start(1)]}{devices[int(match[1])]}{process[match.end(1) :]}"


def count_memory_changes(samples: CounterSamples) -> int:
    """Number of samples that are changes of memory, not totals."""
    changing = np.array(
        [isinstance(key, MemoryCounterKey) and key.quantity == "change" for key in samples.keys], np.bool_
    )
    return int(np.count_nonzero(changing[samples.number])) if len(changing) else 0


def count_unattributed_memory(samples: CounterSamples, ranks: pl.DataFrame) -> int:
    """Number of memory samples whose rank is unknown, because several ranks, each on its own host, have that device."""
    devices = Counter(_memory_numbers(ranks))
    is_unknown = [isinstance(key, MemoryCounterKey) and devices[key.device] != 1 for key in samples.keys]
    return int(np.count_nonzero(np.array(is_unknown, np.bool_)[samples.number])) if is_unknown else 0


def _memory_numbers(ranks: pl.DataFrame) -> list[int | None]:
    """Number under which the memory of each rank's device is recorded."""
    return ranks.select(rank_memory_numbers(pl.col("label"), pl.col("device"))).to_series().to_list()


def _without_unused_reserved(samples: CounterSamples) -> CounterSamples:
    """Samples without those of reserved memory that is always 0: the host's allocator reserves nothing."""
    largest = np.zeros(len(samples.keys))
    np.maximum.at(largest, samples.number, np.abs(samples.value))
    reserved = np.array(
        [isinstance(key, MemoryCounterKey) and key.quantity == "reserved" for key in samples.keys], np.bool_
    )
    idle = reserved & (largest == 0)
    return samples.take(np.flatnonzero(~idle[samples.number])) if idle.any() else samples


def _sum_memory_changes(samples: CounterSamples) -> CounterSamples:
    """Samples with memory changes replaced by their running sum, in order of time."""
    changes = np.array(
        [isinstance(key, MemoryCounterKey) and key.quantity == "change" for key in samples.keys], np.bool_
    )
    rows = np.flatnonzero(changes[samples.number]) if changes.any() else np.empty(0, np.int64)
    if not len(rows):
        return samples
    value, rows = samples.value.copy(), rows[np.lexsort((samples.time[rows], samples.number[rows]))]
    for rows_of_counter in np.split(rows, np.flatnonzero(np.diff(samples.number[rows])) + 1):
        value[rows_of_counter] = np.cumsum(value[rows_of_counter])
    return samples._replace(value=value)


class _RankFinder:
    """Finds the host and the row of the rank (None: no rank) of a counter."""

    def __init__(self, ranks: pl.DataFrame, runs: MergedRuns) -> None:
        self._of = {place: row for row, place in reversed(list(enumerate(ranks.select("host", "device").iter_rows())))}
        self._rows_of_memory = dict[int | None, list[int]]()
        for row, number in enumerate(_memory_numbers(ranks)):
            self._rows_of_memory.setdefault(number, []).append(row)
        self._hosts = ranks["host"].to_list()
        self._runs = runs

    def rank_of_process(self, process: RawId, device: int) -> tuple[int, int | None]:
        """Host and rank of a device, of the run of a process."""
        host = self._runs.run_of(process)
        return host, self._of.get((host, device))

    def rank_of_memory(self, number: int) -> tuple[int, int | None]:
        """Host and rank of a memory device, whose process is unknown: those of the only run with that device."""
        rows = self._rows_of_memory.get(number, [])
        return (self._hosts[rows[0]], rows[0]) if len(rows) == 1 else (0, None)


def _counter_lane(
    titles: Mapping[CounterKey, tuple[str, str]], ranks: _RankFinder, key: CounterKey | MemoryCounterKey
) -> Mapping[str, object]:
    if isinstance(key, MemoryCounterKey):
        host, rank = ranks.rank_of_memory(key.device)
        prefix = "" if rank is not None else f"{memory_device_label(key.device)} "
        name, unit = f"{prefix}{MEMORY_COUNTER_NAMES[key.quantity]}", "bytes"
    else:
        host, rank = ranks.rank_of_process(normalize_id(key.process), _device_of_counter(key))
        name, unit = titles[key]
    process = "" if isinstance(key, MemoryCounterKey) else str(normalize_id(key.process))
    return {"host": host, "rank": rank, "name": name, "unit": unit, "process": process}


def _device_of_counter(series: CounterKey) -> int:
    """Device of a counter, from the names of its process and its own; -1 for none."""
    process = without_run_mark(series.process)
    texts = [text for text in (process, series.name) if isinstance(text, str)]
    number_in_name = next((match[1] for text in texts if (match := _DEVICE_NAME.match(text))), MISSING)
    process_number = parse_count(process)
    return process_number if process_number != MISSING else int(number_in_name)
