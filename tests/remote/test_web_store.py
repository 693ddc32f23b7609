"""Objects of web servers: ranges, redirects, changed and broken answers, and what errors say."""

from __future__ import annotations

import base64
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from object_server import MODIFIED_NS, ObjectServer, Reply
from tracehound.remote import web_store
from tracehound.remote.object_info import AccessOptions, ObjectInfo
from tracehound.remote.object_url import parse_url
from tracehound.remote.remote_error import RemoteError
from tracehound.remote.remote_store import RemoteStore, open_store

CONTENT = bytes(range(256)) * 12_000
"""Three pieces."""


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_store, "QUICK_WAITS", (0.01, 0.01))
    monkeypatch.setattr(web_store, "THROTTLE_WAITS", (0.01, 0.01, 0.01))


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as started:
        started.objects["/runs/a.json"] = CONTENT
        yield started


def store_of(server: ObjectServer, path: str = "/runs/a.json") -> RemoteStore:
    return open_store(parse_url(server.address + path), AccessOptions(), {})


def receive(store: RemoteStore, info: ObjectInfo, arrived: bytearray) -> None:
    """Read an object, as far as it arrives."""
    for piece in store.read_range(info, 0, info.size):
        arrived += piece


def failure_of(store: RemoteStore, key: str = "runs/a.json") -> RemoteError:
    with pytest.raises(RemoteError) as raised:
        store.head(key)
    assert "\n" not in str(raised.value)
    assert "sig=" not in str(raised.value)
    return raised.value


def test_an_object_is_found_and_read_in_pieces(server: ObjectServer) -> None:
    store = store_of(server)
    info = store.head("runs/a.json")
    assert (info.key, info.size, info.modified_ns, info.has_ranges) == ("runs/a.json", len(CONTENT), MODIFIED_NS, True)
    pieces = list(store.read_range(info, 0, info.size))
    assert b"".join(pieces) == CONTENT
    assert [len(piece) for piece in pieces[:-1]] == [web_store.PIECE_BYTES] * (len(pieces) - 1)
    assert b"".join(store.read_range(info, 5, 9)) == CONTENT[5:9]
    assert server.header("Range") == "bytes=5-8"
    assert b"".join(store.read_range(info, info.size - 8, info.size + 100)) == CONTENT[-8:]
    assert list(store.read_range(info, 9, 9)) == []


def test_one_byte_tells_the_size_by_the_method_that_a_signed_url_allows(server: ObjectServer) -> None:
    store_of(server).head("runs/a.json")
    assert [(each.method, each.headers["range"]) for each in server.received] == [("GET", "bytes=0-0")]


def test_the_query_is_sent_as_it_is_written(server: ObjectServer) -> None:
    path = "/runs/a.json?X-Amz-Credential=AKIA%2F2026&sig=a%2Bb/c="
    store_of(server, path).head("runs/a.json")
    assert server.received[-1].path == path


def test_names_are_encoded_once(server: ObjectServer) -> None:
    server.objects["/a b/ü.json"] = b"x"
    for path in ("/a b/ü.json", "/a%20b/%C3%BC.json"):
        store = store_of(server, path)
        assert store.head(parse_url(server.address + path).key).size == 1
        assert server.received[-1].path == "/a%20b/%C3%BC.json"


def test_an_empty_object_has_no_bytes(server: ObjectServer) -> None:
    server.objects["/empty"] = b""
    store = store_of(server, "/empty")
    info = store.head("empty")
    assert info.size == 0
    assert list(store.read_range(info, 0, 10)) == []


def test_a_server_without_ranges_sends_everything() -> None:
    with ObjectServer(ranges=False, etags=False) as server:
        server.objects["/a"] = CONTENT
        store = store_of(server, "/a")
        info = store.head("a")
        assert (info.size, info.etag, info.has_ranges) == (len(CONTENT), "", False)
        assert b"".join(store.read_range(info, 0, info.size)) == CONTENT
        assert b"".join(store.read_range(info, 2_000_000, 2_500_000)) == CONTENT[2_000_000:2_500_000]


