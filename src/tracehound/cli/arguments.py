"""The commands and options of the command line, and the search for the command among the words.

`help_texts` has the help of each command; `main` runs the commands.
"""

from __future__ import annotations

import difflib
import os
import re
from argparse import SUPPRESS, Namespace, _ArgumentGroup
from collections.abc import Callable, Sequence
from typing import Final, get_args

from tracehound.analysis import ANALYSES, NAMES
from tracehound.cli import help_texts
from tracehound.cli.argument_parser import (
    CommaListAction,
    CommandParser,
    NonEmptyAction,
    VersionAction,
    WrappedHelpFormatter,
    duration_argument,
    path_argument,
    path_or_url_argument,
    whole_number_argument,
)
from tracehound.cli.capture_arguments import add_dynolog_options, add_snapshot_options, add_tracer_options
from tracehound.errors import TracehoundError
from tracehound.export import EXPORT_FORMATS
from tracehound.model.old_names import current_name
from tracehound.model.units import TimeUnit
from tracehound.report import WRITERS
from tracehound.store.clock_choice import ALIGN_CHOICES
from tracehound.store.worker_pool import default_jobs

OPTIONS_WITH_VALUE = (
    "--cache",
    "--jobs",
    "--cluster",
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
    "--duration",
    "--timeout",
    "--port",
    "--host-tracer-level",
    "--device-tracer-level",
    "--python-tracer-level",
    "--option",
    "--every",
    "--max-age",
    "--count",
    "--dynolog",
    "--pid",
    "--job-id",
    "--iterations",
    "--record",
    "--report",
)
"""The options of all commands that are followed by a value, which is never taken for a command.

Listed by hand, since constructing every parser would take longer than many commands do."""

EXPLORE: Final = "explore"
"""The command if none is named; not a word of the command line, so that a folder may have this name."""

CAPTURE: Final = "capture"
"""The command that captures a running job; it ends in the explorer, where there is a terminal."""

_NEGATIVE_VALUE = re.compile(r"-[\d.]")
"""The beginning of a negative number."""

MAX_JOBS = 256
"""The largest number of worker processes: all start together, and many more would overload the machine."""


def parse_arguments(arguments: Sequence[str]) -> Namespace:
    """The arguments as a namespace; its `command` is one of `COMMANDS`, or `EXPLORE` if none is named.

    Prints help or a one-line error and exits where argparse would. Raises TracehoundError for a misspelled command.
    """
    rest = _join_negative_values(arguments)
    command = _pop_command(rest)
    parser = PARSER_FACTORIES[command]()
    options = parser.parse_args(rest) if "--" in rest else parser.parse_intermixed_args(rest)
    options.command = command
    return options


def to_summary_arguments(options: Namespace) -> Namespace:
    """The arguments of the summary that replaces the explorer without a terminal."""
    summary = _summary_parser().parse_args(["--", *options.paths])
    for name in vars(summary).keys() & vars(options).keys():  # the options of reading are the same
        setattr(summary, name, getattr(options, name))
    return summary


def to_diff_arguments(options: Namespace) -> Namespace:
    """The arguments of the diff that replaces the comparison screen without a terminal."""
    diff = _diff_parser().parse_args(["--", *options.paths, options.diff])
    for name in vars(diff).keys() & vars(options).keys() - {"paths"}:
        setattr(diff, name, getattr(options, name))
    return diff


def to_answer_arguments(options: Namespace, command: str, words: Sequence[str]) -> Namespace:
    """The arguments of a command about a trace that was just captured, with the options of the capture's answer."""
    parser = PARSER_FACTORIES[command]()
    answer = parser.parse_args(["--", *words])
    given = vars(answer).keys() & vars(options).keys() - {"paths", "command"}
    for name in given & _ANSWER_OPTIONS:
        setattr(answer, name, getattr(options, name))
    answer.command = command
    return answer


_ANSWER_OPTIONS = frozenset(
    {
        "align",
        "anonymous",
        "ascii",
        "cache",
        "format",
        "jobs",
        "no_cache",
        "notes",
        "requester_pays",
        "set",
        "top",
        "unit",
        "width",
    }
)
"""Options that a capture passes on to its answer."""


