"""Profiler servers for tests: one that does what a test tells it to, and one that breaks the protocol."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import grpc
from msgspec import Struct, field

from tracehound.capture.server_address import ServerAddress
from tracehound.formats.protobuf_wire import BYTES, iterate_fields
from xspaces import Event, Line, Plane, Stat, block, space, whole

Method = Callable[[bytes, grpc.ServicerContext], bytes]
"""An implementation of a call: the request to the reply."""

BUSY = "Another profiling session active."

EMPTY = whole(7, 1)
"""A reply that says that nothing was recorded."""


def xspace(start_ns: int = 1_000_000_000, stop_ns: int = 3_000_000_000, *, events: bool = True, pid: int = 0) -> bytes:
    """A profile of one host thread of this process, or of another one."""
    lines = [Line("python", [Event("train", 0, 1_000_000)])] if events else []
    times = [Stat("profile_start_time", 3, start_ns), Stat("profile_stop_time", 3, stop_ns)]
    process = [Stat("process_id", 4, pid or os.getpid())]
    return space(
        Plane("/host:metadata", stats=process), Plane("/host:CPU", lines), Plane("Task Environment", stats=times)
    )


def reply(profile: bytes) -> bytes:
    """A reply with a profile."""
    return block(8, profile)


def request_fields(request: bytes) -> dict[int, bytes | int]:
    """The fields of a message, the last one of each number."""
    return {
        part.number: request[part.at : part.at + part.value] if part.wire == BYTES else part.value
        for part in iterate_fields(request, 0, len(request))
    }


def session_of(request: bytes) -> str:
    """The session of a request for a profile."""
    session = request_fields(request).get(6, b"")
    assert isinstance(session, bytes)
    return session.decode()


class Recorder(Struct):
    """A server that records until its duration has passed or its session is ended, as real ones do."""

    seconds: float = 0.0
    profile: bytes = field(default_factory=lambda: reply(xspace()))
    requests: list[bytes] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    active: int = 0
    started: threading.Event = field(default_factory=threading.Event)

    def methods(self) -> dict[str, Method]:
        """The calls of this server."""
        return {"Profile": self.record, "Terminate": self.terminate}

    def record(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Record, and send the profile."""
        self.requests.append(request)
        self.active += 1
        self.started.set()
        try:
            until = time.monotonic() + self.seconds
            while time.monotonic() < until and context.is_active() and session_of(request) not in self.ended:
                time.sleep(0.005)
        finally:
            self.active -= 1
        return self.profile

    def terminate(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """End a session."""
        del context
        session = request_fields(request)[1]
        assert isinstance(session, bytes)
        self.ended.append(session.decode())
        return b""


def hang(request: bytes, context: grpc.ServicerContext) -> bytes:
    """Never answer."""
    del request
    while context.is_active():
        time.sleep(0.005)
    return b""


def refuse(code: grpc.StatusCode, details: str) -> Method:
    """A call that always fails."""

    def fail(request: bytes, context: grpc.ServicerContext) -> bytes:
        del request
        context.abort(code, details)
        raise AssertionError

    return fail


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        name = details.method.removeprefix("/tensorflow.ProfilerService/")
        return grpc.unary_unary_rpc_method_handler(self._methods[name]) if name in self._methods else None


@contextmanager
def serve(methods: Mapping[str, Method]) -> Iterator[ServerAddress]:
    """A server on loopback with these calls; all others are not implemented."""
    with ThreadPoolExecutor(8) as threads:
        server = grpc.server(threads, [_Handlers(methods)], options=[("grpc.max_send_message_length", -1)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield ServerAddress("127.0.0.1", port)
        finally:
            server.stop(None).wait(10)


@contextmanager
def serve_nobody() -> Iterator[ServerAddress]:
    """An address at which nothing listens, and nothing else will while the test runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield ServerAddress("127.0.0.1", taken.getsockname()[1])


@contextmanager
def serve_raw(answer: Callable[[socket.socket], None]) -> Iterator[ServerAddress]:
    """A TCP server that lets `answer` treat its first connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        answer(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield ServerAddress("127.0.0.1", listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_STATUS_200 = b"\x88\x00\x0ccontent-type\x10application/grpc"
"""Header fields in HPACK: an indexed one and a literal one."""


def begin_message(declared: int, sent: bytes) -> Callable[[socket.socket], None]:
    """An answer in HTTP/2 by hand: a message of `declared` bytes begins, `sent` follows, then the connection ends."""

    def answer(connection: socket.socket) -> None:
        connection.settimeout(10)
        with connection.makefile("rb") as stream:
            stream.read(24)  # the preface
            connection.sendall(_frame(_SETTINGS, 0, 0, b""))
            for kind, flags, number in _frames(stream):
                if kind == _SETTINGS and not flags & _ACK:
                    connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
                if kind == _DATA and flags & _END_STREAM:
                    connection.sendall(_frame(_HEADERS, _END_HEADERS, number, _STATUS_200))
                    connection.sendall(_frame(_DATA, 0, number, struct.pack(">BI", 0, declared) + sent))
                    break
            time.sleep(0.2)

    return answer


def _frames(stream: object) -> Iterator[tuple[int, int, int]]:
    """Kind, flags and stream of each frame that arrives."""
    while len(head := stream.read(9)) == 9:  # type: ignore[attr-defined]
        size = int.from_bytes(head[:3], "big")
        stream.read(size)  # type: ignore[attr-defined]
        yield head[3], head[4], int.from_bytes(head[5:], "big")


def _frame(kind: int, flags: int, number: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + number.to_bytes(4, "big") + content


def addresses(*servers: ServerAddress) -> str:
    """The addresses as an argument of the command line."""
    return ",".join(map(str, servers))
