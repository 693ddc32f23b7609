"""The arguments of the command line.

Owns the commands and their options, and finds the command among the words; `manual` has the words of their help, and
`parsing` what parses them. Knows nothing of traces; a command is run by `cli`.
"""

from __future__ import annotations

import difflib
import os
import re
from argparse import SUPPRESS, Namespace, _ArgumentGroup
from collections.abc import Callable, Sequence
from typing import Final, get_args

from tracehound import manual
from tracehound.alignment import WAYS
from tracehound.analysis import ANALYSES, NAMES
from tracehound.errors import TracehoundError
from tracehound.export import FORMS
from tracehound.parsing import Given, Layout, Listed, Parser, Version, path, whole_number
from tracehound.report import WRITERS
from tracehound.store.pool import default_jobs
from tracehound.units import TimeUnit

VALUED = (
    "--cache",
    "--jobs",
    "--run",
    "--align",
    "--theme",
    "--source-map",
    "--diff",
    "--rank",
    "--step",
    "--window",
    "--top",
    "--depth",
    "--set",
    "--peak",
    "--fail-on",
    "--save-baseline",
    "--where",
    "--format",
    "--unit",
    "--width",
)
"""Options whose value follows, of all commands; it is no command even when it is called like one.

Written out, since making every parser takes longer than many a command does.
"""

EXPLORE: Final = "explore"
"""What is done where no command is named: no word of the command line, so that a folder may be called so."""

_BELOW_ZERO = re.compile(r"-[\d.]")
"""How a value begins that is below zero."""

MOST_JOBS = 256
"""The most worker processes: they are started together, and far more would take a machine down."""


def parsed(arguments: Sequence[str]) -> Namespace:
    """The arguments as a namespace whose `command` is one of `COMMANDS`, or `EXPLORE` where none is named.

    Prints help or one line of what is wrong, and exits, where argparse would. Raises TracehoundError for a word that is
    nearly a command.
    """
    rest = _joined(arguments)
    command = _command(rest)
    parser = PARSERS[command]()
    asked = parser.parse_args(rest) if "--" in rest else parser.parse_intermixed_args(rest)
    asked.command = command
    return asked


def as_summary(asked: Namespace) -> Namespace:
    """The summary that stands in for the explorer where there is no terminal."""
    summary = _summary_parser().parse_args(["--", *asked.paths])
    for name in vars(summary).keys() & vars(asked).keys():  # how to read it is asked in the same words
        setattr(summary, name, getattr(asked, name))
    return summary


def as_diff(asked: Namespace) -> Namespace:
    """The comparison that stands in for the one on the screen where there is no terminal."""
    diff = _diff_parser().parse_args(["--", *asked.paths, asked.diff])
    for name in vars(diff).keys() & vars(asked).keys() - {"paths"}:
        setattr(diff, name, getattr(asked, name))
    return diff


def _joined(arguments: Sequence[str]) -> list[str]:
    """The arguments, with a value that begins with a minus and a number in one word with the option before it.

    Argparse takes such a word, as in ``--window -5ms..5ms``, for an option.
    """
    rest = list[str]()
    for place, word in enumerate(arguments):
        if word == "--":
            return [*rest, *arguments[place:]]
        if rest and rest[-1] in VALUED and _BELOW_ZERO.match(word):
            rest[-1] += f"={word}"
        else:
            rest.append(word)
    return rest


def _command(rest: list[str]) -> str:
    """The command among the arguments, which is taken out: the first word that is no option and no option's value."""
    previous = ""
    for place, word in enumerate(rest):
        if word == "--":
            break
        if not word.startswith("-") and previous not in VALUED:
            if word in COMMANDS:
                return rest.pop(place)
            _refuse_misspelt(word)
            break
        previous = word
    return EXPLORE


def _refuse_misspelt(word: str) -> None:
    """A word that is nearly a command, or an analysis, and no path, was meant as one."""
    near = difflib.get_close_matches(word.lower(), COMMANDS, 1) if word.isalpha() else []
    meant = near[0] if near else f"tracehound report PATH {word}" if word in NAMES else ""
    if meant and not os.path.lexists(word):
        raise TracehoundError(f"no file or command is called {word}", remedy=f"did you mean {meant}?")


def _parser(prog: str, usage: str, description: str | Callable[[], str], examples: str) -> Parser:
    parser = Parser(
        prog=prog,
        usage=usage,
        description=description if isinstance(description, str) else None,
        epilog=examples,
        formatter_class=Layout,
        allow_abbrev=False,
        add_help=False,
    )
    if not isinstance(description, str):
        parser.describe = description
    group = parser.add_argument_group("general")
    group.add_argument(
        "--run",
        action=Given,
        metavar="NAME",
        help="the run of a TensorBoard log folder (default: the newest), or of a folder of runs",
    )
    _with_reading_options(parser)
    group.add_argument("--ascii", action="store_true", help="draw with ASCII characters alone")
    group.add_argument("--version", action=Version, nargs=0, help="show the version and exit")
    group.add_argument("-h", "--help", action="help", help="show this and exit")
    return parser


