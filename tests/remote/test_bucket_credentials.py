"""Credentials of every kind, in the requests that a server gets; also those that other servers hand out."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bucket_emulators import Emulator
from object_server import ObjectServer, Reply
from tracehound.remote import azure_settings
from tracehound.remote.object_info import AccessOptions
from tracehound.remote.object_url import parse_url
from tracehound.remote.remote_error import RemoteError
from tracehound.remote.remote_store import open_store

pytestmark = pytest.mark.thorough

LATER = (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")

ROLE = {"Code": "Success", "AccessKeyId": "AKIAROLE", "SecretAccessKey": "s", "Token": "roletoken", "Expiration": LATER}

AZURE = "abfss://traces@acc.dfs.core.windows.net"


@pytest.fixture
def server(bare_user: Path) -> Iterator[ObjectServer]:
    del bare_user
    pytest.importorskip("obstore", reason="obstore is not installed (extra `buckets`)")
    with ObjectServer() as started:
        started.objects["/traces/a.json"] = b"12345"
        yield started


@pytest.fixture
def setenv(monkeypatch: pytest.MonkeyPatch, server: ObjectServer) -> pytest.MonkeyPatch:
    """The environment, with the server as the endpoint of each cloud."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.address)
    monkeypatch.setenv("GOOGLE_BASE_URL", server.address)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", server.address)
    return monkeypatch


def read(url: str = "s3://traces", *, anonymous: bool = False, requester_pays: bool = False) -> None:
    """Read the object with the credentials of the environment."""
    store = open_store(parse_url(url), AccessOptions(anonymous, requester_pays))
    assert store.head("a.json").size == 5


def read_in_a_process() -> subprocess.CompletedProcess[str]:
    """Read the object in a process of its own, as botocore remembers where the home directory was."""
    script = """if True:
        from tracehound.remote.object_url import parse_url
        from tracehound.remote.remote_store import AccessOptions, RemoteError, open_store
        try:
            print(open_store(parse_url("s3://traces"), AccessOptions()).head("a.json").size)
        except RemoteError as error:
            print(error)
    """
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=120)


def credential(server: ObjectServer) -> tuple[str, str]:
    """Access key and region of the last request."""
    parts = server.header("Authorization").partition("Credential=")[2].split("/")
    return parts[0], parts[2]


def test_keys_of_the_environment(server: ObjectServer, setenv: pytest.MonkeyPatch) -> None:
    setenv.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    setenv.setenv("AWS_SECRET_ACCESS_KEY", "s")
    setenv.setenv("AWS_SESSION_TOKEN", "token1")
    setenv.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    read()
    assert credential(server) == ("AKIA1", "eu-west-2")
    assert server.header("x-amz-security-token") == "token1"
    assert server.header("x-amz-request-payer") == ""
    read(requester_pays=True)
    assert server.header("x-amz-request-payer") == "requester"
    read(anonymous=True)
    assert server.header("Authorization") == ""


def test_a_profile_with_keys_region_and_endpoint(
    server: ObjectServer, setenv: pytest.MonkeyPatch, bare_user: Path
) -> None:
    setenv.delenv("AWS_ENDPOINT_URL_S3")
    folder = bare_user / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text("[work]\naws_access_key_id=AKIA3\naws_secret_access_key=s\n")
    (folder / "config").write_text(f"[profile work]\nregion=eu-north-1\nendpoint_url={server.address}\n")
    setenv.setenv("AWS_PROFILE", "work")
    read()
    assert credential(server) == ("AKIA3", "eu-north-1")


def write_config(bare_user: Path, **values: str) -> None:
    (bare_user / ".aws").mkdir(exist_ok=True)
    lines = "\n".join(f"{name} = {value}" for name, value in values.items())
    (bare_user / ".aws" / "config").write_text(f"[default]\n{lines}\n")


def test_a_process_that_prints_credentials(server: ObjectServer, setenv: pytest.MonkeyPatch, bare_user: Path) -> None:
    pytest.importorskip("botocore")
    answer = {"Version": 1, "AccessKeyId": "AKIAPROC", "SecretAccessKey": "s", "SessionToken": "p", "Expiration": LATER}
    script = bare_user / "credentials.py"
    script.write_text(f"print({json.dumps(json.dumps(answer))})")
    write_config(bare_user, credential_process=f"{sys.executable} {script}", region="eu-west-1")
    setenv.setenv("AWS_EC2_METADATA_DISABLED", "true")
    read()
    assert credential(server) == ("AKIAPROC", "eu-west-1")
    assert server.header("x-amz-security-token") == "p"
    script.write_text("import sys; sys.exit('the vault is locked')")
    with pytest.raises(
        RemoteError, match=r"no credentials of AWS profile 'default' from a process: .*locked"
    ) as raised:
        read()
    assert raised.value.reason == "no_credentials"


