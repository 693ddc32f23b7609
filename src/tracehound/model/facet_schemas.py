"""Schemas of facets: frames of data that only some events have and only some analyses need.

A facet has a row for every event of its sort that has any of the data; `record` is that of the event in `EVENTS`, by
which the two are joined. Null: the file does not say. Buffers belong to programs, not to events.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

UNKNOWN_DEVICE: Final = -2
"""The device of an allocation if the file does not say whose memory it was."""

LINK_COLUMNS: Final = ("produces", "consumes")
"""The columns of the facet ``handed`` that link events to one another."""

FACET_SCHEMAS: Final[Mapping[str, pl.Schema]] = MappingProxyType(
    {
        "launched": pl.Schema(  # kernels: their launch parameters
            {
                "record": pl.Int64(),
                "grid": pl.Categorical(),  # "128,1,1": blocks, or work groups
                "block": pl.Categorical(),  # "256,1,1": threads
                "registers": pl.Int32(),  # per thread
                "shared": pl.Int64(),  # bytes of shared memory per block
                "blocks_per_sm": pl.Float64(),  # blocks of the grid, over the multiprocessors of the device
                "warps_per_sm": pl.Float64(),
                "occupancy": pl.Float64(),  # estimated achieved occupancy, a fraction
            }
        ),
        "copied": pl.Schema(  # copies and memsets of PyTorch: the bandwidth that the file states
            {
                "record": pl.Int64(),
                "bandwidth": pl.Float64(),  # GB/s
            }
        ),
        "cut": pl.Schema(  # kernels and copies whose recorded end is impossible: it was cut
            {
                "record": pl.Int64(),
                "recorded_duration": pl.Int64(),  # the duration in the file, ps
            }
        ),
        "handed": pl.Schema(  # XLA events: ids shared by producers and consumers
            dict.fromkeys(("record", *LINK_COLUMNS), pl.Int64())
        ),
        "called": pl.Schema(  # operators: their arguments, as JSON without blanks
            {
                "record": pl.Int64(),
                "dims": pl.Categorical(),  # "[[32,3,224,224],[],[]]"
                "types": pl.Categorical(),
                "strides": pl.Categorical(),
                "concrete": pl.Categorical(),  # values of inputs that are not tensors
                "stack": pl.Categorical(),  # the Python call stack, if it is text
                "hierarchy": pl.Categorical(),  # of modules, if it is text
                "sequence": pl.Int64(),  # autograd's number, shared by a forward operator and its backward node
                "forward": pl.Int64(),  # the thread of the forward operator
            }
        ),
        "communicated": pl.Schema(  # collectives: operators that start them, and kernels
            {
                "record": pl.Int64(),
                "collective": pl.Categorical(),  # "allreduce", "_allgather_base"
                "dtype": pl.Categorical(),
                "group": pl.Categorical(),  # the process group's name
                "description": pl.Categorical(),
                "ranks": pl.Categorical(),  # members of the group, as the file spells them
                "size": pl.Int32(),  # number of members
                "sequence": pl.Int64(),  # number of the collective within its group
                "elements_in": pl.Int64(),
                "elements_out": pl.Int64(),
                "split_in": pl.Categorical(),
                "split_out": pl.Categorical(),
                "source": pl.Int32(),  # rank that sends
                "destination": pl.Int32(),
            }
        ),
        "waited": pl.Schema(  # CUDA synchronization rows: the event that was waited for
            {
                "record": pl.Int64(),
                "stream": pl.Int64(),  # on which the CUDA event was recorded
                "recorded": pl.Int64(),  # correlation id of the call that recorded it (cudaEventRecord)
            }
        ),
        "allocated": pl.Schema(  # allocations and frees, in file order
            {
                "record": pl.Int64(),
                "time": pl.Int64(),  # ps
                "device": pl.Int32(),  # see `memory_devices`; -2 (`UNKNOWN_DEVICE`): the file does not say
                "bytes": pl.Int64(),  # below 0 if freed
                "address": pl.Int64(),
                "allocated": pl.Int64(),  # total held by the allocator at that time
                "reserved": pl.Int64(),
                "thread": pl.Int64(),
                "category": pl.Categorical(),  # what it is for: "activation", "gradient"; of memory timelines alone
                "moved": pl.Boolean(),  # no allocation: memory from before, or a change of category
            }
        ),
        "held": pl.Schema(  # memory of XLA's allocators after each of their events, in time order
            {
                "record": pl.Int64(),
                "time": pl.Int64(),  # ps
                "allocator": pl.Categorical(),  # "GPU_6_bfc"; null if only the device is known
                "device": pl.Int32(),  # its ordinal on the host
                "bytes": pl.Int64(),  # allocated, below 0 if freed; null: not recorded
                "requested": pl.Int64(),
                "address": pl.Int64(),
                "allocated": pl.Int64(),  # in total, without memory reserved by programs
                "stack": pl.Int64(),  # reserved for the running program
                "free": pl.Int64(),
                "fragmentation": pl.Float64(),  # fraction of free memory outside of its largest block
                "peak": pl.Int64(),  # maximum in use since the allocator started
                "framework": pl.Categorical(),
            }
        ),
        "buffers": pl.Schema(  # buffers of XLA's programs, by their buffer assignment; `record` is null
            {
                "record": pl.Int64(),
                "module": pl.Categorical(),
                "program": pl.Int64(),
                "space": pl.Int32(),  # memory space: 0 the device's, 5 the host's
                "first": pl.Int64(),  # heap event that allocates it; null: it is always there
                "last": pl.Int64(),  # heap event that frees it; null: none
                "bytes": pl.Int64(),
                "name": pl.String(),  # the instruction that defines it, and which part of its result: "copy-start{0}"
                "sort": pl.Categorical(),  # temporary, parameter, output, constant
                "peak": pl.Boolean(),  # in memory at the peak; the next columns are only set for these
                "unpadded": pl.Int64(),
                "opcode": pl.Categorical(),
                "shape": pl.String(),
                "framework": pl.String(),
                "source": pl.String(),
            }
        ),
    }
)
"""The schemas of the facets, by name."""


def empty_facet(name: str) -> pl.LazyFrame:
    """The facet of a file without such data."""
    return pl.LazyFrame(schema=FACET_SCHEMAS[name])