def _with_reading_options(parser: Parser) -> None:
    how = parser.add_argument_group("how to read it")
    where = how.add_mutually_exclusive_group()
    where.add_argument("--cache", type=path, metavar="DIR", help="where files that were read are kept")
    where.add_argument("--no-cache", action="store_true", help="keep nothing after the end")
    how.add_argument(
        "--align", choices=WAYS, default=WAYS[0],
        help="one clock for several files: their wall clocks, the ends of their collectives, or each from its start"
        " (default: %(default)s, the wall clock, or collectives where files have none in common)",
    )  # fmt: skip
    how.add_argument(
        "--jobs",
        type=whole_number(1, MOST_JOBS),
        default=default_jobs(),
        metavar="N",
        help=f"worker processes, at most {MOST_JOBS} (default: %(default)s)",
    )


def _explorer_parser() -> Parser:
    parser = _parser("tracehound", "tracehound [options] PATH...", manual.EXPLORE, manual.EXPLORE_EXAMPLES)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=SUPPRESS)
    look = parser.add_argument_group("the explorer")
    look.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal (to select text)")
    look.add_argument("--reset", action="store_true", help="forget where you were in this trace, and the marks")
    look.add_argument("--theme", metavar="NAME", help="dark, light, or one of Textual's, such as nord or gruvbox")
    look.add_argument("--diff", action=Given, metavar="OTHER", help="show PATH, the base, and OTHER side by side")
    look.add_argument(
        "--source-map", action="append", default=[], metavar="REMOTE=LOCAL",
        help="source files recorded under REMOTE are under LOCAL here (. for names without a folder); may be repeated",
    )  # fmt: skip
    return parser


def _summary_parser() -> Parser:
    parser = _parser(
        "tracehound summary", "tracehound summary [options] PATH...", manual.SUMMARY, manual.SUMMARY_EXAMPLES
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=SUPPRESS)
    return _with_report_options(parser)


def _report_parser() -> Parser:
    def described() -> str:
        width = max(map(len, NAMES))
        listing = "\n".join(f"  {analysis.name:<{width}}  {analysis.question}" for analysis in ANALYSES)
        return manual.REPORT.format(analyses=listing)

    usage = "tracehound report [options] PATH... ANALYSIS"
    parser = _parser("tracehound report", usage, described, manual.REPORT_EXAMPLES)
    parser.add_argument("paths", nargs="*", metavar="PATH... ANALYSIS", help=SUPPRESS)
    parser.add_argument("--list", action="store_true", help="name the analyses and their questions as text, and exit")
    parser.add_argument(
        "--explain", action="store_true", help="say in words how the analysis defines its numbers, and exit"
    )
    parser.add_argument(
        "--where", action=Given, default="", metavar="FILTER", help="only rows like: self > 1ms and name ~ 'gemm'"
    )
    _with_settings(parser, "a setting of the analysis")
    return _with_report_options(parser)


def _with_settings(parser: Parser, what: str) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=what)
    parser.add_argument(
        "--peak", dest="set", action="append", type=_peak, metavar="NAME|FLOPS",
        help="the device's peaks, as --set peak=: H100, or 989T,3.35TB/s",
    )  # fmt: skip


def _query_parser() -> Parser:
    def described() -> str:
        from tracehound.query import TABLES  # noqa: PLC0415, by who asks for help

        width = max(len(table.name) for table in TABLES)
        listing = "\n".join(f"  {table.name:<{width}}  {table.meaning}" for table in TABLES)
        return manual.QUERY.format(tables=listing)

    usage = "tracehound query [options] PATH... 'SELECT ...'"
    parser = _parser("tracehound query", usage, described, manual.QUERY_EXAMPLES)
    parser.add_argument("words", nargs="*", metavar="PATH... STATEMENT", help=SUPPRESS)
    parser.add_argument("--tables", action="store_true", help="list all tables, or those named, as text, and exit")
    _with_settings(parser, "a setting of the analyses that the query names and that have it; of one as ANALYSIS.NAME=")
    return _with_report_options(parser)


def _hlo_parser() -> Parser:
    usage = "tracehound hlo [options] PATH... [PROGRAM] [OP]"
    parser = _parser("tracehound hlo", usage, manual.HLO, manual.HLO_EXAMPLES)
    parser.add_argument("words", nargs="+", metavar="PATH... [PROGRAM] [OP]", help=SUPPRESS)
    around = parser.add_argument_group("what to look at")
    around.add_argument(
        "--depth", type=whole_number(0), default=1, metavar="N", help="operands and users so far (default: 1)"
    )
    around.add_argument("--top", type=whole_number(1), metavar="N", help="at most N rows of a table")
    return _with_form_options(parser)