def test_an_object_that_changed_is_not_read_on(server: ObjectServer) -> None:
    store = store_of(server)
    info = store.head("runs/a.json")
    server.objects["/runs/a.json"] = b"other" + CONTENT
    with pytest.raises(RemoteError, match="the object changed while it was read; read it again") as raised:
        list(store.read_range(info, 0, 10))
    assert raised.value.reason == "changed"


def test_a_change_is_noticed_without_etags() -> None:
    with ObjectServer(etags=False) as server:
        server.objects["/a"] = CONTENT
        store = store_of(server, "/a")
        info = store.head("a")
        server.objects["/a"] = CONTENT[:-1]
        with pytest.raises(RemoteError, match="changed"):
            list(store.read_range(info, 0, 10))
        server.objects["/a"] = b""
        with pytest.raises(RemoteError, match="changed"):
            list(store.read_range(info, 0, 10))


def test_a_connection_that_breaks_midway_is_lost_and_can_be_resumed(server: ObjectServer) -> None:
    store = store_of(server)
    info = store.head("runs/a.json")
    server.breaks.append(1_500_000)
    arrived = bytearray()
    with pytest.raises(RemoteError) as raised:
        receive(store, info, arrived)
    assert raised.value.reason == "lost"
    assert CONTENT.startswith(arrived)
    assert len(arrived) >= 1 << 20
    assert arrived + b"".join(store.read_range(info, len(arrived), info.size)) == CONTENT


@pytest.mark.parametrize("status", [429, 503, 500, 502])
def test_a_busy_server_is_asked_again(server: ObjectServer, status: int) -> None:
    server.failures = [Reply(status, headers={"Retry-After": "0"}), Reply(status)]
    assert store_of(server).head("runs/a.json").size == len(CONTENT)


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (429, "throttled", "the server asks for fewer requests (throttled); try again later"),
        (503, "throttled", "the server asks for fewer requests (throttled); try again later"),
        (500, "refused", "the server failed (500); try again later"),
        (404, "no_object", "no such object"),
        (410, "no_object", "no such object"),
        (403, "denied", "access denied"),
        (401, "denied", "access denied; write https://USER:PASSWORD@HOST/PATH"),
        (418, "refused", "the server refuses the request (418 I'm a Teapot)"),
    ],
)
def test_failures_are_one_line(server: ObjectServer, status: int, reason: str, message: str) -> None:
    server.failures = [Reply(status)] * 10
    failure = failure_of(store_of(server))
    assert failure.reason == reason
    assert str(failure) == f"{server.address}/runs/a.json: {message}"


def test_an_expired_signature_is_named(server: ObjectServer) -> None:
    body = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
    server.failures = [Reply(403, body), Reply(403)]
    store = store_of(server, "/runs/a.json?sig=1")
    shown = f"{server.address}/runs/a.json?..."
    assert str(failure_of(store)) == f"{shown}: the signed URL has expired; make a new signed URL"
    assert str(failure_of(store)) == f"{shown}: access denied, with the query of the URL; make a new signed URL"


def test_a_cloud_that_denies_is_named_by_its_own_scheme(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.address)
    monkeypatch.setenv("no_proxy", "")
    server.failures = [Reply(403)]
    address = "http://storage.googleapis.com/traces/a"
    with pytest.raises(RemoteError) as raised:
        open_store(parse_url(address), AccessOptions(), {}).head("traces/a")
    assert server.received[-1].path == address, "the proxy of the environment is used"
    remedy = "access denied, without credentials; write gs://traces/a, which is read with them"
    assert str(raised.value) == f"{address}: {remedy}"