def test_single_sign_on(server: ObjectServer, setenv: pytest.MonkeyPatch, bare_user: Path) -> None:
    pytest.importorskip("botocore")
    (bare_user / ".aws").mkdir()
    (bare_user / ".aws" / "config").write_text(
        "[default]\nsso_session = ours\nsso_account_id = 1\nsso_role_name = reader\nregion = eu-west-1\n"
        f"[sso-session ours]\nsso_region = eu-west-1\nsso_start_url = {server.address}/start\n"
    )
    setenv.setenv("AWS_ENDPOINT_URL_SSO", server.address)
    ended = read_in_a_process()
    assert "from single sign-on: " in ended.stdout
    assert ended.stdout.endswith("; aws sso login --profile default\n")
    assert ended.stderr == "", "botocore logs nothing"
    cache = bare_user / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    name = hashlib.sha1(b"ours", usedforsecurity=False).hexdigest()
    (cache / f"{name}.json").write_text(json.dumps({"accessToken": "signed", "expiresAt": LATER}))
    expiry = int((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000)
    role = {"accessKeyId": "AKIASSO", "secretAccessKey": "s", "sessionToken": "sso", "expiration": expiry}
    server.routes["/federation/credentials"] = lambda _: Reply(200, json.dumps({"roleCredentials": role}).encode())
    assert read_in_a_process().stdout == "5\n"
    assert credential(server) == ("AKIASSO", "eu-west-1")
    assert server.header("x-amz-security-token") == "sso"


def test_the_role_of_a_virtual_machine(server: ObjectServer, setenv: pytest.MonkeyPatch) -> None:
    setenv.setenv("AWS_METADATA_ENDPOINT", server.address)
    server.routes["/latest/api/token"] = lambda _: Reply(200, b"session")
    roles = "/latest/meta-data/iam/security-credentials/"
    server.routes[f"{roles}reader"] = lambda _: Reply(200, json.dumps(ROLE | {"LastUpdated": LATER}).encode())
    server.routes[roles] = lambda _: Reply(200, b"reader")
    read()
    assert credential(server)[0] == "AKIAROLE"
    server.routes[f"{roles}reader"] = server.routes[roles] = lambda _: Reply(404, b"no role")
    with pytest.raises(RemoteError) as raised:
        read()
    assert raised.value.reason == "no_credentials"
    assert str(raised.value).startswith("s3://traces/a.json: no credentials from the role of the virtual machine: ")


def test_the_role_of_a_container(server: ObjectServer, setenv: pytest.MonkeyPatch, bare_user: Path) -> None:
    (bare_user / "token").write_text("podtoken")
    setenv.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.address}/pod")
    setenv.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(bare_user / "token"))
    server.routes["/pod"] = lambda _: Reply(200, json.dumps(ROLE).encode())
    read()
    assert credential(server)[0] == "AKIAROLE"
    assert server.received[0].headers["authorization"] == "podtoken"


def test_a_web_identity_that_fails(setenv: pytest.MonkeyPatch, bare_user: Path) -> None:
    (bare_user / "token").write_text("identity")
    setenv.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(bare_user / "token"))
    setenv.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/reader")
    setenv.setenv("AWS_STS_ENDPOINT", "https://127.0.0.1:9")
    with pytest.raises(RemoteError) as raised:
        read()
    assert raised.value.reason == "no_credentials"
    assert "from the web identity of AWS_ROLE_ARN" in str(raised.value)


def test_no_credentials_at_all(setenv: pytest.MonkeyPatch) -> None:
    del setenv
    for url in ("s3://traces", "gs://traces", AZURE):
        with pytest.raises(RemoteError, match=r"no credentials found .*--anonymous for a public bucket") as raised:
            read(url)
        assert raised.value.reason == "no_credentials"


