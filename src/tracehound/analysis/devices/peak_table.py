"""The figures of devices, as their makers state them.

Owns nothing but numbers: dense operations per second in 10^12 by element type, memory bandwidth in 10^9 bytes per
second, and whose they are. What they are used for is `peaks`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Device(NamedTuple):
    """One row: a pattern for its name in lower case, what it is called, and its figures.

    ``bf16`` stands for both 16-bit types, ``f8`` for all 8-bit floating types, ``tf32`` for matrix products of f32 in
    matrix units, ``f32`` and ``f64`` for the fastest units that keep their precision.
    """

    pattern: str
    name: str
    source: str
    gigabytes: float
    teraflops: Mapping[str, float]


def _figures(**teraflops: float) -> Mapping[str, float]:
    return MappingProxyType(teraflops)


_H100 = _figures(bf16=989.4, f8=1978.9, s8=1978.9, tf32=494.7, f32=66.9, f64=66.9)
_H100_NVL = _figures(bf16=835.5, f8=1671, s8=1671, tf32=417.5, f32=60, f64=60)
_A100 = _figures(bf16=312, s8=624, tf32=156, f32=19.5, f64=19.5)
_MI300X = _figures(bf16=1307.4, f8=2614.9, s8=2614.9, tf32=653.7, f32=163.4, f64=163.4)

DEVICES: Final = (
    Device(r"\btpu ?v?7|ironwood", "TPU7x", "tpu core", 3690, _figures(bf16=1153.5, f8=2307)),
    Device(r"\btpu ?v6|trillium|^v6e", "TPU v6e", "tpu", 1638, _figures(bf16=918, s8=1836)),
    Device(r"\btpu ?v5p|^v5p", "TPU v5p", "tpu", 2765, _figures(bf16=459, s8=918)),
    Device(r"\btpu ?v5( ?lite|e|litepod)|^v5e", "TPU v5e", "tpu", 819, _figures(bf16=197, s8=393)),
    Device(r"\btpu ?v5\b", "TPU v5p", "tpu", 2765, _figures(bf16=459, s8=918)),
    Device(r"\btpu ?v4", "TPU v4", "tpu", 1228, _figures(bf16=275, s8=275)),
    Device(r"\btpu ?v3", "TPU v3", "tpu core", 450, _figures(bf16=61.5)),
    Device(r"\btpu ?v2", "TPU v2", "tpu core", 350, _figures(bf16=23)),
    Device(r"\bgb300\b", "GB300", "nvidia", 8000, _figures(bf16=2500, f8=5000, f4=15000, tf32=1250, f32=80)),
    Device(r"\bb300\b", "B300", "nvidia", 8000, _figures(bf16=2250, f8=4500, f4=13500, tf32=1125, f32=75)),
    Device(r"\bgb200\b", "GB200", "nvidia", 8000, _figures(bf16=2500, f8=5000, f4=10000, tf32=1250, f32=80, f64=40)),
    Device(r"\bb200\b", "B200", "nvidia", 8000, _figures(bf16=2250, f8=4500, f4=9000, tf32=1125, f32=75, f64=37)),
    Device(r"\bgh200.*144", "GH200 144GB", "nvidia", 4900, _H100),
    Device(r"\bgh200\b", "GH200", "nvidia", 4000, _H100),
    Device(r"\bh200.*\bnvl\b", "H200 NVL", "nvidia", 4800, _H100_NVL),
    Device(r"\bh200\b", "H200", "nvidia", 4800, _H100),
    Device(r"\bh100.*\bnvl\b", "H100 NVL", "nvidia", 3900, _H100_NVL),
    Device(r"\bh100.*\bpcie\b", "H100 PCIe", "nvidia", 2000, _figures(
        bf16=756, f8=1513, s8=1513, tf32=378, f32=51, f64=51)),
    Device(r"\bh100\b", "H100 SXM", "nvidia", 3350, _H100),
    Device(r"\bh20\b", "H20", "nvidia", 4000, _figures(bf16=148, f8=296, s8=296, tf32=74, f32=44)),
    Device(r"\bh800\b", "H800", "nvidia", 3350, _figures(bf16=989.4, f8=1978.9, s8=1978.9, tf32=494.7, f32=66.9)),
    Device(r"\ba100.*80 ?gb.*pcie|\ba100.*pcie.*80 ?gb", "A100 PCIe 80GB", "nvidia", 1935, _A100),
    Device(r"\b(a100|a800).*80 ?gb", "A100 SXM 80GB", "nvidia", 2039, _A100),
    Device(r"\ba100\b|pg509 2\d\d", "A100 40GB", "nvidia", 1555, _A100),
    Device(r"\ba30\b", "A30", "nvidia", 933, _figures(bf16=165, s8=330, tf32=82, f32=10.3, f64=10.3)),
    Device(r"\ba10g\b", "A10G", "nvidia", 600, _figures(bf16=70, s8=140, tf32=35, f32=35)),
    Device(r"\ba10\b", "A10", "nvidia", 600, _figures(bf16=125, s8=250, tf32=62.5, f32=31.2)),
    Device(r"\bl40s\b", "L40S", "nvidia", 864, _figures(bf16=362, f8=733, s8=733, tf32=183, f32=91.6)),
    Device(r"\bl40\b", "L40", "nvidia", 864, _figures(bf16=181, f8=362, s8=362, tf32=90.5, f32=90.5)),
    Device(r"\bl4\b", "L4", "nvidia", 300, _figures(bf16=121, f8=242, s8=242, tf32=60, f32=30.3)),
    Device(r"\bv100.*32 ?gb.*pcie|\bv100.*pcie", "V100 PCIe", "nvidia", 900, _figures(bf16=112, f32=14, f64=7)),
    Device(r"\bv100\b", "V100 SXM2", "nvidia", 900, _figures(bf16=125, f32=15.7, f64=7.8)),
    Device(r"\bt4\b", "T4", "nvidia", 320, _figures(bf16=65, s8=130, f32=8.1)),
    Device(r"\bp100\b|\bgp100\b", "P100", "nvidia", 732, _figures(bf16=21.2, f32=10.6, f64=5.3)),
    Device(r"\brtx 5090\b", "RTX 5090", "nvidia", 1792, _figures(
        bf16=209.5, f8=419, s8=838, tf32=104.8, f32=104.8)),
    Device(r"\brtx 4090\b", "RTX 4090", "nvidia", 1008, _figures(
        bf16=165.2, f8=330.3, s8=660.6, tf32=82.6, f32=82.6)),
    Device(r"\brtx 3090\b", "RTX 3090", "nvidia", 936, _figures(bf16=71, s8=284, tf32=35.6, f32=35.6)),
    Device(r"\bmi355x?\b", "MI355X", "amd", 8000, _figures(
        bf16=2516.6, f8=5033.2, s8=5033.2, f4=10066.3, f32=157.3, f64=78.6)),
    Device(r"\bmi350x?\b", "MI350X", "amd", 8000, _figures(
        bf16=2309.6, f8=4614, s8=4614, f4=9228, f32=144.2, f64=72.1)),
    Device(r"\bmi325x?\b", "MI325X", "amd", 6000, _MI300X),
    Device(r"\bmi308x?\b", "MI308X", "amd", 5300, _figures(bf16=344, f8=688, tf32=172, f32=43)),
    Device(r"\bmi300a\b", "MI300A", "amd", 5300, _figures(
        bf16=980.6, f8=1961.2, s8=1961.2, tf32=490.3, f32=122.6, f64=122.6)),
    Device(r"\bmi300x?\b", "MI300X", "amd", 5300, _MI300X),
    Device(r"\bmi250x\b", "MI250X", "gcd", 1638, _figures(bf16=191.5, s8=191.5, f32=47.9, f64=47.9)),
    Device(r"\bmi250\b", "MI250", "gcd", 1638, _figures(bf16=181, s8=181, f32=45.3, f64=45.3)),
    Device(r"\bmi210\b", "MI210", "amd", 1638, _figures(bf16=181, s8=181, f32=45.3, f64=45.3)),
    Device(r"\bmi100\b", "MI100", "amd", 1229, _figures(bf16=184.6, f32=46.1, f64=11.5)),
)  # fmt: skip
"""The first whose pattern is found in a name is meant."""

NVIDIA_CYCLES: Final[Mapping[tuple[int, int], Mapping[str, float]]] = MappingProxyType(
    {
        (7, 0): _figures(bf16=1024, f32=128, f64=64),
        (7, 5): _figures(bf16=512, s8=2048, f32=128, f64=4),
        (8, 0): _figures(bf16=2048, s8=4096, tf32=1024, f32=128, f64=128),
        (8, 6): _figures(bf16=512, s8=1024, tf32=256, f32=256, f64=4),
        (8, 9): _figures(bf16=512, f8=1024, s8=1024, tf32=256, f32=256, f64=4),
        (9, 0): _figures(bf16=4096, f8=8192, s8=8192, tf32=2048, f32=256, f64=256),
        (10, 0): _figures(bf16=8192, f8=16384, s8=16384, tf32=4096, f32=256, f64=128),
        (12, 0): _figures(bf16=512, f8=1024, s8=2048, tf32=256, f32=256, f64=4),
    }
)
"""Operations per cycle of one multiprocessor, dense, by compute capability (CUDA's programming guide, and the
architectures' white papers): where some devices have matrix units of half the rate, theirs."""

HALVED: Final = frozenset({(7, 5), (8, 6), (8, 9), (12, 0)})
"""Compute capabilities of which some devices (GeForce, A10G, L40) multiply matrices at half the rate of others."""

NVIDIA: Final[Mapping[tuple[int, int, int], str]] = MappingProxyType(
    {
        (7, 5, 40): "T4", (8, 6, 72): "A10", (8, 6, 80): "A10G", (8, 6, 82): "RTX 3090", (8, 9, 58): "L4",
        (8, 9, 128): "RTX 4090", (9, 0, 78): "H20", (12, 0, 170): "RTX 5090",
    }
)  # fmt: skip
"""NVIDIA's GPUs by compute capability and multiprocessors, where these and the bandwidth of the memory tell which."""
