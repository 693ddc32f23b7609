"""Files of older versions are still read: baselines, configurations, sessions, with the names of their time."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tracehound.analysis.devices.kernel_classes import parse_custom_classes
from tracehound.cli.main import main
from tracehound.diff import load_baseline
from tracehound.model.old_names import CURRENT_NAMES, current_name, old_name
from tracehound.ui.actions.pane_settings import valid_settings
from tracehound.ui.bindings.key_remapping import remap_keys
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.state.saved_session import load_session

OLDER = Path(__file__).parent / "older"


def compared_rows(baseline: Path, candidate: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The tables of a comparison by name, without event ids of the baseline, which a saved one does not have."""
    assert main(["diff", str(baseline), str(candidate), "--format", "json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    return {
        name: [
            {key: value for key, value in row.items() if key not in ("baseline_event", "base_event")}
            for row in result["rows"]
        ]
        for name, result in results.items()
        if name not in ("diff-idle", "diff-ranks")  # older versions did not measure them
    }


def test_an_older_baseline_is_compared_as_the_run_itself(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = samples / "torch_ddp_gloo"
    assert compared_rows(OLDER / "baseline.json", run, capsys) == compared_rows(run, run, capsys)


def test_an_older_baseline_is_one_for_a_gate(samples: Path) -> None:
    command = ["diff", str(OLDER / "baseline.json"), str(samples / "torch_ddp_gloo"), "--fail-on"]
    assert main([*command, "idle > +5%"]) == 0
    assert main([*command, "op:allreduce > 1ps"]) == 1


def test_measures_of_an_older_baseline_have_current_names(tmp_path: Path) -> None:
    names = [("idle", "synchronisation"), ("counters", "GPU utilisation"), ("annotations", "normalisation: host")]
    baseline = json.loads((OLDER / "baseline.json").read_bytes())
    baseline["measures"] = {
        "step": [2] * len(names), "topic": [topic for topic, _ in names], "name": [name for _, name in names],
        "count": [1.0] * len(names), "value": [1.0] * len(names),
    }  # fmt: skip
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(baseline))
    found = load_baseline(path)
    assert found is not None
    assert found.measures.select("topic", "name").rows() == [
        ("idle", "synchronization"),
        ("counters", "GPU utilization"),
        ("annotations", "normalisation: host"),  # a name from the trace
    ]


def test_an_older_configuration_is_accepted(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tracehound" / "config.toml"
    config.parent.mkdir()
    config.write_bytes((OLDER / "config.toml").read_bytes())
    remapped = remap_keys(tomllib.loads(config.read_text(encoding="utf-8")), config)
    came_later = {key.id for key in KEYS if key.group == "map"}
    assert {key.id for key in remapped if not key.keys} == {key.id for key in KEYS} - came_later
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["report", str(samples / "torch_stacks"), "kernels"]) == 0
    assert capsys.readouterr().err == ""


def test_a_class_of_an_older_configuration_is_the_current_one() -> None:
    assert [each.name for each in parse_custom_classes("normalisation:my_norm; moe:expert")] == ["normalization", "moe"]


def test_an_older_session_has_current_names(tmp_path: Path) -> None:
    lanes = {"colour": "name", "hidden": ["rank 0/GPU utilisation"], "order": {"rank 0": ["rank 0/GPU utilisation"]}}
    settings = {"utilisation": {"by": "step"}, "hlo_ops": {"by": "rematerialised"}}
    path = tmp_path / "session.json"
    path.write_text(json.dumps({"pane": "utilisation", "lanes": lanes, "settings": settings}))
    session = load_session(path)
    assert session.pane == "utilization"
    assert session.lanes == {
        "color": "name",
        "hidden": ["rank 0/GPU utilization"],
        "order": {"rank 0": ["rank 0/GPU utilization"]},
    }
    assert valid_settings(session.settings) == {
        "utilization": (("by", "step"),),
        "hlo_ops": (("by", "rematerialized"),),
    }


def test_an_older_name_leads_to_one_that_has_not_changed_again() -> None:
    assert not CURRENT_NAMES.keys() & set(CURRENT_NAMES.values())
    assert all(old_name(current_name(name)) == name for name in CURRENT_NAMES)
    assert (current_name("kernels"), old_name("kernels")) == ("kernels", None)
