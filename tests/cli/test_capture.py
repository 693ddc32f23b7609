"""The command ``capture``: what it prints, where, and with which exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import profiler_servers as servers
from profiler_servers import Recorder, serve
from terminal import Terminal
from tracehound.capture import remote_capture
from tracehound.capture.continuous_capture import ContinuousCapture
from tracehound.capture.remote_capture import CapturePlan, CaptureProgress
from tracehound.capture.server_address import ServerAddress
from tracehound.cli import console
from tracehound.cli.arguments import PARSER_FACTORIES, parse_arguments, to_answer_arguments
from tracehound.cli.commands import capture as command
from tracehound.cli.commands import explore
from tracehound.cli.commands.capture import progress_sentence
from tracehound.cli.main import main

RUN = re.compile(r"plugins/profile/\d{4}(_\d\d){5}")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote_capture, "PAUSE_SECONDS", 0.01)


@pytest.fixture
def server(samples: Path) -> Iterator[ServerAddress]:
    """A server that sends a sample."""
    with serve(Recorder(profile=servers.reply(sample_profile(samples))).methods()) as address:
        yield address


def sample_profile(samples: Path) -> bytes:
    (path,) = (samples / "torch_xla_remote").rglob("*.xplane.pb")
    return path.read_bytes()


def run(*words: str) -> int:
    return main(["capture", "--duration", "50ms", *words])


def test_the_summary_is_the_answer_without_a_terminal(
    server: ServerAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(server), "logs") == 0
    out, err = capsys.readouterr()
    saved, again = err.splitlines()
    path = saved.rpartition(" ")[2]
    assert saved.startswith("tracehound: saved 1 profile, ")
    assert path.startswith("logs/plugins/profile/")
    assert again == f"tracehound: again: tracehound summary {path}"
    assert main(["summary", path]) == 0
    assert capsys.readouterr().out == out


def test_the_command_at_the_end_prints_the_answer_again(
    server: ServerAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(server), "--report", "breakdown", "--top", "3", "--set", "by=step", "--format", "csv") == 0
    out, err = capsys.readouterr()
    (again,) = (line for line in err.splitlines() if line.startswith("tracehound: again: "))
    words = again.removeprefix("tracehound: again: tracehound ").split()
    assert words[0] == "report"
    assert words[1].startswith("tracehound-captures/plugins/profile/")
    assert words[2:] == ["breakdown", "--top=3", "--set=by=step", "--format=csv"]
    assert main(words) == 0
    assert capsys.readouterr().out == out


def test_findings_of_a_capture(server: ServerAddress, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(server), "--findings", "--top", "1") == 0
    out, err = capsys.readouterr()
    assert out.startswith("Findings ")
    assert RUN.search(out), "commands of findings name the capture"
    assert err.splitlines()[-1].endswith(" findings --top=1")


def test_quiet_prints_the_path_alone(server: ServerAddress, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(server), "logs", "--quiet") == 0
    out, err = capsys.readouterr()
    assert err == ""
    (profile,) = Path(out.rstrip("\n")).iterdir()
    assert profile.name == f"127.0.0.1_{server.port}.xplane.pb"


def test_the_explorer_is_the_answer_at_a_terminal(
    server: ServerAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    explored: list[Namespace] = []

    def remember(options: Namespace) -> int:
        explored.append(options)
        return 0

    monkeypatch.setattr(console, "is_interactive", lambda: True)
    monkeypatch.setattr(explore, "run", remember)
    assert run(str(server), "logs", "--ascii") == 0
    (options,) = explored
    assert options.ascii
    assert capsys.readouterr().err.endswith(f"again: tracehound {options.paths[0]}\n")


@pytest.mark.thorough
def test_a_capture_at_a_terminal_shows_its_progress_and_ends_in_the_explorer(samples: Path, tmp_path: Path) -> None:
    recorder = Recorder(seconds=1, profile=servers.reply(sample_profile(samples)))
    with serve(recorder.methods()) as address, Terminal("capture", str(address), str(tmp_path / "logs")) as terminal:
        terminal.wait_for(f"recording {address}: ")
        terminal.wait_for("? help")
        terminal.press("q")
        assert terminal.ended() == 0
    assert list((tmp_path / "logs").rglob("*.xplane.pb"))


def test_some_servers_failed(server: ServerAddress, capsys: pytest.CaptureFixture[str]) -> None:
    with servers.serve_nobody() as nobody:
        assert run(servers.addresses(nobody, server), "--quiet") == command.EXIT_SOME_FAILED
    out, err = capsys.readouterr()
    assert RUN.search(out)
    (line,) = err.splitlines()
    assert line.startswith(f"tracehound: {nobody}: connection refused: ")


def test_all_servers_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with servers.serve_nobody() as nobody:
        assert run(str(nobody), "logs/new") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [], "no empty folder is left"


def test_a_log_folder_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with servers.serve_nobody() as nobody:
        assert run(str(nobody), "logs") == 2
    assert list(tmp_path.iterdir()) == [tmp_path / "logs"]
    assert list((tmp_path / "logs").iterdir()) == []


def test_what_a_server_says_cannot_touch_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with serve({"Profile": servers.refuse(grpc.StatusCode.UNKNOWN, "bad\x1b]0;title\x07")}) as address:
        assert run(str(address)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "capture which server? tracehound capture HOST:PORT"),
        ([""], "the list of servers is empty"),
        (["localhost"], "localhost has no port; "),
        (["a:1", "b:2"], "b:2 is no log folder; separate servers by commas: "),
        (["a:1", "x", "y"], "x is no log folder; "),
        (["a:1", ""], "LOGDIR is empty; "),
        (["--tpu"], "--tpu knows the hosts, not their port; "),
        (["a:1", "--every", "3s"], "--every is for snapshots; add --snapshot"),
        (["a:1", "--count", "3"], "--count is for snapshots; add --snapshot"),
        (["a:1", "--snapshot", "--duration", "3s"], "--duration is not for snapshots; "),
        (["a:1", "--summary", "--set", "by=op"], "--set is for one analysis; add --findings or --report ANALYSIS"),
        (["--snapshot", "a:1,b:2"], "snapshots are of one server; "),
        (["a:1", "--option", "x"], "'x' is no option of a tracer; "),
        (["a:1", "--report", "nonsense"], "no analysis 'nonsense'"),
        (["a:1", "--report", "ops", "--set", "x=1"], "no setting 'x'"),
        (["a:1", "--format", "nonsense"], "no form 'nonsense'"),
    ],
)
def test_wrong_arguments_are_told_before_anything_is_captured(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capture", *words]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "not encrypted" not in line]
    assert message in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--duration", "0"], "argument --duration: 0 is no time to record; give a longer one, such as 2s"),
        (["--duration", "-1s"], "is no time to record"),
        (["--duration", "2"], "argument --duration: '2' is not a time"),
        (["--host-tracer-level", "4"], "is not a whole number from 0 to 3"),
        (["--findings", "--quiet"], "not allowed with argument --findings"),
    ],
)
def test_wrong_values_of_options(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["capture", "a:1", *words])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_plain_text_beyond_this_machine_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def capture(plan: CapturePlan, *rest: object) -> list[remote_capture.ServerOutcome]:
        del rest
        return [remote_capture.ServerOutcome(address, problem="x") for address in plan.addresses]

    monkeypatch.setattr(command, "capture_servers", capture)
    assert run("localhost:7,node1:9999,node2:9999") == 2
    warning, *problems = capsys.readouterr().err.splitlines()
    assert warning == (
        "tracehound: the connection to node1 is not encrypted, and whoever reaches the port can record; safer:"
        " ssh -L 9999:localhost:9999 node1, then capture localhost:9999"
    )
    assert len(problems) == 3


def test_all_hosts_of_a_slice(
    server: ServerAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "127.0.0.1")
    monkeypatch.setenv("MEGASCALE_NUM_SLICES", "4")
    assert main(["capture", "--tpu", "--port", str(server.port), "logs", "--quiet", "--duration", "50ms"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("logs/plugins/profile/")
    assert err == (
        "tracehound: 1 host of this TPU slice, from TPU_WORKER_HOSTNAMES;"
        " the job has 4 slices, capture each from one of its own hosts\n"
    )


def test_without_grpc_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert run("localhost:1") == 2
    assert capsys.readouterr().err == (
        "tracehound: a capture needs the package grpcio, which is not installed;"
        " pip install 'tracehound[capture]', or pip install grpcio\n"
    )


def test_only_a_capture_imports_grpc(samples: Path) -> None:
    script = (
        "import sys, tracehound; from tracehound.cli.main import main\n"
        f"main(['report', {str(samples / 'jax_cpu8_b128')!r}, 'health'])\n"
        "try: main(['capture', '--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith(('grpc', 'tracehound.capture'))], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    assert found.stderr == "[]\n"


def test_answers_take_over_their_options() -> None:
    options = parse_arguments(
        ["capture", "a:1", "--no-cache", "--jobs", "3", "--top", "4", "--notes", "--report", "ops", "--set", "by=rank"]
    )
    answer = to_answer_arguments(options, "report", ["x", "ops"])
    assert (answer.paths, answer.no_cache, answer.jobs, answer.top) == (["x", "ops"], True, 3, 4)
    assert (answer.notes, answer.set, answer.list, answer.where) == (True, ["by=rank"], False, "")
    assert set(vars(PARSER_FACTORIES["summary"]().parse_args(["x"]))) <= set(
        vars(to_answer_arguments(options, "summary", ["x"]))
    )


def test_the_progress_in_words() -> None:
    one, other = ServerAddress("a", 1), ServerAddress("b", 2)
    plan = CapturePlan((one, other), 2000)
    states = dict.fromkeys((one, other), "recording")

    def said(seconds: float, *, ending: bool = False, **more: str) -> str:
        named = {one: more.get("a", "recording"), other: more.get("b", "recording")}
        return progress_sentence(plan, CaptureProgress(seconds, named, ending))  # type: ignore[arg-type]

    assert states
    assert said(-0.3) == "recording a:1, b:2: 0.0 of 2 s (Ctrl-C ends early, and keeps it)"
    assert said(1.23) == "recording a:1, b:2: 1.2 of 2 s (Ctrl-C ends early, and keeps it)"
    assert said(3.5, a="done") == "waiting for the profile of b:2: 1.5 s"
    assert said(1, b="busy") == "b:2: another capture runs there, trying again (Ctrl-C gives up)"
    assert said(1, ending=True).startswith("ending early: waiting for the profile of a:1, b:2")


# --- snapshots


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of a pipe that types on stdin."""
    read, write = os.pipe()
    with open(read, encoding="utf-8") as stdin:  # noqa: PTH123, it is a descriptor
        monkeypatch.setattr(sys, "stdin", stdin)
        yield write
    os.close(write)


