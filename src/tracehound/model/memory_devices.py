"""Numbers and names of the devices whose memory PyTorch's profiler records.

A number holds the type of the device and its ordinal: devices of several types are never taken for each other. Those of
CUDA and ROCm are their ordinals, as the numbers of the devices that run kernels are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from tracehound.model.facet_schemas import UNKNOWN_DEVICE
from tracehound.numeric.intervals import Ints

HOST_DEVICE: Final = -1
"""Number of the host's own memory."""

_CPU_TYPE: Final = 0
_GPU_TYPES: Final = (1, 6)
_TYPE_NAMES: Final[Mapping[int, str]] = {
    2: "MKLDNN", 3: "OpenGL", 4: "OpenCL", 5: "IDEEP", 7: "FPGA", 8: "MAIA", 9: "XLA", 10: "Vulkan", 11: "Metal",
    12: "XPU", 13: "MPS", 14: "Meta", 15: "HPU", 16: "VE", 17: "Lazy", 18: "IPU", 19: "MTIA", 20: "PrivateUse1",
}  # fmt: skip
"""Names of PyTorch's device types by their numbers, but for the CPU (0), CUDA (1) and HIP (6)."""

_ORDINAL_BITS: Final = 24
_MAX_ORDINAL: Final = (1 << _ORDINAL_BITS) - 1
_MAX_TYPE: Final = 126


def memory_device_numbers(device_types: Ints, ordinals: Ints) -> Ints:
    """Number of the device of each memory event; types and ordinals are below 0 where missing.

    An ordinal beyond Int32 stands for the first device, as in the args of kernels.
    """
    ordinal = np.where((ordinals >= 0) & (ordinals < 1 << 31), ordinals, 0)
    typed: Ints = (np.minimum(device_types, _MAX_TYPE) << _ORDINAL_BITS) | np.where(ordinal <= _MAX_ORDINAL, ordinal, 0)
    number = np.where(np.isin(device_types, _GPU_TYPES), ordinal, typed)
    return np.where(device_types <= _CPU_TYPE, HOST_DEVICE, number)


def rank_memory_numbers(label: pl.Expr, device: pl.Expr) -> pl.Expr:
    """Number under which the memory of each rank's device is recorded, by its label (``XPU 0``) and its ordinal."""
    types = {name: number << _ORDINAL_BITS for number, name in _TYPE_NAMES.items()}
    family = label.str.extract(r"^(\w+)")
    return device.cast(pl.Int64) + family.replace_strict(types, default=0, return_dtype=pl.Int64)


def is_memory_like(number: pl.Expr, label: str) -> pl.Expr:
    """True for memory of a device of the type that a rank runs on, as its `label` says."""
    own = pl.select(rank_memory_numbers(pl.lit(label), pl.lit(0))).item()
    device_type = number.cast(pl.Int64) // (1 << _ORDINAL_BITS)
    return (number >= 0) & (device_type == int(own) >> _ORDINAL_BITS)


def ordinal_of_memory_device(number: int) -> int:
    """Ordinal of a device, as the file writes it."""
    return number & _MAX_ORDINAL if number >> _ORDINAL_BITS > 0 else number


def memory_device_label(number: int) -> str:
    """Name of a device for users: ``CPU``, ``GPU 0``, ``MPS 0``."""
    return str(pl.select(memory_device_name(pl.lit(number))).item())


def memory_device_name(number: pl.Expr) -> pl.Expr:
    """Column `device` with the name of each memory device; for `UNKNOWN_DEVICE` the file does not say which it is."""
    device_type, ordinal = number.cast(pl.Int64) // (1 << _ORDINAL_BITS), number.cast(pl.Int64) % (1 << _ORDINAL_BITS)
    type_name = device_type.replace_strict(
        _TYPE_NAMES, default=pl.format("device type {},", device_type), return_dtype=pl.String
    )
    return (
        pl.when(number == HOST_DEVICE).then(pl.lit("CPU"))
        .when(number == UNKNOWN_DEVICE).then(pl.lit("unknown device"))
        .when(device_type == 0).then(pl.format("GPU {}", number))
        .otherwise(pl.format("{} {}", type_name, ordinal))
        .alias("device")
    )  # fmt: skip
