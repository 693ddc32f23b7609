"""Continuous profiling of one server: it records all the time, and a snapshot fetches what happened until now.

A snapshot has the events since the last one, or since the start. The server starts anew after each: while it packs a
snapshot, nothing is recorded. Between two snapshots the memory of the process grows without bound (JAX 0.10 on CPUs:
0.1 to 0.4 GB a second), so old events must be fetched and dropped.
"""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple, Self

from msgspec import Struct

from tracehound.capture.profiler_client import ProfilerClient, ProfilerServerError
from tracehound.capture.profiler_messages import ProfileReply, ProfileRequest, TracerOptions
from tracehound.capture.server_address import ServerAddress
from tracehound.capture.xspace_contents import XSpaceContents, inspect_xspace
from tracehound.errors import TracehoundError
from tracehound.formats.protobuf_wire import WireError
from tracehound.system.process_memory import listening_process, resident_bytes
from tracehound.system.stop_signals import ignore_signals

SNAPSHOT_TRACERS: Final = TracerOptions(host_level=1, python_level=0)
"""The levels of continuous profiling: the Python tracer would slow the job down all the time."""

MAX_MEMORY_GROWTH: Final = 1 << 30
"""Bytes by which the process may grow until its events are dropped, where that can be seen."""

DEFAULT_MAX_AGE: Final = 30.0
"""Seconds for which events are kept."""

SNAPSHOT_SECONDS: Final = 120.0
"""Default deadline of a snapshot, in which the server packs everything since the last one."""


class _ServiceCalls(NamedTuple):
    """Names of the calls of continuous profiling."""

    start: str
    snapshot: str
    stop: str


_CALLS: Final = _ServiceCalls("StartContinuousProfiling", "GetSnapshot", "StopContinuousProfiling")
_OLDER_CALLS: Final = _ServiceCalls("ContinuousProfiling", "GetSnapShot", "StopContinuousProfiling")
"""Names of builds of 2025, most of which cannot stop."""


class Snapshot(Struct, frozen=True):
    """Events since the last snapshot, or since the start.

    `blind_s` is the time before it of which nothing is recorded, None for the first one. `call_s` is how long the
    server took, the most that is not recorded after it. `memory` is the growth of the process (bytes) since profiling
    began, None if it cannot be seen.
    """

    reply: ProfileReply
    contents: XSpaceContents
    call_s: float
    blind_s: float | None
    memory: int | None


class ContinuousCapture:
    """Continuous profiling of one server: begins with the context, and ends with it, whatever happens."""

    def __init__(self, address: ServerAddress, tracers: TracerOptions, timeout_s: float = 0.0) -> None:
        self.address = address
        self._tracers = tracers
        self._timeout_s = timeout_s or SNAPSHOT_SECONDS
        self._client = ProfilerClient(address)
        self._calls = _CALLS
        self._process: int | None = None
        self._memory: int | None = None
        self._memory_after: int | None = None
        self._last_stop_ns = 0
        self.stop_problem = ""

    def __enter__(self) -> Self:
        """Start. Raises TracehoundError."""
        try:
            self._process = listening_process(self.address.port) if self.address.is_loopback else None
            self._memory = self._memory_after = self._measure_memory()
            self._start()
        except BaseException:
            self._client.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop; `stop_problem` then has the sentence about a server that could not."""
        with self._client, ignore_signals():
            try:
                self._client.call_continuous(self._calls.stop)
            except ProfilerServerError as problem:
                self.stop_problem = self._explain_stop_problem(problem)

    @property
    def can_stop(self) -> bool:
        """False for builds that have the older calls: they may record until their job ends."""
        return self._calls is _CALLS

    def take_snapshot(self) -> Snapshot:
        """Fetch what happened since the last snapshot. Raises ProfilerServerError."""
        memory = self._measure_memory()
        begun = time.monotonic()
        # Without a name of a session the server sends the snapshot; with one it would write it to its own disk.
        pending = self._client.start_snapshot(self._calls.snapshot, self._timeout_s)
        try:
            reply = pending.wait_for_reply()
        finally:
            pending.cancel()
            self._memory_after = self._measure_memory()
        call_s = time.monotonic() - begun
        contents = XSpaceContents(has_events=False)
        if reply.has_xspace:
            try:
                contents = inspect_xspace(reply.data, reply.start, reply.end)
            except WireError as error:
                raise ProfilerServerError("refused", f"the snapshot is damaged ({error.what})") from error
        known = self._last_stop_ns and contents.start_ns
        blind_s = max(0, contents.start_ns - self._last_stop_ns) / 1e9 if known else None
        self._last_stop_ns = contents.stop_ns
        return Snapshot(reply, contents, call_s, blind_s, self._memory_growth(memory, contents.process_id))

    @property
    def memory_since_snapshot(self) -> int:
        """Growth of the process (bytes) since the last snapshot; 0 if it cannot be seen."""
        now = self._measure_memory()
        return now - self._memory_after if now is not None and self._memory_after is not None else 0

    def _memory_growth(self, memory: int | None, process: int) -> int | None:
        """The growth to this size; None unless the recorded process is the one that listens here, and no tunnel."""
        if memory is None or self._memory is None or process != self._process:
            return None
        return memory - self._memory

    def _measure_memory(self) -> int | None:
        return None if self._process is None else resident_bytes(self._process)

    def _start(self) -> None:
        request = ProfileRequest(tracers=self._tracers, host_name=self.address.file_stem)
        for self._calls in (_CALLS, _OLDER_CALLS):
            try:
                self._client.call_continuous(self._calls.start, request)
            except ProfilerServerError as error:
                if error.failure == "unknown_call":
                    continue
                if error.failure == "late":
                    self._stop_what_may_run()
                if error.failure == "running":
                    raise TracehoundError(
                        f"{self.address} records already: another client's continuous profiling",
                        remedy="wait for its end; if its client was killed, --restart stops it and begins anew",
                    ) from error
                if error.failure == "busy":
                    raise TracehoundError(
                        f"{self.address} records already: another client's capture, or the script's own",
                        remedy="wait for its end",
                    ) from error
                raise TracehoundError(f"{self.address}: {error.message}", remedy=error.remedy) from error
            except BaseException:
                self._stop_what_may_run()
                raise
            return
        remedy = f"use a capture: tracehound capture {self.address}"
        raise TracehoundError(f"{self.address}: this server is too old for snapshots", remedy=remedy)

    def _stop_what_may_run(self) -> None:
        """Stop after a start that was interrupted, or that the server has not confirmed."""
        with ignore_signals(), suppress(ProfilerServerError):
            self._client.call_continuous(self._calls.stop)

    def _explain_stop_problem(self, problem: ProfilerServerError) -> str:
        if problem.failure == "none_running":
            return ""
        if problem.failure == "unknown_call":
            return "this older server has no call to stop: it may record until its job ends"
        if problem.failure == "unreachable":
            return "the server is gone, and its recording with it"
        return f"continuous profiling may still be on: {problem}"


def stop_continuous_profiling(address: ServerAddress) -> None:
    """Stop the continuous profiling that another client began, if there is one. Raises TracehoundError."""
    with ProfilerClient(address) as client:
        try:
            client.call_continuous(_CALLS.stop)
        except ProfilerServerError as error:
            if error.failure not in ("none_running", "unknown_call"):
                raise TracehoundError(f"{address}: {error.message}", remedy=error.remedy) from error
