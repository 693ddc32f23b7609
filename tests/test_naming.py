"""Names and docstrings say what things are: one word for one thing, verbs or nouns for functions, plain sentences."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

import tracehound

PACKAGE: Final = Path(tracehound.__file__).parent

IRREGULAR: Final = frozenset(
    (
        "told",
        "held",
        "met",
        "known",
        "found",
        "kept",
        "made",
        "said",
        "seen",
        "left",
        "begun",
        "written",
        "shown",
        "drawn",
        "given",
        "taken",
        "chosen",
        "grown",
        "gone",
        "thrown",
        "worn",
        "sought",
        "bound",
        "laid",
        "meant",
        "felt",
        "led",
        "lent",
        "lost",
        "paid",
        "sent",
        "spent",
        "spoken",
        "torn",
        "wound",
        "whole",
        "apart",
        "together",
    )
)
"""Participles that do not end in -ed."""

QUESTION: Final = re.compile(r"(What|Which|How|Whether|Where|When|Why|Who|Whose|Whom|The same)\b")
"""First words of an indirect question, which describes a value by what one might ask about it."""

PUBLIC_STEMS: Final = frozenset({"analysis", "cli/commands"})
"""Folders whose modules have names that users type: an analysis and a command may be called like another module."""


class Definition:
    """A module, class or function of the package, with its docstring."""

    def __init__(self, path: Path, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.path = path.relative_to(PACKAGE)
        self.node = node
        self.name = "" if isinstance(node, ast.Module) else node.name
        self.docstring = ast.get_docstring(node) or ""

    def __str__(self) -> str:
        return f"{self.path}: {self.name or 'module'}"


@pytest.fixture(scope="module")
def modules() -> dict[Path, ast.Module]:
    """Every module of the package, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def definitions(modules: Mapping[Path, ast.Module]) -> Iterator[Definition]:
    """Every module, class and function of the package, nested ones too."""
    for path, module in modules.items():
        for node in ast.walk(module):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield Definition(path, node)


def module_level(
    modules: Mapping[Path, ast.Module], kinds: type[ast.stmt] | tuple[type[ast.stmt], ...]
) -> Iterator[Definition]:
    """Definitions at the top level of a module."""
    for path, module in modules.items():
        for node in module.body:
            if isinstance(node, kinds):
                yield Definition(path, node)  # type: ignore[arg-type]


def is_participle(name: str) -> bool:
    """True if a function name is one participle, which says neither what is done nor to what."""
    bare = name.strip("_")
    return "_" not in bare and (bare in IRREGULAR or (bare.endswith("ed") and len(bare) > 4))


def test_no_class_name_is_defined_twice(modules: dict[Path, ast.Module]) -> None:
    places = defaultdict(list)
    for definition in module_level(modules, ast.ClassDef):
        places[definition.name].append(str(definition.path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_two_modules_have_one_name() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        folder = str(path.parent.relative_to(PACKAGE))
        if path.stem != "__init__" and folder not in PUBLIC_STEMS:
            places[path.stem].append(folder)
    assert {stem: folders for stem, folders in places.items() if len(folders) > 1} == {}


def test_functions_are_verbs_with_objects_or_nouns(modules: dict[Path, ast.Module]) -> None:
    functions = module_level(modules, (ast.FunctionDef, ast.AsyncFunctionDef))
    assert [str(function) for function in functions if is_participle(function.name)] == []


def test_docstrings_do_not_begin_as_a_question(modules: dict[Path, ast.Module]) -> None:
    assert [str(each) for each in definitions(modules) if QUESTION.match(each.docstring)] == []


@pytest.mark.parametrize("name", ["told", "_merged", "apart"])
def test_participles_are_recognized(name: str) -> None:
    assert is_participle(name)


@pytest.mark.parametrize("name", ["need", "seed", "merged_ranks", "match_calls", "read"])
def test_verbs_and_nouns_are_no_participles(name: str) -> None:
    assert not is_participle(name)
