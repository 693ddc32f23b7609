"""Captures of several servers: what arrives is kept, what does not is explained, and nobody is left recording."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import grpc
import pytest

import profiler_servers as servers
from profiler_servers import Recorder, serve
from tracehound.capture import remote_capture
from tracehound.capture.capture_files import RunFolder, create_run_folder
from tracehound.capture.profiler_messages import TracerOptions
from tracehound.capture.remote_capture import CapturePlan, CaptureProgress, ServerOutcome, capture_servers
from tracehound.capture.server_address import ServerAddress
from xspaces import Event, Line, Plane, block, space


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_capture, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(remote_capture, "UPDATE_SECONDS", 0.01)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create_run_folder(tmp_path / "logs")


def capture(folder: RunFolder, *addresses: ServerAddress, timeout: float = 20.0, **more: object) -> list[ServerOutcome]:
    plan = CapturePlan(addresses, 50, timeout_s=timeout, **more)  # type: ignore[arg-type]
    return capture_servers(plan, folder, lambda _: None)


def problem(folder: RunFolder, methods: dict[str, servers.Method], **more: object) -> str:
    """The problem of a server with these calls, of which nothing is saved."""
    with serve(methods) as address:
        (outcome,) = capture(folder, address, **more)  # type: ignore[arg-type]
    assert outcome.path is None
    assert not list(folder.path.iterdir())
    return outcome.problem


def test_a_profile_is_saved_for_its_owner_alone(folder: RunFolder) -> None:
    recorder = Recorder()
    with serve(recorder.methods()) as address:
        (outcome,) = capture(folder, address)
    assert outcome.path == folder.path / f"127.0.0.1_{address.port}.xplane.pb"
    assert outcome.path.read_bytes() == servers.xspace()
    assert outcome.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.path.iterdir()] == [outcome.path.name]
    assert not outcome.problem
    assert not outcome.remarks


def test_a_request_says_what_servers_of_every_age_need(folder: RunFolder) -> None:
    recorder = Recorder()
    tracers = TracerOptions(3, 0, 1, {"tpu_trace_mode": "TRACE_ONLY_HOST", "x": True, "y": 7})
    with serve(recorder.methods()) as address:
        capture(folder, address, tracers=tracers)
    fields = servers.request_fields(recorder.requests[0])
    assert fields[5] == str(folder.path.parent).encode()
    assert fields[7] == f"127.0.0.1_{address.port}".encode()
    assert fields[9] == 1
    options = servers.request_fields(fields[4])  # type: ignore[arg-type]
    assert {number: value for number, value in options.items() if number != 12} == {
        1: 1, 2: 3, 4: 1, 5: 1, 7: 1, 9: 50, 13: 1,
    }  # fmt: skip
    assert (
        b"".join(
            (
                block(12, block(1, "tpu_trace_mode") + block(2, block(1, "TRACE_ONLY_HOST"))),
                block(12, block(1, "x") + block(2, b"\x10\x01")),
                block(12, block(1, "y") + block(2, b"\x18\x07")),
            )
        )
        in fields[4]
    )  # type: ignore[operator]


def test_each_capture_has_a_session_of_its_own(tmp_path: Path) -> None:
    recorder = Recorder()
    with serve(recorder.methods()) as address:
        for _ in range(3):
            capture(create_run_folder(tmp_path), address)
    sessions = {servers.session_of(request) for request in recorder.requests}
    assert len(sessions) == 3
    assert all(len(session) > 50 for session in sessions)


def test_several_servers_begin_at_one_time(folder: RunFolder) -> None:
    first, second = Recorder(), Recorder()
    before = time.time_ns()
    with serve(first.methods()) as one, serve(second.methods()) as other:
        outcomes = capture(folder, one, other)
    starts = {
        servers.request_fields(servers.request_fields(each.requests[0])[4])[8]  # type: ignore[arg-type]
        for each in (first, second)
    }
    assert len(starts) == 1
    assert before < starts.pop() < before + 20 * 10**9  # type: ignore[operator]
    assert [outcome.address for outcome in outcomes] == [one, other]
    assert len(list(folder.path.iterdir())) == 2


def test_what_arrives_is_kept_where_others_fail(folder: RunFolder) -> None:
    with serve(Recorder().methods()) as good, servers.serve_nobody() as nobody:
        outcomes = capture(folder, good, nobody)
    assert [bool(outcome.path) for outcome in outcomes] == [True, False]
    assert outcomes[1].problem == (
        "connection refused: no server listens there;"
        f" does the job call start_server({nobody.port}), and does it still run?"
    )
    assert [path.name for path in folder.path.iterdir()] == [f"127.0.0.1_{good.port}.xplane.pb"]


# --- ending early


class Interrupter:
    """A listener that presses Ctrl-C so often, once the server records."""

    def __init__(self, times: int, recorder: Recorder) -> None:
        self.times, self.recorder = times, recorder

    def __call__(self, _: CaptureProgress) -> None:
        if self.times and self.recorder.started.is_set():
            self.times -= 1
            raise KeyboardInterrupt


def test_an_interrupt_ends_the_capture_and_keeps_its_data(folder: RunFolder) -> None:
    recorder = Recorder(seconds=60)
    with serve(recorder.methods()) as address:
        plan = CapturePlan((address,), 60_000)
        (outcome,) = capture_servers(plan, folder, Interrupter(1, recorder))
    assert outcome.path is not None
    assert recorder.ended == [servers.session_of(recorder.requests[0])]


def test_a_second_interrupt_gives_up(folder: RunFolder) -> None:
    recorder = Recorder(seconds=60)
    methods = recorder.methods()
    del methods["Terminate"]
    with serve(methods) as address:
        with pytest.raises(KeyboardInterrupt):
            capture_servers(CapturePlan((address,), 60_000), folder, Interrupter(2, recorder))
        wait_until_idle(recorder)
    assert not list(folder.path.iterdir())


def test_any_other_end_leaves_nobody_recording(folder: RunFolder) -> None:
    recorder = Recorder(seconds=60)

    def stop(_: CaptureProgress) -> None:
        if recorder.started.is_set():
            raise SystemExit(143)

    with serve(recorder.methods()) as address:
        with pytest.raises(SystemExit):
            capture_servers(CapturePlan((address,), 60_000), folder, stop)
        wait_until_idle(recorder)
    assert not recorder.ended, "the end of a session that is over would be remembered"


def wait_until_idle(recorder: Recorder) -> None:
    until = time.monotonic() + 20
    while recorder.active and time.monotonic() < until:
        time.sleep(0.01)
    assert not recorder.active


def test_a_capture_that_has_ended_is_not_ended_again(folder: RunFolder) -> None:
    quick, slow = Recorder(), Recorder(seconds=60)
    pressed = []

    def press(progress: CaptureProgress) -> None:
        if not pressed and progress.states[one] == "done" and slow.started.is_set():
            pressed.append(True)
            raise KeyboardInterrupt

    with serve(quick.methods()) as one, serve(slow.methods()) as other:
        outcomes = capture_servers(CapturePlan((one, other), 60_000), folder, press)
    assert all(outcome.path for outcome in outcomes)
    assert quick.ended == []
    assert slow.ended == [servers.session_of(slow.requests[0])]


# --- servers that are busy


def test_a_busy_server_is_asked_again(folder: RunFolder) -> None:
    recorder = Recorder()
    states = set()

    def record(request: bytes, context: grpc.ServicerContext) -> bytes:
        recorder.requests.append(request)
        if len(recorder.requests) < 3:
            context.abort(grpc.StatusCode.INTERNAL, servers.BUSY)
        return recorder.profile

    with serve({"Profile": record}) as address:
        (outcome,) = capture_servers(
            CapturePlan((address,), 50), folder, lambda progress: states.update(progress.states.values())
        )
    assert outcome.path is not None
    assert len({servers.session_of(request) for request in recorder.requests}) == 3


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.ALREADY_EXISTS])
def test_a_server_that_stays_busy_is_given_up(folder: RunFolder, code: grpc.StatusCode) -> None:
    calls = []

    def record(request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append(request)
        context.abort(code, servers.BUSY)
        raise AssertionError

    assert problem(folder, {"Profile": record}).startswith("another capture runs there; ")
    assert len(calls) == remote_capture.MAX_ATTEMPTS


def test_an_interrupt_ends_the_pauses(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_capture, "PAUSE_SECONDS", 60.0)

    def press(progress: CaptureProgress) -> None:
        if "busy" in progress.states.values() and not progress.ending:
            raise KeyboardInterrupt

    with serve({"Profile": servers.refuse(grpc.StatusCode.INTERNAL, servers.BUSY)}) as address:
        (outcome,) = capture_servers(CapturePlan((address,), 50), folder, press)
    assert outcome.problem == "ended before the capture began"


def test_a_server_that_begins_late_is_told_apart(folder: RunFolder) -> None:
    calls = []

    def record(request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append(request)
        if len(calls) == 1:
            context.abort(grpc.StatusCode.INTERNAL, servers.BUSY)
        return servers.reply(servers.xspace())

    with serve({"Profile": record}) as late, serve(Recorder().methods()) as other:
        outcomes = capture(folder, late, other)
    assert outcomes[0].remarks == ("began later than the others: another capture ran there, 2 attempts",)
    assert outcomes[1].remarks == ()


# --- servers that do not do what they should


def test_a_server_that_hangs(folder: RunFolder) -> None:
    said = problem(folder, {"Profile": servers.hang}, timeout=0.3)
    assert said.startswith("no answer within 300 ms; give it more time (--timeout 300s)")


def test_a_server_without_this_service(folder: RunFolder) -> None:
    assert problem(folder, {}).startswith("the server has no call Profile; give the port ")


def test_a_server_of_something_else(folder: RunFolder) -> None:
    with servers.serve_raw(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n" * 9)) as address:
        (outcome,) = capture(folder, address)
    assert outcome.problem.startswith("what listens there is no profiler server; give the port ")


@pytest.mark.parametrize("sent", [b"", b"\x42\xff\xff\xff\x01"])
def test_a_server_that_dies_in_the_middle(folder: RunFolder, sent: bytes) -> None:
    with servers.serve_raw(servers.begin_message(1 << 20, sent)) as address:
        (outcome,) = capture(folder, address)
    assert outcome.problem == "the connection broke during the call; did the job end or crash?"
    assert not list(folder.path.iterdir())


def test_a_profile_that_is_too_large(folder: RunFolder) -> None:
    with servers.serve_raw(servers.begin_message(3_000_000_000, b"")) as address:
        (outcome,) = capture(folder, address)
    assert outcome.problem.startswith(
        "the profile has 2.79 GiB, gRPC carries at most 2.00 GiB; capture less: a shorter"
    )
    assert "--python-tracer-level 0" in outcome.problem


def test_a_profile_that_the_server_cannot_pack(folder: RunFolder) -> None:
    fail = servers.refuse(grpc.StatusCode.INTERNAL, "Failed to serialize message")
    assert problem(folder, {"Profile": fail}).startswith("the profile is larger than a message can be, ")


def test_a_wrong_option(folder: RunFolder) -> None:
    fail = servers.refuse(grpc.StatusCode.INVALID_ARGUMENT, "unknown key\n\x1b[31mtpu_nonsense")
    said = problem(folder, {"Profile": fail})
    assert said.startswith("INVALID_ARGUMENT: unknown key ")
    assert said.endswith("tpu_nonsense; check the names and values of --option")


@pytest.mark.parametrize("answer", [b"\x07\x07\x07", servers.reply(b"\x0a\xff\x01")], ids=["no reply", "no profile"])
def test_an_answer_that_is_no_profile(folder: RunFolder, answer: bytes) -> None:
    assert "is no profile" in (said := problem(folder, Recorder(profile=answer).methods())) or "is damaged" in said


# --- empty profiles


@pytest.mark.parametrize(
    "answer", [servers.EMPTY, servers.reply(servers.xspace(events=False))], ids=["empty", "no events"]
)
def test_an_empty_profile_is_explained(folder: RunFolder, answer: bytes) -> None:
    said = problem(folder, Recorder(profile=answer).methods())
    assert said == (
        "no events in 0.05 s: the job ran nothing that the tracers see (it may wait, compile, or be between steps);"
        " try again with a longer --duration"
    )


def test_tracers_that_are_off_are_named(folder: RunFolder) -> None:
    methods = Recorder(profile=servers.EMPTY).methods()
    assert problem(folder, methods, tracers=TracerOptions(0, 0, 0)).startswith("no events: all tracers are off; ")
    assert problem(folder, methods, tracers=TracerOptions(0, 1, 0)).endswith(", or raise --host-tracer-level above 0")


def test_errors_of_the_profiler_explain_an_empty_profile(folder: RunFolder) -> None:
    broken = servers.reply(servers.xspace(events=False) + block(2, "CUPTI is not there"))
    assert problem(folder, Recorder(profile=broken).methods()) == "no events; the profiler reports: CUPTI is not there"


def test_devices_without_events_are_remarked_on(folder: RunFolder) -> None:
    host = Plane("/host:CPU", [Line("python", [Event("train", 0, 1)])])
    profile = servers.reply(space(host, Plane("/device:TPU:0"), Plane("/device:TPU:0 SparseCore 0")))
    with serve(Recorder(profile=profile).methods()) as address:
        (outcome,) = capture(folder, address)
    assert outcome.path is not None
    assert outcome.remarks == (
        "no device events, the host's alone: the devices ran nothing, or --device-tracer-level is 0",
    )


# --- servers that write the profile themselves


def test_a_profile_that_the_server_wrote_here_is_used(folder: RunFolder) -> None:
    def record(request: bytes, _: grpc.ServicerContext) -> bytes:
        fields = servers.request_fields(request)
        root, session, host = (fields[number].decode() for number in (5, 6, 7))  # type: ignore[union-attr]
        written = Path(root, session, f"{host}.xplane.pb")
        written.parent.mkdir()
        written.write_bytes(servers.xspace())
        return b""

    with serve({"Profile": record}) as address:
        (outcome,) = capture(folder, address)
    assert outcome.path == folder.path / f"127.0.0.1_{address.port}.xplane.pb"
    assert outcome.path.read_bytes() == servers.xspace()
    assert outcome.path.stat().st_mode & 0o777 == 0o600
    assert list(folder.path.parent.iterdir()) == [folder.path]


def test_a_profile_that_the_server_wrote_elsewhere_is_said_to_be_there(folder: RunFolder) -> None:
    recorder = Recorder(profile=b"")
    said = problem(folder, recorder.methods())
    session = servers.session_of(recorder.requests[0])
    assert f"the server wrote it on its own machine: 127.0.0.1:{folder.path.parent}/{session}/127.0.0.1_" in said


# --- files


def test_a_profile_that_cannot_be_written_is_told(folder: RunFolder) -> None:
    def record(*_: object) -> bytes:
        folder.path.rmdir()
        return servers.reply(servers.xspace())

    with serve({"Profile": record}) as address:
        (outcome,) = capture(folder, address)
    assert outcome.problem.endswith(".xplane.pb: the profile cannot be written: no such file or directory")


@pytest.mark.thorough
def test_a_large_profile_arrives_whole(folder: RunFolder) -> None:
    profile = servers.xspace() + block(4, b"x" * 300_000_000)
    with serve(Recorder(profile=servers.reply(profile)).methods()) as address:
        (outcome,) = capture(folder, address, timeout=300.0)
    assert outcome.path is not None
    assert outcome.path.read_bytes() == profile


def test_threads_end_with_the_capture(folder: RunFolder) -> None:
    before = threading.active_count()
    with servers.serve_nobody() as nobody:
        capture(folder, nobody)
    assert threading.active_count() <= before + 1, "one may be gRPC's own"
