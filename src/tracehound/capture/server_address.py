"""Addresses of profiler servers, as users write them: ``HOST:PORT``, ``[::1]:9012``, ``grpc://HOST:PORT``."""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress
from typing import Final

from msgspec import Struct

from tracehound.errors import TracehoundError, printable

_ADDRESS: Final = re.compile(r"(?:grpc://)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?/?")
"""A host, which is a name, an IPv4 address or an IPv6 address in brackets, and a port."""

MAX_PORT: Final = 65535


class ServerAddress(Struct, frozen=True):
    """The host and the port of a profiler server; an IPv6 host has no brackets here."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def file_stem(self) -> str:
        """The address as the beginning of a file name: ``host_9012``."""
        return f"{self.host}_{self.port}".replace(":", "_")

    @property
    def is_loopback(self) -> bool:
        """True if the server is on this machine, so that nothing it sends crosses a network."""
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host.lower() == "localhost"


def parse_addresses(text: str, default_port: int | None = None) -> tuple[ServerAddress, ...]:
    """The distinct addresses of a list, ``HOST:PORT,HOST:PORT``; hosts without a port have the default one.

    Raises TracehoundError for what is no address.
    """
    words = [word.strip() for word in text.split(",")]
    return tuple(dict.fromkeys(parse_address(word, default_port) for word in words if word))


def parse_address(word: str, default_port: int | None = None) -> ServerAddress:
    """One address. Raises TracehoundError if it has no port and there is no default one."""
    match = _ADDRESS.fullmatch(word)
    if match is None:
        remedy = "write HOST:PORT, for IPv6 [ADDRESS]:PORT"
        raise TracehoundError(f"{printable(word)!r} is no address of a server", remedy=remedy)
    port = int(match[2]) if match[2] else default_port
    if port is None:
        remedy = (
            f"write {word}:PORT, or --port PORT for all hosts; it is the number that the job passed to start_server"
        )
        raise TracehoundError(f"{word} has no port", remedy=remedy)
    if not 0 < port <= MAX_PORT:
        raise TracehoundError(f"{word}: no port has the number {port}", remedy=f"ports are 1 to {MAX_PORT:,}")
    return ServerAddress(match[1].strip("[]"), port)
