"""Settings of Google Cloud Storage buckets: every place where Google's tools find them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from object_server import ObjectServer, Reply
from tracehound.remote.bucket_settings import BucketSettings
from tracehound.remote.google_settings import find_google_settings
from tracehound.remote.object_info import AccessOptions
from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.remote_error import RemoteError

URL = ObjectUrl("gs", "traces", "a.json")

USER = {"type": "authorized_user", "client_id": "c", "client_secret": "secret", "refresh_token": "r"}


def settings(environ: dict[str, str], *, anonymous: bool = False, requester_pays: bool = False) -> BucketSettings:
    return find_google_settings(URL, AccessOptions(anonymous, requester_pays), environ)


def write(path: Path, **values: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))
    return path


@pytest.mark.parametrize("host", ["localhost:4443", "http://localhost:4443/"])
def test_an_emulator_needs_no_credentials(bare_user: Path, host: str) -> None:
    found = settings({"HOME": str(bare_user), "STORAGE_EMULATOR_HOST": host})
    assert found.config == {"base_url": "http://localhost:4443", "skip_signature": True}
    assert found.allow_http
    assert found.is_emulator


def test_a_file_of_credentials(bare_user: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "key.json", type="service_account", project_id="ours")
    environ = {"HOME": str(bare_user), "GOOGLE_APPLICATION_CREDENTIALS": str(path)}
    found = settings(environ)
    assert found.config == {"application_credentials": str(path)}
    assert found.headers == {}
    assert settings(environ, requester_pays=True).headers == {"x-goog-user-project": "ours"}
    paying = environ | {"GOOGLE_CLOUD_PROJECT": "mine"}
    assert settings(paying, requester_pays=True).headers == {"x-goog-user-project": "mine"}


@pytest.mark.parametrize("variable", ["HOME", "CLOUDSDK_CONFIG"])
def test_the_application_default_credentials_of_gcloud(bare_user: Path, tmp_path: Path, variable: str) -> None:
    home = bare_user / ".config" / "gcloud" if variable == "HOME" else tmp_path / "gcloud"
    path = write(home / "application_default_credentials.json", **USER)
    found = settings({"HOME": str(bare_user)} | ({} if variable == "HOME" else {variable: str(home)}))
    assert found.config == {"application_credentials": str(path)}
    assert found.source == "gcloud's application default credentials"
    with pytest.raises(RemoteError, match="no project pays for the requests; set GOOGLE_CLOUD_PROJECT"):
        settings({"HOME": str(bare_user), "CLOUDSDK_CONFIG": str(home)}, requester_pays=True)


@pytest.mark.parametrize("variable", ["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY"])
def test_obstores_own_variables(bare_user: Path, variable: str) -> None:
    found = settings({"HOME": str(bare_user), variable: "x"})
    assert list(found.config.values()) == ["x"]
    assert variable in found.source


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"type": "external_account"}',
            "credentials of the type 'external_account' are not read; use a service account's key, or gcloud auth "
            "application-default login",
        ),
        ("[1]", "this file has no credentials of Google"),
        ("secret", "this file has no credentials of Google"),
        (None, "this file of Google's credentials cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    bare_user: Path, tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RemoteError) as raised:
        settings({"HOME": str(bare_user), "GOOGLE_APPLICATION_CREDENTIALS": str(path)})
    assert raised.value.reason == "no_credentials"
    assert str(raised.value) == f"{path}: {message}"


def test_anonymous_access_needs_nothing(bare_user: Path) -> None:
    assert settings({"HOME": str(bare_user)}, anonymous=True).config == {"skip_signature": True}
    elsewhere = {"HOME": str(bare_user), "GOOGLE_SKIP_SIGNATURE": "true", "GOOGLE_BASE_URL": "http://a:1/"}
    assert settings(elsewhere).config == {"base_url": "http://a:1", "skip_signature": True}


def test_a_virtual_machine_is_asked_if_it_is_one(bare_user: Path) -> None:
    with ObjectServer() as server:
        server.routes["/computeMetadata/"] = lambda _: Reply(200, b"zone/")
        environ = {"HOME": str(bare_user), "GCE_METADATA_HOST": server.host}
        assert settings(environ).source == "the service account of the virtual machine"
        assert server.header("Metadata-Flavor") == "Google"


def test_without_credentials_the_places_that_were_searched_are_named(bare_user: Path) -> None:
    with pytest.raises(RemoteError) as raised:
        settings({"HOME": str(bare_user)})
    assert str(raised.value) == (
        "gs://traces: no credentials found (tried GOOGLE_APPLICATION_CREDENTIALS, gcloud's application default "
        "credentials, the metadata of a virtual machine); run gcloud auth application-default login, or --anonymous "
        "for a public bucket"
    )
