"""Plants faults in the source, one at a time, and says which of them a test command finds.

    python tests/faults.py --count 30 --seed 1                       # lists them
    python tests/faults.py --count 30 --seed 1 -- .venv/bin/pytest -x -q

A fault is a sign (+ for -), a bound (< for <=), a column (another one of the same file), a sort order (descending for
ascending) or a unit (a thousand times as much). The same seed plants the same faults in the same source. The command
runs in a copy of the checkout, so the checkout is never changed; it has found a fault where it does not exit with 0.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path("src/tracehound")
KINDS = ("sign", "bound", "column", "order", "unit")
BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
SIGNS = {"+": "-", "-": "+"}
UNITS = (100, 1000, 1024, 1_000_000, 1_000_000_000, 1e3, 1e6, 1e9)
SKIPPED = ("notes", "manual.py", "__main__.py")
"""Sentences and help, of which there is no right and wrong."""


class Fault(NamedTuple):
    """A piece of a file, as bytes from `start` to `end`, and what stands there in its place."""

    kind: str
    file: Path
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.kind:6} {self.file.relative_to(SOURCE)}:{self.line}  {self.before!r} -> {self.after!r}"

    def plant(self, tree: Path) -> bytes:
        """Write it into a copy of the checkout; what stood in the file before."""
        path = tree / self.file
        text = path.read_bytes()
        path.write_bytes(text[: self.start] + self.after.encode() + text[self.end :])
        return text


class _Places:
    """Where the nodes of a file lie in its bytes."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: ast.expr) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def between(self, left: ast.expr, right: ast.expr, pattern: bytes) -> tuple[int, int] | None:
        """Where an operator lies between its operands."""
        low = self.end(left)
        found = re.search(pattern, self.text[low : self.start(right)])
        return None if found is None else (low + found.start(), low + found.end())


class _File(NamedTuple):
    """A file of the source, and what `pl.col` names in it."""

    path: Path
    places: _Places
    columns: list[str]

    def fault(self, kind: str, node: ast.expr, start: int, end: int, after: str) -> Fault:
        return Fault(kind, self.path, node.lineno, start, end, self.places.text[start:end].decode(), after)

    def signs(self, node: ast.AST) -> Iterator[Fault]:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub) or _is_text(node):
            return
        if at := self.places.between(node.left, node.right, rb"[+-]"):
            yield self.fault("sign", node, *at, SIGNS[self.places.text[slice(*at)].decode()])

    def bounds(self, node: ast.AST) -> Iterator[Fault]:
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            return
        if at := self.places.between(node.left, node.comparators[0], rb"[<>]=?"):
            yield self.fault("bound", node, *at, BOUNDS[self.places.text[slice(*at)].decode()])

    def other_columns(self, node: ast.AST) -> Iterator[Fault]:
        name = _column(node)
        if name is not None and len(self.columns) > 1:
            argument = node.args[0]  # type: ignore[attr-defined]  # it is a call
            other = self.columns[(self.columns.index(name) + 1) % len(self.columns)]
            yield self.fault("column", argument, self.places.start(argument), self.places.end(argument), f'"{other}"')

    def orders(self, node: ast.AST) -> Iterator[Fault]:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return
        if node.func.attr != "sort" or not node.args:
            return
        said = [each.value for each in node.keywords if each.arg == "descending"]
        for value in said:
            if isinstance(value, ast.Constant):
                start, end = self.places.start(value), self.places.end(value)
                yield self.fault("order", value, start, end, str(not value.value))
        if not said:
            end = self.places.end(node) - 1
            yield self.fault("order", node, end, end, ", descending=True")

    def units(self, node: ast.AST) -> Iterator[Fault]:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv):
            return
        if _is_unit(node.right):
            start, end = self.places.start(node.right), self.places.end(node.right)
            yield self.fault("unit", node, start, end, f"({self.places.text[start:end].decode()} * 1000)")


def faults_of(path: Path, text: bytes) -> Iterator[Fault]:
    """All faults that can be planted in a file."""
    nodes = list(ast.walk(ast.parse(text)))
    file = _File(path, _Places(text), sorted({name for node in nodes if (name := _column(node)) is not None}))
    for node in nodes:
        for kind in (file.signs, file.bounds, file.other_columns, file.orders, file.units):
            yield from kind(node)


def _column(node: ast.AST) -> str | None:
    """The name in `pl.col("name")`."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "col"
    if not called or len(node.args) != 1 or not isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
        return None
    value = node.args[0].value  # type: ignore[attr-defined]
    return value if isinstance(value, str) and not value.startswith("^") else None


def _is_text(node: ast.BinOp) -> bool:
    """Whether texts or lists are joined, where another sign is an error at once."""
    return any(
        isinstance(each, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for side in (node.left, node.right)
        for each in ast.walk(side)
    )


def _is_unit(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id.startswith(("PS_PER_", "PS_IN_"))
    return isinstance(node, ast.Constant) and not isinstance(node.value, str | bool) and node.value in UNITS


def drawn(count: int, seed: int) -> list[Fault]:
    """So many faults, about equally many of each kind."""
    found: dict[str, list[Fault]] = {kind: [] for kind in KINDS}
    for path in sorted((ROOT / SOURCE).rglob("*.py")):
        file = path.relative_to(ROOT)
        if not {*SKIPPED} & {*file.parts}:
            for fault in faults_of(file, path.read_bytes()):
                found[fault.kind].append(fault)
    dice = random.Random(seed)
    shuffled = [dice.sample(found[kind], len(found[kind])) for kind in KINDS]
    return [fault for number, every in enumerate(shuffled) for fault in every[: len(range(number, count, len(KINDS)))]]


def main() -> int:
    """List the faults, or try a command on each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30, help="how many faults")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--only", type=int, nargs="*", help="the numbers of those to try")
    parser.add_argument("command", nargs="*", help="what is to find them, run in a copy of the checkout")
    asked = parser.parse_args()
    faults = drawn(asked.count, asked.seed)
    if not asked.command:
        for number, fault in enumerate(faults):
            print(f"{number:3} {fault}")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "checkout"
        shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(".git", ".venv", ".hypothesis"))
        command = [str(ROOT / word) if (ROOT / word).is_file() else word for word in asked.command]
        for number, fault in enumerate(faults):
            if asked.only is not None and number not in asked.only:
                continue
            before, began = fault.plant(tree), time.monotonic()
            environment = os.environ | {"PYTHONPATH": str(tree / "src")}
            done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
            (tree / fault.file).write_bytes(before)
            failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            word = "found" if done.returncode else "MISSED"
            missed += not done.returncode
            print(
                f"{number:3} {word:6} {time.monotonic() - began:5.0f} s  {fault}  {(failed or [''])[0][:120]}",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
