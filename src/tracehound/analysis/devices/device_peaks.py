"""Peak rates of devices: operations and bytes per second.

Holds the table of devices as their makers state them, reads the figures of a profile, and parses the setting that
overrides both. Figures are dense (no sparsity), of one device as a framework counts devices: a GCD of an MI250X, a core
of a TPU v3 or TPU7x.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings, Setting
from tracehound.analysis.rank_trace import RunContext
from tracehound.errors import TracehoundError, printable
from tracehound.model.file_facts import FileFacts, PlaneStats
from tracehound.model.notes import Note, note

_TERA, _GIGA, _KILO = 1e12, 1e9, 1e3


class DevicePeaks(Struct, frozen=True):
    """Peak rates of one device.

    `flops` is operations per second by element type as HLO spells it (``bf16``, ``f8``, ``tf32``), `memory` bytes per
    second of its main memory, `onchip` of its other memories (``VMEM read``). `source` names the source of the figures.
    """

    device: str
    flops: Mapping[str, float]
    memory: float | None
    source: Note
    onchip: Mapping[str, float] = field(default_factory=dict)

    def flops_for_dtype(self, dtype: str | None = None) -> float | None:
        """Operations per second on numbers of this type, or of the 16-bit types if none is given; None: unknown.

        A type without units of its own is computed in the next wider one.
        """
        for name in _WIDER_DTYPES.get(_normalize_dtype(dtype or "bf16"), ()):
            if name in self.flops:
                return self.flops[name]
        return None


_WIDER_DTYPES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
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
_DTYPE_NAMES: Final = MappingProxyType(
    {
        "bfloat16": "bf16", "half": "f16", "float16": "f16", "fp16": "f16", "float": "f32", "float32": "f32",
        "fp32": "f32", "single": "f32", "double": "f64", "float64": "f64", "fp64": "f64", "int8": "s8", "u8": "s8",
        "uint8": "s8", "char": "s8", "signed char": "s8", "byte": "s8", "unsigned char": "s8", "fp8": "f8",
    }
)  # fmt: skip


def _normalize_dtype(dtype: str) -> str:
    """An element type as the table spells it: ``c10::BFloat16``, ``f8e4m3fn``, ``half``."""
    name = dtype.lower().rpartition("::")[2].removeprefix("torch.")
    if name.startswith(("f8", "float8")):
        return "f8"
    return "f4" if name.startswith(("f4", "float4")) else _DTYPE_NAMES.get(name, name)


def peaks_of_model(model: str) -> DevicePeaks | None:
    """The peaks of a device model: ``NVIDIA H100 80GB HBM3``, ``TPU v5p``; None if it is not in the table.

    The first match of the table counts, so the table has ``h100 pcie`` before ``h100``.
    """
    plain = re.sub(r"[\s_-]+", " ", model.lower())
    for device in KNOWN_DEVICES:
        if re.search(device.pattern, plain):
            flops = {name: value * _TERA for name, value in device.teraflops.items()}
            source = note("peaks_from_table", table=device.source)
            return DevicePeaks(device.name, flops, device.gigabytes * _GIGA, source)
    return None


def peaks_of_plane(stats: PlaneStats, model: str = "") -> DevicePeaks | None:
    """The peaks of a device that an XLA profile states or implies; None if it has no usable figures.

    TPUs state them. GPUs state their cores, clock and memory. Some NVIDIA GPUs are identified by these and looked up;
    for the others the operations per cycle and core are known by compute capability: if devices of one capability
    differ, the least, and the source says so. ROCm's runtime reports half the bandwidth of HBM3 (its clock is not that
    of the data), so AMD's GPUs are looked up.
    """
    compute = _positive_or_none(stats.peak_teraflops_per_second)
    memory = _positive_or_none(stats.peak_hbm_bw_gigabytes_per_second)
    if compute and memory:
        flops = {"bf16": compute * _TERA}
        return DevicePeaks(
            model or "TPU", flops, memory * _GIGA, note("peaks_stated_in_profile"), _on_chip_bandwidths(stats)
        )
    cores, clock = _positive_or_none(stats.core_count), _positive_or_none(stats.clock_rate)
    major, minor = stats.compute_cap_major, stats.compute_cap_minor
    if stats.device_vendor == "AMD" and cores is not None:
        return peaks_of_model(_AMD_BY_UNITS.get((f"{major}.{minor}", round(cores)), model))
    if major is None or minor is None or cores is None or clock is None:
        return peaks_of_model(model)
    return _nvidia_peaks(
        (major, minor), cores, clock, _positive_or_none(stats.memory_bandwidth), model
    ) or peaks_of_model(model)


def _on_chip_bandwidths(stats: PlaneStats) -> dict[str, float]:
    """The bandwidths that a TPU states of its memories on the chip, bytes per second."""
    stated_rates = {
        "CMEM read": stats.peak_cmem_rd_bw_gigabytes_per_second,
        "CMEM write": stats.peak_cmem_wr_bw_gigabytes_per_second,
        "VMEM read": stats.peak_vmem_rd_bw_gigabytes_per_second,
        "VMEM write": stats.peak_vmem_wr_bw_gigabytes_per_second,
    }
    return {
        words: value * _GIGA
        for words, stated in stated_rates.items()
        if (value := _positive_or_none(stated)) is not None
    }


def _nvidia_peaks(
    capability: tuple[int, int], cores: float, clock: float, memory: float | None, model: str
) -> DevicePeaks | None:
    """The peaks of a GPU of this compute capability, with this many multiprocessors at a clock in kHz."""
    spelt = ".".join(map(str, capability))
    known = peaks_of_model(NVIDIA_BY_CORES.get((*capability, round(cores)), ""))
    if known and known.memory and memory and abs(memory / known.memory - 1) < _BANDWIDTH_TOLERANCE:
        by = note("peaks_from_table_by_capability", source=known.source, capability=spelt, cores=cores)
        return replace(known, source=by)
    named = peaks_of_model(model) if capability in HALF_RATE_CAPABILITIES else None
    if named or capability not in NVIDIA_CYCLES:
        return named
    flops = {name: each * cores * clock * _KILO for name, each in NVIDIA_CYCLES[capability].items()}
    halved = capability in HALF_RATE_CAPABILITIES
    source = note("peaks_from_capability", capability=spelt, cores=cores, hertz=clock * _KILO, halved=halved)
    return DevicePeaks(model or f"NVIDIA GPU {spelt}", flops, memory, source)


_BANDWIDTH_TOLERANCE: Final = 0.05
"""Bandwidths that differ by a smaller fraction are of one device."""

_AMD_BY_UNITS: Final = MappingProxyType(
    {
        ("9.4", 304): "MI300X", ("9.4", 228): "MI300A", ("9.4", 80): "MI308X", ("9.5", 256): "MI355X",
        ("9.0", 110): "MI250X", ("9.0", 104): "MI210",
    }
)  # fmt: skip
"""AMD's GPUs by gfx version and compute units."""


