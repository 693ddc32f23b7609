"""What devices can do at most: operations and bytes per second.

Owns the table of devices, how the figures of a profile are read, and what a caller says instead of either. Figures are
dense (no sparsity), of one device as a framework counts devices: a GCD of an MI250X, a core of a TPU v3 or TPU7x. Knows
no events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.analysis.devices.peak_table import DEVICES, HALVED, NVIDIA, NVIDIA_CYCLES
from tracehound.analysis.result import Scene
from tracehound.analysis.settings import Given, Setting
from tracehound.errors import TracehoundError, printable
from tracehound.file_facts import FileFacts, PlaneStats
from tracehound.notes import Note, note

_TERA, _GIGA, _KILO = 1e12, 1e9, 1e3


class Peaks(Struct, frozen=True):
    """The most that one device can do.

    `flops` is operations per second by element type as HLO spells it (``bf16``, ``f8``, ``tf32``), `memory` bytes per
    second of its main memory, `onchip` of its others (``VMEM read``). `source` says where that stands.
    """

    device: str
    flops: Mapping[str, float]
    memory: float | None
    source: Note
    onchip: Mapping[str, float] = field(default_factory=dict)

    def compute(self, dtype: str | None = None) -> float | None:
        """Operations per second on numbers of this type, or of the 16-bit types where none is told; None: unknown.

        Of a type that it has no units for it computes in the next wider one.
        """
        for name in _WIDER.get(_spelled(dtype or "bf16"), ()):
            if name in self.flops:
                return self.flops[name]
        return None


_WIDER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "f4": ("f4", "f8", "bf16"),
        "f8": ("f8", "bf16"),
        "s8": ("s8", "bf16"),
        "bf16": ("bf16",),
        "f16": ("bf16",),
        "tf32": ("tf32", "f32", "bf16"),
        "f32": ("f32", "bf16"),
        "f64": ("f64",),
    }
)
_NAMES: Final = MappingProxyType(
    {
        "bfloat16": "bf16", "half": "f16", "float16": "f16", "fp16": "f16", "float": "f32", "float32": "f32",
        "fp32": "f32", "single": "f32", "double": "f64", "float64": "f64", "fp64": "f64", "int8": "s8", "u8": "s8",
        "uint8": "s8", "char": "s8", "signed char": "s8", "byte": "s8", "unsigned char": "s8", "fp8": "f8",
    }
)  # fmt: skip


def _spelled(dtype: str) -> str:
    """An element type as the table has it: ``c10::BFloat16``, ``f8e4m3fn``, ``half``."""
    name = dtype.lower().rpartition("::")[2].removeprefix("torch.")
    if name.startswith(("f8", "float8")):
        return "f8"
    return "f4" if name.startswith(("f4", "float4")) else _NAMES.get(name, name)


def of_model(model: str) -> Peaks | None:
    """The peaks of the device that is called so: ``NVIDIA H100 80GB HBM3``, ``TPU v5p``; None for one not in the table.

    The name that stands first in the table wins, so the table has ``h100 pcie`` before ``h100``.
    """
    plain = re.sub(r"[\s_-]+", " ", model.lower())
    for device in DEVICES:
        if re.search(device.pattern, plain):
            flops = {name: value * _TERA for name, value in device.teraflops.items()}
            source = note("peaks_from_table", table=device.source)
            return Peaks(device.name, flops, device.gigabytes * _GIGA, source)
    return None


def of_plane(stats: PlaneStats, model: str = "") -> Peaks | None:
    """The peaks that an XLA profile states of a device, or from which they follow; None where it says nothing of use.

    TPUs state them. GPUs state their cores, clock and memory. Some of NVIDIA's are told by them and looked up; of the
    others the operations per cycle and core are known by compute capability: where devices of one differ, the least,
    which the source says. ROCm's runtime takes HBM3 for half as fast as it is (the clock that it reports is not that of
    the data), so that AMD's GPUs are looked up.
    """
    compute = _positive(stats.peak_teraflops_per_second)
    memory = _positive(stats.peak_hbm_bw_gigabytes_per_second)
    if compute and memory:
        flops = {"bf16": compute * _TERA}
        return Peaks(model or "TPU", flops, memory * _GIGA, note("peaks_stated_in_profile"), _onchip(stats))
    cores, clock = _positive(stats.core_count), _positive(stats.clock_rate)
    major, minor = stats.compute_cap_major, stats.compute_cap_minor
    if stats.device_vendor == "AMD" and cores is not None:
        return of_model(_AMD.get((f"{major}.{minor}", round(cores)), model))
    if major is None or minor is None or cores is None or clock is None:
        return of_model(model)
    return _of_nvidia((major, minor), cores, clock, _positive(stats.memory_bandwidth), model) or of_model(model)


def _onchip(stats: PlaneStats) -> dict[str, float]:
    """The bandwidths that a TPU states of its memories on the chip, bytes per second."""
    said = {
        "CMEM read": stats.peak_cmem_rd_bw_gigabytes_per_second,
        "CMEM write": stats.peak_cmem_wr_bw_gigabytes_per_second,
        "VMEM read": stats.peak_vmem_rd_bw_gigabytes_per_second,
        "VMEM write": stats.peak_vmem_wr_bw_gigabytes_per_second,
    }
    return {words: value * _GIGA for words, stated in said.items() if (value := _positive(stated)) is not None}


def _of_nvidia(
    capability: tuple[int, int], cores: float, clock: float, memory: float | None, model: str
) -> Peaks | None:
    """The peaks of a GPU of this compute capability, with so many multiprocessors at so many kHz."""
    spelt = ".".join(map(str, capability))
    known = of_model(NVIDIA.get((*capability, round(cores)), ""))
    if known and known.memory and memory and abs(memory / known.memory - 1) < _ALIKE:
        by = note("peaks_from_table_by_capability", source=known.source, capability=spelt, cores=cores)
        return replace(known, source=by)
    named = of_model(model) if capability in HALVED else None
    if named or capability not in NVIDIA_CYCLES:
        return named
    flops = {name: each * cores * clock * _KILO for name, each in NVIDIA_CYCLES[capability].items()}
    halved = capability in HALVED
    source = note("peaks_from_capability", capability=spelt, cores=cores, hertz=clock * _KILO, halved=halved)
    return Peaks(model or f"NVIDIA GPU {spelt}", flops, memory, source)


_ALIKE: Final = 0.05
"""Bandwidths that differ by less of the whole are of one device."""

_AMD: Final = MappingProxyType(
    {
        ("9.4", 304): "MI300X", ("9.4", 228): "MI300A", ("9.4", 80): "MI308X", ("9.5", 256): "MI355X",
        ("9.0", 110): "MI250X", ("9.0", 104): "MI210",
    }
)  # fmt: skip
"""AMD's GPUs by gfx version and compute units."""


