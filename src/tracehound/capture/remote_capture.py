"""One capture of the profiler servers of a job: all begin together, and what arrives is saved.

Each server has a thread, which waits for its profile. The caller waits for all of them in `capture_servers`; Ctrl-C
there ends the captures early and keeps what they have, a second one gives them up.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from tracehound.capture.capture_files import PROFILE_SUFFIX, RunFolder, move_server_file, save_profile
from tracehound.capture.profiler_client import PendingProfile, ProfilerClient, ProfilerServerError
from tracehound.capture.profiler_messages import ProfileReply, ProfileRequest, TracerOptions
from tracehound.capture.server_address import ServerAddress
from tracehound.capture.xspace_contents import XSpaceContents, inspect_xspace
from tracehound.formats.protobuf_wire import WireError

MIN_TIMEOUT_SECONDS: Final = 60.0
"""The shortest default deadline; it is twice the duration for longer captures, as XProf's."""

START_DELAY_SECONDS: Final = 0.7
"""Several servers begin so long after the request, at one time of their clocks."""

MAX_ATTEMPTS: Final = 4
"""A server that is busy with another capture is asked so often."""

PAUSE_SECONDS: Final = 2.0
"""Seconds between two attempts."""

UPDATE_SECONDS: Final = 0.1
"""Seconds between two reports of progress."""

CaptureState = Literal["recording", "busy", "done"]


class CapturePlan(Struct, frozen=True):
    """The servers to capture, for how long, how much, and how long to wait for an answer (0 for the default)."""

    addresses: tuple[ServerAddress, ...]
    duration_ms: int
    tracers: TracerOptions = TracerOptions()
    timeout_s: float = 0.0

    @property
    def delay_s(self) -> float:
        """Seconds until the captures begin."""
        return START_DELAY_SECONDS if len(self.addresses) > 1 else 0.0

    @property
    def deadline_s(self) -> float:
        """Seconds from a request after which no answer is expected."""
        return self.delay_s + (self.timeout_s or max(MIN_TIMEOUT_SECONDS, 2 * self.duration_ms / 1000))


class CaptureProgress(Struct, frozen=True):
    """Progress of a capture: seconds since its servers began to record, and the state of each of them."""

    seconds: float
    states: dict[ServerAddress, CaptureState]
    ending: bool = False


ProgressTeller = Callable[[CaptureProgress], None]


class ServerOutcome(Struct, frozen=True):
    """The profile of one server: the file, or the problem and what to do about it.

    `remarks` are about a profile that was saved but is not all that was wanted.
    """

    address: ServerAddress
    path: Path | None = None
    problem: str = ""
    remarks: tuple[str, ...] = ()


def capture_servers(plan: CapturePlan, folder: RunFolder, tell: ProgressTeller) -> list[ServerOutcome]:
    """Capture all servers of a plan into a folder; returns an outcome for each, in their order.

    KeyboardInterrupt ends the captures early; a second one, as every other exception, gives them up and is raised
    again. No server is left recording.
    """
    begun = time.time() + plan.delay_s
    captures = [_ServerCapture(plan, address, folder, int(begun * 1e9)) for address in plan.addresses]
    with ThreadPoolExecutor(len(captures), "tracehound capture") as threads:
        futures = list[Future[ServerOutcome]]()

        def wait_for_all(*, ending: bool = False) -> None:
            while wait(futures, UPDATE_SECONDS).not_done:
                states = {capture.address: capture.state for capture in captures}
                tell(CaptureProgress(time.time() - begun, states, ending))

        try:
            try:
                futures += (threads.submit(capture.run) for capture in captures)
                wait_for_all()
            except KeyboardInterrupt:
                for capture in captures:
                    capture.end_early()
                wait_for_all(ending=True)
        finally:
            for capture in captures:
                capture.give_up()
        return [future.result() for future in futures]


