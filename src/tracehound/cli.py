"""The command line: what was asked, of which trace, in which face. The only place that picks a face.

Owns exit codes and what is said on stderr. Knows no format, no analysis and no layout. The explorer is imported when it
is started and not before, so that a headless run knows nothing of the terminal toolkit.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import replace
from functools import partial
from pathlib import Path

from tracehound import console, report
from tracehound.alignment import arranged
from tracehound.analysis import ANALYSES, LISTING, Analysis, Options, Result, named, run, where
from tracehound.arguments import as_diff, as_summary, parsed
from tracehound.diff import (
    Condition,
    Profile,
    Verdict,
    compare,
    condition,
    judged,
    judged_alone,
    loaded,
    not_whole,
    profile,
    refuse_other,
    saved,
)
from tracehound.errors import BAD_INPUT, TracehoundError, printable
from tracehound.export import Form, Written, apart, destination, said
from tracehound.export import named as form_of
from tracehound.export.destination import Destination
from tracehound.preferences import preferred
from tracehound.progress import Progress
from tracehound.query import TABLES, answer, prepare
from tracehound.query import named as table
from tracehound.report import WRITERS, Page, Writer, about, explain, hlo, schema, summarise, writer
from tracehound.report.kept import listing
from tracehound.report.window import beyond, chosen
from tracehound.store import Opening, Workshop, cache, load, open_paths, workshop
from tracehound.store.heap import hold_large
from tracehound.trace import Trace, Window
from tracehound.units import plural

FAILED = 1
"""Exit status of a run that fails a condition."""

INTERRUPTED = 130

MANY_RANKS = 16
"""Ranks from which their analysis is worth starting workers for."""

MANY_FILES = 5
"""So many files that could not be read are told of one by one."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except TracehoundError as error:
        console.say(str(error))
        return error.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenExecutor:
        console.say("a worker process was killed; is there enough memory? --jobs 1 takes less")
        return BAD_INPUT
    except BrokenPipeError:
        console.forget()  # nobody reads on: that is their right
        return 0


