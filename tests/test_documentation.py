"""README and docs are true: commands, keys, pictures, links and analyses."""

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
from tracehound.cli.main import main
from tracehound.ui.bindings.keys import GROUP_TITLES, KEYS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "docs").glob("*.md"))


def page(name: str) -> str:
    """The text of a page of docs/."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


EXAMPLES = [
    example for text in (README, page("queries")) for example in re.findall(r"```console\n\$ (.*?)```", text, re.DOTALL)
]
"""Commands with what they print."""


@pytest.mark.parametrize("group", GROUP_TITLES)
def test_every_key_is_in_its_table(group: str) -> None:
    table = page("keys").split(f"## {GROUP_TITLES[group]}\n", 1)[1].split("\n#", 1)[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows == [f"| {key.shown} | {key.meaning} | `{key.id}` |" for key in KEYS if key.group == group]


def test_every_unit_is_in_the_page_of_the_headless_face() -> None:
    table = page("headless").split("| unit | value |", 1)[1]
    rows = [line.split("|")[1] for line in table.split("\n\n", 1)[0].splitlines()[2:]]
    assert {unit for row in rows for unit in re.findall(r"`(\w+)`", row)} == set(get_args(Unit)) - {"note"}, (
        "of which text is made"
    )


def keys_written(after: str) -> set[str]:
    """The keys in the first column of the table that follows these words in the page of the headless face."""
    rows = page("headless").split(after, 1)[1].split("|---|---|\n", 1)[1].split("\n\n", 1)[0].splitlines()
    return {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_a_comparison_a_check_and_a_baseline_are_written_down(
    tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, saved = str(samples / "torch_ddp_gloo"), tmp_path / "base.json"
    main(["check", sample, "--format", "json", "--fail-on", "idle > 99%", "--save-baseline", str(saved)])
    check = json.loads(capsys.readouterr().out)
    main(["diff", str(saved), sample, "--format", "json", "--fail-on", "idle > 99%"])
    comparison = json.loads(capsys.readouterr().out)
    headless = page("headless")
    for document in (check, comparison):
        assert f"`{document['schema']}`" in headless
        assert set(document) == keys_written("A comparison (`diff`) is")
        assert all(f"`{name}`" in headless for name in document["results"])
    profile = json.loads(saved.read_bytes())
    assert set(profile) == keys_written("### Saved baselines")
    for frame in ("steps", "ops", "measures"):
        (row,) = (line for line in headless.splitlines() if line.startswith(f"| `{frame}` | a row for each step"))
        assert set(profile[frame]) <= set(re.findall(r"`(\w+)`", row))


def test_every_analysis_is_named() -> None:
    for analysis in ANALYSES:
        assert f"report PATH {analysis.name}" in page("analyses") or analysis.name == "overview"


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda path: path.name)
def test_links_and_pictures_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_modules_and_folders_that_the_architecture_names_exist() -> None:
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]*)+(?:\.py)?)`", page("architecture")))
    assert len(named) > 40
    folders = {f"{path.name}/" for path in (ROOT / "src").rglob("*") if path.is_dir()}
    package = ROOT / "src" / "tracehound"
    assert not [path for path in named - folders if not (package / path).exists() and not (ROOT / path).exists()]


def test_readme_is_short_and_links_every_page() -> None:
    assert len(README.splitlines()) <= 250
    assert all(f"](docs/{path.name})" in README for path in PAGES)


def test_the_sample_of_the_first_command_exists() -> None:
    sample = re.search(r"tracehound (traces/\S+)", README)
    assert sample is not None
    assert (ROOT / sample[1]).is_dir()


@pytest.mark.parametrize("block", EXAMPLES)
def test_commands_print_what_is_shown(
    block: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    command = re.match(r'(?:[^"\n]|"[^"]*")*\n', block)
    assert command is not None
    assert main(shlex.split(command[0])[1:]) == 0
    assert capsys.readouterr().out == block.removeprefix(command[0])


@pytest.mark.thorough
def test_the_example_in_python_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", page("headless"), re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, script], cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    for said in ("ProfilerStep#3", "\nOperators\n", "10 of ", "\nStep parts\n"):
        assert said in ended.stdout


def test_there_are_commands_that_show_what_they_print() -> None:
    assert sum(example.startswith("tracehound query ") for example in EXAMPLES) >= 2
