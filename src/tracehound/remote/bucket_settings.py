"""Settings of a bucket: its endpoint, its region and the credentials, whichever cloud it is of."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from tracehound.errors import printable
from tracehound.remote.redaction import redact
from tracehound.remote.remote_error import RemoteError
from tracehound.system.user_dirs import home_dir

CredentialProvider = Callable[[], dict[str, str | datetime | None]]
"""A function that returns credentials and the time (`expires_at`) at which it should be asked again."""

_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(?::\d{1,5})?(?:/[A-Za-z0-9._~%/-]*)?")

_WEB_ADDRESS: Final = re.compile(
    r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[A-Za-z0-9._~%/-]*)?", re.IGNORECASE
)

_TRUE: Final = frozenset({"1", "on", "t", "true", "y", "yes"})


class BucketSettings(Struct, frozen=True):
    """Settings of one bucket: values of obstore's configuration, and how they were found.

    `source` names the credentials in a sentence (``profile 'work'``); it is empty for none. `headers` go with each
    request. `certificates` are more roots of trust, as PEM.
    """

    config: dict[str, Any]
    source: str
    credentials: CredentialProvider | None = None
    headers: dict[str, str] = field(default_factory=dict)
    certificates: bytes = b""

    def __repr__(self) -> str:
        """The names of the settings; their values may be keys."""
        return f"BucketSettings({', '.join(sorted(self.config))}; {self.source or 'anonymous'})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """`repr` for pretty printers; that of msgspec shows all values."""
        return [("settings", repr(self))]

    @property
    def is_emulator(self) -> bool:
        """True if the bucket is one of an emulator of Google Cloud Storage."""
        return "base_url" in self.config and "skip_signature" in self.config

    @property
    def allow_http(self) -> bool:
        """True if the endpoint is one without TLS, as emulators and servers in a private network have."""
        endpoints = (self.config.get(name, "") for name in ("endpoint", "base_url"))
        return any(str(endpoint).lower().startswith("http://") for endpoint in endpoints)


def check_endpoints(bucket: str, settings: BucketSettings) -> None:
    """Raises RemoteError if an endpoint is no web address, such as ``minio:9000``, on which obstore panics."""
    for name in ("endpoint", "base_url", "metadata_endpoint", "msi_endpoint"):
        endpoint = str(settings.config.get(name, "http://default"))
        if not _WEB_ADDRESS.fullmatch(endpoint):
            shown = printable(redact(endpoint))
            remedy = (
                f"write http://{shown} or https://{shown}" if _HOST.fullmatch(endpoint) else "write https://HOST:PORT"
            )
            raise RemoteError(f"{bucket}: the endpoint {shown!r} is no web address", reason="refused", remedy=remedy)


def is_true(environ: Mapping[str, str], name: str) -> bool:
    """True if a variable says yes."""
    return environ.get(name, "").strip().lower() in _TRUE


def first_of(values: Mapping[str, str], *names: str) -> str:
    """The first of the variables that is not empty."""
    return next((values[name].strip() for name in names if values.get(name, "").strip()), "")


def home_of(environ: Mapping[str, str]) -> Path:
    """The home directory, in which credentials lie; a path that does not exist if there is none."""
    own = Path(environ["HOME"]) if environ.get("HOME") else home_dir()
    return own or Path(os.devnull) / "home"


def no_credentials(bucket: str, tried: list[str], remedy: str) -> RemoteError:
    """The error for a bucket whose cloud has no credentials here, with the places that were searched."""
    message = f"{bucket}: no credentials found (tried {', '.join(tried)})"
    return RemoteError(message, reason="no_credentials", remedy=f"{remedy}, or --anonymous for a public bucket")
