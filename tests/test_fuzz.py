"""The long hunt for bad inputs can begin: every target has sound files, and none of its first inputs is a finding."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import TARGETS

pytestmark = pytest.mark.thorough

HUNT = Path(__file__).with_name("fuzz.py")


@pytest.mark.parametrize("target", TARGETS)
def test_the_first_inputs(target: str) -> None:
    done = subprocess.run(
        [sys.executable, HUNT, "--seconds", "2", target], capture_output=True, text=True, timeout=600, check=False
    )
    inputs, findings = done.stdout.splitlines()[-1].removeprefix(f"{target}: ").split(", ")
    assert int(inputs.split()[0]) > 0, done.stderr
    assert (findings, done.returncode) == ("0 findings", 0), done.stdout