class ContinuousServer:
    """A server that records all the time, and types on the keyboard when a snapshot was taken."""

    def __init__(self, profile: bytes, typing: int, *lines: bytes) -> None:
        self.running = False
        self.snapshots = 0
        self._profile, self._typing, self._lines = profile, typing, list(lines)

    def methods(self) -> dict[str, servers.Method]:
        return {
            "StartContinuousProfiling": self.start,
            "GetSnapshot": self.snapshot,
            "StopContinuousProfiling": self.stop,
        }

    def type_line(self) -> None:
        if self._lines:
            os.write(self._typing, self._lines.pop(0))

    def start(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        del request, context
        self.running = True
        self.type_line()
        return b""

    def snapshot(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        del request, context
        self.snapshots += 1
        self.type_line()
        return servers.reply(self._profile)

    def stop(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        del request, context
        self.running = False
        return b""


def test_enter_takes_snapshots_until_q(keyboard: int, capsys: pytest.CaptureFixture[str]) -> None:
    server = ContinuousServer(servers.xspace(), keyboard, b"\n", b"\n", b"q\n")
    with serve(server.methods()) as address:
        assert main(["capture", "--snapshot", str(address), "logs"]) == 0
    assert not server.running
    out, err = capsys.readouterr()
    paths = out.splitlines()
    assert len(paths) == 2
    assert all((Path(path) / f"127.0.0.1_{address.port}.xplane.pb").is_file() for path in paths)
    beginning, first, blind, memory, *others = err.splitlines()
    assert beginning.startswith(f"tracehound: recording {address}: Enter takes a snapshot, q Enter ends it; ")
    assert first == f"tracehound: snapshot 1: {len(servers.xspace())} B, 2.00 s of {address}"
    assert re.fullmatch(r"tracehound: not recorded: at most .* after it, while the job packed it", blind)
    assert memory.startswith("tracehound: the job's memory ")
    assert others[0].startswith("tracehound: snapshot 2: ")


def test_snapshots_by_the_clock_with_answers(samples: Path, keyboard: int, capsys: pytest.CaptureFixture[str]) -> None:
    server = ContinuousServer(sample_profile(samples), keyboard)
    words = ["--every", "10ms", "--count", "1", "--findings", "--top", "1"]
    with serve(server.methods()) as address:
        assert main(["capture", "--snapshot", str(address), *words]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Findings ")
    assert err.splitlines()[-1].startswith("tracehound: again: tracehound report ")
    assert (server.snapshots, server.running) == (1, False)


def test_a_signal_takes_a_snapshot(keyboard: int, capsys: pytest.CaptureFixture[str]) -> None:
    server = ContinuousServer(servers.xspace(), keyboard)
    methods = server.methods()

    def start(request: bytes, context: grpc.ServicerContext) -> bytes:
        threading.Thread(target=send_signals, args=(server,)).start()
        return server.start(request, context)

    before = signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until the command catches it
    try:
        with serve(methods | {"StartContinuousProfiling": start}) as address:
            assert main(["capture", "--snapshot", str(address), "--quiet", "--count", "1"]) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    out, err = capsys.readouterr()
    assert RUN.search(out)
    assert err == ""


def send_signals(server: ContinuousServer) -> None:
    until = time.monotonic() + 20
    while not server.snapshots and time.monotonic() < until:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.02)


def test_old_events_are_dropped(keyboard: int, capsys: pytest.CaptureFixture[str]) -> None:
    server = ContinuousServer(servers.xspace(), keyboard, b"", b"", b"", b"\n", b"q\n")
    with serve(server.methods()) as address:
        assert main(["capture", "--snapshot", str(address), "--max-age", "10ms", "--quiet"]) == 0
    assert server.snapshots >= 4
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_short_snapshot_comes_with_the_time_before_it(keyboard: int, capsys: pytest.CaptureFixture[str]) -> None:
    server = ContinuousServer(servers.xspace(stop_ns=9 * 10**9), keyboard, b"", b"\n", b"q\n")
    methods = server.methods()

    def snapshot(*asked: Any) -> bytes:
        sent = server.snapshot(*asked)
        return sent if server.snapshots == 1 else servers.reply(servers.xspace())

    with serve(methods | {"GetSnapshot": snapshot}) as address:
        assert main(["capture", "--snapshot", str(address), "--max-age", "300ms"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "; events are kept for 0.3 s (--max-age)\n" in err
    assert f"snapshot 1, the time before: {len(servers.xspace(stop_ns=9 * 10**9))} B, 8.00 s of {address}\n" in err
    assert f"snapshot 1: {len(servers.xspace())} B, 2.00 s of {address}\n" in err


def test_a_job_that_grows_much_loses_its_old_events(
    keyboard: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ContinuousCapture, "memory_since_snapshot", 3 << 30)
    server = ContinuousServer(servers.xspace(), keyboard, b"", b"", b"", b"q\n")
    with serve(server.methods()) as address:
        assert main(["capture", "--snapshot", str(address), "--max-age", "60min", "--quiet"]) == 0
    assert server.snapshots == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "tracehound: the job's memory grew by 3.00 GiB: from now on events are dropped when it does\n"


def test_snapshots_without_events_and_servers_that_go_away(keyboard: int, capsys: pytest.CaptureFixture[str]) -> None:
    empty = ContinuousServer(servers.xspace(events=False), keyboard, b"\n", b"q\n")
    with serve(empty.methods()) as address:
        assert main(["capture", "--snapshot", str(address), "--quiet"]) == 2
    assert "snapshot 1 has no events" in capsys.readouterr().err
    gone = ContinuousServer(servers.xspace(), keyboard, b"\n")
    refuse = servers.refuse(grpc.StatusCode.NOT_FOUND, "No continuous profiling session found.")
    with serve(gone.methods() | {"GetSnapshot": refuse}) as address:
        assert main(["capture", "--snapshot", str(address), "--quiet"]) == 2
    assert "no snapshot: NOT_FOUND: No continuous" in capsys.readouterr().err


def test_a_recording_that_was_left_on_is_begun_anew(keyboard: int, capsys: pytest.CaptureFixture[str]) -> None:
    server = ContinuousServer(servers.xspace(), keyboard, b"q\n")
    server.running = True

    def start(request: bytes, context: grpc.ServicerContext) -> bytes:
        if server.running:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "A profiling session is already running.")
        return server.start(request, context)

    with serve(server.methods() | {"StartContinuousProfiling": start}) as address:
        assert main(["capture", "--snapshot", str(address), "--quiet"]) == 2
        assert "--restart stops it and begins anew" in capsys.readouterr().err
        assert main(["capture", "--snapshot", str(address), "--quiet", "--restart"]) == 0
    assert not server.running
