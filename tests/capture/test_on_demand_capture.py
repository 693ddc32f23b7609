"""On-demand captures: a daemon, processes that poll it as Kineto does, and their files."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from dynolog_daemon import WHOLE_TRACE, DynologDaemon, KinetoConfig, kineto
from tracehound.capture import kineto_files
from tracehound.capture.capture_files import RunFolder, create_run_folder
from tracehound.capture.dynolog import ProcessFilter
from tracehound.capture.on_demand_capture import (
    OnDemandPlan,
    ProcessOutcome,
    TriggeredTraces,
    collect_traces,
    count_processes,
    create_write_folder,
    trigger_traces,
)
from tracehound.capture.server_address import ServerAddress
from tracehound.errors import TracehoundError

PIDS = (2**31 - 2, 2**31 - 1)
"""Numbers that no process of this machine has."""


pytestmark = pytest.mark.usefixtures("short_waits")


def plan(daemon: DynologDaemon, logdir: Path, **options: object) -> OnDemandPlan:
    return replace(OnDemandPlan(daemon.address, logdir, 10), **options)


def trigger(wanted: OnDemandPlan) -> TriggeredTraces:
    """A capture under way, in a folder that exists."""
    processes = count_processes(wanted)
    create_write_folder(wanted.folder)
    return trigger_traces(wanted, processes)


def collect(wanted: OnDemandPlan, tmp_path: Path) -> list[ProcessOutcome]:
    """The outcomes of a capture."""
    return collect_traces(trigger(wanted), create_run_folder(tmp_path / "logs"), lambda *_: None)


def test_the_traces_of_two_processes_begin_together(tmp_path: Path):
    configs = list[KinetoConfig]()
    folder = tmp_path / "new" / "traces"
    run = create_run_folder(tmp_path / "logs")
    before = time.time()
    with DynologDaemon() as daemon, kineto(daemon, PIDS[0], configs), kineto(daemon, PIDS[1], configs):
        triggered = trigger(plan(daemon, folder))
        outcomes = collect_traces(triggered, run, lambda *_: None)
    assert str(triggered.found) == "2 processes matched, 2 triggered"
    assert [outcome.pid for outcome in outcomes] == list(PIDS)
    paths = [run.path / f"127.0.0.1_{daemon.address.port}_{pid}.json" for pid in PIDS]
    assert [outcome.path for outcome in outcomes] == paths
    assert [path.read_text() for path in paths] == [WHOLE_TRACE, WHOLE_TRACE]
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert not list(folder.iterdir())
    starts = {int(config.values["PROFILE_START_TIME"]) for config in configs}
    assert starts == {int(triggered.start_s * 1000)}
    assert triggered.start_s >= before + 0.2


def test_one_process_begins_when_it_can(tmp_path: Path):
    configs = list[KinetoConfig]()
    with DynologDaemon() as daemon, kineto(daemon, PIDS[0], configs), kineto(daemon, PIDS[1], configs):
        triggered = trigger(plan(daemon, tmp_path, processes=ProcessFilter((PIDS[1],))))
        (outcome,) = collect_traces(triggered, create_run_folder(tmp_path / "logs"), lambda *_: None)
    assert outcome.pid == PIDS[1]
    assert [config.values["PROFILE_START_TIME"] for config in configs] == ["0"]


def test_iterations_have_no_common_start(tmp_path: Path):
    configs = list[KinetoConfig]()
    with DynologDaemon() as daemon, kineto(daemon, PIDS[0], configs), kineto(daemon, PIDS[1], configs):
        collect(plan(daemon, tmp_path, iterations=3), tmp_path)
    assert {config.values["ACTIVITIES_ITERATIONS"] for config in configs} == {"3"}
    assert not any("PROFILE_START_TIME" in config.values for config in configs)


def test_nothing_is_left_where_no_process_matches(tmp_path: Path):
    with DynologDaemon() as daemon, pytest.raises(TracehoundError, match="no process is registered"):
        trigger(plan(daemon, tmp_path / "new"))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_triggers_nothing(tmp_path: Path):
    (tmp_path / "file").touch()
    with DynologDaemon() as daemon:
        daemon.poll(PIDS)
        with pytest.raises(TracehoundError, match=r"no folder for captures: .*; name another LOGDIR"):
            trigger(plan(daemon, tmp_path / "file" / "x"))
        assert daemon.poll(PIDS) == ""


@pytest.mark.usefixtures("no_trace_comes")
def test_no_file_of_a_process_of_this_machine(tmp_path: Path):
    with DynologDaemon() as daemon:
        daemon.poll(PIDS)
        (outcome,) = collect(plan(daemon, tmp_path), tmp_path)
    assert outcome.path is None
    assert outcome.problem.startswith("no trace after")
    assert f"{tmp_path}/127.0.0.1_{daemon.address.port}." in outcome.problem


@pytest.mark.usefixtures("no_trace_comes")
def test_no_file_of_a_process_of_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ServerAddress, "is_loopback", property(lambda _: False))
    with DynologDaemon() as daemon:
        daemon.poll(PIDS)
        (outcome,) = collect(plan(daemon, tmp_path), tmp_path)
    assert outcome.problem.startswith(f"the job wrote it on its own machine: 127.0.0.1:{tmp_path}/127.0.0.1_")
    remedy = "copy it from there, or name a LOGDIR on a disk that both machines share"
    assert outcome.problem.endswith(f"_{PIDS[0]}.json; {remedy}")


@pytest.mark.usefixtures("no_trace_comes")
def test_newer_versions_of_pytorch_may_use_the_default_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ServerAddress, "is_loopback", property(lambda _: False))
    monkeypatch.setattr(kineto_files, "default_process_file", lambda pid: Path(f"/default/x_{pid}.json"))
    with DynologDaemon() as daemon:
        daemon.poll(PIDS)
        (outcome,) = collect(plan(daemon, tmp_path), tmp_path)
    assert f"_{PIDS[0]}.json (newer versions of PyTorch: /default/x_{PIDS[0]}.json); copy" in outcome.problem


def test_a_trace_moves_to_another_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    with DynologDaemon() as daemon, kineto(daemon, PIDS[0], []):
        monkeypatch.setattr(Path, "rename", refuse)
        run = create_run_folder(tmp_path / "logs")
        triggered = trigger(plan(daemon, tmp_path / "written"))
        (outcome,) = collect_traces(triggered, run, lambda *_: None)
    assert outcome.path is not None
    assert [*run.path.iterdir()] == [outcome.path]
    assert outcome.path.read_text() == WHOLE_TRACE
    assert not list((tmp_path / "written").iterdir())


def test_a_trace_that_cannot_be_moved_stays(tmp_path: Path):
    with DynologDaemon() as daemon, kineto(daemon, PIDS[0], []):
        triggered = trigger(plan(daemon, tmp_path / "written"))
        (outcome,) = collect_traces(triggered, RunFolder(tmp_path / "gone", ()), lambda *_: None)
    assert [*(tmp_path / "written").iterdir()] == [outcome.path]


def test_a_file_that_takes_too_long(tmp_path: Path):
    with DynologDaemon() as daemon:
        daemon.poll(PIDS)
        triggered = trigger(plan(daemon, tmp_path, timeout_s=0.1))
        Path(f"{KinetoConfig.parse(daemon.poll(PIDS)).file(PIDS[0])}.tmp").touch()
        outcomes = collect_traces(triggered, create_run_folder(tmp_path / "logs"), lambda *_: None)
    path = triggered.watches[0].paths[0]
    problem = f"still not written after 0 s: {path}; give it more time (--timeout 600s)"
    assert outcomes == [ProcessOutcome(PIDS[0], problem=problem)]


@pytest.mark.usefixtures("one_trace_comes")
def test_one_trace_of_two_is_kept(tmp_path: Path):
    with DynologDaemon() as daemon, kineto(daemon, PIDS[1], []):
        daemon.poll((PIDS[0], 1))
        outcomes = collect(plan(daemon, tmp_path), tmp_path)
    assert [bool(outcome.path) for outcome in outcomes] == [True, False]