def test_a_service_account(server: ObjectServer, setenv: pytest.MonkeyPatch, bare_user: Path) -> None:
    key = bare_user / "key.pem"
    command = ["openssl", "genpkey", "-algorithm", "RSA", "-out", key]
    subprocess.run(command, check=True, capture_output=True)
    account = {"type": "service_account", "private_key": key.read_text(), "private_key_id": "1", "client_email": "a@b"}
    (bare_user / "account.json").write_text(json.dumps(account | {"project_id": "ours"}))
    setenv.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(bare_user / "account.json"))
    read("gs://traces")
    assert server.header("Authorization").startswith("Bearer ey")
    assert server.header("x-goog-user-project") == ""
    read("gs://traces", requester_pays=True)
    assert server.header("x-goog-user-project") == "ours"
    read("gs://traces", anonymous=True)
    assert server.header("Authorization") == ""


def test_a_user_whose_login_has_ended(setenv: pytest.MonkeyPatch, bare_user: Path) -> None:
    user = {"type": "authorized_user", "client_id": "c", "client_secret": "hidden", "refresh_token": "hidden"}
    (bare_user / "user.json").write_text(json.dumps(user))
    setenv.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(bare_user / "user.json"))
    setenv.setenv("https_proxy", "http://127.0.0.1:9")  # nobody is asked for a real token
    with pytest.raises(RemoteError) as raised:
        read("gs://traces")
    assert raised.value.reason == "no_credentials"
    assert "hidden" not in str(raised.value)


def test_the_service_account_of_a_virtual_machine(server: ObjectServer, setenv: pytest.MonkeyPatch) -> None:
    setenv.setenv("GCE_METADATA_HOST", server.host)
    token = json.dumps({"access_token": "vmtoken", "expires_in": 3600, "token_type": "Bearer"}).encode()
    server.routes["/computeMetadata/v1/instance/service-accounts/default/token"] = lambda _: Reply(200, token)
    server.routes["/computeMetadata/"] = lambda _: Reply(200, b"zone/")
    read("gs://traces")
    assert server.header("Authorization") == "Bearer vmtoken"
    server.failures = [Reply(403), Reply(403)]
    with pytest.raises(RemoteError) as raised:
        read("gs://traces")
    assert str(raised.value) == (
        "gs://traces/a.json: access denied for the service account of the virtual machine; "
        "it needs the role Storage Object Viewer, and a virtual machine the scope of storage"
    )


