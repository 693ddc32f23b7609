"""Which args of an event are read with it; the rest stays in the file.

Owns their spellings since 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from tracehound.formats.json.columns import MISSING, as_id

NOTHING: Final = msgspec.Raw()


class Args(msgspec.Struct, gc=False, frozen=True):
    """The args that are read of every event. Raw ones are looked at where they matter, each distinct text once."""

    correlation: Any = MISSING
    external: Any = msgspec.field(default=None, name="External id")
    external_old: Any = msgspec.field(default=MISSING, name="external id")
    stream: int | float | str | None = None
    device: int | float | str | None = None
    bytes: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    dtype: Any = None
    group: Any = msgspec.field(default=None, name="Process Group Name")
    description: Any = msgspec.field(default=None, name="Process Group Description")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    size: Any = msgspec.field(default=None, name="Group size")
    collective_number: Any = msgspec.field(default=None, name="Seq")
    elements_in: Any = msgspec.field(default=None, name="In msg nelems")
    elements_out: Any = msgspec.field(default=None, name="Out msg nelems")
    split_in: Any = msgspec.field(default=None, name="In split size")
    split_out: Any = msgspec.field(default=None, name="Out split size")
    source: Any = msgspec.field(default=None, name="Src Rank")
    destination: Any = msgspec.field(default=None, name="Dst Rank")
    awaited: Any = msgspec.field(default=None, name="wait_on_stream")
    recorded: Any = msgspec.field(default=None, name="wait_on_cuda_event_record_corr_id")
    dims: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Dims")
    dims_old: msgspec.Raw = msgspec.field(default=NOTHING, name="Input dims")
    types: msgspec.Raw = msgspec.field(default=NOTHING, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Strides")
    concrete: msgspec.Raw = msgspec.field(default=NOTHING, name="Concrete Inputs")
    stack: msgspec.Raw = msgspec.field(default=NOTHING, name="Call stack")
    hierarchy: msgspec.Raw = msgspec.field(default=NOTHING, name="Module Hierarchy")
    sequence: Any = msgspec.field(default=MISSING, name="Sequence number")
    forward: Any = msgspec.field(default=MISSING, name="Fwd thread id")
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING
    registers: Any = msgspec.field(default=MISSING, name="registers per thread")
    shared: Any = msgspec.field(default=MISSING, name="shared memory")
    blocks_per_sm: Any = msgspec.field(default=None, name="blocks per SM")
    warps_per_sm: Any = msgspec.field(default=None, name="warps per SM")
    occupancy: Any = msgspec.field(default=None, name="est. achieved occupancy %")
    occupancy_old: Any = msgspec.field(default=None, name="theoretical occupancy %")  # the same until May 2021


class InstantArgs(Args, gc=False, frozen=True):
    """Those of an instant, which may tell that memory was allocated or freed."""

    change: Any = msgspec.field(default=None, name="Bytes")
    address: Any = msgspec.field(default=None, name="Addr")
    holder_type: Any = msgspec.field(default=None, name="Device Type")
    holder: Any = msgspec.field(default=None, name="Device Id")
    allocated: Any = msgspec.field(default=msgspec.UNSET, name="Total Allocated")
    reserved: Any = msgspec.field(default=msgspec.UNSET, name="Total Reserved")


class NameArgs(msgspec.Struct, gc=False, frozen=True):
    """Those of a metadata event: what a process or a thread is called."""

    name: Any = None


SomeArgs = TypeVar("SomeArgs", Args, InstantArgs, NameArgs)

NO_ARGS: Final = Args()

_ENCODER: Final = msgspec.json.Encoder(enc_hook=str, decimal_format="number")


def read(said: object, kind: type[SomeArgs]) -> SomeArgs:
    """The args of an event that was decoded leniently."""
    if not isinstance(said, Mapping):
        return kind()
    names, raw = _fields(kind)
    found = {name: said[key] for key, name in names.items() if key in said}
    found.update({key: as_id(found[key]) for key in ("stream", "device") if key in found})
    found.update({key: _encoded(found[key]) for key in raw & found.keys()})
    return kind(**found)


@cache
def _fields(kind: type[Args | InstantArgs | NameArgs]) -> tuple[Mapping[str, str], frozenset[str]]:
    """The names of the fields by their spelling in files, and those that stay JSON."""
    names, none = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)), kind()
    return names, frozenset(name for name in names.values() if getattr(none, name) is NOTHING)


def _encoded(value: object) -> msgspec.Raw:
    return msgspec.Raw(_ENCODER.encode(value))
