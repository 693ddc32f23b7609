"""Sentences of notes about the peaks of devices, and the sources of these figures.

Owns these sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.units import flops, rate


def _peak_of_device(device: str, compute: float | None, memory: float | None, source: str) -> str:
    figures = [flops(compute)] if compute else []
    figures += [rate(memory)] if memory else []
    return f"peak of {device}: {' and '.join(figures)} ({source})"


def _peaks_of_device(device: str, compute: float | None, memory: float | None, source: str) -> str:
    figures = [f"{flops(compute)} on 16 bits"] if compute else []
    figures += [rate(memory)] if memory else []
    return f"peaks of {device}: {', '.join(figures)} ({source})"


_TABLES: Final = MappingProxyType(
    {
        "tpu": "Google Cloud TPU documentation, system architecture, per chip",
        "tpu core": "Google Cloud TPU documentation, system architecture, per core: half a chip",
        "nvidia": "NVIDIA's data sheet of the product, dense",
        "amd": "AMD's data sheet of the product, dense",
        "gcd": "AMD's data sheet of the product, dense, per GCD: half a card",
    }
)
"""Whose figures are in the table of devices."""


def _peaks_from_table(table: str) -> str:
    return f"table: {_TABLES[table]}"


def _peaks_from_capability(capability: str, cores: float, hertz: float, *, halved: bool) -> str:
    device = f"compute capability {capability}, {cores:.0f} cores at {hertz / 1e6:,.0f} MHz in the profile"
    if not halved:
        return device
    return f"{device}; some devices of that multiply matrices twice as fast: say which one it is by the setting peak"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "no_peak_known": (
        "no peak is known of the device, so nothing is said of what bounds ops: the setting peak tells (v6e, H100,"
        " 989T,3.35TB/s)"
    ),
    "peak_of_device": _peak_of_device,
    "peaks_of_device": _peaks_of_device,
    "peaks_of_ranks_differ": "the ranks' devices differ: all are held against that of the first",
    "peaks_from_table": _peaks_from_table,
    "peaks_from_table_by_capability": (
        "{source}; that it is one is told by compute capability {capability}, {cores:.0f} cores and the memory's rate"
    ),
    "peaks_from_capability": _peaks_from_capability,
    "peaks_stated_in_profile": "stated in the profile",
    "peaks_given_by_setting": "given by the setting peak",
}
