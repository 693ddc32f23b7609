"""Compiles what is written in C along with the package, where there is a compiler.

Owns how. Without one the package is whole all the same, and reads large traces at half the speed; installing says so.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/tracehound/native")
LIBRARY = FOLDER / "libtracehound.so"
FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden")


class CompiledHook(BuildHookInterface[Any]):
    """Puts the library beside its sources: in a wheel, and in the tree of an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  # the hook's own form
        """Compile before the wheel is put together; a wheel with a library is for this platform, and any Python."""
        if self.target_name != "wheel":
            return
        library = Path(self.root) / LIBRARY
        library.unlink(missing_ok=True)
        why = compiled(sorted((Path(self.root) / FOLDER).glob("*.c")), library)
        if why:
            self.app.display_warning(f"{why}: large traces will be read at half the speed")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append(LIBRARY.as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


def compiled(sources: list[Path], library: Path) -> str:
    """Compile; why there is no library, empty where there is one."""
    named = os.environ.get("CC", "")
    compiler = shlex.split(named) or [next(filter(shutil.which, ("cc", "gcc", "clang")), "")]
    if not compiler[0]:
        return "no C compiler found"
    made = library.with_suffix(f".{os.getpid()}")
    try:
        done = subprocess.run([*compiler, *FLAGS, *sources, "-o", made], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{compiler[0]} failed: {' '.join(done.stderr.split())[:300]}"
        made.replace(library)
    except OSError as error:
        return f"{compiler[0]} cannot be run: {error.strerror}"
    finally:
        made.unlink(missing_ok=True)
    return ""
