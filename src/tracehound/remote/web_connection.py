"""Connections to web servers: proxies of the environment, verified TLS, redirects that take no password along."""

from __future__ import annotations

import ssl
from http.client import HTTPConnection, HTTPMessage, HTTPResponse, HTTPSConnection
from typing import IO, Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

CONNECT_SECONDS: Final = 5.0

SILENCE_SECONDS: Final = 30.0
"""Seconds without a byte after which a connection counts as broken."""


def make_opener() -> OpenerDirector:
    """An opener for http and https alone: a redirect leads to no file and no other protocol."""
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        _PlainHandler(),
        _TlsHandler(context=ssl.create_default_context()),
        _RedirectHandler(),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _connect(connection: HTTPConnection, connect: Any) -> None:  # noqa: ANN401, the method of the class above
    """Connect, for which there is less time than for a silence later."""
    connection.timeout = CONNECT_SECONDS
    connect()
    connection.timeout = SILENCE_SECONDS
    connection.sock.settimeout(SILENCE_SECONDS)


class _PlainConnection(HTTPConnection):
    def connect(self) -> None:
        _connect(self, super().connect)


class _TlsConnection(HTTPSConnection):
    def connect(self) -> None:
        _connect(self, super().connect)


class _PlainHandler(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_PlainConnection, req)


class _TlsHandler(HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._tls = context

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_TlsConnection, req, context=self._tls)


class _RedirectHandler(HTTPRedirectHandler):
    """A redirect keeps the range. It keeps the password only on the same host, and never leads from https to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if before.scheme == "https" and after.scheme != "https":
            raise HTTPError(newurl, code, "a redirect from https to http", headers, fp)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (before.scheme, before.netloc) == (after.scheme, after.netloc):
            for name, value in req.unredirected_hdrs.items():
                if name == "Authorization":
                    request.add_unredirected_header(name, value)
        return request
