"""Fixtures that all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of the project's own captures."""
    return ROOT / "traces"


@pytest.fixture(scope="session")
def shared() -> Path:
    """A folder of other people's captures beside the checkout; the test is skipped where there is none."""
    folder = ROOT.parent / "shared"
    if not (folder / "traces").is_dir():
        pytest.skip("no folder of shared traces beside the checkout")
    return folder