def _join_negative_values(arguments: Sequence[str]) -> list[str]:
    """The arguments, with each value that begins with a negative number joined to its option by ``=``.

    Argparse would take such a value, as in ``--window -5ms..5ms``, for an option.
    """
    rest = list[str]()
    for place, word in enumerate(arguments):
        if word == "--":
            return [*rest, *arguments[place:]]
        if rest and rest[-1] in OPTIONS_WITH_VALUE and _NEGATIVE_VALUE.match(word):
            rest[-1] += f"={word}"
        else:
            rest.append(word)
    return rest


def _pop_command(rest: list[str]) -> str:
    """Remove and return the command: the first word that is neither an option nor the value of one."""
    previous = ""
    for place, word in enumerate(rest):
        if word == "--":
            break
        if not word.startswith("-") and previous not in OPTIONS_WITH_VALUE:
            if word in COMMANDS:
                return rest.pop(place)
            _refuse_misspelled_command(word)
            break
        previous = word
    return EXPLORE


def _refuse_misspelled_command(word: str) -> None:
    """Raise TracehoundError for a word that is nearly a command, or an analysis, and not a path."""
    near = difflib.get_close_matches(word.lower(), COMMANDS, 1) if word.isalpha() else []
    meant = near[0] if near else f"tracehound report PATH {word}" if current_name(word) in NAMES else ""
    if meant and not os.path.lexists(word):
        raise TracehoundError(f"no file or command is called {word}", remedy=f"did you mean {meant}?")


def _make_parser(prog: str, usage: str, description: str | Callable[[], str], examples: str) -> CommandParser:
    """The parser of a command that reads a trace, with the options of reading."""
    parser = _make_bare_parser(prog, usage, description, examples)
    group = parser.add_argument_group("general")
    group.add_argument(
        "--run",
        action=NonEmptyAction,
        metavar="NAME",
        help="run of a log folder or of a folder of runs, or one of several recordings in a folder, as a note names it"
        " (default: the newest)",
    )
    _add_reading_options(parser)
    _add_general_options(group)
    return parser


def _make_bare_parser(prog: str, usage: str, description: str | Callable[[], str], examples: str) -> CommandParser:
    """A parser without options, not even ``--help``."""
    parser = CommandParser(
        prog=prog,
        usage=usage,
        description=description if isinstance(description, str) else None,
        epilog=examples,
        formatter_class=WrappedHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    if not isinstance(description, str):
        parser.make_description = description
    return parser


def _add_general_options(group: _ArgumentGroup) -> None:
    group.add_argument("--ascii", action="store_true", help="use only ASCII characters")
    group.add_argument("--version", action=VersionAction, nargs=0, help="show the version and exit")
    group.add_argument("-h", "--help", action="help", help="show this and exit")


def _add_reading_options(parser: CommandParser) -> None:
    how = parser.add_argument_group("reading")
    where = how.add_mutually_exclusive_group()
    where.add_argument("--cache", type=path_argument, metavar="DIR", help="cache folder")
    where.add_argument("--no-cache", action="store_true", help="do not use a cache")
    how.add_argument(
        "--align", choices=ALIGN_CHOICES, default=ALIGN_CHOICES[0],
        help="common clock of several files: wall clocks, collective end times, or the start of each"
        " (default: %(default)s, which is wall, or collectives if the files have no common wall clock)",
    )  # fmt: skip
    how.add_argument(
        "--jobs",
        type=whole_number_argument(1, MAX_JOBS),
        default=default_jobs(),
        metavar="N",
        help=f"worker processes, at most {MAX_JOBS} (default: %(default)s)",
    )
    buckets = parser.add_argument_group("buckets")
    buckets.add_argument("--anonymous", action="store_true", help="read buckets without credentials")
    buckets.add_argument("--requester-pays", action="store_true", help="pay for reading a bucket of somebody else")


def _add_cluster_option(parser: CommandParser) -> None:
    parser.add_argument_group("cluster").add_argument(
        "--cluster",
        action=NonEmptyAction,
        metavar="ADDRESS",
        help="let the workers of a Dask cluster find and read the files: tcp://HOST:8786, or a scheduler file",
    )


def _explorer_parser() -> CommandParser:
    parser = _make_parser("tracehound", "tracehound [options] PATH...", help_texts.EXPLORE, help_texts.EXPLORE_EXAMPLES)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=SUPPRESS)
    parser.add_argument("--cluster", action=NonEmptyAction, help=SUPPRESS)  # for the summary without a terminal
    look = parser.add_argument_group("explorer")
    look.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal, to select text")
    look.add_argument("--reset", action="store_true", help="forget the last position in this trace, and the bookmarks")
    look.add_argument("--theme", metavar="NAME", help="dark, light, or one of Textual's, such as nord or gruvbox")
    look.add_argument(
        "--diff",
        action=NonEmptyAction,
        metavar="CANDIDATE",
        help="compare PATH (the baseline) with CANDIDATE (the candidate)",
    )
    look.add_argument(
        "--source-map", action="append", default=[], metavar="REMOTE=LOCAL",
        help="source files recorded under REMOTE are in LOCAL here (. for names without a folder); may be repeated",
    )  # fmt: skip
    return parser


