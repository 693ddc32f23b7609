"""Continuous profiling: what a snapshot tells, and that the recording always ends."""

from __future__ import annotations

import os
import sys

import grpc
import pytest
from msgspec import Struct, field

import profiler_servers as servers
from profiler_servers import Method, serve
from tracehound.capture.continuous_capture import SNAPSHOT_TRACERS, ContinuousCapture, stop_continuous_profiling
from tracehound.capture.profiler_client import ProfilerServerError
from tracehound.errors import TracehoundError

NEW = ("StartContinuousProfiling", "GetSnapshot", "StopContinuousProfiling")
OLD = ("ContinuousProfiling", "GetSnapShot", "StopContinuousProfiling")


class ContinuousServer(Struct):
    """A server that records all the time; each snapshot covers two seconds, half a second after the one before."""

    names: tuple[str, str, str] = NEW
    running: bool = False
    calls: list[str] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)

    def methods(self) -> dict[str, Method]:
        """The calls of this server."""
        return dict(zip(self.names, (self.start, self.snapshot, self.stop), strict=True))

    def start(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls.append("start")
        self.requests.append(request)
        if self.running:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "A profiling session is already running.")
        self.running = True
        return b""

    def snapshot(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls.append("snapshot")
        self.requests.append(request)
        if not self.running:
            context.abort(grpc.StatusCode.NOT_FOUND, "No continuous profiling session found.")
        begun = 10**9 * (1 + 2.5 * self.calls.count("snapshot"))
        return servers.reply(servers.xspace(int(begun), int(begun) + 2 * 10**9))

    def stop(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        del request
        self.calls.append("stop")
        if not self.running:
            context.abort(grpc.StatusCode.NOT_FOUND, "No continuous profiling session found.")
        self.running = False
        return b""


def test_snapshots_tell_what_is_not_recorded() -> None:
    server = ContinuousServer()
    with serve(server.methods()) as address, ContinuousCapture(address, SNAPSHOT_TRACERS) as capture:
        first, second = capture.take_snapshot(), capture.take_snapshot()
        assert capture.can_stop
    assert server.calls == ["start", "snapshot", "snapshot", "stop"]
    assert not server.running
    assert (first.contents.seconds, first.blind_s) == (2, None)
    assert second.blind_s == 0.5
    assert second.call_s > 0
    assert first.memory is not None or sys.platform != "linux", "the server is this process"


def test_the_memory_of_a_tunnel_is_not_that_of_the_job() -> None:
    methods = ContinuousServer().methods()
    methods["GetSnapshot"] = lambda *_: servers.reply(servers.xspace(pid=os.getpid() + 1))
    with serve(methods) as address, ContinuousCapture(address, SNAPSHOT_TRACERS) as capture:
        assert capture.take_snapshot().memory is None


def test_the_server_sends_snapshots_and_writes_none() -> None:
    """With a session and a root it would write them to its own disk, maybe under a hidden name."""
    server = ContinuousServer()
    with serve(server.methods()) as address, ContinuousCapture(address, SNAPSHOT_TRACERS) as capture:
        capture.take_snapshot()
    start, snapshot = server.requests
    fields = servers.request_fields(start)
    assert not {5, 6} & set(fields)
    assert fields[7] == address.file_stem.encode()
    assert servers.request_fields(fields[4]) == {1: 1, 2: 1, 3: 1, 5: 1, 7: 1}  # type: ignore[arg-type]
    assert snapshot == b""


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, ValueError])
def test_the_recording_ends_whatever_happens(ending: type[BaseException]) -> None:
    server = ContinuousServer()
    with serve(server.methods()) as address:
        with pytest.raises(ending), ContinuousCapture(address, SNAPSHOT_TRACERS):
            raise ending
        assert not server.running


def test_older_names_are_tried() -> None:
    server = ContinuousServer(names=OLD)
    with serve(server.methods()) as address, ContinuousCapture(address, SNAPSHOT_TRACERS) as capture:
        assert capture.take_snapshot().contents.has_events
        assert not capture.can_stop
    assert server.calls == ["start", "snapshot", "stop"]


def test_a_server_that_cannot_stop_is_told() -> None:
    methods = ContinuousServer(names=OLD).methods()
    del methods["StopContinuousProfiling"]
    with serve(methods) as address, ContinuousCapture(address, SNAPSHOT_TRACERS) as capture:
        pass
    assert capture.stop_problem == "this older server has no call to stop: it may record until its job ends"


def test_a_server_without_snapshots_is_too_old() -> None:
    with serve({}) as address, pytest.raises(TracehoundError) as caught, ContinuousCapture(address, SNAPSHOT_TRACERS):
        pass
    assert str(caught.value) == (
        f"{address}: this server is too old for snapshots; use a capture: tracehound capture {address}"
    )


def test_a_recording_of_another_client_is_left_alone() -> None:
    server = ContinuousServer(running=True)
    with serve(server.methods()) as address:
        with pytest.raises(TracehoundError, match="records already"), ContinuousCapture(address, SNAPSHOT_TRACERS):
            pass
        assert server.running
        stop_continuous_profiling(address)
        assert not server.running
        stop_continuous_profiling(address)


def test_a_recording_that_is_gone_is_told() -> None:
    server = ContinuousServer()
    with serve(server.methods()) as address, ContinuousCapture(address, SNAPSHOT_TRACERS) as capture:
        server.running = False
        with pytest.raises(ProfilerServerError) as caught:
            capture.take_snapshot()
    assert caught.value.failure == "none_running"
    assert capture.stop_problem == ""


def test_a_server_that_goes_away_is_told() -> None:
    with serve(ContinuousServer().methods()) as address:
        capture = ContinuousCapture(address, SNAPSHOT_TRACERS).__enter__()
    with pytest.raises(ProfilerServerError) as caught:
        capture.take_snapshot()
    assert caught.value.failure in ("died", "unreachable")
    capture.__exit__(None, None, None)
    assert capture.stop_problem in (
        "the server is gone, and its recording with it",
        "continuous profiling may still be on: the connection broke during the call; did the job end or crash?",
    )


def test_a_start_without_an_answer_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehound.capture.profiler_client.CONTROL_SECONDS", 0.3)
    server = ContinuousServer()
    methods = server.methods() | {"StartContinuousProfiling": servers.hang}
    with serve(methods) as address, pytest.raises(TracehoundError), ContinuousCapture(address, SNAPSHOT_TRACERS):
        pass
    assert server.calls == ["stop"]
