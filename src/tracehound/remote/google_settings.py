"""Settings of a Google Cloud Storage bucket, found where Google's tools find them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tracehound.errors import printable
from tracehound.remote.bucket_settings import BucketSettings, first_of, home_of, is_true, no_credentials
from tracehound.remote.metadata_service import is_service_there
from tracehound.remote.object_info import AccessOptions
from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.remote_error import RemoteError

METADATA_ADDRESS: Final = "169.254.169.254"

READ_TYPES: Final = frozenset({"service_account", "authorized_user"})
"""The types of credentials in a file that can be used."""


def find_google_settings(url: ObjectUrl, access: AccessOptions, environ: Mapping[str, str]) -> BucketSettings:
    """Endpoint and credentials: an emulator, a service account, gcloud's application default, the virtual machine.

    Raises RemoteError if there are no credentials and access is not anonymous.
    """
    config: dict[str, Any] = {}
    if emulator := environ.get("STORAGE_EMULATOR_HOST", "").strip():
        endpoint = emulator if "://" in emulator else f"http://{emulator}"
        return BucketSettings({"base_url": endpoint.rstrip("/"), "skip_signature": True}, "")
    if endpoint := environ.get("GOOGLE_BASE_URL", "").strip():
        config["base_url"] = endpoint.rstrip("/")
    if access.anonymous or is_true(environ, "GOOGLE_SKIP_SIGNATURE"):
        return BucketSettings(config | {"skip_signature": True}, "")
    keys, source, project = _find_credentials(url, environ)
    headers = {}
    if access.requester_pays:
        project = (
            first_of(environ, "GOOGLE_CLOUD_QUOTA_PROJECT", "GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT") or project
        )
        if not project:
            remedy = "set GOOGLE_CLOUD_PROJECT"
            raise RemoteError(f"{url.bucket_text}: no project pays for the requests", reason="refused", remedy=remedy)
        headers["x-goog-user-project"] = project
    return BucketSettings(config | keys, source, headers=headers)


def _find_credentials(url: ObjectUrl, environ: Mapping[str, str]) -> tuple[dict[str, Any], str, str]:
    """Settings, their source, and the project that the file of credentials names."""
    if account := first_of(environ, "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH"):
        return {"service_account": account}, "the service account of GOOGLE_SERVICE_ACCOUNT", ""
    if account := first_of(environ, "GOOGLE_SERVICE_ACCOUNT_KEY"):
        return {"service_account_key": account}, "the service account of GOOGLE_SERVICE_ACCOUNT_KEY", ""
    tried = ["GOOGLE_APPLICATION_CREDENTIALS"]
    if said := environ.get("GOOGLE_APPLICATION_CREDENTIALS", "").strip():
        project = _checked_file(Path(said))
        return {"application_credentials": said}, "the file of GOOGLE_APPLICATION_CREDENTIALS", project
    own = environ.get("CLOUDSDK_CONFIG") or home_of(environ) / ".config" / "gcloud"
    path = Path(own) / "application_default_credentials.json"
    if path.exists():
        project = _checked_file(path)
        return {"application_credentials": str(path)}, "gcloud's application default credentials", project
    tried.append("gcloud's application default credentials")
    address = first_of(environ, "GCE_METADATA_HOST", "GCE_METADATA_ROOT") or METADATA_ADDRESS
    if is_service_there(address, "/computeMetadata/v1/instance/", {"Metadata-Flavor": "Google"}):
        return {}, "the service account of the virtual machine", ""
    tried.append("the metadata of a virtual machine")
    raise no_credentials(url.bucket_text, tried, "run gcloud auth application-default login")


def _checked_file(path: Path) -> str:
    """The project that the file names for its quota. Raises RemoteError if the credentials in it cannot be used."""
    try:
        values = json.loads(path.read_bytes())
        kind, project = str(values["type"]), str(values.get("quota_project_id") or values.get("project_id") or "")
    except OSError as error:
        raise RemoteError(
            "this file of Google's credentials cannot be read", path=path, reason="no_credentials"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RemoteError("this file has no credentials of Google", path=path, reason="no_credentials") from error
    if kind not in READ_TYPES:
        message = f"credentials of the type {printable(kind)!r} are not read"
        remedy = "use a service account's key, or gcloud auth application-default login"
        raise RemoteError(message, path=path, reason="no_credentials", remedy=remedy)
    return project
