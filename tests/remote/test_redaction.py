"""Secrets are taken out of text, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.remote.redaction import redact

SECRETS = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+%", min_size=12, max_size=60)

TEMPLATES = [
    "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4&X-Amz-Signature={}&x=1",
    "GET https://storage.googleapis.com/b/k?X-Goog-Signature={} failed",
    "(https://acc.blob.core.windows.net/c/k?sv=2024&sig={})",
    "https://user:{}@host/x",
    "https://{}@host/x",
    "s3://AKIA:{}@bucket/key",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
    "AccountName=a;SharedAccessSignature=sv=2024&ss=b&sig={}&se=2030;BlobEndpoint=https://a",
    "X-Amz-Security-Token={}",
    "x-amz-security-token: {}",
    'secret_access_key: "{}"',
    "AWS_SECRET_ACCESS_KEY={}",
    "aws_session_token = {}",
    '{{"access_token": "{}"}}',
    "Authorization: Bearer {}",
    "authorization: AWS4-HMAC-SHA256 Credential=AKIA/2026/s3, Signature={}",
    "password={}",
    "?token={}",
    "&sig={}",
]


@pytest.mark.parametrize("template", TEMPLATES)
@given(secret=SECRETS)
def test_secrets_are_taken_out(template: str, secret: str) -> None:
    shown = redact(template.format(secret))
    assert secret not in shown
    assert redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "s3://traces/runs/a?b.json",
        "https://host/x?...: no such object",
        "abfss://traces@acc.dfs.core.windows.net/runs/a",
        "wasbs://traces@acc.blob.core.windows.net/runs/a",
        "https://host/path/a.json",
        "no such object; the base=5 and use=7",
        "tokens: https://host",
        "runs/sig/x, 12 tokens a second",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redact(text) == text


def test_what_is_left() -> None:
    assert redact("see https://u:p@h/x?sig=1 or AccountKey=abc==;x") == "see https://...@h/x?... or AccountKey=...;x"


def test_a_password_with_a_slash_is_taken_out() -> None:
    assert redact("s3://AKIA:ab/cd+ef@bucket/key") == "s3://...@bucket/key"
    assert redact("http://host:8080/a@b") == "http://host:8080/a@b"
