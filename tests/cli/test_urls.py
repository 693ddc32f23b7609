"""Commands on URLs: read, compared, exported to, and without a secret in anything that is printed or kept."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from memory_bucket import MemoryBucket
from tracehound.cli.main import main
from tracehound.remote import remote_store
from tracehound.store import object_mirror

SAMPLES = Path(__file__).resolve().parents[2] / "traces"
SECRETS = ("PLANTEDSIGNATURE", "PLANTEDTOKEN", "PLANTEDPASSWORD")
QUERY = "X-Amz-Signature=PLANTEDSIGNATURE&X-Amz-Security-Token=PLANTEDTOKEN"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    """A bucket that every URL leads to, with two ranks of a run."""
    made = MemoryBucket()
    made.add_folder(SAMPLES / "torch_ddp_gloo", "ddp/")
    monkeypatch.setattr(object_mirror, "open_store", made.open)
    monkeypatch.setattr(remote_store, "open_store", made.open)
    return made


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that have read enough."""


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, the name of the base class
        pass


@pytest.fixture
def web_server() -> Iterator[str]:
    """The address of a server of the sample traces, which ignores queries and logins and has no ranges."""
    with _QuietServer(("127.0.0.1", 0), partial(_QuietHandler, directory=str(SAMPLES))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_report_of_a_bucket_is_that_of_the_disk(bucket: MemoryBucket, capsys: pytest.CaptureFixture[str]):
    del bucket
    assert main(["report", "s3://b/ddp", "ops"]) == 0
    remote = capsys.readouterr()
    assert main(["report", str(SAMPLES / "torch_ddp_gloo"), "ops"]) == 0
    assert remote.out.replace("ddp\n", "", 1) == capsys.readouterr().out.replace("torch_ddp_gloo\n", "", 1)
    assert remote.err == ""


@pytest.mark.usefixtures("bucket")
def test_next_commands_and_paths_are_urls(capsys: pytest.CaptureFixture[str]):
    assert main(["report", "s3://b/ddp", "findings", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert all(row["next"].startswith("tracehound report s3://b/ddp ") for row in document["rows"])
    assert object_mirror.URL_FOLDER not in json.dumps(document)


@pytest.mark.usefixtures("bucket")
def test_no_report_names_a_path_of_the_cache(capsys: pytest.CaptureFixture[str]):
    for words in (["summary"], ["report"], ["query"]):
        last = {"report": ["health"], "query": ["select * from files"]}.get(words[0], [])
        for form in ("text", "json", "csv"):
            main([*words, "s3://b/ddp", *last, "--format", form])
    printed = capsys.readouterr()
    assert object_mirror.URL_FOLDER not in printed.out + printed.err


def test_a_baseline_is_saved_and_compared_in_a_bucket(bucket: MemoryBucket, capsys: pytest.CaptureFixture[str]):
    for _ in range(2):  # the second one replaces the first
        assert main(["check", "s3://b/ddp", "--save-baseline", "s3://b/base/main.json"]) == 0
    assert json.loads(bucket.objects["base/main.json"])["schema"].startswith("tracehound.profile/")
    capsys.readouterr()
    assert main(["diff", "s3://b/base/main.json", "s3://b/ddp"]) == 0
    assert "no change" in capsys.readouterr().out
    bucket.objects["notes.json"] = b"{}"
    assert main(["check", "s3://b/ddp", "--save-baseline", "s3://b/notes.json"]) == 2
    assert "s3://b/notes.json: is not a baseline, and is not replaced" in capsys.readouterr().err
    assert bucket.objects["notes.json"] == b"{}"


def test_a_name_without_an_ending_is_shown_as_it_was_given(bucket: MemoryBucket, capsys: pytest.CaptureFixture[str]):
    assert main(["export", "s3://b/ddp", "s3://b/out"]) == 2
    assert "the name 's3://b/out' has no known ending; end a file with " in capsys.readouterr().err
    assert "out" not in bucket.objects


def test_exports_are_uploaded_when_they_are_complete(bucket: MemoryBucket, capsys: pytest.CaptureFixture[str]):
    assert main(["export", "s3://b/ddp", "s3://b/out/merged.json"]) == 0
    assert json.loads(bucket.objects["out/merged.json"])["traceEvents"]
    assert main(["export", "s3://b/ddp", "s3://b/out/merged.json"]) == 2
    assert "s3://b/out/merged.json: exists already; --force replaces it" in capsys.readouterr().err
    assert main(["export", "s3://b/ddp", "s3://b/ranks/", "--rank", "1"]) == 0
    assert [key for key in bucket.objects if key.startswith("ranks/")] == [
        "ranks/rank1.1795242696184381956.pt.trace.json.gz"
    ]
    assert main(["export", "s3://b/ddp", "s3://b/ranks/"]) == 2
    assert main(["export", "s3://b/ddp", "s3://b/ranks/", "--force"]) == 0
    assert len([key for key in bucket.objects if key.startswith("ranks/")]) == 2


@pytest.mark.usefixtures("bucket")
def test_a_failed_export_uploads_nothing(bucket: MemoryBucket):
    before = set(bucket.objects)
    assert main(["export", "s3://b/none", "s3://b/out.json"]) == 2
    assert set(bucket.objects) == before


@pytest.mark.parametrize("url", ["ftp://host/a.json", "s3://", "magnet://x"])
def test_other_urls_are_refused_in_one_line(url: str, capsys: pytest.CaptureFixture[str]):
    assert main(["summary", url]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1


def files_with(secret: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_secrets_of_a_url_are_in_nothing_that_is_printed_or_kept(
    web_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("TRACEHOUND_CACHE", str(tmp_path / "cache"))
    url = f"http://user:PLANTEDPASSWORD@{web_server}/torch_stacks/worker0.1795242651838359662.pt.trace.json.gz?{QUERY}"
    wrong = f"http://{web_server}/none.json?{QUERY}"
    commands = (
        ["summary", url],
        ["report", url, "findings", "--format", "json"],
        ["report", url, "health", "--format", "html"],
        ["export", url, str(tmp_path / "out.json")],
        ["diff", url, url],
        ["check", url, "--save-baseline", str(tmp_path / "base.json")],
        ["cache", "list"],
        ["summary", wrong],
        ["summary", url, "--rank", "77"],
        ["summary", url, "--bogus"],
        ["report", url],
        ["report", "health", url],
        ["query", url],
        ["hlo", url],
        ["export", url],
        ["export", str(SAMPLES / "torch_stacks"), url],
        ["summary", f"{url}\x1b"],
    )
    for words in commands:
        with suppress(SystemExit):  # of a malformed command line
            assert main(words) in (0, 2)
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert re.search(rf"http://(\.\.\.@)?{web_server}/", printed), "the URL itself is shown"
    for secret in SECRETS:
        assert secret not in printed
        assert files_with(secret, tmp_path) == []


def test_nothing_of_buckets_is_imported_without_a_url():
    program = (
        "import sys; from tracehound.cli.main import main;"
        f" main(['summary', {str(SAMPLES / 'torch_stacks')!r}]);"
        " import tracehound.ui.explorer_app;"
        " print([name for name in sys.modules if name.startswith(('tracehound.remote', 'obstore', 'boto'))"
        " or 'object' in name and name.startswith('tracehound.store')])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