def _positive(value: float | None) -> float | None:
    return value if value is not None and value > 0 else None


_STATED: Final = re.compile(
    r"\s*(?:(\w+)\s*[:=])?\s*([0-9]*\.?[0-9]+)\s*([kmgtp]?)(b/s|b|flop/s|flops|/s)?\s*", re.IGNORECASE
)
_SCALE: Final = MappingProxyType({"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15})


def stated(text: str) -> Peaks | None:
    """The peaks that a caller asks for: a device (``H100``), or figures (``bf16:989T,f32:67T,3.35TB/s``).

    A number without a prefix or a unit is none: who writes 989 means no 989 operations per second. Nothing means: what
    the trace says. Raises TracehoundError.
    """
    if not text.strip():
        return None
    if (known := of_model(text)) is not None:
        return known
    flops, memory = dict[str, float](), None
    for part in text.split(","):
        match = _STATED.fullmatch(part)
        value = float(match[2]) * _SCALE[match[3].lower()] if match else 0.0
        if match is None or not 0 < value < float("inf"):
            raise TracehoundError(f"{printable(part)!r} is neither a peak nor a device of the table", remedy=_REMEDY)
        if not match[3] and not match[4]:
            raise TracehoundError(f"{printable(part.strip())!r} has no unit", remedy=_REMEDY)
        if (match[4] or "").lower() in ("b", "b/s") or (match[1] or "").lower() == "memory":
            memory = value
        else:
            flops[_spelled(match[1] or "bf16")] = value
    return Peaks("the device", flops, memory, note("peaks_given_by_setting"))


_REMEDY: Final = "write a device (H100, v6e) or figures: 989T,3.35TB/s or bf16:989T,f32:67T,3.35TB/s"

PEAK: Final = Setting(
    "peak",
    "",
    "what the device can do at most, in place of what the trace says: a device (H100), or operations and bytes per"
    " second with a unit (989T,3.35TB/s)",
    stated,
)


def of_ranks(scene: Scene, given: Given) -> dict[int, Peaks]:
    """The peaks of each rank's device: as given, else as its file states, else from the table."""
    asked = PEAK.of(given)
    found = {}
    for rank, host, label, model in scene.ranks.select("rank", "host", "label", "model").iter_rows():
        facts = scene.facts[scene.hosts[host].part] if 0 <= host < len(scene.hosts) else FileFacts()
        stats = facts.planes.get(f"/device:{label}", PlaneStats())
        peaks = asked or of_plane(stats, model or "")
        if peaks is not None:
            found[rank] = peaks
    return found
