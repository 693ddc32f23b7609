"""What only some events carry and only some analyses need: frames beside the events of a part.

Owns their schemas. Knows no format. A facet has a row for every event of its sort that carries any of it; `record` is
that of the event in `EVENTS`, by which the two are joined. What a file does not tell is null. Buffers are of programs,
not of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

UNTOLD: Final = -2
"""The device of an allocation of which the file does not say whose memory it was."""

LINKS: Final = ("produces", "consumes")
"""The columns of the facet ``handed`` that tie events to one another."""

FACETS: Final[Mapping[str, pl.Schema]] = MappingProxyType(
    {
        "launched": pl.Schema(  # kernels: how they were launched
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
        "handed": pl.Schema(  # what events of XLA hand to one another: ids that producers and consumers share
            dict.fromkeys(("record", *LINKS), pl.Int64())
        ),
        "called": pl.Schema(  # operators: what they were called with, as JSON without blanks
            {
                "record": pl.Int64(),
                "dims": pl.Categorical(),  # "[[32,3,224,224],[],[]]"
                "types": pl.Categorical(),
                "strides": pl.Categorical(),
                "concrete": pl.Categorical(),  # values of the inputs that are no tensors
                "stack": pl.Categorical(),  # the Python call stack, where that is text
                "hierarchy": pl.Categorical(),  # of modules, likewise
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
                "ranks": pl.Categorical(),  # the members of the group, as the file spells them
                "size": pl.Int32(),  # how many members the group has
                "sequence": pl.Int64(),  # number of the collective within its group
                "elements_in": pl.Int64(),
                "elements_out": pl.Int64(),
                "split_in": pl.Categorical(),
                "split_out": pl.Categorical(),
                "source": pl.Int32(),  # rank that sends
                "destination": pl.Int32(),
            }
        ),
        "waited": pl.Schema(  # CUDA's rows of synchronisation: what was waited for
            {
                "record": pl.Int64(),
                "stream": pl.Int64(),  # on which the CUDA event was recorded
                "recorded": pl.Int64(),  # correlation id of the call that recorded it (cudaEventRecord)
            }
        ),
        "allocated": pl.Schema(  # what an allocator gave or took back, in the order of the file
            {
                "record": pl.Int64(),
                "time": pl.Int64(),  # ps
                "device": pl.Int32(),  # -1: the host, -2 (`UNTOLD`): the file does not say
                "bytes": pl.Int64(),  # less than 0 where it was freed
                "address": pl.Int64(),
                "allocated": pl.Int64(),  # held by the allocator then, in all
                "reserved": pl.Int64(),
                "thread": pl.Int64(),
                "category": pl.Categorical(),  # what it is for: "activation", "gradient"; of memory timelines alone
                "moved": pl.Boolean(),  # nothing is given or taken back: it was there, or comes to another category
            }
        ),
        "held": pl.Schema(  # what XLA's allocators held after each event of theirs, in the order of time
            {
                "record": pl.Int64(),
                "time": pl.Int64(),  # ps
                "allocator": pl.Categorical(),  # "GPU_6_bfc"; null where only the device is told
                "device": pl.Int32(),  # its ordinal on the host
                "bytes": pl.Int64(),  # given, less than 0 where taken back; null where the file does not say
                "requested": pl.Int64(),
                "address": pl.Int64(),
                "allocated": pl.Int64(),  # in all, without what programs reserve
                "stack": pl.Int64(),  # reserved for the program that runs
                "free": pl.Int64(),
                "fragmentation": pl.Float64(),  # fraction of the free memory that is not in its largest piece
                "peak": pl.Int64(),  # most in use since the allocator began
                "framework": pl.Categorical(),
            }
        ),
        "buffers": pl.Schema(  # what XLA's programs keep in memory, by their buffer assignment; `record` is null
            {
                "record": pl.Int64(),
                "module": pl.Categorical(),
                "program": pl.Int64(),
                "space": pl.Int32(),  # memory space: 0 the device's, 5 the host's
                "first": pl.Int64(),  # event of the heap's trace that allocates it; null: it is there all the time
                "last": pl.Int64(),  # the one that frees it; null: none does
                "bytes": pl.Int64(),
                "name": pl.String(),  # the instruction that defines it, and which part of its result: "copy-start{0}"
                "sort": pl.Categorical(),  # temporary, parameter, output, constant
                "peak": pl.Boolean(),  # it is there when most is; what follows is told of such buffers alone
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


def empty(name: str) -> pl.LazyFrame:
    """A facet of a file that tells nothing of the sort."""
    return pl.LazyFrame(schema=FACETS[name])
