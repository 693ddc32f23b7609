"""Settings of an Azure container, found where Azure's tools find them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tracehound.remote.bucket_settings import BucketSettings, first_of, home_of, is_true, no_credentials
from tracehound.remote.metadata_service import is_service_there
from tracehound.remote.object_info import AccessOptions
from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.remote_error import RemoteError

METADATA_ADDRESS: Final = "http://169.254.169.254"

EMULATOR_ACCOUNT: Final = "devstoreaccount1"

EMULATOR_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key of the emulator's account, which is public."""

EMULATOR_ENDPOINT: Final = "http://127.0.0.1:10000/devstoreaccount1"

_KEYS: Final = (
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
)
_TOKENS: Final = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
_CLIENT_IDS: Final = ("AZURE_CLIENT_ID", "AZURE_STORAGE_CLIENT_ID")
_CLIENT_SECRETS: Final = ("AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET")
_MSI_ENDPOINTS: Final = ("AZURE_MSI_ENDPOINT", "AZURE_IDENTITY_ENDPOINT", "IDENTITY_ENDPOINT", "MSI_ENDPOINT")


def find_azure_settings(url: ObjectUrl, access: AccessOptions, environ: Mapping[str, str]) -> BucketSettings:
    """Account, endpoint and credentials: a connection string, keys, tokens, identities, ``az login``, the machine.

    Raises RemoteError if no account is named, or if there are no credentials and access is not anonymous.
    """
    said = _parse_connection_string(environ.get("AZURE_STORAGE_CONNECTION_STRING", ""))
    account = said.get("accountname", "") or first_of(environ, "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
    own = url.account_host.partition(".")[0]
    if own and own != account:
        said = {}  # it is of another account, as are keys
    account = own or account
    endpoint = said.get("blobendpoint", "") or first_of(environ, "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    if own and not endpoint:
        endpoint = f"https://{url.account_host}"
    if not account:
        remedy = f"write abfss://{url.bucket}@ACCOUNT.dfs.core.windows.net/KEY, or set AZURE_STORAGE_ACCOUNT"
        raise RemoteError(f"{url.bucket_text}: no account of Azure is named", reason="no_credentials", remedy=remedy)
    config: dict[str, Any] = {"account_name": account}
    if endpoint:
        config["endpoint"] = endpoint.rstrip("/")
    if access.anonymous or is_true(environ, "AZURE_SKIP_SIGNATURE"):
        return BucketSettings(config | {"skip_signature": True}, "")
    keys, source = _find_credentials(url, said, environ)
    return BucketSettings(config | keys, source)


def _find_credentials(
    url: ObjectUrl, said: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[dict[str, Any], str]:
    connection = "AZURE_STORAGE_CONNECTION_STRING"
    secrets = (
        ("account_key", said.get("accountkey", ""), f"the key in {connection}"),
        ("sas_key", said.get("sharedaccesssignature", ""), f"the signature in {connection}"),
        ("token", first_of(environ, "AZURE_STORAGE_TOKEN"), "the token in AZURE_STORAGE_TOKEN"),
        ("account_key", first_of(environ, *_KEYS), "the key in AZURE_STORAGE_KEY"),
        ("sas_key", first_of(environ, *_TOKENS), "the signature in AZURE_STORAGE_SAS_TOKEN"),
    )
    for name, value, source in secrets:
        if value:
            return {name: value.lstrip("?")}, source
    identity = _find_identity(environ)
    if identity is not None:
        return identity
    tried = [connection, "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_ID", "az login"]
    tried.append("the metadata of a virtual machine")
    raise no_credentials(url.bucket_text, tried, "run az login, or set AZURE_STORAGE_KEY")


def _find_identity(environ: Mapping[str, str]) -> tuple[dict[str, Any], str] | None:
    """An identity for which a token is fetched; obstore takes the values of the first two from the environment."""
    if first_of(environ, *_CLIENT_IDS) and first_of(environ, *_CLIENT_SECRETS):
        return {}, "the service principal of AZURE_CLIENT_ID"
    if first_of(environ, *_CLIENT_IDS) and environ.get("AZURE_FEDERATED_TOKEN_FILE"):
        return {}, "the workload identity of AZURE_FEDERATED_TOKEN_FILE"
    if is_true(environ, "AZURE_USE_AZURE_CLI") or _is_logged_in(environ):
        return {"use_azure_cli": True}, "az login"
    if endpoint := first_of(environ, *_MSI_ENDPOINTS):
        return {"msi_endpoint": endpoint}, "the managed identity"
    if is_service_there(METADATA_ADDRESS, "/metadata/instance?api-version=2021-02-01", {"Metadata": "true"}):
        return {}, "the managed identity of the virtual machine"
    return None


def _is_logged_in(environ: Mapping[str, str]) -> bool:
    """True if the command az is there and somebody has logged in with it."""
    if shutil.which("az", path=environ.get("PATH")) is None:
        return False
    own = environ.get("AZURE_CONFIG_DIR") or home_of(environ) / ".azure"
    try:
        profile = json.loads((Path(own) / "azureProfile.json").read_text(encoding="utf-8-sig"))
        return bool(profile["subscriptions"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _parse_connection_string(text: str) -> dict[str, str]:
    """The fields of a connection string, their names in lower case, with the defaults that Azure's tools have."""
    pairs = (part.partition("=") for part in text.split(";") if "=" in part)
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if fields.get("usedevelopmentstorage", "").lower() == "true":
        usual = {"accountname": EMULATOR_ACCOUNT, "accountkey": EMULATOR_KEY, "blobendpoint": EMULATOR_ENDPOINT}
        return usual | fields
    if fields.get("accountname") and not fields.get("blobendpoint") and fields.get("endpointsuffix"):
        protocol = fields.get("defaultendpointsprotocol", "https")
        fields["blobendpoint"] = f"{protocol}://{fields['accountname']}.blob.{fields['endpointsuffix']}"
    if fields.get("blobendpoint") and not fields.get("accountname"):
        fields["accountname"] = _account_of_endpoint(fields["blobendpoint"])
    return fields


def _account_of_endpoint(endpoint: str) -> str:
    """The account in ``https://ACCOUNT.blob.core.windows.net`` or ``http://127.0.0.1:10000/ACCOUNT``."""
    _, _, rest = endpoint.partition("://")
    host, _, path = rest.partition("/")
    return path.strip("/") or host.partition(".")[0]
