"""Tables that are kept beside a part."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from polars.testing import assert_frame_equal

from short import first
from tracehound.analysis import ANALYSES, Options, findings, get_analysis, run_analyses
from tracehound.analysis.rank_table_cache import VERSION
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, make_read_context, open_trace_files
from tracehound.store.trace_cache import open_cache

ASKED = [(analysis, Options()) for analysis in ANALYSES]


def cached(paths: list[Path], root: Path) -> Trace:
    """The trace, read from the cache."""
    for _ in range(2):
        with make_read_context(1, partial(open_cache, root)) as shop:
            trace = load_trace(open_trace_files(paths, None, shop))
    return trace


def kept(root: Path) -> list[Path]:
    return sorted(root.rglob("table-*"))


@pytest.mark.parametrize("sample", first(1, ("torch_stacks", "torch_ddp_gloo", "torch_xla_spmd4")))
def test_a_kept_table_is_the_one_that_was_made(sample: str, samples: Path, tmp_path: Path) -> None:
    trace, fresh = cached([samples / sample], tmp_path), load_trace(open_trace_files([samples / sample]))
    first = run_analyses(ASKED, trace)
    tables = kept(tmp_path)
    alone = {analysis.name for analysis in findings._SOURCE_ANALYSES.values()} - {each.name for each in ANALYSES}
    assert len(tables) == (len(ASKED) + len(alone)) * trace.ranks.height, (
        "one for each, and for those of findings alone"
    )
    for made, again, uncached in zip(first, run_analyses(ASKED, trace), run_analyses(ASKED, fresh), strict=True):
        assert_frame_equal(again.table, made.table)
        assert_frame_equal(again.table, uncached.table)
        assert (again.notes, again.total) == (made.notes, made.total) == (uncached.notes, uncached.total)
    assert kept(tmp_path) == tables


def test_only_missing_tables_need_workers(samples: Path, tmp_path: Path) -> None:
    trace, asked = cached([samples / "torch_ddp_gloo"], tmp_path), [(get_analysis("breakdown"), Options())]
    with ThreadPoolExecutor(1) as used:
        made = run_analyses(asked, trace, executor=used)
    unused = ThreadPoolExecutor(1)
    unused.shutdown()
    (again,) = run_analyses(asked, trace, executor=unused)
    assert_frame_equal(again.table, made[0].table)
    kept(tmp_path)[-1].unlink()
    with pytest.raises(RuntimeError, match="after shutdown"):
        run_analyses(asked, trace, executor=unused)


@pytest.mark.thorough
def test_what_was_made_in_the_run_that_read_the_file_is_kept(samples: Path, tmp_path: Path) -> None:
    with make_read_context(1, partial(open_cache, tmp_path)) as shop:
        run_analyses(ASKED, load_trace(open_trace_files([samples / "torch_stacks"], None, shop)))
    tables = kept(tmp_path)
    run_analyses(ASKED, cached([samples / "torch_stacks"], tmp_path))
    assert tables
    assert kept(tmp_path) == tables


@pytest.mark.thorough
def test_what_is_asked_and_where_the_part_is_placed_tell_tables_apart(samples: Path, tmp_path: Path) -> None:
    files = sorted((samples / "torch_ddp_gloo").glob("*.gz"))
    both, second = cached(files, tmp_path), cached(files[1:], tmp_path)
    for trace, paths in ((both, files), (second, files[1:])):
        read_again = load_trace(open_trace_files(paths))
        asked = [*ASKED, *((analysis, Options(2)) for analysis in ANALYSES)]
        for found, fresh in zip(run_analyses(asked, trace), run_analyses(asked, read_again), strict=True):
            assert_frame_equal(found.table, fresh.table)


@pytest.mark.thorough
def test_how_many_rows_are_shown_is_no_other_table(samples: Path, tmp_path: Path) -> None:
    trace = cached([samples / "torch_stacks"], tmp_path)
    whole = [analysis for analysis in ANALYSES if not analysis.limits_rows]
    run_analyses([(analysis, Options()) for analysis in whole], trace)
    before = kept(tmp_path)
    assert len(before) >= len(whole)
    run_analyses([(analysis, Options(top)) for analysis in whole for top in (1, 2)], trace)
    assert kept(tmp_path) == before


def test_a_window_is_not_kept_nor_what_names_all_events(samples: Path, tmp_path: Path) -> None:
    trace = cached([samples / "torch_stacks"], tmp_path)
    run_analyses(ASKED, trace, Window(0, trace.span[1] // 2))
    run_analyses([(analysis, Options(members=True)) for analysis in ANALYSES if analysis.count_column], trace)
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    "damage", first(1, [lambda table: table[:-1] + b"?", lambda table: table[:100], lambda _: b""])
)
def test_a_damaged_table_is_made_again(damage: Callable[[bytes], bytes], samples: Path, tmp_path: Path) -> None:
    trace = cached([samples / "torch_stacks"], tmp_path)
    before = run_analyses(ASKED, trace)
    for path in kept(tmp_path):
        path.write_bytes(damage(path.read_bytes()))
    for one, other in zip(before, run_analyses(ASKED, trace), strict=True):
        assert_frame_equal(one.table, other.table)


def test_another_version_is_another_table(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = cached([samples / "torch_stacks"], tmp_path)
    (first, *_), asked = run_analyses(ASKED[:1], trace), ASKED[:1]
    monkeypatch.setattr("tracehound.analysis.rank_table_cache.VERSION", VERSION + 1)
    changed = replace(asked[0][0], per_rank=lambda share, options: asked[0][0].per_rank(share, options).head(0))
    assert run_analyses([(changed, Options())], trace)[0].total < first.total
