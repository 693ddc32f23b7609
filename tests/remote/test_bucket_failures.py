"""Buckets on a server that fails as it is told to: throttling, broken connections, regions, changes, bad answers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from object_server import MODIFIED, ObjectServer, Received, Reply
from tracehound.remote import bucket_store
from tracehound.remote.object_info import AccessOptions, ObjectInfo
from tracehound.remote.object_url import parse_url
from tracehound.remote.remote_error import RemoteError
from tracehound.remote.remote_store import RemoteStore, open_store

pytestmark = pytest.mark.thorough

CONTENT = bytes(range(256)) * 12_000

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "hidden1", "AWS_SESSION_TOKEN": "hidden2"}


@pytest.fixture
def server(bare_user: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    del bare_user
    pytest.importorskip("obstore", reason="obstore is not installed (extra `buckets`)")
    monkeypatch.setattr(bucket_store, "THROTTLE_WAITS", (0.01, 0.01, 0.01))
    with ObjectServer() as started:
        for beginning in ("/traces/", "/own/traces/"):
            started.objects[f"{beginning}a.json"] = CONTENT
        yield started


def s3_store(server: ObjectServer, **environ: str) -> RemoteStore:
    return open_store(parse_url("s3://traces"), AccessOptions(), KEYS | {"AWS_ENDPOINT_URL": server.address} | environ)


def stores(server: ObjectServer) -> dict[str, RemoteStore]:
    """A store of each cloud."""
    azure = {
        "AZURE_STORAGE_CONNECTION_STRING": f"AccountName=own;AccountKey=aGlkZGVu;BlobEndpoint={server.address}/own"
    }
    google = {"STORAGE_EMULATOR_HOST": server.host}
    return {
        "s3": s3_store(server),
        "gs": open_store(parse_url("gs://traces"), AccessOptions(), google),
        "az": open_store(parse_url("az://traces"), AccessOptions(), azure),
    }


def receive(store: RemoteStore, info: ObjectInfo, arrived: bytearray) -> None:
    """Read an object, as far as it arrives."""
    for piece in store.read_range(info, 0, info.size):
        arrived += piece


def failure_of(store: RemoteStore, key: str = "a.json") -> RemoteError:
    with pytest.raises(RemoteError) as raised:
        store.head(key)
    assert "\n" not in str(raised.value)
    assert not {"hidden", "aGlkZGVu", "Signature="} & set(str(raised.value).split())
    return raised.value


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_throttled_request_is_repeated_with_patience(server: ObjectServer, scheme: str, status: int) -> None:
    store = stores(server)[scheme]
    body = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
    server.failures = [Reply(status, body)] * 7
    assert store.head("a.json").size == len(CONTENT)
    server.failures = [Reply(status, body)] * 100
    failure = failure_of(store)
    assert failure.reason == "throttled"
    assert str(failure).endswith("the server asks for fewer requests (throttled); try again later")


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
@pytest.mark.parametrize(
    ("status", "code", "reason", "words"),
    [
        (403, "AccessDenied", "denied", "access denied for "),
        (401, "", "denied", "access denied for "),
        (404, "NoSuchKey", "no_object", "no such object"),
        (404, "BlobNotFound", "no_object", "no such object"),
        (404, "NoSuchBucket", "no_bucket", "no such "),
        (404, "ContainerNotFound", "no_bucket", "no such "),
        (500, "InternalError", "refused", "the server failed (500)"),
        (400, "Whatever", "refused", "the server refuses the request (400 Whatever)"),
    ],
)
def test_failures_have_a_class(
    server: ObjectServer, scheme: str, status: int, code: str, reason: str, words: str
) -> None:
    server.failures = [Reply(status, f"<Error><Code>{code}</Code></Error>".encode())] * 10
    failure = failure_of(stores(server)[scheme])
    assert failure.reason == reason
    if scheme != "gs" or reason != "denied":  # an emulator has no credentials to deny
        assert words in str(failure)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("ExpiredToken", "the session token has expired"),
        ("InvalidAccessKeyId", "the access key does not exist"),
        ("SignatureDoesNotMatch", "the secret key is wrong"),
        ("RequestTimeTooSkewed", "the clock of this machine is wrong"),
    ],
)
def test_wrong_credentials_are_told_from_missing_rights(server: ObjectServer, code: str, why: str) -> None:
    body = f"<Error><Code>{code}</Code><AWSAccessKeyId>AKIA1</AWSAccessKeyId></Error>".encode()
    server.failures = [Reply(403, body)] * 2
    expected = f"s3://traces/a.json: access denied: {why} (the keys in AWS_ACCESS_KEY_ID)"
    assert str(failure_of(s3_store(server))) == expected


def test_an_anonymous_denial_says_what_to_do(server: ObjectServer) -> None:
    server.failures = [Reply(403)] * 2
    environ = {"AWS_ENDPOINT_URL": server.address}
    store = open_store(parse_url("s3://traces"), AccessOptions(anonymous=True), environ)
    assert str(failure_of(store)) == (
        "s3://traces/a.json: access denied: the bucket is not public, or there is no such object; "
        "read it with credentials"
    )
    assert server.header("Authorization") == ""


@pytest.mark.parametrize("status", [301, 400])
def test_the_region_of_a_bucket_is_found(server: ObjectServer, status: int) -> None:
    def in_ireland(request: Received) -> Reply:
        region = {"x-amz-bucket-region": "eu-west-1"}
        if request.path == "/traces":
            return Reply(403, headers=region)
        if "/eu-west-1/s3/" in request.headers["authorization"]:
            return Reply(200, CONTENT, {"ETag": '"1"', "Last-Modified": MODIFIED})
        return Reply(status, b"<Error><Code>AuthorizationHeaderMalformed</Code></Error>", region)

    server.routes["/traces"] = in_ireland
    store = s3_store(server)
    assert store.head("a.json").size == len(CONTENT)
    asked = [request for request in server.received if request.path == "/traces"]
    assert len(asked) == 1
    assert "authorization" not in asked[0].headers
    assert store.head("a.json").size == len(CONTENT)
    assert len([request for request in server.received if request.path == "/traces"]) == 1


def test_several_threads_enter_a_region_at_once(server: ObjectServer) -> None:
    def in_ireland(request: Received) -> Reply:
        if request.path == "/traces":
            return Reply(403, headers={"x-amz-bucket-region": "eu-west-1"})
        there = "/eu-west-1/s3/" in request.headers["authorization"]
        return Reply(200, CONTENT, {"ETag": '"1"', "Last-Modified": MODIFIED}) if there else Reply(301)

    server.routes["/traces"] = in_ireland
    for _ in range(5):
        store = s3_store(server)
        with ThreadPoolExecutor(8) as threads:
            sizes = list(threads.map(lambda key, store=store: store.head(key).size, ["a.json"] * 8))
        assert sizes == [len(CONTENT)] * 8


def test_a_region_that_is_not_found_is_an_error(server: ObjectServer) -> None:
    server.routes["/traces"] = lambda _: Reply(301)
    failure = failure_of(s3_store(server, AWS_REGION="eu-west-3"))
    assert failure.reason == "wrong_region"
    assert str(failure) == (
        "s3://traces/a.json: the bucket is not in the region eu-west-3; set AWS_REGION to the region of the bucket"
    )


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_connection_that_breaks_midway_goes_on(server: ObjectServer, scheme: str) -> None:
    store = stores(server)[scheme]
    info = store.head("a.json")
    server.breaks = [1_500_000]
    assert b"".join(store.read_range(info, 0, info.size)) == CONTENT
    assert [request.method for request in server.received].count("GET") == 2


def test_a_connection_that_keeps_breaking_is_lost(server: ObjectServer) -> None:
    store = s3_store(server)
    info = store.head("a.json")
    server.breaks = [1_500_000] + [0] * 20
    arrived = bytearray()
    with pytest.raises(RemoteError) as raised:
        receive(store, info, arrived)
    assert raised.value.reason == "lost"
    assert str(raised.value) == f"s3://traces/a.json: the connection to {server.host} broke; try again"
    assert CONTENT.startswith(arrived)
    server.breaks.clear()
    assert arrived + b"".join(store.read_range(info, len(arrived), info.size)) == CONTENT


def test_an_object_that_changes_midway_is_not_mixed_with_the_other(server: ObjectServer) -> None:
    store = s3_store(server)
    info = store.head("a.json")
    pieces = store.read_range(info, 0, info.size)
    server.breaks = [1_500_000]
    first = next(pieces)
    server.objects["/traces/a.json"] = bytes(len(CONTENT))
    with pytest.raises(RemoteError) as raised:
        list(pieces)
    assert raised.value.reason in ("changed", "lost")
    assert CONTENT.startswith(first)


def test_a_connection_that_closes_without_an_answer_is_lost(server: ObjectServer) -> None:
    server.routes["/traces"] = lambda _: Reply(0)
    failure = failure_of(s3_store(server))
    assert failure.reason == "lost"


def test_nobody_listens(server: ObjectServer) -> None:
    failure = failure_of(s3_store(server, AWS_ENDPOINT_URL="http://127.0.0.1:9"))
    assert failure.reason == "unreachable"
    assert str(failure) == "s3://traces/a.json: no connection to 127.0.0.1:9: connection refused"


def test_a_host_that_nobody_knows(server: ObjectServer) -> None:
    failure = failure_of(s3_store(server, AWS_ENDPOINT_URL="http://nobody.invalid"))
    assert failure.reason == "unreachable"
    assert str(failure) == "s3://traces/a.json: no connection to nobody.invalid: unknown host"


def test_a_page_without_meaning_is_refused(server: ObjectServer) -> None:
    server.routes["/traces"] = lambda _: Reply(200, b"<html>Welcome to the <b>hotel's network</html>")
    with pytest.raises(RemoteError) as raised:
        list(s3_store(server).list_objects(""))
    assert raised.value.reason == "refused"
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_ten_thousand_objects_are_listed_in_pages(server: ObjectServer) -> None:
    keys = [f"runs/rank_{number:05}.json" for number in range(10_000)]

    def list_page(request: Received) -> Reply:
        query = parse_qs(urlsplit(request.path).query)
        assert query["prefix"] == ["runs/"]
        after = query.get("start-after", [""])[0]
        first = int(query.get("continuation-token", [str(keys.index(after) + 1 if after else 0)])[0])
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>2</Size><ETag>&quot;1&quot;</ETag>"
            "<LastModified>2026-11-29T10:00:00Z</LastModified></Contents>"
            for key in keys[first : first + 1000]
        )
        more = f"<NextContinuationToken>{first + 1000}</NextContinuationToken>" if first < 9000 else ""
        return Reply(200, f"<ListBucketResult>{more}{entries}</ListBucketResult>".encode())

    server.routes["/traces"] = list_page
    pages = list(s3_store(server).list_objects("runs/"))
    assert [info.key for page in pages for info in page] == keys
    assert max(len(page) for page in pages) <= bucket_store.PAGE_OBJECTS

    busy = [Reply(503)] * 3

    def list_busily(request: Received) -> Reply:
        return busy.pop() if "continuation-token=5000" in request.path and busy else list_page(request)

    server.routes["/traces"] = list_busily
    assert [info.key for page in s3_store(server).list_objects("runs/") for info in page] == keys
    assert not busy
    server.routes["/traces"] = lambda request: Reply(403) if "token" in request.path else list_page(request)
    pages_until_denied = s3_store(server).list_objects("runs/")
    with pytest.raises(RemoteError) as raised:
        list(pages_until_denied)
    assert raised.value.reason == "denied"


@pytest.mark.parametrize(
    ("url", "environ", "line"),
    [
        (
            "s3://traces",
            KEYS | {"AWS_ENDPOINT_URL": "minio:9000"},
            "s3://traces: the endpoint 'minio:9000' is no web address; write http://minio:9000 or https://minio:9000",
        ),
        (
            "s3://traces",
            KEYS | {"AWS_ENDPOINT_URL": "ht tp:"},
            "s3://traces: the endpoint 'ht tp:' is no web address; write https://HOST:PORT",
        ),
        (
            "az://traces",
            {"AZURE_STORAGE_ACCOUNT": "own", "AZURE_STORAGE_KEY": "hidden !"},
            "az://traces: settings that are not valid: Invalid Access Key: Invalid symbol 32, offset 6 (the key in "
            "AZURE_STORAGE_KEY)",
        ),
    ],
)
def test_settings_that_are_not_valid_are_named(
    server: ObjectServer, url: str, environ: dict[str, str], line: str
) -> None:
    del server
    with pytest.raises(RemoteError) as raised:
        open_store(parse_url(url), AccessOptions(), environ)
    assert str(raised.value) == line


def test_a_file_of_credentials_that_is_missing_is_in_the_way_of_anonymous_access(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    del server
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nothing")
    with pytest.raises(RemoteError, match=r"/nothing.*; unset GOOGLE_APPLICATION_CREDENTIALS$"):
        open_store(parse_url("gs://traces"), AccessOptions(anonymous=True))
