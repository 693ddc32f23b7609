"""What is compiled reads and writes no byte that is not its own: the compiler's checks of memory say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tracehound.numeric import native

HUNT = Path(__file__).with_name("hunt.py")
FLAGS = ("-std=c11", "-O1", "-g", "-fPIC", "-shared", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.thorough
def test_no_byte_is_touched_that_is_not_there(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or pytest.skip("no compiler here")
    library = tmp_path / "checked.so"
    sources = sorted(Path(native.__file__).parent.glob("*.c"))
    subprocess.run([compiler, *FLAGS, *sources, "-o", library], check=True)
    asan = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = {**os.environ, "LD_PRELOAD": asan.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([sys.executable, HUNT, library], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert min(map(int, done.stdout.split())) > 1000
