"""Addresses of profiler servers, and the hosts of a TPU slice."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tracehound.capture.server_address import ServerAddress, parse_addresses
from tracehound.capture.tpu_hosts import find_tpu_slice
from tracehound.errors import TracehoundError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:9999", "localhost", 9999),
        ("grpc://10.0.0.2:8466", "10.0.0.2", 8466),
        ("grpc://tpu-host_3.zone.internal:1/", "tpu-host_3.zone.internal", 1),
        ("[::1]:9012", "::1", 9012),
        ("  a:1 ,", "a", 1),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert parse_addresses(text) == (ServerAddress(host, port),)


def test_a_list_has_each_address_once_and_in_its_order() -> None:
    found = parse_addresses("b:2,a:1,b:2,,c", 7)
    assert [str(each) for each in found] == ["b:2", "a:1", "c:7"]
    assert [str(each) for each in parse_addresses("[::1]:3")] == ["[::1]:3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("localhost", "has no port"),
        ("a:0", "no port has the number 0"),
        ("a:65536", "no port has the number 65536"),
        ("::1:9012", "is no address"),
        ("unix:/tmp/socket", "is no address"),
        ("http://a:1", "is no address"),
        ("a b:1", "is no address"),
        ("a:1/x", "is no address"),
        ("\x1b[31m:1", "is no address"),
    ],
)
def test_what_is_no_address(text: str, message: str) -> None:
    with pytest.raises(TracehoundError, match=message) as caught:
        parse_addresses(text)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("10.0.0.1", False), ("example.org", False)],
)
def test_what_crosses_a_network(host: str, loopback: bool) -> None:  # noqa: FBT001
    assert ServerAddress(host, 1).is_loopback is loopback


def test_names_of_files_have_no_colon() -> None:
    assert ServerAddress("::1", 9).file_stem == "__1_9"
    assert ServerAddress("host.a", 9012).file_stem == "host.a_9012"


# --- TPU slices


@contextmanager
def metadata_server(attributes: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """A metadata server like that of Google's cloud; gives the environment that leads to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/computeMetadata/v1/instance/attributes/")
            known = self.headers["Metadata-Flavor"] == "Google" and name in attributes
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(attributes.get(name, "").encode())

        def log_message(self, *words: object) -> None:
            del words

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield {"GCE_METADATA_IP": f"127.0.0.1:{server.server_port}"}
        finally:
            server.shutdown()
            thread.join()


def test_the_environment_names_the_hosts() -> None:
    found = find_tpu_slice({"TPU_WORKER_HOSTNAMES": "t-0, t-1", "MEGASCALE_NUM_SLICES": "2"})
    assert (found.hosts, found.source, found.slices) == (("t-0", "t-1"), "TPU_WORKER_HOSTNAMES", 2)
    assert [str(each) for each in found.addresses(9012)] == ["t-0:9012", "t-1:9012"]


def test_the_older_variable_has_processes() -> None:
    found = find_tpu_slice({"TPU_PROCESS_ADDRESSES": "t-0:8476,t-0:8477,t-1:8476"})
    assert (found.hosts, found.slices) == (("t-0", "t-1"), 1)


def test_the_metadata_server_names_the_hosts() -> None:
    with metadata_server({"worker-network-endpoints": "unknown:8470:10.0.0.2,unknown:8470:fd00::3"}) as environment:
        found = find_tpu_slice(environment)
    assert (found.hosts, found.source) == (("10.0.0.2", "fd00::3"), "the metadata server")
    assert [str(each) for each in found.addresses(1)] == ["10.0.0.2:1", "[fd00::3]:1"]


def test_machines_without_a_slice_say_so() -> None:
    with metadata_server({}) as environment, pytest.raises(TracehoundError, match="knows no TPU slice"):
        find_tpu_slice(environment)
    with pytest.raises(TracehoundError, match="this machine is in no TPU slice"):
        find_tpu_slice({"GCE_METADATA_IP": "127.0.0.1:1"})


def test_the_metadata_server_is_not_asked_where_that_is_forbidden() -> None:
    with metadata_server({"worker-network-endpoints": "a:1:b"}) as environment:
        with pytest.raises(TracehoundError, match="TPU_SKIP_MDS_QUERY forbids"):
            find_tpu_slice(environment | {"TPU_SKIP_MDS_QUERY": "1"})
        assert find_tpu_slice(environment | {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "x"}).hosts == ("x",)


def test_hosts_that_are_no_names_are_refused() -> None:
    with pytest.raises(TracehoundError, match="is no address"):
        find_tpu_slice({"TPU_WORKER_HOSTNAMES": "a;b"}).addresses(1)
