"""How the package is built, as far as that can be told without building it."""

from __future__ import annotations

import platform
import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from packaging.tags import mac_platforms

SCRIPT = Path(__file__).parents[1] / "hatch_build.py"


@pytest.fixture
def script() -> ModuleType:
    spec = spec_from_file_location("hatch_build", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("python", "machine", "expected"),
    [
        ("macosx-10.13-universal2", "arm64", "macosx_11_0_arm64"),
        ("macosx-10.13-universal2", "x86_64", "macosx_10_13_x86_64"),
        ("macosx-14.0-arm64", "arm64", "macosx_14_0_arm64"),
        ("linux-aarch64", "aarch64", "linux_aarch64"),
    ],
)
def test_a_wheel_is_for_a_platform_that_pip_knows(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, python: str, machine: str, expected: str
) -> None:
    monkeypatch.setattr(sysconfig, "get_platform", lambda: python)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert script.tag() == expected
    assert not expected.startswith("macosx") or expected in mac_platforms((15, 0), machine)