def _positive_or_none(value: float | None) -> float | None:
    return value if value is not None and value > 0 else None


_PEAK_PATTERN: Final = re.compile(
    r"\s*(?:(\w+)\s*[:=])?\s*([0-9]*\.?[0-9]+)\s*([kmgtp]?)(b/s|b|flop/s|flops|/s)?\s*", re.IGNORECASE
)
_SCALE_OF_PREFIX: Final = MappingProxyType({"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15})


def parse_peaks(text: str) -> DevicePeaks | None:
    """The peaks that a user sets: a device (``H100``), or figures (``bf16:989T,f32:67T,3.35TB/s``).

    A number without a prefix or a unit is an error: nobody means 989 operations per second. Empty text means the
    trace's own figures. Raises TracehoundError.
    """
    if not text.strip():
        return None
    if (known := peaks_of_model(text)) is not None:
        return known
    flops, memory = dict[str, float](), None
    for part in text.split(","):
        match = _PEAK_PATTERN.fullmatch(part)
        value = float(match[2]) * _SCALE_OF_PREFIX[match[3].lower()] if match else 0.0
        if match is None or not 0 < value < float("inf"):
            raise TracehoundError(
                f"{printable(part)!r} is neither a peak nor a device of the table", remedy=_PEAK_REMEDY
            )
        if not match[3] and not match[4]:
            raise TracehoundError(f"{printable(part.strip())!r} has no unit", remedy=_PEAK_REMEDY)
        if (match[4] or "").lower() in ("b", "b/s") or (match[1] or "").lower() == "memory":
            memory = value
        else:
            flops[_normalize_dtype(match[1] or "bf16")] = value
    return DevicePeaks("the device", flops, memory, note("peaks_given_by_setting"))


_PEAK_REMEDY: Final = "write a device (H100, v6e) or figures: 989T,3.35TB/s or bf16:989T,f32:67T,3.35TB/s"

PEAK_SETTING: Final = Setting(
    "peak",
    "",
    "what the device can do at most, in place of what the trace says: a device (H100), or operations and bytes per"
    " second with a unit (989T,3.35TB/s)",
    parse_peaks,
)


def peaks_per_rank(context: RunContext, given: ChosenSettings) -> dict[int, DevicePeaks]:
    """The peaks of each rank's device: from the setting, else from its file, else from the table."""
    asked = PEAK_SETTING.value_in(given)
    found = {}
    for rank, host, label, model in context.ranks.select("rank", "host", "label", "model").iter_rows():
        facts = context.facts[context.hosts[host].part] if 0 <= host < len(context.hosts) else FileFacts()
        stats = facts.planes.get(f"/device:{label}", PlaneStats())
        peaks = asked or peaks_of_plane(stats, model or "")
        if peaks is not None:
            found[rank] = peaks
    return found


class DeviceSpec(NamedTuple):
    """One row: a pattern for its name in lower case, what it is called, and its figures.

    ``bf16`` stands for both 16-bit types, ``f8`` for all 8-bit floating types, ``tf32`` for matrix products of f32 in
    matrix units, ``f32`` and ``f64`` for the fastest units that keep their precision.
    """

    pattern: str
    name: str
    source: str
    gigabytes: float
    teraflops: Mapping[str, float]


def _teraflops(**teraflops: float) -> Mapping[str, float]:
    return MappingProxyType(teraflops)


_H100 = _teraflops(bf16=989.4, f8=1978.9, s8=1978.9, tf32=494.7, f32=66.9, f64=66.9)
_H100_NVL = _teraflops(bf16=835.5, f8=1671, s8=1671, tf32=417.5, f32=60, f64=60)
_A100 = _teraflops(bf16=312, s8=624, tf32=156, f32=19.5, f64=19.5)
_MI300X = _teraflops(bf16=1307.4, f8=2614.9, s8=2614.9, tf32=653.7, f32=163.4, f64=163.4)

KNOWN_DEVICES: Final = (
    DeviceSpec(r"\btpu ?v?7|ironwood", "TPU7x", "tpu core", 3690, _teraflops(bf16=1153.5, f8=2307)),
    DeviceSpec(r"\btpu ?v6|trillium|^v6e", "TPU v6e", "tpu", 1638, _teraflops(bf16=918, s8=1836)),
    DeviceSpec(r"\btpu ?v5p|^v5p", "TPU v5p", "tpu", 2765, _teraflops(bf16=459, s8=918)),
    DeviceSpec(r"\btpu ?v5( ?lite|e|litepod)|^v5e", "TPU v5e", "tpu", 819, _teraflops(bf16=197, s8=393)),
    DeviceSpec(r"\btpu ?v5\b", "TPU v5p", "tpu", 2765, _teraflops(bf16=459, s8=918)),
    DeviceSpec(r"\btpu ?v4", "TPU v4", "tpu", 1228, _teraflops(bf16=275, s8=275)),
    DeviceSpec(r"\btpu ?v3", "TPU v3", "tpu core", 450, _teraflops(bf16=61.5)),
    DeviceSpec(r"\btpu ?v2", "TPU v2", "tpu core", 350, _teraflops(bf16=23)),
    DeviceSpec(r"\bgb300\b", "GB300", "nvidia", 8000, _teraflops(bf16=2500, f8=5000, f4=15000, tf32=1250, f32=80)),
    DeviceSpec(r"\bb300\b", "B300", "nvidia", 8000, _teraflops(bf16=2250, f8=4500, f4=13500, tf32=1125, f32=75)),
    DeviceSpec(r"\bgb200\b", "GB200", "nvidia", 8000, _teraflops(
        bf16=2500, f8=5000, f4=10000, tf32=1250, f32=80, f64=40)),
    DeviceSpec(r"\bb200\b", "B200", "nvidia", 8000, _teraflops(
        bf16=2250, f8=4500, f4=9000, tf32=1125, f32=75, f64=37)),
    DeviceSpec(r"\bgh200.*144", "GH200 144GB", "nvidia", 4900, _H100),
    DeviceSpec(r"\bgh200\b", "GH200", "nvidia", 4000, _H100),
    DeviceSpec(r"\bh200.*\bnvl\b", "H200 NVL", "nvidia", 4800, _H100_NVL),
    DeviceSpec(r"\bh200\b", "H200", "nvidia", 4800, _H100),
    DeviceSpec(r"\bh100.*\bnvl\b", "H100 NVL", "nvidia", 3900, _H100_NVL),
    DeviceSpec(r"\bh100.*\bpcie\b", "H100 PCIe", "nvidia", 2000, _teraflops(
        bf16=756, f8=1513, s8=1513, tf32=378, f32=51, f64=51)),
    DeviceSpec(r"\bh100\b", "H100 SXM", "nvidia", 3350, _H100),
    DeviceSpec(r"\bh20\b", "H20", "nvidia", 4000, _teraflops(bf16=148, f8=296, s8=296, tf32=74, f32=44)),
    DeviceSpec(r"\bh800\b", "H800", "nvidia", 3350, _teraflops(
        bf16=989.4, f8=1978.9, s8=1978.9, tf32=494.7, f32=66.9)),
    DeviceSpec(r"\ba100.*80 ?gb.*pcie|\ba100.*pcie.*80 ?gb", "A100 PCIe 80GB", "nvidia", 1935, _A100),
    DeviceSpec(r"\b(a100|a800).*80 ?gb", "A100 SXM 80GB", "nvidia", 2039, _A100),
    DeviceSpec(r"\ba100\b|pg509 2\d\d", "A100 40GB", "nvidia", 1555, _A100),
    DeviceSpec(r"\ba30\b", "A30", "nvidia", 933, _teraflops(bf16=165, s8=330, tf32=82, f32=10.3, f64=10.3)),
    DeviceSpec(r"\ba10g\b", "A10G", "nvidia", 600, _teraflops(bf16=70, s8=140, tf32=35, f32=35)),
    DeviceSpec(r"\ba10\b", "A10", "nvidia", 600, _teraflops(bf16=125, s8=250, tf32=62.5, f32=31.2)),
    DeviceSpec(r"\bl40s\b", "L40S", "nvidia", 864, _teraflops(bf16=362, f8=733, s8=733, tf32=183, f32=91.6)),
    DeviceSpec(r"\bl40\b", "L40", "nvidia", 864, _teraflops(bf16=181, f8=362, s8=362, tf32=90.5, f32=90.5)),
    DeviceSpec(r"\bl4\b", "L4", "nvidia", 300, _teraflops(bf16=121, f8=242, s8=242, tf32=60, f32=30.3)),
    DeviceSpec(r"\bv100.*32 ?gb.*pcie|\bv100.*pcie", "V100 PCIe", "nvidia", 900, _teraflops(
        bf16=112, f32=14, f64=7)),
    DeviceSpec(r"\bv100\b", "V100 SXM2", "nvidia", 900, _teraflops(bf16=125, f32=15.7, f64=7.8)),
    DeviceSpec(r"\bt4\b", "T4", "nvidia", 320, _teraflops(bf16=65, s8=130, f32=8.1)),
    DeviceSpec(r"\bp100\b|\bgp100\b", "P100", "nvidia", 732, _teraflops(bf16=21.2, f32=10.6, f64=5.3)),
    DeviceSpec(r"\brtx 5090\b", "RTX 5090", "nvidia", 1792, _teraflops(
        bf16=209.5, f8=419, s8=838, tf32=104.8, f32=104.8)),
    DeviceSpec(r"\brtx 4090\b", "RTX 4090", "nvidia", 1008, _teraflops(
        bf16=165.2, f8=330.3, s8=660.6, tf32=82.6, f32=82.6)),
    DeviceSpec(r"\brtx 3090\b", "RTX 3090", "nvidia", 936, _teraflops(bf16=71, s8=284, tf32=35.6, f32=35.6)),
    DeviceSpec(r"\bmi355x?\b", "MI355X", "amd", 8000, _teraflops(
        bf16=2516.6, f8=5033.2, s8=5033.2, f4=10066.3, f32=157.3, f64=78.6)),
    DeviceSpec(r"\bmi350x?\b", "MI350X", "amd", 8000, _teraflops(
        bf16=2309.6, f8=4614, s8=4614, f4=9228, f32=144.2, f64=72.1)),
    DeviceSpec(r"\bmi325x?\b", "MI325X", "amd", 6000, _MI300X),
    DeviceSpec(r"\bmi308x?\b", "MI308X", "amd", 5300, _teraflops(bf16=344, f8=688, tf32=172, f32=43)),
    DeviceSpec(r"\bmi300a\b", "MI300A", "amd", 5300, _teraflops(
        bf16=980.6, f8=1961.2, s8=1961.2, tf32=490.3, f32=122.6, f64=122.6)),
    DeviceSpec(r"\bmi300x?\b", "MI300X", "amd", 5300, _MI300X),
    DeviceSpec(r"\bmi250x\b", "MI250X", "gcd", 1638, _teraflops(bf16=191.5, s8=191.5, f32=47.9, f64=47.9)),
    DeviceSpec(r"\bmi250\b", "MI250", "gcd", 1638, _teraflops(bf16=181, s8=181, f32=45.3, f64=45.3)),
    DeviceSpec(r"\bmi210\b", "MI210", "amd", 1638, _teraflops(bf16=181, s8=181, f32=45.3, f64=45.3)),
    DeviceSpec(r"\bmi100\b", "MI100", "amd", 1229, _teraflops(bf16=184.6, f32=46.1, f64=11.5)),
)  # fmt: skip
"""The first whose pattern is found in a name is meant."""

NVIDIA_CYCLES: Final[Mapping[tuple[int, int], Mapping[str, float]]] = MappingProxyType(
    {
        (7, 0): _teraflops(bf16=1024, f32=128, f64=64),
        (7, 5): _teraflops(bf16=512, s8=2048, f32=128, f64=4),
        (8, 0): _teraflops(bf16=2048, s8=4096, tf32=1024, f32=128, f64=128),
        (8, 6): _teraflops(bf16=512, s8=1024, tf32=256, f32=256, f64=4),
        (8, 9): _teraflops(bf16=512, f8=1024, s8=1024, tf32=256, f32=256, f64=4),
        (9, 0): _teraflops(bf16=4096, f8=8192, s8=8192, tf32=2048, f32=256, f64=256),
        (10, 0): _teraflops(bf16=8192, f8=16384, s8=16384, tf32=4096, f32=256, f64=128),
        (12, 0): _teraflops(bf16=512, f8=1024, s8=2048, tf32=256, f32=256, f64=4),
    }
)
"""Operations per cycle of one multiprocessor, dense, by compute capability (CUDA's programming guide, and the
architectures' white papers): where some devices have matrix units of half the rate, theirs."""

HALF_RATE_CAPABILITIES: Final = frozenset({(7, 5), (8, 6), (8, 9), (12, 0)})
"""Compute capabilities of which some devices (GeForce, A10G, L40) multiply matrices at half the rate of others."""

NVIDIA_BY_CORES: Final[Mapping[tuple[int, int, int], str]] = MappingProxyType(
    {
        (7, 5, 40): "T4", (8, 6, 72): "A10", (8, 6, 80): "A10G", (8, 6, 82): "RTX 3090", (8, 9, 58): "L4",
        (8, 9, 128): "RTX 4090", (9, 0, 78): "H20", (12, 0, 170): "RTX 5090",
    }
)  # fmt: skip
"""NVIDIA's GPUs by compute capability and multiprocessors, where these and the bandwidth of the memory tell which."""