def _summary_parser() -> CommandParser:
    parser = _make_parser(
        "tracehound summary", "tracehound summary [options] PATH...", help_texts.SUMMARY, help_texts.SUMMARY_EXAMPLES
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=SUPPRESS)
    _add_cluster_option(parser)
    return _add_report_options(parser)


def _report_parser() -> CommandParser:
    def described() -> str:
        width = max(map(len, NAMES))
        listing = "\n".join(f"  {analysis.name:<{width}}  {analysis.question}" for analysis in ANALYSES)
        return help_texts.REPORT.format(analyses=listing)

    usage = "tracehound report [options] PATH... ANALYSIS"
    parser = _make_parser("tracehound report", usage, described, help_texts.REPORT_EXAMPLES)
    parser.add_argument("paths", nargs="*", metavar="PATH... ANALYSIS", help=SUPPRESS)
    parser.add_argument("--list", action="store_true", help="list the analyses with their questions, and exit")
    parser.add_argument("--explain", action="store_true", help="show how the analysis defines its numbers, and exit")
    parser.add_argument(
        "--where",
        action=NonEmptyAction,
        default="",
        metavar="FILTER",
        help="only rows that match, such as: self > 1ms and name ~ 'gemm'",
    )
    _add_setting_options(parser, "a setting of the analysis")
    _add_cluster_option(parser)
    return _add_report_options(parser)


def _add_setting_options(parser: CommandParser | _ArgumentGroup, what: str) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=what)
    parser.add_argument(
        "--peak", dest="set", action="append", type=_peak_setting, metavar="NAME|FLOPS",
        help="peaks of the device, short for --set peak=: H100, or 989T,3.35TB/s",
    )  # fmt: skip


def _query_parser() -> CommandParser:
    def described() -> str:
        from tracehound.query import ALL_TABLES  # noqa: PLC0415, by who asks for help

        width = max(len(table.name) for table in ALL_TABLES)
        listing = "\n".join(f"  {table.name:<{width}}  {table.meaning}" for table in ALL_TABLES)
        return help_texts.QUERY.format(tables=listing)

    usage = "tracehound query [options] PATH... 'SELECT ...'"
    parser = _make_parser("tracehound query", usage, described, help_texts.QUERY_EXAMPLES)
    parser.add_argument("words", nargs="*", metavar="PATH... STATEMENT", help=SUPPRESS)
    parser.add_argument("--tables", action="store_true", help="list all tables, or the named ones, and exit")
    _add_setting_options(
        parser, "a setting of all analyses in the query that have it; ANALYSIS.NAME=VALUE for one of them"
    )
    return _add_report_options(parser)


