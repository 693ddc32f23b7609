"""The command ``capture --dynolog``, with a daemon of these tests and processes that answer at once."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from dynolog_daemon import DynologDaemon, KinetoConfig, kineto
from jobs import Rank
from tracehound.capture import on_demand_capture
from tracehound.capture.dynolog import ProcessFilter
from tracehound.capture.kineto_files import watch_traces
from tracehound.cli.arguments import parse_arguments
from tracehound.cli.commands.capture_dynolog import parse_plan, progress_sentence
from tracehound.cli.main import main
from tracehound.errors import TracehoundError

PIDS = (2**31 - 2, 2**31 - 1)
"""Numbers that no process of this machine has."""


@pytest.fixture(autouse=True)
def in_an_empty_folder(short_waits: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del short_waits
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def rank_trace(number: int) -> str:
    rank = Rank(number)
    for step in range(4):
        rank.step(step, 1000 * step, 1000 * step + 900)
        rank.kernel("gemm", 1000 * step, 1000 * step + 10, 1000 * step + 500)
    return json.dumps(rank.document())


def capture(daemon: DynologDaemon, *words: str) -> int:
    return main(["capture", "--dynolog", str(daemon.address), "--duration", "10ms", "--no-cache", *words])


def options(*words: str) -> Namespace:
    return parse_arguments(["capture", *words])


def test_two_processes_are_one_run_of_two_ranks(capsys: pytest.CaptureFixture[str]):
    with (
        DynologDaemon() as daemon,
        kineto(daemon, PIDS[0], [], rank_trace(0)),
        kineto(daemon, PIDS[1], [], rank_trace(1)),
    ):
        assert capture(daemon, "logs", "--report", "distributed", "--format", "json") == 0
    printed = capsys.readouterr()
    (run,) = Path("logs", "plugins", "profile").iterdir()
    assert len(json.loads(printed.out)["rows"]) == 2
    lines = printed.err.splitlines()
    assert lines[0] == f"tracehound: dynolog at {daemon.address}: 2 processes matched, 2 triggered"
    assert lines[1].startswith("tracehound: saved 2 traces, ")
    assert lines[1].endswith(f": {run}")
    assert lines[-1] == f"tracehound: again: tracehound report {run} distributed --format=json"


def test_quiet_prints_the_folder_alone(capsys: pytest.CaptureFixture[str]):
    with DynologDaemon() as daemon, kineto(daemon, PIDS[0], [], rank_trace(0)):
        assert capture(daemon, "logs", "--quiet") == 0
    printed = capsys.readouterr()
    (run,) = Path("logs", "plugins", "profile").iterdir()
    assert (printed.out, printed.err) == (f"{run}\n", "")
    assert [path.name for path in run.iterdir()] == [f"127.0.0.1_{daemon.address.port}_{PIDS[0]}.json"]


@pytest.mark.usefixtures("one_trace_comes")
def test_one_process_of_two_fails(capsys: pytest.CaptureFixture[str]):
    with DynologDaemon() as daemon, kineto(daemon, PIDS[0], [], rank_trace(0)):
        daemon.poll((PIDS[1],))
        assert capture(daemon, "logs", "--summary") == 1
    printed = capsys.readouterr()
    assert f"tracehound: process {PIDS[1]}: no trace after " in printed.err
    assert "tracehound: again: tracehound summary " in printed.err
    assert "1 rank" in printed.out


def test_one_process_of_two_is_busy(capsys: pytest.CaptureFixture[str]):
    with DynologDaemon() as daemon:
        daemon.poll((PIDS[1],))
        daemon.jobs[0][PIDS[1],].config = "ACTIVITIES_DURATION_MSECS=1"
        with kineto(daemon, PIDS[0], [], rank_trace(0)):
            assert capture(daemon, "logs", "--quiet") == 1
    message = "2 processes matched, 1 triggered, 1 busy with an earlier request"
    assert capsys.readouterr().err == f"tracehound: dynolog at {daemon.address}: {message}\n"


@pytest.mark.usefixtures("no_trace_comes")
def test_no_process_gives_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with DynologDaemon() as daemon:
        daemon.poll((PIDS[1],))
        assert capture(daemon, "logs") == 2
    assert capsys.readouterr().out == ""
    assert not list((tmp_path / "logs").iterdir())


def test_nothing_is_left_where_no_process_matches(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with DynologDaemon() as daemon:
        assert capture(daemon, "logs") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("tracehound: no process is registered with dynolog at ")
    assert len(printed.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_details_and_processes_reach_kineto():
    configs = list[KinetoConfig]()
    with DynologDaemon() as daemon, kineto(daemon, PIDS[0], configs, rank_trace(0)):
        daemon.poll((PIDS[1],))
        words = ("--pid", str(PIDS[0]), "--iterations", "5", "--record", "shapes,stacks", "--record", "flops")
        assert capture(daemon, "logs", "--quiet", *words) == 0
    (config,) = configs
    assert config.values["ACTIVITIES_ITERATIONS"] == "5"
    switched_on = {key for key, value in config.values.items() if value == "true"}
    assert switched_on == {"PROFILE_REPORT_INPUT_SHAPES", "PROFILE_WITH_STACK", "PROFILE_WITH_FLOPS"}
    assert all(request["pids"] == [PIDS[0]] for request in daemon.received)


def test_the_end_of_the_wait_names_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def press_ctrl_c(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(on_demand_capture, "wait_for_traces", press_ctrl_c)
    with DynologDaemon() as daemon:
        daemon.poll((PIDS[0],))
        assert capture(daemon, "logs") == 130
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"tracehound: no longer waiting; the traces will be {tmp_path}/logs/127.0.0.1_")
    assert message.endswith(f"_{PIDS[0]}.json")
    assert not list((tmp_path / "logs").iterdir()), "the folder stays: Kineto creates none"


def test_the_plan_of_a_command_line():
    plan = parse_plan(options("--dynolog", "gpu7", "--job-id", "4"), {"SLURM_JOB_ID": "7"})
    assert str(plan.address) == "gpu7:1778"
    assert plan.folder == Path("/tmp")  # noqa: S108
    assert plan.duration_ms == 2000
    assert plan.processes == ProcessFilter((), 4)
    plan = parse_plan(options("--dynolog", "[::1]:99", "--pid", "3", "--pid", "4", "traces/"), {"SLURM_JOB_ID": "7"})
    assert str(plan.address) == "[::1]:99"
    assert plan.folder == Path.cwd() / "traces"
    assert plan.processes == ProcessFilter((3, 4), 7)
    assert parse_plan(options("--dynolog", "gpu7"), {"SLURM_JOB_ID": "7_1"}).processes.job_id == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "b"], "b is one word too many; --dynolog takes a LOGDIR alone"),
        ([""], "LOGDIR is empty; a variable that is not set? . is this folder"),
        (["--duration", "61min"], "--duration is at most 3600s, as Kineto holds the trace in memory"),
        (["--record", "colors"], "PyTorch records no 'colors' on demand; --record takes shapes, stacks"),
    ],
)
def test_a_wrong_command_line_is_explained(words: list[str], message: str):
    with pytest.raises(TracehoundError) as caught:
        parse_plan(options("--dynolog", "gpu7", *words), {})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dynolog", "gpu7", "--python-tracer-level", "0"], "--python-tracer-level is for profiler servers; leave"),
        (["--dynolog", "gpu7", "--snapshot"], "--snapshot is for profiler servers; leave"),
        (["gpu7:99", "--job-id", "0"], "--job-id is for PyTorch jobs; add --dynolog HOST"),
        (["gpu7:99", "--pid", "7"], "--pid is for PyTorch jobs; add --dynolog HOST"),
        (["--dynolog", "gpu 7"], "'gpu 7' is no address of a server"),
    ],
)
def test_options_of_the_other_kind_are_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["capture", *words]) == 2
    assert capsys.readouterr().err.startswith(f"tracehound: {message}")


def test_the_progress_in_words():
    watches = watch_traces(Path("/traces/x.json"), [7, 8], is_local=False)
    assert progress_sentence(11.6, 3, watches) == "2 processes begin to record in 12 s (Ctrl-C ends the wait)"
    assert progress_sentence(0, 3, watches).startswith("processes 7, 8: waiting for the recording to begin, 3.0 s")
    watches[0].state = "recording"
    assert progress_sentence(-1, 14, watches).startswith("processes 7, 8: recording or writing, 14.0 s")
    watches[0].state = "complete"
    assert progress_sentence(-1, 14, watches).startswith("process 8: waiting")
