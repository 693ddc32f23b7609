"""Text without its secrets: a signed URL, a key or a token must not reach a screen, a log or a file."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "..."
"""The text in place of a secret."""

_QUERY: Final = re.compile(r"(\bhttps?://[^\s?#\"'<>]*)\?(?!\.\.\.)[^\s\"'<>]*", re.IGNORECASE)

_LOGIN: Final = re.compile(
    r"(\b[a-z][a-z0-9+.-]*://)([^\s/?#\"'<>]*|[^\s/?#@\"'<>]*:(?!\d{1,5}[/?#])[^\s@\"'<>]*)@", re.IGNORECASE
)
"""The part before the host of a URL: a user and a password, but in Azure's URLs the name of a container.

A password may have a slash in it, though it should not; what follows a port is a path.
"""

_CONTAINER_URLS: Final = ("abfs://", "abfss://", "wasb://", "wasbs://")

_SHARED_SIGNATURE: Final = re.compile(r"(\bSharedAccessSignature\s*=\s*)[^\s;\"'<>]+", re.IGNORECASE)
"""A part of a connection string, which has the characters ``&`` and ``=`` in it."""

_VALUE: Final = re.compile(
    r"""((?<![\w-])["']?(?:
        x-amz-[\w-]+ | x-goog-[\w-]+ | awsaccesskeyid | googleaccessid | key-pair-id | policy | expires | signature |
        sig | sv | se | st | sp | sr | ss | srt | spr | sip | skoid | sktid | skt | ske | sks | skv |
        [\w-]*(?:token|secret|password|passwd|credential|apikey|api[_-]key|account_?key|access_?key(?:_?id)?)
        )["']?\s*(?:=|:(?!//))\s*["']?)
        (?:(?:bearer|basic)\s+)?[^\s&;,"'<>]+""",
    re.IGNORECASE | re.VERBOSE,
)
"""A parameter of a signed URL, a field of a connection string or of a configuration, with its value."""

_AUTHORIZATION: Final = re.compile(r"(\bauthorization[\"']?\s*[:=]\s*[\"']?)[^\r\n\"']+", re.IGNORECASE)


def redact(text: str) -> str:
    """`text` with the secrets in it replaced by ``...``.

    Secrets are the queries of web addresses, user names and passwords in URLs, and the values of parameters that sign a
    request or open an account (``X-Amz-*``, ``X-Goog-*``, ``sig``, ``AccountKey``, ``token``).
    """
    text = _LOGIN.sub(_hide_login, text)
    text = _QUERY.sub(rf"\1?{HIDDEN}", text)
    text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", text)
    text = _SHARED_SIGNATURE.sub(rf"\1{HIDDEN}", text)
    return _VALUE.sub(rf"\1{HIDDEN}", text)


def _hide_login(match: re.Match[str]) -> str:
    if match[1].lower() in _CONTAINER_URLS and ":" not in match[2] and "@" not in match[2]:
        return match[0]
    return f"{match[1]}{HIDDEN}@"