def _diff_parser() -> Parser:
    def described() -> str:
        from tracehound.diff import DEFINITION, GRAMMAR  # noqa: PLC0415, by who asks for help

        return manual.DIFF.format(grammar=_indented(GRAMMAR), definition=_indented(DEFINITION))

    parser = _parser("tracehound diff", "tracehound diff [options] BASE OTHER", described, manual.DIFF_EXAMPLES)
    parser.add_argument("paths", nargs=2, metavar="BASE OTHER", help=SUPPRESS)
    return _with_gate_options(parser, "OTHER")


def _check_parser() -> Parser:
    def described() -> str:
        from tracehound.diff import ALONE  # noqa: PLC0415, by who asks for help

        return manual.CHECK.format(grammar=_indented(ALONE))

    parser = _parser("tracehound check", "tracehound check [options] PATH...", described, manual.CHECK_EXAMPLES)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=SUPPRESS)
    return _with_gate_options(parser, "the run")


def _with_gate_options(parser: Parser, run: str) -> Parser:
    gate = parser.add_argument_group("gate")
    gate.add_argument("--fail-on", action="append", default=[], metavar="CONDITION", help="exit with 1 when this holds")
    gate.add_argument("--save-baseline", type=path, metavar="FILE", help=f"keep what was measured of {run} in a file")
    return _with_report_options(parser, ("junit (what came of --fail-on, for CI)",))


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ").replace("\n  \n", "\n\n")


def _cache_parser() -> Parser:
    parser = Parser(
        prog="tracehound cache",
        usage="tracehound cache list|clear [--cache DIR]",
        description=manual.CACHE,
        formatter_class=Layout,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("action", choices=("list", "clear"), metavar="list|clear", help=SUPPRESS)
    parser.add_argument("--cache", type=path, metavar="DIR", help="another cache than the user's own")
    parser.add_argument("--ascii", action="store_true", help="write with ASCII characters alone")
    parser.add_argument("-h", "--help", action="help", help="show this and exit")
    return parser


def _export_parser() -> Parser:
    width = max(len(form.name) for form in FORMS)
    listing = "\n".join(f"  {form.suffix:<{width + 1}}  {form.purpose}" for form in FORMS)
    usage = "tracehound export [options] PATH... OUT"
    parser = _parser("tracehound export", usage, manual.EXPORT.format(forms=listing), manual.EXPORT_EXAMPLES)
    parser.add_argument("paths", nargs="*", metavar="PATH... OUT", help=SUPPRESS)
    _with_window_options(parser)
    how = parser.add_argument_group("how to write it")
    how.add_argument("--format", default="", metavar="FORM", help=f"{', '.join(form.name for form in FORMS)}")
    how.add_argument("--force", action="store_true", help="replace OUT where it exists, or put it among what is read")
    return parser


def _with_window_options(parser: Parser) -> _ArgumentGroup:
    narrow = parser.add_argument_group("what to look at")
    narrow.add_argument("--rank", action=Listed, default="", metavar="LIST", help="only these ranks: 0,2-5")
    when = narrow.add_mutually_exclusive_group()
    when.add_argument(
        "--step",
        action=Listed,
        default="",
        metavar="LIST",
        help="only the time of these steps: 12, 12-14; first, last and longest are steps, too",
    )
    when.add_argument(
        "--window", action=Given, default="", metavar="A..B", help="only this time: 10ms..20ms, 1.5s.., ..300us"
    )
    return narrow


def _with_report_options(parser: Parser, more: Sequence[str] = ()) -> Parser:
    narrow = _with_window_options(parser)
    narrow.add_argument("--top", type=whole_number(1), metavar="N", help="at most N rows of a table")
    return _with_form_options(parser, more)


def _with_form_options(parser: Parser, more: Sequence[str] = ()) -> Parser:
    how = parser.add_argument_group("how to write it")
    forms = [form.name for form in WRITERS]
    purposes = ", ".join([*(f"{form.name} ({form.purpose})" for form in WRITERS), *more])
    how.add_argument("--format", default=forms[0], metavar="FORM", help=f"{purposes}; default: {forms[0]}")
    how.add_argument(
        "--unit", choices=get_args(TimeUnit), default="auto", help="unit of times in text and markdown (default: auto)"
    )
    how.add_argument(
        "--width",
        type=whole_number(0),
        metavar="N",
        help="width of text; 0: as wide as it takes (default: the terminal's)",
    )
    return parser


def _peak(text: str) -> str:
    return f"peak={text}"


PARSERS = {
    EXPLORE: _explorer_parser,
    "summary": _summary_parser,
    "report": _report_parser,
    "query": _query_parser,
    "hlo": _hlo_parser,
    "diff": _diff_parser,
    "check": _check_parser,
    "export": _export_parser,
    "cache": _cache_parser,
}
"""What makes the parser of each command."""

COMMANDS: Final = tuple(name for name in PARSERS if name != EXPLORE)
"""The words that name a command; `tracehound.commands` has a module of each name."""
