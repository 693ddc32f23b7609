"""The stats of a plane of an XLA profile, as facts of the file."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from tracehound.file_facts import PlaneStats


def plane_stats(stats: Mapping[str, object]) -> PlaneStats:
    """The stats that `PlaneStats` has a field for; one that is no number where one belongs counts as not recorded."""
    return PlaneStats(
        peak_teraflops_per_second=_finite(stats.get("peak_teraflops_per_second")),
        peak_hbm_bw_gigabytes_per_second=_finite(stats.get("peak_hbm_bw_gigabytes_per_second")),
        peak_cmem_rd_bw_gigabytes_per_second=_finite(stats.get("peak_cmem_rd_bw_gigabytes_per_second")),
        peak_cmem_wr_bw_gigabytes_per_second=_finite(stats.get("peak_cmem_wr_bw_gigabytes_per_second")),
        peak_vmem_rd_bw_gigabytes_per_second=_finite(stats.get("peak_vmem_rd_bw_gigabytes_per_second")),
        peak_vmem_wr_bw_gigabytes_per_second=_finite(stats.get("peak_vmem_wr_bw_gigabytes_per_second")),
        core_count=_finite(stats.get("core_count")),
        clock_rate=_finite(stats.get("clock_rate")),
        memory_bandwidth=_finite(stats.get("memory_bandwidth")),
        compute_cap_major=_whole(stats.get("compute_cap_major")),
        compute_cap_minor=_whole(stats.get("compute_cap_minor")),
        device_vendor=str(stats.get("device_vendor", "")),
    )


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
