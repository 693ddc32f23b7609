"""The metadata service of a cloud's virtual machine: is there one that could give credentials?

It is asked once before any request. Without this question a laptop without credentials waits through every retry of a
client that expects to be such a machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

ANSWER_SECONDS: Final = 1.0
"""Seconds for the connection, and for the answer. The service is on the same machine or next to it."""


def is_service_there(address: str, path: str, headers: Mapping[str, str], method: str = "GET") -> bool:
    """True if the service at ``HOST``, ``HOST:PORT`` or ``http://HOST:PORT`` answers the question. No proxy is used."""
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS)
    except (ValueError, HTTPException):
        return False
    try:
        connection.request(method, parts.path.rstrip("/") + path, headers=dict(headers))
        return connection.getresponse().status == 200
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        connection.close()
