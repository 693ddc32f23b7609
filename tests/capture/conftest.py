"""Waits of captures by dynolog, as short as tests need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracehound.capture import kineto_files, on_demand_capture


@pytest.fixture
def short_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces are noticed at once; one that is sure to come has time to on a busy machine."""
    monkeypatch.setattr(kineto_files, "default_process_file", lambda pid: tmp_path / f"default_{pid}.json")
    monkeypatch.setattr(kineto_files, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(kineto_files, "UNCHANGED_SECONDS", 0.05)
    monkeypatch.setattr(on_demand_capture, "SIGN_SECONDS", 30)
    monkeypatch.setattr(on_demand_capture, "COMMON_START_SECONDS", 2.0)


@pytest.fixture
def no_trace_comes(short_waits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    del short_waits  # set before
    monkeypatch.setattr(on_demand_capture, "SIGN_SECONDS", 0.3)
    monkeypatch.setattr(on_demand_capture, "COMMON_START_SECONDS", 0.1)


@pytest.fixture
def one_trace_comes(short_waits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes: long enough for the one on a busy machine."""
    del short_waits  # set before
    monkeypatch.setattr(on_demand_capture, "SIGN_SECONDS", 4)
