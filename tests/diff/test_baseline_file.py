"""A profile in a file is the profile; a damaged one is refused, another file is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from runs import measured, run

from tracehound.diff import compare_runs, incomplete_run_notes, load_baseline, save_baseline
from tracehound.draw.notes import note_text, note_texts
from tracehound.errors import TracehoundError
from tracehound.model.notes import Note


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    found, path = measured(run()), tmp_path / "base.json"
    save_baseline(found, path)
    again = load_baseline(path)
    assert again is not None
    assert again.steps.equals(found.steps)
    assert again.ops.equals(found.ops)
    assert (again.name, again.ranks, again.what, again.of) == (found.name, found.ranks, found.what, found.of)
    assert "no difference" in note_texts(compare_runs(found, again).ops.notes)
    assert [entry.name for entry in tmp_path.iterdir()] == ["base.json"]


def test_another_file_is_no_baseline(tmp_path: Path, samples: Path) -> None:
    assert load_baseline(tmp_path) is None
    assert load_baseline(tmp_path / "nothing") is None
    trace = next(path for path in sorted((samples / "torch_ddp_gloo").rglob("*.json*")))
    assert load_baseline(trace) is None


@pytest.mark.parametrize("cut", [60, 200, 1000, -3])
def test_a_damaged_one_is_refused_in_one_line(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "base.json"
    save_baseline(measured(run()), path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(TracehoundError, match="the baseline is damaged"):
        load_baseline(path)


def test_a_value_that_is_none_of_its_column_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    save_baseline(measured(run(steps=2)), path)
    whole = path.read_bytes()
    for good, bad in (
        (b'"ranks":[1,', b'"ranks":[null,'),
        (b'"ranks":[1,', b'"ranks":["x",'),
        (b'"steps":{', b'"stops":{'),
    ):
        assert good in whole
        path.write_bytes(whole.replace(good, bad))
        with pytest.raises(TracehoundError, match="the baseline is damaged"):
            load_baseline(path)


def test_nothing_but_a_baseline_is_replaced(tmp_path: Path) -> None:
    found, path = measured(run(steps=2)), tmp_path / "base.json"
    for content in (b"", b'{"traceEvents": []}', b'{"schema"'):
        path.write_bytes(content)
        with pytest.raises(TracehoundError, match="is not a baseline, and is not replaced"):
            save_baseline(found, path)
        assert path.read_bytes() == content
    with pytest.raises(TracehoundError, match="is not replaced"):
        save_baseline(found, tmp_path)
    path.unlink()
    save_baseline(found, path)
    save_baseline(found, path)
    assert load_baseline(path) is not None


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(TracehoundError, match=r"base\.json: cannot be written: no such file or directory$"):
        save_baseline(measured(run(steps=2)), tmp_path / "no" / "base.json")


def test_how_its_json_is_spaced_does_not_matter(tmp_path: Path) -> None:
    found, path = measured(run(steps=2)), tmp_path / "base.json"
    save_baseline(found, path)
    path.write_text("\n " + json.dumps(json.loads(path.read_bytes()), indent=4))
    again = load_baseline(path)
    assert again is not None
    assert again.ops.equals(found.ops)


@pytest.mark.parametrize(
    ("good", "bad"),
    [('"duration": [', '"duration": [1e308, '), ('"time": [', '"time": [-1, '), ('"of": ', '"of": 5, "off": ')],
)
def test_values_that_cannot_be_true_are_damage(tmp_path: Path, good: str, bad: str) -> None:
    path = tmp_path / "base.json"
    save_baseline(measured(run(steps=2)), path)
    document = json.dumps(json.loads(path.read_bytes()))
    assert good in document
    path.write_text(document.replace(good, bad, 1))
    with pytest.raises(TracehoundError, match="the baseline is damaged"):
        load_baseline(path)


def test_a_later_version_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text('{"schema": "tracehound.profile/2", "anything": 1}')
    with pytest.raises(TracehoundError, match="and this reads"):
        load_baseline(path)


def test_what_the_files_lacked_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    save_baseline(replace(measured(run(steps=2)), missing_data=(Note("dropped", "event_cut_off", file="x"),)), path)
    again = load_baseline(path)
    assert again is not None
    assert again.missing_data == (Note("dropped", "event_cut_off", file="x"),)


def test_the_first_baselines_have_sentences(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    save_baseline(measured(run(steps=2)), path)
    document = {**json.loads(path.read_text()), "lost": ["event cut off (x.json, byte 7)"], "doubt": "hardly one run"}
    path.write_text(json.dumps(document))
    again = load_baseline(path)
    assert again is not None
    assert note_texts(again.missing_data) == ("event cut off (x.json, byte 7)",)
    assert again.doubt is not None
    assert note_text(again.doubt) == "hardly one run"
    assert note_texts(incomplete_run_notes({"baseline": again})) == (
        "the baseline is incomplete: event cut off (x.json, byte 7); see health",
    )
