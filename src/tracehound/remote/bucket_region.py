"""The region of an S3 bucket, which the service tells everybody who asks."""

from __future__ import annotations

from contextlib import suppress
from email.message import Message
from http.client import HTTPException, HTTPMessage
from typing import IO, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

TIMEOUT_SECONDS: Final = 5.0

REGION_HEADER: Final = "x-amz-bucket-region"


class _NoRedirects(HTTPRedirectHandler):
    """Redirects end the request: the answer that redirects has the region."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """No request follows."""
        del self, req, fp, code, msg, headers, newurl


def find_bucket_region(endpoint: str, bucket: str) -> str:
    """The region of a bucket, asked for without credentials; empty if the server does not say."""
    if not endpoint.lower().startswith(("http://", "https://")):
        return ""
    request = Request(f"{endpoint}/{quote(bucket)}", method="HEAD")  # noqa: S310, the scheme was checked
    headers: Message = Message()
    with suppress(OSError, HTTPException, ValueError):
        try:
            with build_opener(_NoRedirects).open(request, timeout=TIMEOUT_SECONDS) as answer:
                headers = answer.headers
        except HTTPError as error:
            with error:
                headers = error.headers
    region = headers.get(REGION_HEADER, "")
    return region if region.replace("-", "").isalnum() else ""
