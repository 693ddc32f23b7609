"""Files that version 0.1.0 wrote are still read: a baseline, and a configuration with every action."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tracehound.cli.main import main
from tracehound.ui.bindings.key_remapping import remap_keys
from tracehound.ui.bindings.keys import KEYS

OLDER = Path(__file__).parent / "older"


def compared_rows(baseline: Path, candidate: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The tables of a comparison by name, without event ids of the baseline, which a saved one does not have."""
    assert main(["diff", str(baseline), str(candidate), "--format", "json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    return {
        name: [{key: value for key, value in row.items() if key != "base_event"} for row in result["rows"]]
        for name, result in results.items()
    }


def test_an_older_baseline_is_compared_as_the_run_itself(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = samples / "torch_ddp_gloo"
    assert compared_rows(OLDER / "baseline.json", run, capsys) == compared_rows(run, run, capsys)


def test_an_older_configuration_is_accepted(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tracehound" / "config.toml"
    config.parent.mkdir()
    config.write_bytes((OLDER / "config.toml").read_bytes())
    remapped = remap_keys(tomllib.loads(config.read_text(encoding="utf-8")), config)
    assert {key.id for key in remapped if not key.keys} == {key.id for key in KEYS}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["report", str(samples / "torch_stacks"), "kernels"]) == 0
    assert capsys.readouterr().err == ""