def test_an_answer_without_a_size_is_refused(server: ObjectServer) -> None:
    server.routes["/"] = lambda _: Reply(200, b"0\r\n\r\n", {"Transfer-Encoding": "chunked"})
    assert str(failure_of(store_of(server))).endswith("the server does not say how large it is; download it first")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_keep_the_range_and_leave_the_query_behind(server: ObjectServer, status: int) -> None:
    with ObjectServer() as first:
        first.routes["/"] = lambda _: Reply(status, headers={"Location": f"{server.address}/runs/a.json"})
        store = open_store(parse_url(f"http://user:word@{first.host}/x?sig=1"), AccessOptions(), {})
        info = store.head("x")
        assert b"".join(store.read_range(info, 5, 9)) == CONTENT[5:9]
        assert first.header("Authorization") == f"Basic {base64.b64encode(b'user:word').decode()}"
    assert server.received[-1].path == "/runs/a.json"
    assert server.header("Authorization") == ""
    assert server.header("Referer") == ""


def test_a_redirect_on_the_same_host_keeps_the_password(server: ObjectServer) -> None:
    server.routes["/old"] = lambda _: Reply(302, headers={"Location": "/runs/a.json"})
    store = open_store(parse_url(f"http://user:word@{server.host}/old"), AccessOptions(), {})
    assert store.head("old").size == len(CONTENT)
    assert server.header("Authorization").startswith("Basic ")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x", "/old"])
def test_redirects_lead_to_web_servers_alone_and_end(server: ObjectServer, target: str) -> None:
    server.routes["/old"] = lambda _: Reply(302, headers={"Location": target})
    assert failure_of(store_of(server, "/old"), "old").reason in ("refused", "unreachable")


def test_nobody_listens() -> None:
    with ObjectServer() as server:
        pass
    failure = failure_of(store_of(server, "/a?sig=1"), "a")
    assert failure.reason == "unreachable"
    assert str(failure) == f"{server.address}/a?...: no connection to {server.host}: connection refused"


def test_a_host_that_nobody_knows() -> None:
    store = open_store(parse_url("https://nobody.invalid/a"), AccessOptions(), {})
    assert failure_of(store, "a").reason == "unreachable"


def test_a_connection_that_closes_without_an_answer(server: ObjectServer) -> None:
    server.routes["/"] = lambda _: Reply(0)
    failure = failure_of(store_of(server))
    assert failure.reason == "lost"
    assert str(failure).endswith(f"the connection to {server.host} broke; try again")


def test_nothing_is_listed_or_written(server: ObjectServer, tmp_path: Path) -> None:
    store = store_of(server)
    for request in (lambda: store.list_objects("runs/"), lambda: store.list_folder("runs/")):
        with pytest.raises(RemoteError, match="does not list its files; name each file, or for a bucket write s3:"):
            list(request())
    with pytest.raises(RemoteError, match="web servers are only read"):
        store.write_file("x", tmp_path / "x")


def test_a_listing_of_a_cloud_names_its_bucket() -> None:
    store = open_store(parse_url("https://storage.googleapis.com/traces/runs/"), AccessOptions(), {})
    with pytest.raises(RemoteError, match="or write gs://traces/runs/") as raised:
        store.list_objects("traces/runs/")
    assert raised.value.reason == "no_listing"


def test_tls_is_verified(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    options = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    try:
        subprocess.run([*command, *options], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl that makes certificates")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.use_tls(context)
    url = parse_url(f"https://localhost:{server.host.partition(':')[2]}/runs/a.json")
    failure = failure_of(open_store(url, AccessOptions(), {}))
    assert failure.reason == "unreachable"
    assert str(failure).endswith("its TLS certificate is not trusted")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    trusting = open_store(url, AccessOptions(), {})
    assert trusting.head("runs/a.json").size == len(CONTENT)
    server.routes["/old"] = lambda _: Reply(302, headers={"Location": "http://localhost:1/x"})
    downgraded = open_store(url.join("old"), AccessOptions(), {})
    assert "redirect from https to http" in str(failure_of(downgraded, "old"))


def test_a_store_and_its_objects_show_no_password() -> None:
    store = open_store(parse_url("https://u:secret@host/a?sig=secret"), AccessOptions(), {})
    assert "secret" not in repr(store) + str(store)
    assert ObjectInfo("a", 1) == ObjectInfo("a", 1, "", 0)