def _run(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    if sys.stdout is None:
        raise TracehoundError("stdout is closed")
    asked = parsed(arguments)
    return _COMMANDS[asked.command](asked)


def _explore(asked: Namespace) -> int:
    """The explorer, or the summary where no explorer can be."""
    if asked.theme is not None and not console.interactive():
        from tracehound.ui.themes import checked  # noqa: PLC0415, where no theme is asked for nothing of it is imported

        checked(asked.theme)
    if asked.diff:
        return _contrast(asked)
    if not console.interactive():
        return _summary(as_summary(asked))
    with _workshop(asked) as shop:
        opening = _opening(asked.paths, asked, shop, leaving=True)
        opening.staff()
        from tracehound.ui.run import explore  # noqa: PLC0415, a headless run must not import it

        hold_large()
        return explore(opening, asked, console.alphabet(asked))


def _contrast(asked: Namespace) -> int:
    """Two runs side by side in the explorer, or their comparison where no explorer can be."""
    if len(asked.paths) != 1:
        raise TracehoundError("--diff compares one PATH with OTHER", remedy="a folder holds all ranks of a run")
    if not console.interactive():
        return _diff(as_diff(asked))
    for path in (*asked.paths, asked.diff):
        if loaded(Path(path)) is not None:
            remedy = "compare with it by: tracehound diff BASE OTHER"
            raise TracehoundError("is a baseline: it has no events to draw", Path(path), remedy=remedy)
    with _workshop(asked) as shop:
        base, other = (_opening([path], asked, shop, leaving=True) for path in (*asked.paths, asked.diff))
        base.staff()
        other.staff()
        from tracehound.ui.run import contrast  # noqa: PLC0415, a headless run must not import it

        hold_large()
        return contrast(base, other, asked, console.alphabet(asked))


def _summary(asked: Namespace) -> int:
    form = writer(asked.format)
    with _workshop(asked) as shop:
        trace, window = _read(asked, shop)
        page = summarise(trace, window, asked.top, _helpers(trace, shop))
    console.show(form.summary(page, console.look(asked)), asked)
    _tell(form, page.results)
    return 0


def _report(asked: Namespace) -> int:
    if asked.list:
        _refuse_forms(asked, "--list")
        console.show(explain.listing(ANALYSES), asked)
        return 0
    form = writer(asked.format)
    analysis = _analysis(asked)
    given = preferred(analysis, asked.set)
    if asked.explain:
        _refuse_forms(asked, "--explain")
        console.show(explain.definition(analysis, console.look(asked).width), asked)
        return 0
    if not asked.paths:
        raise TracehoundError(f"{analysis.name} of which trace?", remedy=f"tracehound report PATH... {analysis.name}")
    where.condition(asked.where, analysis.columns)  # what is wrong with it is told before the trace is read
    with _workshop(asked) as shop:
        trace, window = _read(asked, shop)
        options = Options(None if asked.where else asked.top, given)
        result = run(analysis, trace, window, options, _helpers(trace, shop))
    result = where.kept(result, asked.where, asked.top) if asked.where else result
    return _show(result, trace, window, form, asked)


def _query(asked: Namespace) -> int:
    if asked.tables:
        _refuse_forms(asked, "--tables")
        named_tables = [table(word) for word in asked.words if not _is_path(word)]
        console.show(schema.definitions(named_tables or TABLES, console.look(asked).width), asked)
        return 0
    form = writer(asked.format)
    asked.paths, text = _statement(asked.words)
    query = prepare(text)  # what is wrong with it is told before the trace is read
    with _workshop(asked) as shop:
        trace, window = _read(asked, shop)
        result = answer(query, trace, window, asked.top or form.readable, _helpers(trace, shop))
    return _show(result, trace, window, form, asked)


def _hlo(asked: Namespace) -> int:
    form = writer(asked.format)
    paths, words = hlo.split(asked.words, _is_path)
    with _workshop(asked) as shop:
        trace = _loaded(_opening(paths, asked, shop))
        found = hlo.answer(trace, words, asked.depth, asked.top)
    if isinstance(found, Page):
        console.show(form.page(found, console.look(asked)), asked)
        _tell(form, found.results, found.runs)
        return 0
    if isinstance(found, Result):
        return _show(found, trace, Window(), form, asked)
    if asked.format in hlo.TEXTS:
        console.show(hlo.TEXTS[asked.format](found), asked)
        return 0
    return _show(hlo.rows(found, asked.top), trace, Window(), form, asked)


def _diff(asked: Namespace) -> int:
    conditions = [condition(text) for text in asked.fail_on]  # what is wrong with one is told before a trace is read
    form = _page_form(asked)
    if asked.save_baseline:
        refuse_other(asked.save_baseline)
    with _workshop(asked) as shop:
        first, second = asked.paths
        base, other = _profile([first], asked, shop, more=True), _profile([second], asked, shop)
    _warn({"base": base, "other run": other}, conditions)
    verdicts = judged(base, other, conditions)
    page = report.comparison(compare(base, other, asked.top), verdicts)
    return _judge(page, other, verdicts, form, asked)


def _check(asked: Namespace) -> int:
    conditions = [condition(text) for text in asked.fail_on]
    if not conditions and not asked.save_baseline:
        raise TracehoundError("no condition", remedy="tracehound check PATH... --fail-on 'idle > 20%'")
    form = _page_form(asked)
    if asked.save_baseline:
        refuse_other(asked.save_baseline)
    with _workshop(asked) as shop:
        found = _profile(asked.paths, asked, shop)
    _warn({"run": found}, conditions)
    verdicts = judged_alone(found, conditions)
    return _judge(report.check(found, verdicts), found, verdicts, form, asked)


def _profile(paths: Sequence[str], asked: Namespace, shop: Workshop, *, more: bool = False) -> Profile:
    """What is known of a run: measured, or kept in a file. There may be `more` runs after it."""
    kept = loaded(Path(paths[0])) if len(paths) == 1 else None
    if kept is not None:
        if asked.rank or asked.step or asked.window:
            console.say(printable(f"{paths[0]} is a baseline: --rank, --step and --window narrow the other run alone"))
        return kept
    try:
        trace, window = _ready(_opening(paths, asked, shop), asked)
    except TracehoundError as error:
        raise replace(error, path=error.path or Path(paths[0])) from error  # of two runs it must be said which
    return profile(trace, window, _helpers(trace, shop, more=more))


def _warn(runs: Mapping[str, Profile], conditions: Sequence[Condition]) -> None:
    """A gate that is open must not hide that half of a run is missing."""
    for line in not_whole(runs) if conditions else ():
        console.say(printable(line))


def _refuse_forms(asked: Namespace, option: str) -> None:
    """What an option prints is for people: text, and no form for programs."""
    if writer(asked.format) is not WRITERS[0]:
        raise TracehoundError(f"{option} prints text alone, no {asked.format}", remedy="leave --format out")


def _page_form(asked: Namespace) -> Writer | None:
    """The form of a page; None is JUnit's, which has a place for conditions alone."""
    if asked.format != "junit":
        return writer(asked.format)
    if not asked.fail_on:
        raise TracehoundError("junit tells what came of conditions", remedy="add --fail-on 'step_time > +3%'")
    return None


def _judge(page: Page, run: Profile, verdicts: Sequence[Verdict], form: Writer | None, asked: Namespace) -> int:
    """Print a page, keep what it is about where that was asked for; 1 when a condition fails."""
    console.show(form.page(page, console.look(asked)) if form else report.junit(page.title, verdicts), asked)
    if form:
        _tell(form, page.results, page.runs)
    if asked.save_baseline:
        saved(run, asked.save_baseline)
    for verdict in verdicts:
        if verdict.failed:
            console.say(printable(f"failed: {verdict.condition.text}: {verdict.why}"))
    return FAILED if page.failed else 0


def _export(asked: Namespace) -> int:
    if len(asked.paths) < 2:
        what = "to which file?" if asked.paths else "which trace, to which file?"
        raise TracehoundError(f"export {what}", remedy="tracehound export PATH... OUT")
    *asked.paths, out = asked.paths
    folder = destination.folder(out)
    form = form_of(asked.format or (apart.FORM if folder else ""), out)
    with _workshop(asked) as shop:
        opening = _opening(asked.paths, asked, shop)
        places = _places(out, folder, form, [file.path for file in opening.files], force=asked.force)
        among = form.trace and any(place.lies_in(map(Path, asked.paths)) for place in places.values())
        if among and not asked.force:
            remedy = "write it elsewhere, or anyway with --force"
            raise TracehoundError(
                "lies in the folder that is read, and would be read with it", Path(out), remedy=remedy
            )
        trace, window = _ready(opening, asked)
        narrowed = apart.windows(trace, window) if folder else {Path(out): window}
        for path in () if asked.force else narrowed:
            places[path].refuse_old()
        written = [_written(form, trace, window, places[path]) for path, window in narrowed.items()]
    for note in (note for one in written for note in one.notes):
        console.say(printable(note))
    name = f"{printable(folder.name)}{os.sep}" if folder else places[Path(out)].name
    console.say(f"{name}: {said(written)}")
    if among:
        console.say(f"{name} lies in a folder that was read, and will be read with it")
    return 0


def _places(
    out: str, folder: Path | None, form: Form, files: Sequence[Path], *, force: bool
) -> dict[Path, Destination]:
    """Where an export goes: by the path of each file that is read where it goes to a folder, else by its own.

    In a folder a place may be taken: which are written is known when all is read.
    """
    if folder is None:
        return {Path(out): destination.anyhow(out, files) if force else destination.new(out, files)}
    words = [str(folder / name) for name in apart.names(files, form.suffix)]
    return {file: destination.anyhow(word, files, folder) for file, word in zip(files, words, strict=True)}


def _written(form: Form, trace: Trace, window: Window, place: Destination) -> Written:
    with place.opened() as file, console.writing(place.name) as tell:
        return form.write(trace, window, file, tell)


def _statement(words: Sequence[str]) -> tuple[Sequence[str], str]:
    """The paths and the statement, which is the last word; ``-`` stands for what stdin has."""
    if not words or _is_path(words[-1]):
        what = f"{printable(words[-1])} is a path" if words else "which query, of which trace?"
        raise TracehoundError(what, remedy="tracehound query PATH... 'SELECT ...'")
    *paths, text = words
    if not paths:
        prepare(text)
        raise TracehoundError("a query of which trace?", remedy="tracehound query PATH... 'SELECT ...'")
    return paths, sys.stdin.read() if text == "-" else text


def _is_path(word: str) -> bool:
    """Whether a word is a path rather than a statement or a table, which stand for nothing on the disk."""
    return not any(map(str.isspace, word)) and os.access(word, os.F_OK)


def _show(result: Result, trace: Trace, window: Window, form: Writer, asked: Namespace) -> int:
    """Print a result in its form; notes that have no place there go to stderr."""
    console.show(form.result(about(trace, window), result, console.look(asked)), asked)
    if not form.notes:
        for note in _remarks(result):
            console.say(printable(note))
    return 0


def _tell(form: Writer, results: Sequence[Result], runs: Sequence[tuple[str, str]] = ()) -> None:
    """Facts and notes of a page to stderr, the notes under the names of their results, where its form has none."""
    if not form.notes:
        told = [(result.analysis, note) for result in results for note in _remarks(result)]
        for name, note in (*runs, *told):
            console.say(printable(f"{name}: {note}"))


def _remarks(result: Result) -> list[str]:
    """What is to be known of the rows: how many there are of how many, and the notes."""
    return [*([result.cut] if result.cut else []), *result.notes]


def _analysis(asked: Namespace) -> Analysis:
    """The analysis that the last argument names, which is taken out of the paths."""
    if not asked.paths:
        remedy = f"tracehound report PATH ANALYSIS; {LISTING} names them all"
        raise TracehoundError("which analysis, of which trace?", remedy=remedy)
    *asked.paths, last = asked.paths
    if last in _COMMANDS and last != "explore" and asked.paths:
        raise TracehoundError(f"{last} is a command, not an analysis", remedy=f"tracehound {last} PATH...")
    if last not in {analysis.name for analysis in ANALYSES} and Path(last).exists():
        raise TracehoundError(
            f"{printable(last)} is a path", remedy=f"name an analysis after it; {LISTING} names them all"
        )
    return named(last)


def _workshop(asked: Namespace) -> Workshop:
    """The workers and the cache that were asked for."""
    if asked.no_cache:
        return workshop(asked.jobs, None)
    return workshop(asked.jobs, partial(cache.opened, asked.cache or cache.default_root()))


def _helpers(trace: Trace, shop: Workshop, *, more: bool = False) -> Executor | None:
    """Workers for the maps of an analysis, where they do more than starting them costs.

    One rank is mapped here, on all processors. The workers that read it go, and what they hold with them, unless there
    is `more` to read.
    """
    ranks = trace.ranks.height
    if ranks > 1 and (shop.pool.started or ranks >= MANY_RANKS):
        return shop.pool.executor
    if not more:
        shop.pool.close()
    return None


def _cache(asked: Namespace) -> int:
    """List what the cache holds, or clear it."""
    root = asked.cache or cache.default_root()
    try:
        kept = cache.existing(root)
    except OSError as error:
        raise TracehoundError(f"no cache here: {(error.strerror or str(error)).lower()}", root) from error
    if asked.action == "clear":
        gone, stay = kept.clear() if kept else (0, 0)
        console.say(
            f"{plural(gone, 'entry', 'entries')} removed"
            + (f", {plural(stay, 'entry', 'entries')} in use kept" if stay else "")
        )
    else:
        console.show(listing(kept.entries() if kept else [], root), asked)
    if kept:
        kept.close()
    return 0


def _read(asked: Namespace, shop: Workshop) -> tuple[Trace, Window]:
    """The trace, and the window that was asked for. What could not be read of it is said."""
    return _ready(_opening(asked.paths, asked, shop), asked)


def _opening(paths: Sequence[str], asked: Namespace, shop: Workshop, *, leaving: bool = False) -> Opening:
    """The files of a trace; where `leaving`, q ends the search for them, and the program."""
    for path in paths:
        if not path:
            raise TracehoundError("a path is empty", remedy="a variable that is not set? . is this folder")
        if _URL.match(path) and not _is_path(path):
            raise TracehoundError(f"{path}: URLs are not read", remedy="download it first")
    with console.searching(", ".join(paths), leaving=leaving) as look:
        opening = open_paths([Path(path) for path in paths], asked.run, shop, look)
    return arranged(opening, asked.align)


def _ready(opening: Opening, asked: Namespace) -> tuple[Trace, Window]:
    """The trace of an opening, and the window that was asked for. What of that lies outside of the trace is said."""
    trace = _loaded(opening)
    window = chosen(trace, asked.rank, asked.step, asked.window)
    if outside := beyond(trace, window):
        console.say(outside)
    return trace, window


def _loaded(opening: Opening) -> Trace:
    """The trace of an opening. What could not be read of it is said."""
    trace = _with_progress(opening)
    hold_large()
    dropped = [
        f"{note.where}: {note.text}" if note.where else note.text for note in opening.notes if note.level == "dropped"
    ]
    for line in dropped[:MANY_FILES]:
        console.say(printable(line))
    if left := len(dropped[MANY_FILES:]):
        console.say(f"{left:,} more like these; tracehound report PATH health tells of all")
    return trace


def _with_progress(opening: Opening) -> Trace:
    """Read it, and say how far that is where somebody looks."""
    if sys.stderr is None or not sys.stderr.isatty():
        return load(opening)
    with Progress(sys.stderr) as progress:
        return load(opening, progress.show)


_COMMANDS: dict[str, Callable[[Namespace], int]] = {
    "explore": _explore,
    "summary": _summary,
    "report": _report,
    "query": _query,
    "hlo": _hlo,
    "diff": _diff,
    "check": _check,
    "export": _export,
    "cache": _cache,
}
