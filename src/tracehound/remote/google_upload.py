"""Uploads to an emulator of Google Cloud Storage by its JSON interface.

obstore writes by the XML interface, which emulators lack, and for which it wants credentials that they have none of.
"""

from __future__ import annotations

from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.remote_error import RemoteError

SILENCE_SECONDS: Final = 60.0


def upload_to_emulator(endpoint: str, url: ObjectUrl, file: Path) -> None:
    """Upload a file as the object of a URL. Raises RemoteError."""
    address = f"{endpoint}/upload/storage/v1/b/{quote(url.bucket)}/o?uploadType=media&name={quote(url.key, safe='')}"
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
    try:
        with file.open("rb") as source:
            request = Request(address, data=source, headers=headers, method="POST")  # noqa: S310, an emulator's
            build_opener(ProxyHandler({})).open(request, timeout=SILENCE_SECONDS).close()
    except HTTPError as error:
        error.close()
        if error.code == 404:
            raise RemoteError(f"{url.bucket_text}: no such bucket", reason="no_bucket") from None
        raise RemoteError(f"{url}: the emulator refuses the upload ({error.code})", reason="refused") from None
    except (OSError, HTTPException) as error:
        raise RemoteError(f"{url}: no connection to the emulator", reason="unreachable") from error
