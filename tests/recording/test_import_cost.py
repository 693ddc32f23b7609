"""What a training process imports: little, and nothing that reads traces."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"polars", "numpy", "textual", "rich", "msgspec", "orjson", "isal", "plotext", "torch", "jax", "grpc"}


def imported_by(code: str) -> set[str]:
    """The modules that a statement imports in a fresh interpreter."""
    script = (
        f"import sys, json; before = {{*sys.modules}}; {code}; print(json.dumps(sorted({{*sys.modules}} - before)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True)
    return set(json.loads(ended.stdout))


def test_importing_the_package_imports_nothing_else() -> None:
    assert imported_by("import tracehound") - {"__future__"} == {"tracehound"}


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_recorder_imports_no_library(framework: str) -> None:
    imported = imported_by(f"import tracehound; tracehound.record(framework='{framework}', on_file='no file')")
    assert not {name.split(".")[0] for name in imported} & HEAVY
    ours = {name for name in imported if name.startswith("tracehound.")}
    assert {name.split(".")[1] for name in ours} == {"recording", "errors"}


def test_other_names_of_the_package_are_unknown() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        imported_by("import tracehound; tracehound.records")