class _ServerCapture:
    """The capture of one server, in a thread of its own."""

    def __init__(self, plan: CapturePlan, address: ServerAddress, folder: RunFolder, start_ns: int) -> None:
        self.address = address
        self.state: CaptureState = "recording"
        self._plan = plan
        self._folder = folder
        self._client = ProfilerClient(address)
        self._request = ProfileRequest(
            duration_ms=plan.duration_ms,
            tracers=plan.tracers,
            start_ns=start_ns if plan.delay_s else 0,
            repository_root=str(folder.path.parent.absolute()),
            host_name=address.file_stem,
        )
        self._lock = threading.Lock()
        self._pending: PendingProfile | None = None
        self._ended = threading.Event()

    def run(self) -> ServerOutcome:
        """Capture, and save the profile."""
        with self._client:
            outcome = self._capture()
        self.state = "done"
        return outcome

    def end_early(self) -> None:
        """Ask the server for the events until now, if it records; make no more attempts."""
        self._ended.set()
        with self._lock:
            if self._pending is not None and self._pending.in_flight:
                self._client.request_end(self._request.session)

    def give_up(self) -> None:
        """End the capture without its data, if it has not ended yet."""
        self._ended.set()
        with self._lock:
            if self._pending is not None:
                self._pending.cancel()

    def _capture(self) -> ServerOutcome:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                reply = self._attempt()
            except ProfilerServerError as error:
                if error.failure != "busy" or attempt == MAX_ATTEMPTS:
                    return ServerOutcome(self.address, problem=str(error))
                self.state = "busy"
                self._ended.wait(PAUSE_SECONDS)
                continue
            outcome = self._save(reply)
            if attempt > 1 and outcome.path and len(self._plan.addresses) > 1:
                remark = f"began later than the others: another capture ran there, {attempt} attempts"
                return replace(outcome, remarks=(*outcome.remarks, remark))
            return outcome
        raise AssertionError  # the last attempt returns

    def _attempt(self) -> ProfileReply:
        """Ask for the profile once, under a new session. Raises ProfilerServerError."""
        with self._lock:
            if self._ended.is_set():
                raise ProfilerServerError("cancelled", "ended before the capture began")
            self._request = replace(self._request, session=f"{self._folder.path.name}_{secrets.token_hex(16)}")
            self._pending = self._client.start_profile(self._request, self._plan.deadline_s)
        self.state = "recording"
        return self._pending.wait_for_reply()

    def _save(self, reply: ProfileReply) -> ServerOutcome:
        """Save the profile of a reply, if there is one."""
        path = self._folder.profile_path(self.address)
        if reply.has_xspace:
            try:
                contents = inspect_xspace(reply.data, reply.start, reply.end)
            except WireError as error:
                return ServerOutcome(self.address, problem=f"the profile is damaged ({error.what})")
            if not contents.has_events:
                return ServerOutcome(self.address, problem=self._explain_empty(contents))
            try:
                save_profile(path, reply.xspace)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                return ServerOutcome(self.address, problem=f"{path}: the profile cannot be written: {reason}")
            return ServerOutcome(self.address, path, remarks=describe_missing_parts(contents))
        if reply.empty:
            return ServerOutcome(self.address, problem=self._explain_empty(None))
        return self._find_server_file(path)

    def _explain_empty(self, contents: XSpaceContents | None) -> str:
        if contents is not None and contents.errors:
            return f"no events; the profiler reports: {'; '.join(contents.errors[:3])}"
        if self._ended.is_set():
            return "no events: the capture ended before anything was recorded"
        return explain_empty_profile(self._plan.tracers, self._plan.duration_ms)

    def _find_server_file(self, path: Path) -> ServerOutcome:
        """The profile that a server of an older kind wrote to a disk itself."""
        request = self._request
        written = Path(request.repository_root, request.session, f"{request.host_name}{PROFILE_SUFFIX}")
        found = move_server_file(written, path)
        if found is None:
            place = f"{self.address.host}:{written}"
            remedy = "copy it from there, or name a LOGDIR on a disk that both machines share"
            return ServerOutcome(self.address, problem=f"the server wrote it on its own machine: {place}; {remedy}")
        return ServerOutcome(self.address, found)


def explain_empty_profile(tracers: TracerOptions, duration_ms: int) -> str:
    """A sentence about a profile without events: why, and what to do."""
    if not (tracers.host_level or tracers.device_level or tracers.python_level):
        return "no events: all tracers are off; raise --host-tracer-level or --device-tracer-level"
    off = [f"--{name}-tracer-level" for name in ("host", "device") if not getattr(tracers, f"{name}_level")]
    also = f", or raise {' and '.join(off)} above 0" if off else ""
    return (
        f"no events in {duration_ms / 1000:g} s: the job ran nothing that the tracers see"
        f" (it may wait, compile, or be between steps); try again with a longer --duration{also}"
    )


def describe_missing_parts(contents: XSpaceContents) -> tuple[str, ...]:
    """Sentences about the parts that a profile with events lacks."""
    remarks = [f"the profiler reports: {text}" for text in contents.errors[:3]]
    if contents.idle_devices and not contents.active_devices:
        remarks.append("no device events, the host's alone: the devices ran nothing, or --device-tracer-level is 0")
    return tuple(remarks)
