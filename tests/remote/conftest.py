"""A user without credentials of any cloud, and settings of the user that a test gives credentials to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bucket_emulators import azure, gcs, s3
from tracehound.remote import aws_settings, azure_settings, google_settings

__all__ = ["azure", "gcs", "s3"]

CLOUD_VARIABLES = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_", "GCE_", "CLOUDSDK_", "STORAGE_EMULATOR_HOST", "IDENTITY_")


@pytest.fixture
def bare_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with an empty home directory, on a machine without a metadata service, and the home directory."""
    home = tmp_path / "home"
    home.mkdir()
    for name in list(os.environ):
        if name.startswith(CLOUD_VARIABLES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    for module in (aws_settings, azure_settings, google_settings):
        monkeypatch.setattr(module, "METADATA_ADDRESS", "http://127.0.0.1:9")
    return home
