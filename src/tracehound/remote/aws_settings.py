"""Settings of an S3 bucket, found where the AWS tools find them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tracehound.remote.aws_profile import AwsProfile, boto3_credentials, read_profile
from tracehound.remote.bucket_settings import BucketSettings, CredentialProvider, first_of, is_true, no_credentials
from tracehound.remote.metadata_service import is_service_there
from tracehound.remote.object_info import AccessOptions
from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.remote_error import RemoteError

METADATA_ADDRESS: Final = "http://169.254.169.254"

DEFAULT_REGION: Final = "us-east-1"

_TOKEN_REQUEST: Final = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}


def find_aws_settings(url: ObjectUrl, access: AccessOptions, environ: Mapping[str, str]) -> BucketSettings:
    """Endpoint, region and credentials: the environment, a profile, a web identity, a container, the virtual machine.

    Raises RemoteError if there are no credentials and access is not anonymous.
    """
    profile = read_profile(environ)
    values = {} if profile is None else profile.values
    region = first_of(environ, "AWS_REGION", "AWS_DEFAULT_REGION") or first_of(values, "region") or DEFAULT_REGION
    config: dict[str, Any] = {"region": region}
    if endpoint := _endpoint(environ, values):
        config |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
    if access.requester_pays:
        config["request_payer"] = True
    if access.anonymous or is_true(environ, "AWS_SKIP_SIGNATURE"):
        config["skip_signature"] = True
        return BucketSettings(config, "", certificates=_read_certificates(environ, values))
    keys, source, provider = _find_credentials(url, profile, environ)
    return BucketSettings(config | keys, source, provider, certificates=_read_certificates(environ, values))


def _find_credentials(
    url: ObjectUrl, profile: AwsProfile | None, environ: Mapping[str, str]
) -> tuple[dict[str, Any], str, CredentialProvider | None]:
    access_key, secret = environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", "")
    if access_key and secret:
        token = first_of(environ, "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")
        return _keys(access_key, secret, token), "the keys in AWS_ACCESS_KEY_ID", None
    if environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environ.get("AWS_ROLE_ARN"):
        return {"role_arn": environ["AWS_ROLE_ARN"]}, "the web identity of AWS_ROLE_ARN", None
    tried = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"]
    if profile is not None:
        if profile.boto3_source:
            return {}, f"AWS profile {profile.name!r}", boto3_credentials(profile)
        if profile.has_keys:
            values = profile.values
            token = first_of(values, "aws_session_token", "aws_security_token")
            keys = _keys(values["aws_access_key_id"], values["aws_secret_access_key"], token)
            return keys, f"AWS profile {profile.name!r}", None
    tried.append(f"profile {profile.name!r}" if profile else "~/.aws/credentials and ~/.aws/config")
    full_uri = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
    if environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or all(environ.get(name) for name in full_uri):
        return {}, "the role of the container", None
    tried.append("the role of a container")
    if not is_true(environ, "AWS_EC2_METADATA_DISABLED"):
        address = first_of(environ, "AWS_METADATA_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT") or METADATA_ADDRESS
        if is_service_there(address, "/latest/api/token", _TOKEN_REQUEST, "PUT"):
            return {"metadata_endpoint": address.rstrip("/")}, "the role of the virtual machine", None
        tried.append("the metadata of a virtual machine")
    raise no_credentials(url.bucket_text, tried, "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")


def _keys(access_key: str, secret: str, token: str) -> dict[str, Any]:
    keys = {"access_key_id": access_key.strip(), "secret_access_key": secret.strip()}
    return keys | {"session_token": token} if token else keys


def _endpoint(environ: Mapping[str, str], values: Mapping[str, str]) -> str:
    if is_true(environ, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        return ""
    said = first_of(environ, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return (said or first_of(values, "s3.endpoint_url", "endpoint_url")).rstrip("/")


def _read_certificates(environ: Mapping[str, str], values: Mapping[str, str]) -> bytes:
    path = first_of(environ, "AWS_CA_BUNDLE") or first_of(values, "ca_bundle")
    try:
        return Path(path).expanduser().read_bytes() if path else b""
    except OSError as error:
        raise RemoteError("the certificates of AWS_CA_BUNDLE cannot be read", path=Path(path)) from error
