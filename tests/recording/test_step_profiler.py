"""The choice of the framework, the rank in its job, and profilers that fail without a word."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracehound.errors import TracehoundError
from tracehound.recording import jax_profiler, record, torch_profiler
from tracehound.recording.step_profiler import find_framework
from tracehound.recording.torch_profiler import TorchProfiler


@pytest.mark.parametrize(("imported", "chosen"), [("torch", torch_profiler), ("jax", jax_profiler)])
def test_the_framework_that_is_imported_is_taken(
    monkeypatch: pytest.MonkeyPatch, imported: str, chosen: SimpleNamespace
) -> None:
    for name in ("torch", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, imported, SimpleNamespace())
    assert find_framework(None) is chosen.FRAMEWORK


@pytest.mark.parametrize(
    ("imported", "said"),
    [((), "neither torch nor jax is imported"), (("torch", "jax"), "torch and jax are both imported")],
)
def test_a_choice_that_is_not_clear_is_the_users(
    monkeypatch: pytest.MonkeyPatch, imported: tuple[str, ...], said: str
) -> None:
    for name in ("torch", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in imported:
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    with pytest.raises(TracehoundError, match=f"{said}; give framework='torch' or 'jax'"):
        find_framework(None)
    assert find_framework("jax") is jax_profiler.FRAMEWORK


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_setting_that_the_profiler_lacks_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, framework: str
) -> None:
    def profile(*, with_flops: bool = False, schedule: object = None) -> None:
        """The signature of PyTorch's profiler."""

    fake = SimpleNamespace(profile=profile, ProfileOptions=SimpleNamespace(with_flops=False))
    monkeypatch.setitem(sys.modules, f"{framework}.profiler", fake)
    record(tmp_path, framework=framework, options={"with_flops": True}).close()
    for name in ("bogus", *(["schedule"] if framework == "torch" else [])):
        with pytest.raises(TracehoundError, match=f"the profiler has no option '{name}'"):
            record(tmp_path, framework=framework, options={name: True})
    with pytest.raises(TracehoundError, match="signal USR1 cannot be handled"):
        record(tmp_path, framework=framework, on_signal="USR1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("distributed", "environment", "expected"),
    [
        (None, {}, (0, 1)),
        (None, {"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ((5, 16), {"RANK": "3", "WORLD_SIZE": "8"}, (5, 16)),
    ],
)
def test_the_rank_is_that_of_the_process_group_else_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    distributed: tuple[int, int] | None,
    environment: dict[str, str],
    expected: tuple[int, int],
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    rank, ranks = distributed or (0, 0)
    fake = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: distributed is not None,
        get_rank=lambda: rank,
        get_world_size=lambda: ranks,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", fake)
    assert torch_profiler.read_process() == expected


@pytest.mark.parametrize("written", [None, "", '{"traceEvents": [{"na'])
def test_a_file_that_torch_could_not_write_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str | None
) -> None:
    def export(path: str) -> None:
        if written is not None:
            Path(path).write_text(written, encoding="ascii")

    profile = SimpleNamespace(start=lambda: None, stop=lambda: None, export_chrome_trace=export)
    fake = SimpleNamespace(ProfilerAction=SimpleNamespace(), profile=lambda **_: profile)
    monkeypatch.setitem(sys.modules, "torch.profiler", fake)
    profiler = TorchProfiler(tmp_path, 2, {})
    profiler.begin_step(1)
    with pytest.raises(OSError, match="is the disk full"):
        profiler.write_trace()