def _hlo_parser() -> CommandParser:
    usage = "tracehound hlo [options] PATH... [PROGRAM] [OP]"
    parser = _make_parser("tracehound hlo", usage, help_texts.HLO, help_texts.HLO_EXAMPLES)
    parser.add_argument("words", nargs="+", metavar="PATH... [PROGRAM] [OP]", help=SUPPRESS)
    around = parser.add_argument_group("selection")
    around.add_argument(
        "--depth",
        type=whole_number_argument(0),
        default=1,
        metavar="N",
        help="levels of operands and users (default: 1)",
    )
    around.add_argument("--top", type=whole_number_argument(1), metavar="N", help="at most N rows of a table")
    return _add_format_options(parser)


def _diff_parser() -> CommandParser:
    def described() -> str:
        from tracehound.diff import COMPARISON_GRAMMAR, DEFINITION  # noqa: PLC0415, by who asks for help

        return help_texts.DIFF.format(grammar=_indent_text(COMPARISON_GRAMMAR), definition=_indent_text(DEFINITION))

    parser = _make_parser(
        "tracehound diff", "tracehound diff [options] BASELINE CANDIDATE", described, help_texts.DIFF_EXAMPLES
    )
    parser.add_argument("paths", nargs=2, metavar="BASELINE CANDIDATE", help=SUPPRESS)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE",
        help="samples=64 or samples=64,128 (of a step; tokens likewise): time per sample; phase=prefill",
    )  # fmt: skip
    return _add_gate_options(parser, "CANDIDATE")


def _check_parser() -> CommandParser:
    def described() -> str:
        from tracehound.diff import SINGLE_RUN_GRAMMAR  # noqa: PLC0415, by who asks for help

        return help_texts.CHECK.format(grammar=_indent_text(SINGLE_RUN_GRAMMAR))

    parser = _make_parser(
        "tracehound check", "tracehound check [options] PATH...", described, help_texts.CHECK_EXAMPLES
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=SUPPRESS)
    return _add_gate_options(parser, "the run")


def _add_gate_options(parser: CommandParser, run: str) -> CommandParser:
    _add_cluster_option(parser)
    gate = parser.add_argument_group("gate")
    gate.add_argument(
        "--fail-on", action="append", default=[], metavar="CONDITION", help="exit with 1 if this condition holds"
    )
    gate.add_argument(
        "--save-baseline", type=path_or_url_argument, metavar="FILE", help=f"save the measurements of {run} in a file"
    )
    return _add_report_options(parser, ("junit (results of --fail-on, for CI)",))


def _indent_text(text: str) -> str:
    return text.replace("\n", "\n  ").replace("\n  \n", "\n\n")


