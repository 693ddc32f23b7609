"""Commands on buckets of the three clouds, in emulators: the tables of the files, and no secret anywhere."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bucket_emulators import EMULATOR_KEY, Emulator, azure, gcs, s3
from terminal import Terminal
from tracehound.cli.main import main

__all__ = ["azure", "gcs", "s3"]

pytestmark = pytest.mark.thorough

SAMPLES = Path(__file__).resolve().parents[2] / "traces"
RANKS = 64


def folder_objects(folder: Path, prefix: str) -> dict[str, bytes]:
    """The files of a folder, by their keys below a prefix."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {f"{prefix}{file.relative_to(folder).as_posix()}": file.read_bytes() for file in files}


def rank_files() -> dict[str, bytes]:
    """One file for each of many ranks."""
    contents = [file.read_bytes() for file in sorted((SAMPLES / "torch_ddp_gloo").iterdir())]
    return {f"rank{number}.pt.trace.json.gz": contents[number % 2] for number in range(RANKS)}


@pytest.fixture(scope="module", params=["s3", "gcs", "azure"])
def cloud(request: pytest.FixtureRequest) -> Emulator:
    """One of the clouds, with a bucket of runs."""
    pytest.importorskip("obstore", reason="obstore is not installed (extra `buckets`)")
    emulator: Emulator = request.getfixturevalue(request.param)
    objects = {f"ranks/{name}": content for name, content in rank_files().items()}
    for name in ("jax_cpu8_b128", "torch_ddp_gloo"):
        objects |= folder_objects(SAMPLES / name, f"{name}/")
    emulator.fill("commands", objects)
    return emulator


@pytest.fixture
def use(cloud: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A user of the cloud with an empty cache; gives the URL of a key."""
    for name, value in cloud.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRACEHOUND_CACHE", str(tmp_path / "cache"))
    return lambda key: f"{cloud.scheme}://commands/{key}"


def rows(capsys: pytest.CaptureFixture[str], path: str, analysis: str) -> object:
    """The rows of a report."""
    assert main(["report", path, analysis, "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return json.loads(printed.out)["rows"]


REPORTS = {"s3": ("breakdown", "gaps"), "gs": ("ops", "health"), "az": ("steps",)}
"""Analyses whose reports are compared with those of local files, by the scheme of the cloud."""


def test_a_log_folder_has_the_tables_of_its_files(
    cloud: Emulator, use: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    for analysis in REPORTS[cloud.scheme]:
        local = rows(capsys, str(SAMPLES / "jax_cpu8_b128"), analysis)
        for url in (use("jax_cpu8_b128"), use("jax_cpu8_b128/plugins/profile/2026_11_21_06_31_26/")):
            assert rows(capsys, url, analysis) == local


def test_a_folder_of_many_ranks_has_the_tables_of_its_files(
    use: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for name, content in rank_files().items():
        (folder / name).write_bytes(content)
    assert rows(capsys, use("ranks"), "overview") == rows(capsys, str(folder), "overview")


def test_exports_and_baselines_are_written_there(use: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", use("torch_ddp_gloo"), use("out/merged.json.gz")]) == 0
    assert main(["export", use("torch_ddp_gloo"), use("out/merged.json.gz")]) == 2
    assert main(["summary", use("out/merged.json.gz")]) == 0
    assert main(["check", use("torch_ddp_gloo"), "--save-baseline", use("base.json")]) == 0
    capsys.readouterr()
    assert main(["diff", use("base.json"), use("torch_ddp_gloo")]) == 0
    assert "no change" in capsys.readouterr().out


def test_no_secret_is_printed_or_kept(
    cloud: Emulator, use: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = {EMULATOR_KEY, base64.b64decode(EMULATOR_KEY).hex()}
    if cloud.scheme == "s3":
        secrets = {"PLANTEDSECRETKEY", "PLANTEDSESSIONTOKEN"}
    with pytest.MonkeyPatch.context() as patch:
        if cloud.scheme == "s3":
            patch.setenv("AWS_SECRET_ACCESS_KEY", "PLANTEDSECRETKEY")
            patch.setenv("AWS_SESSION_TOKEN", "PLANTEDSESSIONTOKEN")
        for words in (
            ["summary", use("torch_ddp_gloo")],
            ["report", use("torch_ddp_gloo"), "findings", "--format", "html"],
            ["report", use("none"), "findings"],
            ["report", f"{cloud.scheme}://no-such-bucket/a", "findings"],
            ["export", use("torch_ddp_gloo"), str(tmp_path / "out.json")],
            ["check", use("torch_ddp_gloo"), "--save-baseline", str(tmp_path / "base.json")],
            ["cache", "list"],
        ):
            assert main(words) in (0, 2)
        printed = "".join(capsys.readouterr())
        settings = {name: os.environ[name] for name in ("TRACEHOUND_CACHE", "HOME", *cloud.environ)}
        with Terminal(use("torch_ddp_gloo"), XDG_STATE_HOME=str(tmp_path / "state"), **settings) as terminal:
            terminal.wait_for("ProfilerStep", "Findings")
            terminal.press("Y")
            printed += terminal.wait_for(f"copied: tracehound summary {use('torch_ddp_gloo')}")
            terminal.press("q")
            assert terminal.ended() == 0
    for secret in secrets:
        assert secret not in printed
        assert [file for file in tmp_path.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()] == []
    assert list((tmp_path / "state").rglob("*.json")), "the explorer has kept its position"
