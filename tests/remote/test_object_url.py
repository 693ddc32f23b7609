"""URLs of objects: every scheme, what is malformed, and what no text of a URL shows."""

from __future__ import annotations

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.errors import TracehoundError
from tracehound.remote.object_url import ObjectUrl, bucket_form, is_url, parse_url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://traces/runs/a.json", ObjectUrl("s3", "traces", "runs/a.json")),
        ("S3A://traces/runs/", ObjectUrl("s3", "traces", "runs/")),
        ("s3://traces", ObjectUrl("s3", "traces", "")),
        ("s3://traces/a b#c?d%20e", ObjectUrl("s3", "traces", "a b#c?d%20e")),
        ("gs://traces_2/x", ObjectUrl("gs", "traces_2", "x")),
        ("gcs://traces/x", ObjectUrl("gs", "traces", "x")),
        ("az://traces/x", ObjectUrl("az", "traces", "x")),
        ("azure://traces/x", ObjectUrl("az", "traces", "x")),
        ("abfs://traces/x", ObjectUrl("az", "traces", "x")),
        ("abfss://traces@acc.dfs.core.windows.net/x/y", ObjectUrl("az", "traces", "x/y", account="acc")),
        ("wasbs://$web@acc.blob.core.windows.net/x", ObjectUrl("az", "$web", "x", account="acc")),
        (
            "wasb://traces@acc.blob.core.chinacloudapi.cn/x",
            ObjectUrl("az", "traces", "x", account="acc.blob.core.chinacloudapi.cn"),
        ),
        ("https://host/p/x.json", ObjectUrl("https", "host", "p/x.json")),
        ("http://Host:8080/x?sig=1#part", ObjectUrl("http", "host:8080", "x", query="sig=1")),
        ("http://[::1]:80/x", ObjectUrl("http", "[::1]:80", "x")),
        ("https://user:word@host/x", ObjectUrl("https", "host", "x", login="user:word")),
    ],
)
def test_urls_are_parsed(text: str, url: ObjectUrl) -> None:
    assert is_url(text)
    assert parse_url(text) == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://host/x", "ftp://host/x: ftp:// is not read; download it first"),
        ("runs/a.json", "'runs/a.json' is no URL; write s3://BUCKET/KEY, gs://, az:// or https://"),
        ("s3:///x", "s3:///x names no bucket; write SCHEME://BUCKET/KEY"),
        ("s3://a b/x", "s3://a b/x: 'a b' is no name of a bucket"),
        ("s3://traces/a\nb", "s3://traces/a b: the URL has control characters"),
        (
            "s3://AKIA:word@traces/x",
            "s3://...@traces/x: keys in a URL are not read; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        (
            "s3://AKIA:wo/rd@traces/x",
            "s3://...@traces/x: keys in a URL are not read; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        (
            "abfss://traces@acc/x",
            "abfss://traces@acc/x names no account of Azure; write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY",
        ),
        ("https:///x?sig=1", "https:///x?... names no host; write https://HOST/PATH"),
        ("http://host:port/x", "http://host:port/x is a malformed URL"),
    ],
)
def test_malformed_urls_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(TracehoundError) as raised:
        parse_url(text)
    assert str(raised.value) == message


@pytest.mark.parametrize("text", ["ftp://host/x", "file:///x", "runs/s3://x", "C:/x", ""])
def test_other_texts_are_no_urls(text: str) -> None:
    assert not is_url(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3a://traces/runs/", "s3://traces/runs/"),
        ("wasbs://traces@acc.blob.core.windows.net/x", "abfss://traces@acc.dfs.core.windows.net/x"),
        ("wasb://t@acc.blob.core.chinacloudapi.cn/x", "abfss://t@acc.dfs.core.chinacloudapi.cn/x"),
        ("https://host/x?X-Amz-Signature=1", "https://host/x?..."),
        ("https://user:word@host/x", "https://host/x"),
    ],
)
def test_text_of_a_url(text: str, shown: str) -> None:
    assert str(parse_url(text)) == shown


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=12))
def test_no_text_of_a_url_has_its_passwords(secret: str) -> None:
    url = parse_url(f"https://user:login{secret}@host/x?sig={secret}")
    assert secret in url.query
    for each in (url, pickle.loads(pickle.dumps(url)), url.join("y")):  # noqa: S301
        texts = (str(each), repr(each), f"{each}", repr(each.__rich_repr__()), repr([each]), each.bucket_text)
        assert all(secret not in text for text in texts)
    assert msgspec.structs.replace(url, query="", login="") == parse_url("https://host/x")


def test_a_password_opens_one_object() -> None:
    url = parse_url("https://host/x?sig=1")
    assert url.join("y") == parse_url("https://host/y")
    assert parse_url("s3://b/x").join("y/z") == parse_url("s3://b/y/z")


def test_names_of_objects_are_safe_to_print() -> None:
    assert str(parse_url("s3://b/x").join("a\x1b[31m\nb")) == "s3://b/a\u241b[31m b"


@pytest.mark.parametrize(
    ("address", "form"),
    [
        ("https://traces.s3.amazonaws.com/runs/a", "s3://traces/runs/a"),
        ("https://my.traces.s3.eu-west-1.amazonaws.com/runs/a%20b", "s3://my.traces/runs/a b"),
        ("https://s3.eu-west-1.amazonaws.com/traces/runs/a", "s3://traces/runs/a"),
        ("https://s3-eu-west-1.amazonaws.com/traces/runs/a", "s3://traces/runs/a"),
        ("https://storage.googleapis.com/traces/runs/a", "gs://traces/runs/a"),
        ("https://traces.storage.googleapis.com/runs/a", "gs://traces/runs/a"),
        ("https://acc.blob.core.windows.net/traces/runs/a", "abfss://traces@acc.dfs.core.windows.net/runs/a"),
    ],
)
def test_web_addresses_of_clouds_have_a_form_with_credentials(address: str, form: str) -> None:
    assert str(bucket_form(parse_url(address))) == form


def test_other_web_addresses_have_none() -> None:
    assert bucket_form(parse_url("https://s3.example.com/traces/a")) is None
