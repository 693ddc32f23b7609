"""Profiles of the AWS tools: ``~/.aws/credentials`` and ``~/.aws/config``."""

from __future__ import annotations

from collections.abc import Mapping
from configparser import Error, RawConfigParser
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tracehound.errors import printable
from tracehound.remote.bucket_settings import CredentialProvider, first_of, home_of
from tracehound.remote.redaction import redact
from tracehound.remote.remote_error import RemoteError

NEEDS_BOTO3: Final = {
    "credential_process": "a process",
    "sso_session": "single sign-on",
    "sso_start_url": "single sign-on",
    "login_session": "aws login",
    "role_arn": "a role",
}
"""Settings of a profile whose credentials only boto3 can get, with what they come from."""

CREDENTIAL_MINUTES: Final = 5
"""Minutes until boto3 is asked again; it keeps credentials itself and renews them in time."""

MAX_ERROR_CHARS: Final = 200


class AwsProfile(Struct, frozen=True):
    """A profile: its name, all its settings from both files, and the two files."""

    name: str
    values: dict[str, str]
    credentials_file: Path
    config_file: Path

    @property
    def has_keys(self) -> bool:
        """True if the profile has an access key."""
        return bool(self.values.get("aws_access_key_id") and self.values.get("aws_secret_access_key"))

    @property
    def boto3_source(self) -> str:
        """The origin of credentials that only boto3 can get; empty if the profile has none."""
        return next((origin for name, origin in NEEDS_BOTO3.items() if self.values.get(name)), "")

    def __repr__(self) -> str:
        """The name alone; the values have keys."""
        return f"AwsProfile({self.name!r})"


def read_profile(environ: Mapping[str, str]) -> AwsProfile | None:
    """The profile that AWS_PROFILE names, or ``default``; None if there is no default one.

    Raises RemoteError if the named profile is missing or a file is malformed.
    """
    home = home_of(environ)
    credentials_file = _path_of(environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials", home)
    config_file = _path_of(environ.get("AWS_CONFIG_FILE") or "~/.aws/config", home)
    asked = first_of(environ, "AWS_PROFILE", "AWS_DEFAULT_PROFILE")
    name = asked or "default"
    credentials, config = _parse_file(credentials_file), _parse_file(config_file)
    values: dict[str, str] = {}
    sections = [(config, name), (config, f"profile {name}"), (credentials, name)]
    present = [parser[section] for parser, section in sections if parser.has_section(section)]
    if not present:
        if not asked:
            return None
        names = {each.removeprefix("profile ") for parser in (credentials, config) for each in parser.sections()}
        others = ", ".join(sorted(each for each in names if " " not in each)) or "none"
        message = f"no AWS profile {printable(name)!r} in {credentials_file} or {config_file}"
        raise RemoteError(message, reason="no_credentials", remedy=f"profiles there: {printable(others)}")
    for section in present:
        values.update(section)
    services = values.get("services", "")
    if config.has_section(f"services {services}"):
        values.update(_nested_values(config[f"services {services}"].get("s3", ""), prefix="s3."))
    return AwsProfile(name, values, credentials_file, config_file)


def boto3_credentials(profile: AwsProfile) -> CredentialProvider:
    """Credentials of a profile by boto3: single sign-on, processes, roles. They are fetched once at once.

    Raises RemoteError if boto3 is not installed, or finds none.
    """
    try:
        import botocore.session  # noqa: PLC0415, imported when used
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    except ImportError as error:
        message = f"AWS profile {printable(profile.name)!r} gets its credentials from {profile.boto3_source}"
        remedy = "pip install 'tracehound[aws]', or pip install boto3"
        raise RemoteError(message, reason="not_installed", remedy=remedy) from error
    try:
        session: Any = botocore.session.Session(profile=profile.name)
        session.set_config_variable("config_file", str(profile.config_file))
        session.set_config_variable("credentials_file", str(profile.credentials_file))
        credentials = session.get_credentials()
        if credentials is not None:
            credentials.get_frozen_credentials()
    except (BotoCoreError, ClientError, OSError, ValueError) as error:
        raise _boto3_error(profile, str(error)) from error
    if credentials is None:
        raise _boto3_error(profile, "it has none")

    def provide() -> dict[str, str | datetime | None]:
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + timedelta(minutes=CREDENTIAL_MINUTES),
        }

    return provide


def _boto3_error(profile: AwsProfile, why: str) -> RemoteError:
    words = " ".join(printable(redact(why)).split())[:MAX_ERROR_CHARS]
    message = f"no credentials of AWS profile {printable(profile.name)!r} from {profile.boto3_source}: {words}"
    remedy = f"aws sso login --profile {profile.name}" if profile.boto3_source == "single sign-on" else ""
    return RemoteError(message, reason="no_credentials", remedy=remedy)


def _path_of(text: str, home: Path) -> Path:
    return home / text[2:] if text.startswith("~/") else Path(text)


def _parse_file(path: Path) -> RawConfigParser:
    parser = RawConfigParser(strict=False, default_section="no section is the default of others")
    try:
        parser.read(path, encoding="utf-8")
    except (Error, UnicodeDecodeError, OSError) as error:
        why = "no permission to read it" if isinstance(error, OSError) else "it is malformed"
        raise RemoteError(f"AWS profiles: {why}", path=path, reason="no_credentials") from error
    return parser


def _nested_values(text: str, prefix: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {prefix + name.strip(): value.strip() for name, _, value in pairs}
