"""The GPUs that a Kineto file lists (``deviceProperties``, once ``computeProperties``), as facts of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracehound.file_facts import DeviceProperties
from tracehound.formats.json.elements import encoded
from tracehound.formats.kineto.values import int64

_MULTIPROCESSORS: Final = ("numSms", "multiProcessorCount")
_THREADS: Final = ("maxThreadsPerMultiprocessor", "maxThreadsPerMultiProcessor")
_MEMORY: Final = ("totalGlobalMem",)
"""Today's spellings, and those of 2021."""


def device_properties(metadata: Mapping[str, Any]) -> tuple[DeviceProperties, ...]:
    """The devices that a file lists, by what it says beside its events."""
    listed = metadata.get("deviceProperties", metadata.get("computeProperties"))
    return tuple(_device(each) for each in listed if isinstance(each, Mapping)) if isinstance(listed, list) else ()


def _device(said: Mapping[str, Any]) -> DeviceProperties:
    return DeviceProperties(
        id=int64(said.get("id")),
        name=str(said.get("name", "")),
        multiprocessors=_size(said, _MULTIPROCESSORS),
        threads=_size(said, _THREADS),
        memory=_size(said, _MEMORY),
        compute_major=int64(said.get("computeMajor")) or 0,
        warp_size=int64(said.get("warpSize")) or 0,
        recorded=encoded(said).decode(),
    )


def _size(said: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """What the first of these names says that is there; 0 where that is no size."""
    value = int64(next((said[name] for name in names if name in said), None))
    return value if value is not None and 0 < value < 1 << 62 else 0