@pytest.mark.parametrize(
    ("environ", "beginning", "query"),
    [
        ({"AZURE_STORAGE_KEY": "a2V5"}, "SharedKey acc:", ""),
        ({"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}, "SharedKey acc:", ""),
        ({"AZURE_STORAGE_SAS_TOKEN": "?sv=2024&sig=a%2Bb"}, "", "sv=2024&sig=a%2Bb"),
        ({"AZURE_STORAGE_TOKEN": "bearer"}, "Bearer bearer", ""),
    ],
)
def test_secrets_of_azure(
    server: ObjectServer, setenv: pytest.MonkeyPatch, environ: dict[str, str], beginning: str, query: str
) -> None:
    for name, value in environ.items():
        setenv.setenv(name, value)
    read(AZURE)
    assert server.header("Authorization").startswith(beginning)
    assert urlsplit(server.received[-1].path).query == query
    server.failures = [Reply(403, b"<Error><Code>AuthenticationFailed</Code></Error>")] * 2
    with pytest.raises(RemoteError, match="access denied: the key, signature or token is wrong or expired") as raised:
        read(AZURE)
    assert "sig" not in str(raised.value).replace("signature", "")
    read(AZURE, anonymous=True)
    assert (server.header("Authorization"), urlsplit(server.received[-1].path).query) == ("", "")


def test_a_service_principal_and_a_workload_identity(
    server: ObjectServer, setenv: pytest.MonkeyPatch, bare_user: Path
) -> None:
    token = json.dumps({"access_token": "principal", "expires_in": 3600, "token_type": "Bearer"}).encode()
    server.routes["/tenant/oauth2/"] = lambda _: Reply(200, token)
    setenv.setenv("AZURE_AUTHORITY_HOST", server.address)
    setenv.setenv("AZURE_TENANT_ID", "tenant")
    setenv.setenv("AZURE_CLIENT_ID", "client")
    setenv.setenv("AZURE_CLIENT_SECRET", "hidden")
    read(AZURE)
    assert server.header("Authorization") == "Bearer principal"
    setenv.delenv("AZURE_CLIENT_SECRET")
    (bare_user / "token").write_text("federated")
    setenv.setenv("AZURE_FEDERATED_TOKEN_FILE", str(bare_user / "token"))
    read(AZURE)
    assert b"federated" in next(each.body for each in reversed(server.received) if each.method == "POST")
    server.routes["/tenant/oauth2/"] = lambda _: Reply(401, b'{"error": "invalid_client"}')
    with pytest.raises(RemoteError) as raised:
        read(AZURE)
    assert raised.value.reason == "no_credentials"
    assert "from the workload identity of AZURE_FEDERATED_TOKEN_FILE" in str(raised.value)


def test_managed_identities(server: ObjectServer, setenv: pytest.MonkeyPatch) -> None:
    answer = {"access_token": "managed", "expires_on": "4102444800", "expires_in": "3600", "token_type": "Bearer"}
    server.routes["/msi"] = lambda _: Reply(200, json.dumps(answer).encode())
    setenv.setenv("IDENTITY_ENDPOINT", f"{server.address}/msi")
    read(AZURE)
    assert server.header("Authorization") == "Bearer managed"
    setenv.delenv("IDENTITY_ENDPOINT")
    setenv.setattr(azure_settings, "METADATA_ADDRESS", server.address)
    server.routes["/metadata/instance"] = lambda _: Reply(200, b"{}")
    settings = azure_settings.find_azure_settings(parse_url(AZURE), AccessOptions(), {"PATH": "/nothing"})
    assert settings.source == "the managed identity of the virtual machine"


def test_the_login_of_the_command_az(server: ObjectServer, setenv: pytest.MonkeyPatch, bare_user: Path) -> None:
    command = bare_user.parent / "bin" / "az"
    command.parent.mkdir()
    answer = {"accessToken": "cli", "expiresOn": "2099-01-01 00:00:00.000000", "expires_on": 4070908800}
    more = {"subscription": "s", "tenant": "t", "tokenType": "Bearer"}
    command.write_text(f"#!/bin/sh\necho '{json.dumps(answer | more)}'\n")
    command.chmod(0o755)
    (bare_user / ".azure").mkdir()
    (bare_user / ".azure" / "azureProfile.json").write_text('{"subscriptions": [{"id": "1"}]}')
    read(AZURE)
    assert server.header("Authorization") == "Bearer cli"
    command.write_text("#!/bin/sh\necho 'ERROR: Please run az login to setup account.' >&2\nexit 1\n")
    with pytest.raises(RemoteError) as raised:
        read(AZURE)
    assert raised.value.reason == "no_credentials"
    assert "no credentials from az login: " in str(raised.value)
    assert "Please run az login" in str(raised.value)
    del setenv


def test_a_signature_of_azurite_in_a_connection_string(azure: Emulator, bare_user: Path) -> None:
    """A real signed token, as `az storage` makes them, and the same in a web address."""
    del bare_user
    obstore = pytest.importorskip("obstore", reason="obstore is not installed (extra `buckets`)")
    stores = pytest.importorskip("obstore.store")
    azure.fill("signed", {"a.json": b"12345"})
    config = {"account_name": azure_settings.EMULATOR_ACCOUNT, "account_key": azure_settings.EMULATOR_KEY}
    signer = stores.AzureStore("signed", config=config, endpoint=azure.address, client_options={"allow_http": True})
    address = obstore.sign(signer, "GET", "a.json", timedelta(hours=1))
    web = open_store(parse_url(address), AccessOptions())
    info = web.head(parse_url(address).key)
    assert b"".join(web.read_range(info, 1, 4)) == b"234"
    query = urlsplit(address).query
    text = f"BlobEndpoint={azure.address};SharedAccessSignature={query}"
    store = open_store(parse_url("az://signed"), AccessOptions(), {"AZURE_STORAGE_CONNECTION_STRING": text})
    info = store.head("a.json")
    assert b"".join(store.read_range(info, 1, 4)) == b"234"


def test_a_signed_address_of_s3(s3: Emulator, bare_user: Path) -> None:
    del bare_user
    obstore = pytest.importorskip("obstore", reason="obstore is not installed (extra `buckets`)")
    stores = pytest.importorskip("obstore.store")
    s3.fill("signed", {"a.json": b"12345"})
    keys = {"access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}
    signer = stores.S3Store("signed", config=keys, endpoint=s3.address, client_options={"allow_http": True})
    address = obstore.sign(signer, "GET", "a.json", timedelta(hours=1))
    assert "X-Amz-Signature" in address
    web = open_store(parse_url(address), AccessOptions())
    assert b"".join(web.read_range(web.head("signed/a.json"), 1, 4)) == b"234"
