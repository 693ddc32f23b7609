"""A dynolog daemon for tests, after its source: requests of clients over TCP, polls of Kineto over a Unix socket.

The package of the daemon is in no registry that tests could install it from.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct, field

from tracehound.capture.server_address import ServerAddress

VERSION = "0.5.0"

ACTIVITIES = 2
"""The bit of a poll that asks for requests to the activity profiler; a process that records does not set it."""


class Process(Struct):
    """A process as the daemon knows it: its ids, those of its ancestors after its own, and the request kept for it."""

    pids: tuple[int, ...]
    config: str = ""


class DynologDaemon:
    """A daemon with its requests (`received`) and processes; with `socket_dir`, real processes can poll it."""

    def __init__(self, socket_dir: Path | None = None) -> None:
        self.jobs: dict[int, dict[tuple[int, ...], Process]] = {}
        self.received: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = ServerAddress("127.0.0.1", self._server.getsockname()[1])
        self._endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._threads = [threading.Thread(target=self._serve_clients)]
        if socket_dir is not None:
            self._endpoint.bind(str(socket_dir / "dynolog"))
            self._threads.append(threading.Thread(target=self._serve_processes))
        self._ending = False

    def __enter__(self) -> Self:
        for socket_ in (self._server, self._endpoint):
            socket_.settimeout(0.05)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending = True
        for thread in self._threads:
            thread.join()
        self._server.close()
        self._endpoint.close()

    def poll(self, pids: Sequence[int], job: int = 0, kind: int = ACTIVITIES) -> str:
        """The request kept for a process, which this registers; it is handed out once."""
        with self._lock:
            process = self.jobs.setdefault(job, {}).setdefault(tuple(pids), Process(tuple(pids)))
            if not kind & ACTIVITIES or not process.config:
                return ""
            config, process.config = process.config, ""
            return f"{config}\n"

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to a request; None where the daemon closes the connection."""
        self.received.append(request)
        if request.get("fn") == "getVersion":
            return {"version": VERSION}
        if request.get("fn") != "setKinetOnDemandRequest":
            return None
        if "config" not in request or "pids" not in request:
            return {"status": "failed"}
        return self._trigger(request)

    def _trigger(self, request: dict[str, Any]) -> dict[str, Any]:
        matched, triggered, busy = list[int](), list[int](), 0
        wanted = set(request["pids"])
        with self._lock:
            for process in self.jobs.get(request.get("job_id", 0), {}).values():
                if wanted - {0} and not wanted & set(process.pids):
                    continue
                matched.append(process.pids[0])
                if len(triggered) < request.get("process_limit", 1000):
                    if process.config:
                        busy += 1
                    else:
                        process.config = request["config"]
                        triggered.append(process.pids[0])
        return {
            "processesMatched": matched,
            "eventProfilersTriggered": [],
            "activityProfilersTriggered": triggered,
            "eventProfilersBusy": 0,
            "activityProfilersBusy": busy,
        }

    def _serve_clients(self) -> None:
        while not self._ending:
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(10)
                reply = self.answer(json.loads(receive_frame(connection)))
                if reply is not None:
                    connection.sendall(frame(json.dumps(reply).encode()))

    def _serve_processes(self) -> None:
        while not self._ending:
            try:
                data, sender = self._endpoint.recvfrom(1 << 16)
            except TimeoutError:
                continue
            kind = data[8:40].rstrip(b"\0")
            if kind == b"req":
                bits, count, job = struct.unpack_from("<iiq", data, 40)
                reply = self.poll(struct.unpack_from(f"<{count}i", data, 56), job, bits).encode()
            else:
                reply = struct.pack("<i", 1)
            self._endpoint.sendto(struct.pack("<Q32s", len(reply), kind) + reply, sender)


def frame(body: bytes) -> bytes:
    """A message of the protocol: its length and its bytes."""
    return struct.pack("<i", len(body)) + body


def receive_frame(connection: socket.socket) -> bytes:
    """The body of the next message."""
    with connection.makefile("rb") as stream:
        size = struct.unpack("<i", stream.read(4))[0]
        return stream.read(size)


@contextmanager
def scripted_server(*scripts: Callable[[socket.socket], None]) -> Iterator[ServerAddress]:
    """The address of a server that handles its first connections by one script each, and then ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def serve() -> None:
            for script in scripts:
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(10)
                    script(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield ServerAddress("127.0.0.1", server.getsockname()[1])
        finally:
            thread.join()


class KinetoConfig(Struct):
    """A configuration as Kineto reads it: one wrong line makes it refuse the whole."""

    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> KinetoConfig:
        config = cls()
        for line in text.splitlines():
            if stripped := line.partition("#")[0].strip():
                key, value = stripped.split("=")
                config.values[key.strip()] = value.strip()
        return config

    def file(self, pid: int) -> Path:
        """The file of a process."""
        return Path(self.values["ACTIVITIES_LOG_FILE"].replace(".json", f"_{pid}.json", 1))


WHOLE_TRACE = '{"traceEvents": [\n  ],"traceName": "x" }'


@contextmanager
def kineto(daemon: DynologDaemon, pid: int, configs: list[KinetoConfig], trace: str = WHOLE_TRACE) -> Iterator[None]:
    """A process that polls the daemon as Kineto does, and writes the trace that it is asked for, at once."""
    ending = threading.Event()

    def run() -> None:
        while not ending.wait(0.01):
            if text := daemon.poll((pid, 1), kind=ACTIVITIES):
                configs.append(KinetoConfig.parse(text))
                path = configs[-1].file(pid)
                temporary = Path(f"{path}.tmp")
                temporary.touch()
                temporary.write_text(trace)
                os.replace(temporary, path)  # noqa: PTH105, a test makes the other call fail

    daemon.poll((pid, 1))
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
