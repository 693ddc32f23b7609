"""Every code of a note has a sentence, which takes the values that the note has."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import tracehound
from tracehound.draw.notes import HEADLINES, SENTENCES, WARNINGS, group_notes_by_role, note_role, note_text
from tracehound.model.notes import Note, note

SOURCE = Path(tracehound.__file__).parent


def sources() -> Iterator[tuple[Path, str]]:
    for path in SOURCE.rglob("*.py"):
        yield path, path.read_text("utf-8")


def given() -> Iterator[tuple[str, str, set[str] | None]]:
    """Where a note is made with a literal code: the place, the code, the names of its values if these are literal."""
    for path, text in sources():
        if "note(" not in text.lower():
            continue  # parsing takes longer than all else
        for call in (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            at = {"note": 0, "Note": 1}.get(name)
            if at is None or len(call.args) <= at or not isinstance(call.args[at], ast.Constant):
                continue
            place = f"{path.relative_to(SOURCE)}:{call.lineno}"
            yield place, str(call.args[at].value), named_values(call) if at else keywords(call)


def keywords(call: ast.Call) -> set[str] | None:
    """The values of `note(code, name=value)`; None where some of them come from elsewhere."""
    names = {each.arg for each in call.keywords} - {"level"}
    return None if None in names else {str(name) for name in names}


def named_values(call: ast.Call) -> set[str] | None:
    """Those of `Note(level, code, values=((name, value), ...))`."""
    for each in call.keywords:
        if each.arg == "values":
            pairs = each.value.elts if isinstance(each.value, ast.Tuple) else [each.value]
            literal = all(isinstance(pair, ast.Tuple) and isinstance(pair.elts[0], ast.Constant) for pair in pairs)
            return {pair.elts[0].value for pair in pairs} if literal else None
    return set()


def taken(code: str) -> tuple[set[str], set[str]]:
    """The names of the values that a sentence needs, and of all that it takes."""
    sentence = SENTENCES[code]
    if isinstance(sentence, str):
        names = {name for _, name, _, _ in Formatter().parse(sentence) if name}
        return names, names
    every = inspect.signature(sentence).parameters
    return {name for name, each in every.items() if each.default is each.empty}, set(every)


def test_a_note_is_made_with_the_values_that_its_sentence_takes() -> None:
    found = list(given())
    assert len(found) > 100
    for place, code, values in found:
        assert code in SENTENCES, place
        needed, every = taken(code)
        assert values is None or needed <= values <= every, f"{place}: {code}"


def test_every_sentence_is_of_a_code_that_is_given() -> None:
    program = "".join(text for path, text in sources() if "notes" not in path.parts)
    assert [code for code in SENTENCES if f'"{code}"' not in program] == []


def test_no_two_topics_have_one_code() -> None:
    codes = [
        str(key.value)
        for path in (SOURCE / "draw" / "notes").glob("*.py")
        for table in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(table, ast.AnnAssign) and isinstance(table.target, ast.Name) and table.target.id == "SENTENCES"
        if isinstance(table.value, ast.Dict)
        for key in table.value.keys
        if isinstance(key, ast.Constant)
    ]
    assert len(codes) == len({*codes}) > 50


def test_a_note_in_a_note_is_a_part_of_its_sentence() -> None:
    inner = note("no_annotations")
    assert note_text(
        note("nothing_recorded", what=inner, remedy=note("profiler_error", text="{x}"), windowed=False)
    ) == ("no annotations: the profiler reports an error: {x}")


def test_a_code_without_a_sentence_is_refused() -> None:
    with pytest.raises(KeyError):
        note_text(Note("info", "no_such_code"))


def test_every_code_with_a_role_has_a_sentence_and_no_other_role() -> None:
    assert len(HEADLINES) > 20
    assert SENTENCES.keys() >= HEADLINES | WARNINGS
    assert not HEADLINES & WARNINGS


def test_lost_data_is_a_warning_and_never_folded() -> None:
    assert note_role(note("mean_step_time", time=1)) == "headline"
    assert note_role(note("hlo_ops_total", level="missing", ops=1, ranks=1)) == "warning"
    assert note_role(note("runs_not_alike", base="a", other="b")) == "warning"
    assert note_role(note("wait_per_rank", level="inferred")) == "caveat"
    notes = [
        note("wait_per_rank"),
        note("no_kernels", level="missing"),
        note("no_gaps"),
        note("no_ops", level="dropped"),
    ]
    groups = group_notes_by_role(notes)
    assert groups.headlines == (notes[2],)
    assert groups.warnings == (notes[1], notes[3])
    assert groups.caveats == (notes[0],)
