"""The README says what is true: its commands, its keys, its picture and its analyses."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tracehound.analysis import ANALYSES
from tracehound.analysis.result import Unit
from tracehound.cli import main
from tracehound.ui.bindings.keys import KEYS, TITLES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("group", TITLES)
def test_every_key_is_in_its_table(group: str) -> None:
    table = README.split(f"### {TITLES[group]}\n", 1)[1].split("\n#", 1)[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    expected = [f"| {key.shown} | {key.meaning} |" for key in KEYS if key.group == group]
    assert [row for row in rows if not row.startswith("|---")] == expected


def test_every_id_of_a_key_is_in_the_page_of_the_configuration() -> None:
    page = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{key.id}` | {key.shown} | {key.meaning} |" for key in KEYS]


def test_every_unit_is_in_the_page_of_the_headless_face() -> None:
    table = (ROOT / "docs" / "headless.md").read_text(encoding="utf-8").split("| unit | value |", 1)[1]
    rows = [line.split("|")[1] for line in table.split("\n\n", 1)[0].splitlines()[2:]]
    assert {unit for row in rows for unit in re.findall(r"`(\w+)`", row)} == set(get_args(Unit)) - {"note"}, (
        "of which text is made"
    )


def keys_written(after: str) -> set[str]:
    """The keys in the first column of the table that follows these words in the page of the headless face."""
    page = (ROOT / "docs" / "headless.md").read_text(encoding="utf-8").split(after, 1)[1]
    rows = page.split("|---|---|\n", 1)[1].split("\n\n", 1)[0].splitlines()
    return {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_a_comparison_a_check_and_a_baseline_are_written_down(
    tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, saved = str(samples / "torch_ddp_gloo"), tmp_path / "base.json"
    main(["check", sample, "--format", "json", "--fail-on", "idle > 99%", "--save-baseline", str(saved)])
    check = json.loads(capsys.readouterr().out)
    main(["diff", str(saved), sample, "--format", "json", "--fail-on", "idle > 99%"])
    comparison = json.loads(capsys.readouterr().out)
    page = (ROOT / "docs" / "headless.md").read_text(encoding="utf-8")
    for document in (check, comparison):
        assert f"`{document['schema']}`" in page
        assert set(document) == keys_written("A comparison (`diff`) is")
        assert all(f"`{name}`" in page for name in document["results"])
    profile = json.loads(saved.read_bytes())
    assert set(profile) == keys_written("### Saved baselines")
    for frame in ("steps", "ops", "measures"):
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{frame}` | a row for each step"))
        assert set(profile[frame]) <= set(re.findall(r"`(\w+)`", row))


def test_every_analysis_is_named() -> None:
    for analysis in ANALYSES:
        assert f"report PATH {analysis.name}" in README or analysis.name == "overview"


def test_links_and_pictures_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_sample_of_the_first_command_exists() -> None:
    sample = re.search(r"tracehound (traces/\S+)", README)
    assert sample is not None
    assert (ROOT / sample[1]).is_dir()


@pytest.mark.parametrize("block", re.findall(r"```console\n\$ (.*?)```", README, re.DOTALL))
def test_commands_print_what_is_shown(
    block: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    command = re.match(r'[^"]*"[^"]*"\n', block)
    assert command is not None
    assert main(shlex.split(command[0])[1:]) == 0
    assert capsys.readouterr().out == block.removeprefix(command[0])


@pytest.mark.thorough
def test_the_example_in_python_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "headless.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, script], cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    for said in ("ProfilerStep#3", "\nOperators\n", "10 of ", "\nStep parts\n"):
        assert said in ended.stdout


def test_there_are_commands_that_show_what_they_print() -> None:
    assert len(re.findall(r"```console\n\$ tracehound query ", README)) >= 2
