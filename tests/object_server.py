"""A web server of objects for tests, which fails as it is told to: statuses, broken connections, changed objects."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import unquote

from msgspec import Struct, field

MODIFIED = "Sun, 29 Nov 2026 10:00:00 GMT"

MODIFIED_NS = 1_795_946_400_000_000_000


class Received(Struct):
    """A request: its method, its path with the query, its headers in lower case, its body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


class Reply(Struct):
    """An answer: its status, body and headers. The status 0 closes the connection instead."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Route = Callable[[Received], Reply]


class ObjectServer:
    """A server of `objects`, by their paths.

    `failures` are answers that are sent first, one a request. Of the next `breaks` answers with bytes, only so many
    bytes are sent. `routes` answer paths that begin like their keys. `received` has every request.
    """

    def __init__(self, *, ranges: bool = True, etags: bool = True) -> None:
        self.objects: dict[str, bytes] = {}
        self.failures: list[Reply] = []
        self.breaks: list[int] = []
        self.routes: dict[str, Route] = {}
        self.received: list[Received] = []
        self._ranges = ranges
        self._etags = etags
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients leave
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.address = f"http://{self.host}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def use_tls(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def header(self, name: str) -> str:
        """A header of the last request."""
        return self.received[-1].headers.get(name.lower(), "")

    def reply(self, request: Received) -> Reply:
        """The answer to a request."""
        self.received.append(request)
        for beginning, route in self.routes.items():
            if request.path.startswith(beginning):
                return route(request)
        if self.failures:
            return self.failures.pop(0)
        content = self.objects.get(unquote(request.path.partition("?")[0]))
        return Reply(404, b"<Error><Code>NoSuchKey</Code></Error>") if content is None else self._send(request, content)

    def _send(self, request: Received, content: bytes) -> Reply:
        etag = f'"{len(content)}-{sum(content[:1000])}"'
        headers = {"Last-Modified": MODIFIED} | ({"ETag": etag} if self._etags else {})
        if request.headers.get("if-match", etag) != etag:
            return Reply(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        if not asked or not self._ranges:
            return Reply(200, content, headers)
        first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
        if first >= len(content):
            return Reply(416, headers={"Content-Range": f"bytes */{len(content)}"})
        return Reply(
            206, content[first : last + 1], headers | {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        )


def _handler_of(server: ObjectServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, its name there
            del format, args

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.reply(Received(self.command, self.path, headers, body))
            if reply.status == 0:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Transfer-Encoding" not in reply.headers:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            if server.breaks and reply.status in (200, 206):
                self.wfile.write(reply.body[: server.breaks.pop(0)])
                self.close_connection = True
                return
            try:
                self.wfile.write(reply.body)
            except ConnectionError:  # the client has what it wants
                self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = answer  # noqa: N815

    return Handler
