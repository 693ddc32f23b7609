"""Peaks: the table, what profiles state, and what a caller says."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis.devices.device_peaks import (
    KNOWN_DEVICES,
    PEAK_SETTING,
    parse_peaks,
    peaks_of_model,
    peaks_of_plane,
)
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.formats.xplane.xplane_facts import read_plane_stats
from tracehound.model.notes import note

TPU = {"peak_teraflops_per_second": 918.0, "peak_hbm_bw_gigabytes_per_second": 1637.993152512}
AMD = {
    "device_vendor": "AMD", "clock_rate": 2100000, "core_count": 304, "memory_bandwidth": 2662400000000,
    "compute_cap_major": 9, "compute_cap_minor": 4,
}  # fmt: skip
H100 = {
    "device_vendor": "Nvidia", "clock_rate": 1755000, "core_count": 132, "memory_bandwidth": 3352320000000,
    "compute_cap_major": 9, "compute_cap_minor": 0,
}  # fmt: skip


@pytest.mark.parametrize(("model", "device"), [
    ("NVIDIA H100 80GB HBM3", "H100 SXM"), ("NVIDIA H100 PCIe", "H100 PCIe"), ("NVIDIA H200", "H200"),
    ("NVIDIA A100-SXM4-40GB", "A100 40GB"), ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
    ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"), ("Tesla V100-SXM2-32GB", "V100 SXM2"), ("Tesla T4", "T4"),
    ("NVIDIA B200", "B200"), ("AMD Instinct MI300X VF", "MI300X"), ("AMD Instinct MI250X", "MI250X"),
    ("TPU v6 Lite", "TPU v6e"), ("TPU v5 Lite", "TPU v5e"), ("TPU v5p", "TPU v5p"), ("TPU v5", "TPU v5p"),
    ("TPU v4", "TPU v4"), ("TPU v7x", "TPU7x"), ("TPU7x", "TPU7x"), ("NVIDIA H200 NVL", "H200 NVL"),
    ("NVIDIA H100 NVL", "H100 NVL"), ("NVIDIA A10G", "A10G"), ("NVIDIA A10", "A10"), ("NVIDIA GB300", "GB300"),
    ("NVIDIA B300 SXM6 AC", "B300"),
])  # fmt: skip
def test_devices_are_told_by_what_profilers_call_them(model: str, device: str) -> None:
    found = peaks_of_model(model)
    assert found is not None
    assert found.device == device


@pytest.mark.parametrize("model", ["", "CPU", "TPU", "GPU", "Test GPU", "AMD Radeon Graphics", "Quadro RTX"])
def test_others_are_not_guessed(model: str) -> None:
    assert peaks_of_model(model) is None


def test_every_row_of_the_table_is_in_order() -> None:
    """A row that stands behind one which takes its name would never be found."""
    for device in KNOWN_DEVICES:
        found = peaks_of_model(device.name)
        assert found is not None
        assert (found.device, found.source) == (device.name, note("peaks_from_table", table=device.source))
        assert 1e12 < found.flops["bf16"] < 1e16
        assert 1e11 < (found.memory or 0) < 1e13


@pytest.mark.parametrize(("model", "compute", "memory"), [
    ("TPU7x", 1153.5, 3690), ("TPU v3", 61.5, 450), ("TPU v4", 275, 1228), ("A10G", 70, 600), ("A10", 125, 600),
    ("H200 NVL", 835.5, 4800), ("H200", 989.4, 4800), ("GB300", 2500, 8000), ("B300", 2250, 8000),
])  # fmt: skip
def test_figures_are_those_of_one_device_as_frameworks_count_them(model: str, compute: float, memory: float) -> None:
    """A TPU v3 and a TPU7x are two devices a chip, a TPU v4 is one; a variant has figures of its own."""
    found = peaks_of_model(model)
    assert found is not None
    assert (found.flops_for_dtype(), found.memory) == (compute * 1e12, memory * 1e9)


def test_a_type_without_units_of_its_own_computes_in_the_next_wider_one() -> None:
    a100, h100 = peaks_of_model("A100"), peaks_of_model("H100")
    assert a100 is not None
    assert h100 is not None
    assert a100.flops_for_dtype("f8e4m3fn") == a100.flops_for_dtype("bf16") == a100.flops_for_dtype() == 312e12
    assert h100.flops_for_dtype("float8_e4m3fn") == 1978.9e12
    assert a100.flops_for_dtype("c10::BFloat16") == a100.flops_for_dtype("half") == 312e12
    assert (a100.flops_for_dtype("float"), a100.flops_for_dtype("tf32"), a100.flops_for_dtype("double")) == (
        19.5e12,
        156e12,
        19.5e12,
    )
    assert a100.flops_for_dtype("pred") is None


def test_a_tpu_states_its_peaks() -> None:
    onchip = {"peak_vmem_rd_bw_gigabytes_per_second": 23296.0, "peak_cmem_rd_bw_gigabytes_per_second": 0}
    found = peaks_of_plane(read_plane_stats(TPU | onchip), "x")
    assert found is not None
    assert (found.flops_for_dtype(), found.memory) == (918e12, 1637993152512.0)
    assert found.onchip == {"VMEM read": 23296e9}
    assert note_text(found.source) == "stated in the profile"


def test_a_gpu_of_nvidia_states_cores_and_clock() -> None:
    found = peaks_of_plane(read_plane_stats(H100), "")
    assert found is not None
    assert found.flops_for_dtype() == 132 * 1.755e9 * 4096
    assert found.memory == 3352320000000


def gpu(major: int, minor: int, cores: int, memory: float, clock: int = 1_700_000) -> dict[str, object]:
    """A GPU of NVIDIA, with the bandwidth of its memory in GB/s."""
    return H100 | {
        "compute_cap_major": major, "compute_cap_minor": minor, "core_count": cores, "clock_rate": clock,
        "memory_bandwidth": round(memory * 1e9),
    }  # fmt: skip


@pytest.mark.parametrize(("stats", "device"), [
    (gpu(8, 6, 72, 600.1), "A10"), (gpu(8, 6, 80, 600.1), "A10G"), (gpu(8, 9, 58, 300.1), "L4"),
    (gpu(7, 5, 40, 320.1), "T4"), (gpu(8, 9, 128, 1008.1), "RTX 4090"), (gpu(9, 0, 78, 4022.8), "H20"),
])  # fmt: skip
def test_a_gpu_that_its_cores_and_memory_tell_is_looked_up(stats: dict[str, object], device: str) -> None:
    found, known = peaks_of_plane(read_plane_stats(stats), "Nvidia GPU, compute capability 8.6"), peaks_of_model(device)
    assert found is not None
    assert known is not None
    assert (found.device, found.flops, found.memory) == (known.device, known.flops, known.memory)
    assert "recognized by compute capability" in note_text(found.source)


@pytest.mark.parametrize(("stats", "rate"), [
    (gpu(8, 6, 84, 768), 84 * 1.7e9), (gpu(8, 6, 80, 912), 80 * 1.7e9), (gpu(8, 9, 142, 864), 142 * 1.7e9),
    (gpu(12, 0, 188, 1792), 188 * 1.7e9), (gpu(7, 5, 72, 672), 72 * 1.7e9),
])  # fmt: skip
def test_of_devices_with_one_capability_and_two_rates_the_lower_is_assumed_and_told(
    stats: dict[str, object], rate: float
) -> None:
    """An RTX A6000 and an RTX 3090 Ti, an L40S and an L40 have as many cores: who states no name may be either."""
    found = peaks_of_plane(read_plane_stats(stats), "")
    assert found is not None
    assert found.flops_for_dtype() == rate * 512
    assert note_text(found.source).endswith("multiply matrices twice as fast: name yours with --peak")
    assert peaks_of_plane(read_plane_stats(stats), "NVIDIA L40S") == peaks_of_model("NVIDIA L40S")


def test_rocm_takes_hbm3_for_half_as_fast_as_it_is() -> None:
    """A transpose of the sample ran at 2.93 TB/s, which the 2.66 TB/s that the runtime states cannot be."""
    found = peaks_of_plane(read_plane_stats(AMD), "AMD GPU, compute capability 9.4")
    assert found is not None
    assert (found.device, found.memory, found.flops_for_dtype()) == ("MI300X", 5300e9, 1307.4e12)


@pytest.mark.parametrize("stats", [
    {}, {"peak_teraflops_per_second": 0, "peak_hbm_bw_gigabytes_per_second": 5},
    {"core_count": "many", "clock_rate": -1},
    {"peak_teraflops_per_second": float("nan"), "peak_hbm_bw_gigabytes_per_second": float("inf")},
    H100 | {"compute_cap_major": None}, H100 | {"compute_cap_major": 99}, AMD | {"core_count": 1},
])  # fmt: skip
def test_a_plane_that_says_nothing_of_use_is_looked_up_by_its_name(stats: dict[str, object]) -> None:
    assert peaks_of_plane(read_plane_stats(stats), "") is None
    assert peaks_of_plane(read_plane_stats(stats), "Tesla T4") == peaks_of_model("Tesla T4")


def test_a_caller_names_a_device_or_says_figures() -> None:
    assert parse_peaks("h100") == peaks_of_model("NVIDIA H100 80GB HBM3")
    plain = parse_peaks("989T,3.35TB/s")
    assert plain is not None
    assert (plain.flops_for_dtype(), plain.memory, plain.flops_for_dtype("f16")) == (989e12, 3.35e12, 989e12)
    typed = parse_peaks("bf16:989T, f32=67T, memory:3350G")
    assert typed is not None
    assert (typed.flops, typed.memory) == ({"bf16": 989e12, "f32": 67e12}, 3350e9)
    only = parse_peaks("2TB/s")
    assert only is not None
    assert (only.flops_for_dtype(), only.memory) == (None, 2e12)
    assert parse_peaks(" ") is None


@pytest.mark.parametrize("text", ["fast", "-1T", "0T", "1e9999", "989T;3T", "bf16:", "T", "\x1b[31m"])
def test_what_is_no_peak_is_refused(text: str) -> None:
    with pytest.raises(TracehoundError, match="is neither a peak") as refused:
        PEAK_SETTING.value_in((("peak", text),))
    assert "\x1b" not in str(refused.value)


@pytest.mark.thorough
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    peaks_of_model(text)
    with suppress(TracehoundError):
        parse_peaks(text)
