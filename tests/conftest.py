"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

# One thread makes frames of a few rows in a seventh less time; the full run has several, as users have.
if "PYTEST_XDIST_WORKER" not in os.environ and "thorough" not in " ".join(sys.argv):
    os.environ.setdefault("POLARS_MAX_THREADS", "1")

# gRPC, which tests of captures import, must not start its threads in a fork that only executes another program.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import pytest
from hypothesis import settings

# A machine under load is slow, which is no failure: no deadlines. `--hypothesis-profile` chooses another of these.
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("thorough", deadline=None, max_examples=25)
settings.register_profile("thousands", deadline=None, max_examples=3000)
settings.load_profile("quick")

ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` writes the golden reports anew, ``--every-extreme`` tries all numbers of the small files."""
    parser.addoption("--update-golden", action="store_true", help="write the golden reports anew")
    parser.addoption("--every-extreme", action="store_true", help="set every number of small files to each extreme")


PEERS = ("test_peers.py", "test_xprof.py", "test_xprof_memory.py", "test_xprof_programs.py")
"""The tests of other tools' numbers: they are quick, and tell more than most."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the captures beside the checkout to the full run, but for the numbers of other tools."""
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()) and item.path.name not in PEERS:
            item.add_marker(pytest.mark.thorough)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect thousands of tests without a search for garbage among them, which takes a third of the time.

    Later searches leave them out: they last as long as the process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache that no other run has written to, in place of the user's own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEHOUND_CACHE", str(folder))
        yield folder


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home directory: a container may run us as one that nobody listed."""

    def unlisted(user: int) -> NoReturn:
        raise KeyError(user)

    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TRACEHOUND_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unlisted)


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