def _cache_parser() -> CommandParser:
    parser = CommandParser(
        prog="tracehound cache",
        usage="tracehound cache list|clear [--cache DIR]",
        description=help_texts.CACHE,
        formatter_class=WrappedHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("action", choices=("list", "clear"), metavar="list|clear", help=SUPPRESS)
    parser.add_argument("--cache", type=path_argument, metavar="DIR", help="cache folder (default: the user's)")
    parser.add_argument("--ascii", action="store_true", help="use only ASCII characters")
    parser.add_argument("-h", "--help", action="help", help="show this and exit")
    return parser


def _capture_parser() -> CommandParser:
    usage = "tracehound capture [options] HOST:PORT,... [LOGDIR]"
    parser = _make_bare_parser("tracehound capture", usage, help_texts.CAPTURE, help_texts.CAPTURE_EXAMPLES)
    parser.add_argument("words", nargs="*", metavar="HOST:PORT[,HOST:PORT...] [LOGDIR]", help=SUPPRESS)
    what = parser.add_argument_group("capture")
    what.add_argument("--duration", type=duration_argument, metavar="TIME", help="time to record (default: 2s)")
    what.add_argument(
        "--timeout", type=duration_argument, metavar="TIME",
        help="how long to wait for an answer (default: 60s, or twice the duration if that is longer;"
        " with --dynolog 5min after the end)",
    )  # fmt: skip
    what.add_argument(
        "--port", type=whole_number_argument(1, 65535), metavar="N", help="port of the hosts that are named without one"
    )
    what.add_argument(
        "--tpu", action="store_true", help="capture all hosts of the TPU slice that this machine is in; needs --port"
    )
    add_dynolog_options(parser)
    add_tracer_options(parser)
    add_snapshot_options(parser)
    _add_answer_options(parser)
    _add_format_options(parser)
    _add_reading_options(parser)
    _add_general_options(parser.add_argument_group("general"))
    return parser


def _add_answer_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("answer")
    one = group.add_mutually_exclusive_group()
    one.add_argument("--summary", action="store_true", help="print the summary (default without a terminal)")
    one.add_argument("--findings", action="store_true", help="print what costs time, and what to do about it")
    one.add_argument("--report", action=NonEmptyAction, default="", metavar="ANALYSIS", help="print one analysis")
    one.add_argument("--quiet", action="store_true", help="print only the path of the capture")
    group.add_argument("--top", type=whole_number_argument(1), metavar="N", help="at most N rows of a table")
    _add_setting_options(group, "a setting of the analysis")


def _export_parser() -> CommandParser:
    width = max(len(form.name) for form in EXPORT_FORMATS)
    listing = "\n".join(f"  {form.suffix:<{width + 1}}  {form.purpose}" for form in EXPORT_FORMATS)
    usage = "tracehound export [options] PATH... OUT"
    parser = _make_parser(
        "tracehound export", usage, help_texts.EXPORT.format(forms=listing), help_texts.EXPORT_EXAMPLES
    )
    parser.add_argument("paths", nargs="*", metavar="PATH... OUT", help=SUPPRESS)
    _add_window_options(parser)
    how = parser.add_argument_group("output")
    how.add_argument("--format", default="", metavar="FORM", help=f"{', '.join(form.name for form in EXPORT_FORMATS)}")
    how.add_argument(
        "--force", action="store_true", help="replace an existing OUT, or write it into the folder that is read"
    )
    return parser


def _add_window_options(parser: CommandParser) -> _ArgumentGroup:
    narrow = parser.add_argument_group("selection")
    narrow.add_argument("--rank", action=CommaListAction, default="", metavar="LIST", help="only these ranks: 0,2-5")
    when = narrow.add_mutually_exclusive_group()
    when.add_argument(
        "--step",
        action=CommaListAction,
        default="",
        metavar="LIST",
        help="only the time of these steps: 12, 12-14, first, last or longest",
    )
    when.add_argument(
        "--window",
        action=NonEmptyAction,
        default="",
        metavar="A..B",
        help="only this time: 10ms..20ms, 1.5s.., ..300us",
    )
    return narrow


def _add_report_options(parser: CommandParser, more: Sequence[str] = ()) -> CommandParser:
    narrow = _add_window_options(parser)
    narrow.add_argument("--top", type=whole_number_argument(1), metavar="N", help="at most N rows of a table")
    return _add_format_options(parser, more)


def _add_format_options(parser: CommandParser, more: Sequence[str] = ()) -> CommandParser:
    how = parser.add_argument_group("output")
    forms = [form.name for form in WRITERS]
    purposes = ", ".join([*(f"{form.name} ({form.purpose})" for form in WRITERS), *more])
    how.add_argument("--format", default=forms[0], metavar="FORM", help=f"{purposes}; default: {forms[0]}")
    how.add_argument(
        "--unit", choices=get_args(TimeUnit), default="auto", help="unit of times in text and markdown (default: auto)"
    )
    how.add_argument(
        "--width",
        type=whole_number_argument(0),
        metavar="N",
        help="width of text; 0: unlimited (default: the terminal's)",
    )
    how.add_argument(
        "--notes",
        action="store_true",
        help="show all notes in text and markdown (default: the first, and the number of others), in health all files",
    )
    return parser


def _peak_setting(text: str) -> str:
    return f"peak={text}"


PARSER_FACTORIES = {
    EXPLORE: _explorer_parser,
    "summary": _summary_parser,
    "report": _report_parser,
    "query": _query_parser,
    "hlo": _hlo_parser,
    "diff": _diff_parser,
    "check": _check_parser,
    "export": _export_parser,
    CAPTURE: _capture_parser,
    "cache": _cache_parser,
}
"""The function that makes the parser of each command."""

COMMANDS: Final = tuple(name for name in PARSER_FACTORIES if name != EXPLORE)
"""The names of the commands; `tracehound.cli.commands` has a module for each."""
