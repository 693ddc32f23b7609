"""Dumps of obstore become one line; a bucket without obstore says what to install."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from tracehound.remote.bucket_errors import translate_error
from tracehound.remote.bucket_settings import BucketSettings
from tracehound.remote.object_info import AccessOptions
from tracehound.remote.object_url import ObjectUrl, parse_url
from tracehound.remote.remote_error import RemoteError
from tracehound.remote.remote_store import open_store

URL = ObjectUrl("s3", "traces", "a.json")

SETTINGS = BucketSettings({"region": "us-east-1", "secret_access_key": "hidden"}, "the keys in AWS_ACCESS_KEY_ID")

DUMP = """Generic S3 error: Error performing {method} http://127.0.0.1:1/a.json?X-Amz-Signature=hidden in 3.8ms, \
after 2 retries, max_retries: 2, retry_timeout: 60s  - {cause}

Debug source:
Generic {{
    store: "S3",
    source: RetryError(
        RetryErrorImpl {{
            inner: {inner},
        }},
    ),
}}"""


def dump(cause: str, inner: str, method: str = "GET") -> Exception:
    return Exception(DUMP.format(method=method, cause=cause, inner=inner))


def status(number: int, body: str = "") -> Exception:
    cause = f"Server returned non-2xx status code: {number} Whatever: {body}"
    return dump(cause, f"Status {{\n status: {number},\n body: Some(\n {body!r},\n),\n}}")


REFUSED = (
    'Http(HttpError {kind: Connect, source: ConnectError("tcp connect error", Os {message: "Connection refused"})})'
)
UNKNOWN = (
    'Http(HttpError {kind: Connect, source: ConnectError("dns error", Custom {error: "failed to lookup address"})})'
)
UNTRUSTED = "Http(HttpError {kind: Connect, source: InvalidCertificate(UnknownIssuer)})"
SILENT = "Http(HttpError {kind: Connect, source: TimedOut})"
BROKEN = "Http(HttpError {kind: Decode, source: UnexpectedEof})"


@pytest.mark.parametrize(
    ("error", "reason", "line"),
    [
        (status(404), "no_object", "s3://traces/a.json: no such object"),
        (FileNotFoundError("Object at location a.json not found"), "no_object", "s3://traces/a.json: no such object"),
        (status(404, "<Code>NoSuchBucket</Code>"), "no_bucket", "s3://traces: no such bucket at minio:9000"),
        (
            status(403),
            "denied",
            "s3://traces/a.json: access denied for the keys in AWS_ACCESS_KEY_ID; "
            "it needs s3:GetObject and s3:ListBucket",
        ),
        (
            status(403, "<Code>SignatureDoesNotMatch</Code>"),
            "denied",
            "s3://traces/a.json: access denied: the secret key is wrong (the keys in AWS_ACCESS_KEY_ID)",
        ),
        (
            status(503, "<Code>SlowDown</Code>"),
            "throttled",
            "s3://traces/a.json: the server asks for fewer requests (throttled); try again later",
        ),
        (
            status(301),
            "wrong_region",
            "s3://traces/a.json: the bucket is not in the region us-east-1; set AWS_REGION to the region of the bucket",
        ),
        (status(412), "changed", "s3://traces/a.json: the object changed while it was read; read it again"),
        (status(500), "refused", "s3://traces/a.json: the server failed (500)"),
        (
            status(400, "<Code>EntityTooLarge</Code>"),
            "refused",
            "s3://traces/a.json: the server refuses the request (400 EntityTooLarge)",
        ),
        (
            dump("HTTP error: error sending request", REFUSED),
            "unreachable",
            "s3://traces/a.json: no connection to minio:9000: connection refused",
        ),
        (
            dump("HTTP error: error sending request", UNKNOWN),
            "unreachable",
            "s3://traces/a.json: no connection to minio:9000: unknown host",
        ),
        (
            dump("HTTP error: error sending request", UNTRUSTED),
            "unreachable",
            "s3://traces/a.json: no connection to minio:9000: its TLS certificate is not trusted",
        ),
        (
            dump("HTTP error: error sending request", SILENT),
            "unreachable",
            "s3://traces/a.json: no connection to minio:9000: no answer",
        ),
        (
            dump("HTTP error: request or response body error", BROKEN),
            "lost",
            "s3://traces/a.json: the connection to minio:9000 broke; try again",
        ),
        (
            dump("something else", "Whatever"),
            "refused",
            "s3://traces/a.json: the request failed: something else",
        ),
        (
            ValueError('Could not parse path: Path "a//b" contained empty path segment'),
            "refused",
            "s3://traces/a.json: a key with an empty part (//) is there, which is not read: name a folder or an object"
            " without it",
        ),
        (
            Exception("'az account get-access-token' command failed: Please run az login\nsource: AzureCli {\n}"),
            "no_credentials",
            "s3://traces/a.json: no credentials from the keys in AWS_ACCESS_KEY_ID: 'az account get-access-token' "
            "command failed: Please run az login; --anonymous reads a public bucket without them",
        ),
    ],
)
def test_every_failure_is_one_line(error: Exception, reason: str, line: str) -> None:
    failure = translate_error(error, URL, SETTINGS, "http://minio:9000")
    assert (failure.reason, str(failure)) == (reason, line)
    copied = pickle.loads(pickle.dumps(failure))  # noqa: S301
    assert (copied.reason, str(copied)) == (reason, line)


@pytest.mark.parametrize("key", ["oauth2/token request/latest.json", "404", "status: 403"])
def test_the_name_of_an_object_decides_nothing(key: str) -> None:
    failure = translate_error(dump("something else", "Whatever"), ObjectUrl("s3", "traces", key), SETTINGS)
    assert failure.reason == "refused"


def test_a_long_message_is_cut_and_safe() -> None:
    failure = translate_error(Exception("\x1b[31m" + "x" * 5000), URL, SETTINGS)
    assert len(str(failure)) < 300
    assert str(failure).isprintable()


def test_a_bucket_without_obstore_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(RemoteError) as raised:
        open_store(parse_url("s3://traces"), AccessOptions(anonymous=True), {})
    assert raised.value.reason == "not_installed"
    assert str(raised.value) == (
        "buckets need the package obstore, which is not installed; "
        "pip install 'tracehound[cloud]', or pip install obstore"
    )


def test_nothing_large_is_imported_before_a_bucket_is_opened() -> None:
    large = {"botocore", "numpy", "obstore", "polars"}
    script = f"import sys, tracehound.remote.remote_store; print(sorted({large} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True)
    assert ended.stdout == "[]\n"
