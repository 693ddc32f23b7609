"""The metadata service of a cloud's virtual machine: is there one that could give credentials?"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

CONNECT_SECONDS: Final = 1.0
"""Seconds that the service has to accept a connection. It is on the same machine or next to it."""


def is_service_there(address: str) -> bool:
    """True if something listens at ``HOST``, ``HOST:PORT`` or ``http://HOST:PORT``."""
    parts = urlsplit(address if "://" in address else f"http://{address}")
    with suppress(OSError, ValueError):
        target = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        socket.create_connection(target, CONNECT_SECONDS).close()
        return True
    return False
