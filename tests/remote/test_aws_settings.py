"""Settings of S3 buckets: every place where the AWS tools find them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from object_server import ObjectServer, Reply
from tracehound.remote import aws_settings
from tracehound.remote.aws_settings import find_aws_settings
from tracehound.remote.bucket_settings import BucketSettings
from tracehound.remote.object_info import AccessOptions
from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.remote_error import RemoteError

URL = ObjectUrl("s3", "traces", "a.json")

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "secret1"}

CREDENTIALS = """
[default]
aws_access_key_id = AKIA2
aws_secret_access_key = secret2

[work]
aws_access_key_id = AKIA3
aws_secret_access_key = secret3
aws_session_token = token3
"""

CONFIG = """
[default]
region = eu-west-1

[profile work]
region = eu-central-1
services = minio
endpoint_url = http://elsewhere:1

[services minio]
s3 =
  endpoint_url = http://minio:9000

[profile plain]
endpoint_url = https://plain:9000
aws_access_key_id = AKIA4
aws_secret_access_key = secret4

[profile single]
sso_session = ours
sso_account_id = 1

[profile process]
credential_process = /bin/echo
"""


def settings(environ: dict[str, str], *, anonymous: bool = False, requester_pays: bool = False) -> BucketSettings:
    return find_aws_settings(URL, AccessOptions(anonymous, requester_pays), environ)


@pytest.fixture
def profiles(bare_user: Path) -> dict[str, str]:
    """The environment of a user with both files."""
    (bare_user / ".aws").mkdir()
    (bare_user / ".aws" / "credentials").write_text(CREDENTIALS)
    (bare_user / ".aws" / "config").write_text(CONFIG)
    return {"HOME": str(bare_user)}


def test_keys_of_the_environment(bare_user: Path) -> None:
    found = settings({"HOME": str(bare_user), **KEYS, "AWS_SESSION_TOKEN": "token1", "AWS_DEFAULT_REGION": "eu-west-3"})
    assert found.config == {
        "region": "eu-west-3",
        "access_key_id": "AKIA1",
        "secret_access_key": "secret1",
        "session_token": "token1",
    }
    assert found.source == "the keys in AWS_ACCESS_KEY_ID"
    assert not found.allow_http
    assert "secret1" not in repr(found) + repr(found.__rich_repr__())


def test_the_default_profile(profiles: dict[str, str]) -> None:
    found = settings(profiles)
    assert found.config == {"region": "eu-west-1", "access_key_id": "AKIA2", "secret_access_key": "secret2"}
    assert found.source == "AWS profile 'default'"


def test_a_named_profile_has_a_region_and_an_endpoint(profiles: dict[str, str]) -> None:
    found = settings(profiles | {"AWS_PROFILE": "work"})
    assert found.config == {
        "region": "eu-central-1",
        "endpoint": "http://minio:9000",
        "aws_endpoint_url_s3": "http://minio:9000",
        "access_key_id": "AKIA3",
        "secret_access_key": "secret3",
        "session_token": "token3",
    }
    assert found.allow_http
    assert settings(profiles | {"AWS_PROFILE": "plain"}).config["endpoint"] == "https://plain:9000"
    ignored = settings(profiles | {"AWS_PROFILE": "work", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"})
    assert "endpoint" not in ignored.config


def test_the_environment_goes_before_a_profile(profiles: dict[str, str]) -> None:
    found = settings(
        profiles | KEYS | {"AWS_PROFILE": "work", "AWS_REGION": "us-west-2", "AWS_ENDPOINT_URL": "http://a:1/"}
    )
    assert (found.config["access_key_id"], found.config["region"]) == ("AKIA1", "us-west-2")
    assert found.config["endpoint"] == "http://a:1"
    both = profiles | KEYS | {"AWS_ENDPOINT_URL": "http://a:1", "AWS_ENDPOINT_URL_S3": "https://b:2"}
    assert settings(both).config["endpoint"] == "https://b:2"


def test_files_may_lie_elsewhere(profiles: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("[other]\naws_access_key_id=AKIA5\naws_secret_access_key=secret%5\n")
    found = settings(profiles | {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys"), "AWS_PROFILE": "other"})
    assert (found.config["access_key_id"], found.config["secret_access_key"]) == ("AKIA5", "secret%5")


def test_a_profile_that_is_not_there_is_named_with_those_that_are(profiles: dict[str, str]) -> None:
    with pytest.raises(
        RemoteError, match=r"no AWS profile 'wrok' in .*; profiles there: default, plain, process,"
    ) as bad:
        settings(profiles | {"AWS_PROFILE": "wrok"})
    assert bad.value.reason == "no_credentials"
    assert "secret" not in str(bad.value)


def test_a_malformed_file_is_named(profiles: dict[str, str]) -> None:
    path = Path(profiles["HOME"]) / ".aws" / "config"
    path.write_text("secret without a section")
    with pytest.raises(RemoteError) as raised:
        settings(profiles)
    assert str(raised.value) == f"{path}: AWS profiles: it is malformed"


def test_profiles_that_need_boto3_say_so(profiles: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(RemoteError) as raised:
        settings(profiles | {"AWS_PROFILE": "single"})
    assert raised.value.reason == "not_installed"
    assert str(raised.value) == (
        "AWS profile 'single' gets its credentials from single sign-on; "
        "pip install 'tracehound[aws]', or pip install boto3"
    )


def test_anonymous_access_needs_nothing(bare_user: Path) -> None:
    environ = {"HOME": str(bare_user)}
    assert settings(environ, anonymous=True).config == {"region": "us-east-1", "skip_signature": True}
    assert settings(environ | {"AWS_SKIP_SIGNATURE": "true"}).config["skip_signature"] is True
    assert settings(environ | KEYS, anonymous=True).source == ""


def test_the_reader_pays_only_if_asked_to(bare_user: Path) -> None:
    environ = {"HOME": str(bare_user), **KEYS}
    assert settings(environ, requester_pays=True).config["request_payer"] is True
    assert "request_payer" not in settings(environ).config


@pytest.mark.parametrize(
    ("more", "source"),
    [
        (
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn:role"},
            "the web identity of AWS_ROLE_ARN",
        ),
        ({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"}, "the role of the container"),
        (
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://a", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/token"},
            "the role of the container",
        ),
    ],
)
def test_roles_are_left_to_obstore(bare_user: Path, more: dict[str, str], source: str) -> None:
    found = settings({"HOME": str(bare_user), **more})
    assert found.source == source
    assert not {"access_key_id", "skip_signature"} & set(found.config)


def test_a_virtual_machine_is_asked_for_its_role_if_it_is_one(bare_user: Path) -> None:
    with ObjectServer() as server:
        server.routes["/latest/api/token"] = lambda _: Reply(200, b"token")
        environ = {"HOME": str(bare_user), "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.address}
        assert settings(environ).source == "the role of the virtual machine"
        assert server.received[0].method == "PUT"
        with pytest.raises(RemoteError):
            settings(environ | {"AWS_EC2_METADATA_DISABLED": "true"})
        server.routes["/latest/api/token"] = lambda _: Reply(403, b"no such service")
        with pytest.raises(RemoteError):
            settings(environ)


def test_without_credentials_the_places_that_were_searched_are_named(bare_user: Path) -> None:
    with pytest.raises(RemoteError) as raised:
        settings({"HOME": str(bare_user)})
    assert raised.value.reason == "no_credentials"
    assert str(raised.value) == (
        "s3://traces: no credentials found (tried AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE, ~/.aws/credentials "
        "and ~/.aws/config, the role of a container, the metadata of a virtual machine); set AWS_PROFILE, or "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or --anonymous for a public bucket"
    )


def test_own_certificates_are_trusted(bare_user: Path, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"PEM")
    environ = {"HOME": str(bare_user), **KEYS, "AWS_CA_BUNDLE": str(tmp_path / "ca.pem")}
    assert settings(environ).certificates == b"PEM"
    with pytest.raises(RemoteError, match="the certificates of AWS_CA_BUNDLE cannot be read"):
        settings(environ | {"AWS_CA_BUNDLE": str(tmp_path / "nothing")})


def test_a_user_without_a_home_directory_has_no_profile(homeless: None, monkeypatch: pytest.MonkeyPatch) -> None:
    del homeless
    monkeypatch.setattr(aws_settings, "METADATA_ADDRESS", "http://127.0.0.1:9")
    with pytest.raises(RemoteError, match="no credentials found"):
        settings({})
    assert settings(KEYS).config["access_key_id"] == "AKIA1"
