"""Compiles what is written in C along with the package, where there is a compiler.

Owns how. Without one the package is whole all the same, and takes one and a half to two and a half times the time with
large traces: ``tracehound --version`` tells which it is.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/tracehound/numeric/native")
NAME = "libtracehound.so"
FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")


class CompiledHook(BuildHookInterface[Any]):
    """Puts the library into a wheel, or into the tree of an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is put together; a wheel with a library is for this platform, and any Python."""
        if self.target_name != "wheel":
            return
        sources = Path(self.root) / FOLDER
        self._made = Path(tempfile.mkdtemp())
        why = compiled(sorted(sources.glob("*.c")), self._made / NAME)
        if version == "editable":
            why = why or placed(self._made / NAME, sources / NAME)
        elif not why:
            build_data["force_include"][str(self._made / NAME)] = f"tracehound/numeric/native/{NAME}"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{tag()}"
        if why:
            self.app.display_warning(f"nothing is compiled, large traces will take longer to read: {why}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Leave nothing behind."""
        if self.target_name == "wheel":
            shutil.rmtree(self._made, ignore_errors=True)


def tag() -> str:
    """This platform; of a Python that runs on several the one that it runs on."""
    name = sysconfig.get_platform().replace("universal2", platform.machine())
    if name.endswith("arm64"):
        name = re.sub(r"^macosx-10\.\d+", "macosx-11.0", name)  # the first for it; pip knows no earlier one
    return name.replace("-", "_").replace(".", "_")


def placed(made: Path, library: Path) -> str:
    """Move the library into the tree, whole or not at all; why it is not there."""
    beside = library.with_suffix(f".{os.getpid()}")
    try:
        shutil.copyfile(made, beside)
        beside.replace(library)
    except OSError as error:
        return f"{library} cannot be written: {error.strerror}"
    return ""


def compiled(sources: list[Path], library: Path) -> str:
    """Compile; why there is no library, empty where there is one."""
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or list(filter(shutil.which, ("cc", "gcc", "clang")))[:1]
        if not compiler:
            return "no C compiler found"
        command = [*compiler, *FLAGS, *sources, "-o", library]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            return f"{compiler[0]} failed: {' '.join(done.stderr.split())[:300]}"
        ctypes.CDLL(str(library)).native_version()  # what a compiler made need not be what was asked for
    except (OSError, ValueError, AttributeError) as error:
        return str(error)
    return ""
