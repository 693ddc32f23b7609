"""Settings of Azure containers: every place where Azure's tools find them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracehound.remote.azure_settings import EMULATOR_KEY, find_azure_settings
from tracehound.remote.bucket_settings import BucketSettings
from tracehound.remote.object_info import AccessOptions
from tracehound.remote.object_url import ObjectUrl, parse_url
from tracehound.remote.remote_error import RemoteError

URL = ObjectUrl("az", "traces", "a.json")

NAMED = parse_url("abfss://traces@acc.dfs.core.windows.net/a.json")

CONNECTION = "DefaultEndpointsProtocol=https;AccountName=own;AccountKey=a2V5==;EndpointSuffix=core.windows.net"


def settings(environ: dict[str, str], url: ObjectUrl = URL, *, anonymous: bool = False) -> BucketSettings:
    return find_azure_settings(url, AccessOptions(anonymous=anonymous), {"PATH": "/usr/bin:/bin"} | environ)


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (
            CONNECTION,
            {"account_name": "own", "account_key": "a2V5==", "endpoint": "https://own.blob.core.windows.net"},
        ),
        (
            "BlobEndpoint=https://own.blob.core.windows.net/;SharedAccessSignature=sv=2024&sig=a%2Bb%3D",
            {"account_name": "own", "sas_key": "sv=2024&sig=a%2Bb%3D", "endpoint": "https://own.blob.core.windows.net"},
        ),
        (
            "AccountName=own;AccountKey=k;BlobEndpoint=http://127.0.0.1:10010/own;",
            {"account_name": "own", "account_key": "k", "endpoint": "http://127.0.0.1:10010/own"},
        ),
        (
            "BlobEndpoint=http://127.0.0.1:10010/own;SharedAccessSignature=?sig=1",
            {"account_name": "own", "sas_key": "sig=1", "endpoint": "http://127.0.0.1:10010/own"},
        ),
        (
            "UseDevelopmentStorage=true",
            {
                "account_name": "devstoreaccount1",
                "account_key": EMULATOR_KEY,
                "endpoint": "http://127.0.0.1:10000/devstoreaccount1",
            },
        ),
    ],
)
def test_connection_strings(bare_user: Path, text: str, config: dict[str, str]) -> None:
    found = settings({"HOME": str(bare_user), "AZURE_STORAGE_CONNECTION_STRING": text})
    assert found.config == config
    assert found.allow_http == config["endpoint"].startswith("http:")


@pytest.mark.parametrize(
    ("environ", "config"),
    [
        ({"AZURE_STORAGE_KEY": "k"}, {"account_key": "k"}),
        ({"AZURE_STORAGE_ACCOUNT_KEY": "k"}, {"account_key": "k"}),
        ({"AZURE_STORAGE_ACCESS_KEY": "k"}, {"account_key": "k"}),
        ({"AZURE_STORAGE_SAS_TOKEN": "?sv=1&sig=2"}, {"sas_key": "sv=1&sig=2"}),
        ({"AZURE_STORAGE_TOKEN": "t"}, {"token": "t"}),
        ({"AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s", "AZURE_TENANT_ID": "t"}, {}),
        ({"AZURE_CLIENT_ID": "c", "AZURE_FEDERATED_TOKEN_FILE": "/token", "AZURE_TENANT_ID": "t"}, {}),
        ({"AZURE_USE_AZURE_CLI": "true"}, {"use_azure_cli": True}),
        ({"IDENTITY_ENDPOINT": "http://localhost:1/token"}, {"msi_endpoint": "http://localhost:1/token"}),
    ],
)
@pytest.mark.parametrize("variable", ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"])
def test_credentials_of_the_environment(
    bare_user: Path, environ: dict[str, str], config: dict[str, object], variable: str
) -> None:
    found = settings({"HOME": str(bare_user), variable: "own", **environ})
    assert found.config == {"account_name": "own"} | config
    assert found.source


def test_the_account_of_a_url_goes_before_that_of_the_environment(bare_user: Path) -> None:
    environ = {"HOME": str(bare_user), "AZURE_STORAGE_CONNECTION_STRING": CONNECTION, "AZURE_STORAGE_KEY": "k"}
    found = settings(environ, NAMED)
    assert found.config == {"account_name": "acc", "account_key": "k", "endpoint": "https://acc.blob.core.windows.net"}
    china = parse_url("wasbs://traces@acc.blob.core.chinacloudapi.cn/x")
    assert settings(environ, china).config["endpoint"] == "https://acc.blob.core.chinacloudapi.cn"
    assert settings(environ, china).config["account_name"] == "acc"


def test_no_account_is_named(bare_user: Path) -> None:
    with pytest.raises(RemoteError) as raised:
        settings({"HOME": str(bare_user)})
    assert str(raised.value) == (
        "az://traces: no account of Azure is named; write abfss://traces@ACCOUNT.dfs.core.windows.net/KEY, or set "
        "AZURE_STORAGE_ACCOUNT"
    )


def test_the_login_of_the_command_az_is_used_if_there_is_one(bare_user: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(bare_user), "PATH": str(tmp_path / "bin")}
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "az").touch(mode=0o755)
    (bare_user / ".azure").mkdir()
    profile = bare_user / ".azure" / "azureProfile.json"
    for content in ("", "{}", json.dumps({"subscriptions": []})):
        profile.write_text(content)
        with pytest.raises(RemoteError):
            settings(environ, NAMED)
    profile.write_text("\ufeff" + json.dumps({"subscriptions": [{"id": "1"}]}), encoding="utf-8")
    assert settings(environ, NAMED).source == "az login"
    with pytest.raises(RemoteError):
        settings(environ | {"PATH": "/nothing"}, NAMED)


def test_anonymous_access_needs_nothing(bare_user: Path) -> None:
    environ = {"HOME": str(bare_user)}
    endpoint = "https://acc.blob.core.windows.net"
    anonymous = {"account_name": "acc", "endpoint": endpoint, "skip_signature": True}
    assert settings(environ, NAMED, anonymous=True).config == anonymous
    assert settings(environ | {"AZURE_SKIP_SIGNATURE": "1"}, NAMED).config == anonymous


def test_without_credentials_the_places_that_were_searched_are_named(bare_user: Path) -> None:
    with pytest.raises(RemoteError) as raised:
        settings({"HOME": str(bare_user)}, NAMED)
    assert str(raised.value) == (
        "abfss://traces@acc.dfs.core.windows.net: no credentials found (tried AZURE_STORAGE_CONNECTION_STRING, "
        "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID, az login, the metadata of a virtual machine); "
        "run az login, or set AZURE_STORAGE_KEY, or --anonymous for a public bucket"
    )
