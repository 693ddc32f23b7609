"""The arguments of the command line, and what `--help` says of them.

Owns the commands, their options and the text of their help. Knows nothing of traces; a command is run by `cli`.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter, _ArgumentGroup
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, get_args

from tracehound import __version__
from tracehound.analysis import ANALYSES
from tracehound.diff import DEFINITION, GRAMMAR
from tracehound.errors import BAD_INPUT, printable
from tracehound.export import FORMS
from tracehound.query import TABLES
from tracehound.report import READABLE, WRITERS
from tracehound.store.pool import default_jobs
from tracehound.units import TimeUnit

PATHS = """\
PATH is a file (PyTorch Profiler JSON, xplane.pb, trace.json; plain or .gz), a folder of them, or a TensorBoard log
folder; several PATHs are the ranks of one run.
"""

EXPLORE = f"""\
Explore a performance trace in the terminal.

{PATHS}
commands:
  tracehound PATH...                    explore it
  tracehound summary PATH...            one page: devices, steps, breakdown, top ops, longest gaps
  tracehound report PATH... ANALYSIS    one table, whole; tracehound report --list names them all
  tracehound query PATH... 'SELECT ...' any question, in SQL; tracehound query --tables lists the tables
  tracehound diff BASE OTHER            what became slower, faster, new or gone, and whether it is more than noise
  tracehound check PATH... --fail-on    a gate for CI, on one run
  tracehound export PATH... OUT         a file for Perfetto with counter tracks, or a table for pandas, polars, DuckDB
  tracehound cache list|clear           what is kept of files that were read
"""

EXPLORE_EXAMPLES = """\
examples:
  tracehound logs/                      a TensorBoard log folder, its newest run
  tracehound logs/ --run 2026_01_31     another run of it
  tracehound rank*.pt.trace.json.gz     all ranks of a PyTorch job, on one clock
  tracehound summary logs/ | less

Without a terminal on stdin, stdout and stderr (in a pipe, a batch job, TERM=dumb) `tracehound PATH` prints the summary.
A file that is called like a command is opened as ./summary.

exit codes: 0 done, 1 a condition of --fail-on failed, 2 the input or the arguments cannot be used (one line on stderr
says why), 70 a fault of the program or of its cache, 130 interrupted.
environment: NO_COLOR turns colours off, COLUMNS sets the width of text where there is no terminal, TRACEHOUND_CACHE
says where the cache is, TRACEHOUND_MAX_INFLATED (such as 64G) to how much a gzip file may grow, XDG_CONFIG_HOME where
tracehound/config.toml is (keys), XDG_STATE_HOME where it is remembered where you were.
"""

SUMMARY = f"""\
Sum up a trace on one page: what it is, devices and ranks, steps, where the time goes on every rank, the ops that take
most of it, the longest gaps with what the host did meanwhile, collectives, and what was repaired or is missing.

{PATHS}"""

SUMMARY_EXAMPLES = """\
examples:
  tracehound summary profile/                           what is slow here?
  tracehound summary rank*.json.gz --step 12            one step, over all ranks
  tracehound summary profile/ --rank 0,4-7 --top 20
  tracehound summary profile/ --format markdown > issue.md
  tracehound summary profile/ --format json | jq '.results.breakdown.rows'
"""

REPORT = f"""\
Answer one question about a trace with a whole table. The last argument names the analysis.

{PATHS}
analyses:
{{analyses}}"""

REPORT_EXAMPLES = """\
examples:
  tracehound report logs/ gaps --top 10                 the longest gaps on the device, and what every host thread did
  tracehound report logs/ host --window 4.210s..4.282s  what the host threads did in just that window
  tracehound report b128/ ops --top 20 --unit us        which HLO ops or kernels take the time
  tracehound report rank*.json.gz breakdown             computation, exposed communication and idle time of every rank
  tracehound report rank*.json.gz collectives           collectives: calls, bytes, time
  tracehound report b128/ ops --where 'self > 1ms and name ~ "all.?reduce"'
  tracehound report rank*.json.gz steps --format csv > steps.csv
  tracehound report rank*.json.gz idle --set delay=5us  what an analysis lets you choose, --explain names
  tracehound report ops --explain                       how its numbers are defined, and where other tools differ
"""

QUERY = f"""\
Ask a trace anything in SQL (the dialect of polars). The last argument is the statement, - reads it from stdin.

{PATHS}
tables:
{{tables}}

Times are written with a unit, 1.5ms; a number without one is picoseconds. Sums, means and differences of times are
times; duration / 1us is a number. Text stands in single quotes; name LIKE '%all_reduce%' and name ~ 'all.?reduce'
search it. Without ORDER BY rows come in any order. Analyses are worked out when a query names them.

--rank, --step and --window narrow the tables: an event that crosses the edge of the window counts with the part inside.
Text and markdown show {READABLE:,} rows unless --top says otherwise; csv and json all.
"""

QUERY_EXAMPLES = """\
examples:
  tracehound query logs/ 'SELECT name, kind, duration FROM events WHERE duration > 1ms ORDER BY duration DESC LIMIT 20'
  tracehound query rank*.json.gz "SELECT rank, step, sum(duration) AS waited FROM events
                                  WHERE kind = 'collective' GROUP BY rank, step ORDER BY waited DESC"
  tracehound query logs/ --step 12 'SELECT lane, count(*) AS events, max(duration) AS longest FROM events GROUP BY lane'
  tracehound query logs/ 'SELECT before, after, duration FROM gaps WHERE launched < 10us' --format csv > gaps.csv
  tracehound query --tables events ops
"""

EXPORT = f"""\
Write a trace to a file for other programs. The last argument is the file; - is stdout.

{PATHS}
OUT's name says what is written, or --format does:
{{forms}}

The JSON keeps every event of a JSON file as it is, byte for byte, and adds counter tracks: the length of each stream's
queue, and the bandwidth of copies. Of an xplane.pb it has what Tracehound shows. Several ranks become one file on one
clock, in which their processes and ids are told apart. The tables have the columns of the table events, as
tracehound query --tables events lists them.

--rank, --step and --window leave out what lies outside. What crosses an edge is whole in JSON, and cut in a table.
"""

EXPORT_EXAMPLES = """\
examples:
  tracehound export rank0.pt.trace.json.gz out.json.gz       open out.json.gz in ui.perfetto.dev
  tracehound export logs/ step12.json.gz --step 12           one step, of all ranks
  tracehound export rank*.json.gz slow.json --rank 3 --window 4.2s..4.3s
  tracehound export logs/ events.parquet                     a row for each event; times in ps
  tracehound export profile/ - --format json | gzip > profile.json.gz

OUT appears when all of it is written. A file that exists is replaced only with --force, the trace itself never.
"""

DIFF = """\
Compare two runs step for step, over all ranks: the step and what it goes to, kinds of ops, and every op, matched
whatever numbers a compiler gave it; the largest effect on the step comes first. A change is called one only where the
steps of both runs tell it from chance.

BASE and OTHER are files or folders, as for the explorer; BASE may also be a file of --save-baseline.

--fail-on CONDITION (may be given several times):
  {grammar}

how it is defined:
  {definition}
"""

DIFF_EXAMPLES = """\
examples:
  tracehound diff before/ after/                        what changed?
  tracehound diff before/ after/ --top 50 --format markdown > change.md
  tracehound diff before/ after/ --rank 0 --format json | jq '.results."diff-ops".rows'
  tracehound diff main.json after/ --fail-on 'step_time > +3%' --fail-on 'op:all.?reduce > +10%'
"""

CHECK = f"""\
Judge one run by conditions; exit status 1 when one fails.

{PATHS}
--fail-on CONDITION (may be given several times), without a sign since there is no base:
  {{grammar}}
"""

CHECK_EXAMPLES = """\
examples:
  tracehound check profile/ --fail-on 'idle > 20%' --fail-on 'step_time > 180ms'
  tracehound check profile/ --fail-on 'op:all.?reduce > 15%' --format junit > gate.xml
  tracehound check profile/ --save-baseline main.json   for tracehound diff main.json OTHER
"""

CACHE = """\
A file that was read is kept as Arrow, so that opening it again takes no time: in $XDG_CACHE_HOME/tracehound, else in
~/.cache/tracehound, readable by its owner alone, under the file's path, size and time of change. The entries that were
not used for longest go when all take more than 10 GB.

commands:
  tracehound cache list      what is kept, of which file, and when it was last used
  tracehound cache clear     remove it all, except what is in use
"""


VALUED = (
    "--cache",
    "--jobs",
    "--run",
    "--theme",
    "--source-map",
    "--rank",
    "--step",
    "--window",
    "--top",
    "--set",
    "--fail-on",
    "--save-baseline",
    "--where",
    "--format",
    "--unit",
    "--width",
)
"""Options whose value follows; it is no command even when it is called like one."""


MOST = 1_000_000_000
"""The largest number that an option takes."""


def parsed(arguments: Sequence[str]) -> Namespace:
    """The arguments as a namespace whose `command` is one of `_PARSERS`.

    Prints help or one line of what is wrong, and exits, where argparse would.
    """
    rest = list(arguments)
    command = _command(rest)
    asked = _PARSERS[command]().parse_args(rest)
    asked.command = command
    return asked


def as_summary(asked: Namespace) -> Namespace:
    """The summary that stands in for the explorer where there is no terminal."""
    summary = _summary_parser().parse_args(["--", *asked.paths])
    for name in vars(summary).keys() & vars(asked).keys():  # how to read it is asked in the same words
        setattr(summary, name, getattr(asked, name))
    return summary


def _command(rest: list[str]) -> str:
    """The command among the arguments, which is taken out: the first word that is no option and no option's value."""
    previous = ""
    for place, word in enumerate(rest):
        if word == "--":
            break
        if not word.startswith("-") and previous not in VALUED:
            return rest.pop(place) if word in _PARSERS else "explore"
        previous = word
    return "explore"


class _Parser(ArgumentParser):
    """One that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"tracehound: {printable(message)}; see {self.prog} --help\n")


def _parser(prog: str, usage: str, description: str, examples: str) -> _Parser:
    parser = _Parser(
        prog=prog,
        usage=usage,
        description=description,
        epilog=examples,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    group = parser.add_argument_group("general")
    group.add_argument("--run", metavar="NAME", help="the run of a TensorBoard log folder (default: the newest)")
    _with_reading_options(parser)
    group.add_argument("--ascii", action="store_true", help="draw with ASCII characters alone")
    group.add_argument(
        "--version", action="version", version=f"tracehound {__version__}", help="show the version and exit"
    )
    group.add_argument("-h", "--help", action="help", help="show this and exit")
    return parser


def _with_reading_options(parser: _Parser) -> None:
    how = parser.add_argument_group("how to read it")
    where = how.add_mutually_exclusive_group()
    where.add_argument("--cache", type=_folder, metavar="DIR", help="where files that were read are kept")
    where.add_argument("--no-cache", action="store_true", help="keep nothing after the end")
    how.add_argument(
        "--jobs", type=_positive, default=default_jobs(), metavar="N", help="worker processes (default: %(default)s)"
    )


def _explorer_parser() -> _Parser:
    parser = _parser("tracehound", "tracehound [options] PATH...", EXPLORE, EXPLORE_EXAMPLES)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=SUPPRESS)
    look = parser.add_argument_group("the explorer")
    look.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal (to select text)")
    look.add_argument("--reset", action="store_true", help="forget where you were in this trace, and the marks")
    look.add_argument("--theme", metavar="NAME", help="dark, light, or one of Textual's, such as nord or gruvbox")
    look.add_argument(
        "--source-map", action="append", default=[], metavar="REMOTE=LOCAL",
        help="source files recorded under REMOTE are under LOCAL here (. for names without a folder); may be repeated",
    )  # fmt: skip
    return parser


def _summary_parser() -> _Parser:
    parser = _parser("tracehound summary", "tracehound summary [options] PATH...", SUMMARY, SUMMARY_EXAMPLES)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=SUPPRESS)
    return _with_report_options(parser)


def _report_parser() -> _Parser:
    width = max(len(analysis.name) for analysis in ANALYSES)
    listing = "\n".join(f"  {analysis.name:<{width}}  {analysis.question}" for analysis in ANALYSES)
    description = REPORT.format(analyses=listing)
    parser = _parser("tracehound report", "tracehound report [options] PATH... ANALYSIS", description, REPORT_EXAMPLES)
    parser.add_argument("paths", nargs="*", metavar="PATH... ANALYSIS", help=SUPPRESS)
    parser.add_argument("--list", action="store_true", help="name the analyses and their questions, and exit")
    parser.add_argument("--explain", action="store_true", help="say how the analysis defines its numbers, and exit")
    parser.add_argument("--where", default="", metavar="FILTER", help="only rows like: self > 1ms and name ~ 'gemm'")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the analysis")
    return _with_report_options(parser)


def _query_parser() -> _Parser:
    width = max(len(table.name) for table in TABLES)
    listing = "\n".join(f"  {table.name:<{width}}  {table.meaning}" for table in TABLES)
    usage = "tracehound query [options] PATH... 'SELECT ...'"
    parser = _parser("tracehound query", usage, QUERY.format(tables=listing), QUERY_EXAMPLES)
    parser.add_argument("words", nargs="*", metavar="PATH... STATEMENT", help=SUPPRESS)
    parser.add_argument("--tables", action="store_true", help="list all tables, or those named, and exit")
    return _with_report_options(parser)


def _diff_parser() -> _Parser:
    text = DIFF.format(grammar=_indented(GRAMMAR), definition=_indented(DEFINITION))
    parser = _parser("tracehound diff", "tracehound diff [options] BASE OTHER", text, DIFF_EXAMPLES)
    parser.add_argument("paths", nargs=2, metavar="BASE OTHER", help=SUPPRESS)
    return _with_gate_options(parser, "OTHER")


def _check_parser() -> _Parser:
    text = CHECK.format(grammar=_indented(GRAMMAR))
    parser = _parser("tracehound check", "tracehound check [options] PATH...", text, CHECK_EXAMPLES)
    parser.add_argument("paths", nargs="+", metavar="PATH", help=SUPPRESS)
    return _with_gate_options(parser, "the run")


def _with_gate_options(parser: _Parser, run: str) -> _Parser:
    gate = parser.add_argument_group("gate")
    gate.add_argument("--fail-on", action="append", default=[], metavar="CONDITION", help="exit with 1 when this holds")
    gate.add_argument(
        "--save-baseline", type=_folder, metavar="FILE", help=f"keep what was measured of {run} in a file"
    )
    return _with_report_options(parser, ("junit (what came of --fail-on, for CI)",))


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ").replace("\n  \n", "\n\n")


def _cache_parser() -> _Parser:
    parser = _Parser(
        prog="tracehound cache",
        usage="tracehound cache list|clear [--cache DIR]",
        description=CACHE,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("action", choices=("list", "clear"), help=SUPPRESS)
    parser.add_argument("--cache", type=_folder, metavar="DIR", help="another cache than the user's own")
    parser.add_argument("--ascii", action="store_true", help="write with ASCII characters alone")
    parser.add_argument("-h", "--help", action="help", help="show this and exit")
    return parser


def _export_parser() -> _Parser:
    width = max(len(form.name) for form in FORMS)
    listing = "\n".join(f"  {form.suffix:<{width + 1}}  {form.purpose}" for form in FORMS)
    usage = "tracehound export [options] PATH... OUT"
    parser = _parser("tracehound export", usage, EXPORT.format(forms=listing), EXPORT_EXAMPLES)
    parser.add_argument("paths", nargs="*", metavar="PATH... OUT", help=SUPPRESS)
    _with_window_options(parser)
    how = parser.add_argument_group("how to write it")
    how.add_argument("--format", default="", metavar="FORM", help=f"{', '.join(form.name for form in FORMS)}")
    how.add_argument("--force", action="store_true", help="replace OUT where it exists")
    return parser


def _with_window_options(parser: _Parser) -> _ArgumentGroup:
    narrow = parser.add_argument_group("what to look at")
    narrow.add_argument("--rank", default="", metavar="LIST", help="only these ranks: 0,2-5")
    when = narrow.add_mutually_exclusive_group()
    when.add_argument("--step", default="", metavar="LIST", help="only the time of these steps: 12 or 12-14")
    when.add_argument("--window", default="", metavar="A..B", help="only this time: 10ms..20ms, 1.5s.., ..300us")
    return narrow


def _with_report_options(parser: _Parser, more: Sequence[str] = ()) -> _Parser:
    narrow = _with_window_options(parser)
    narrow.add_argument("--top", type=_positive, metavar="N", help="at most N rows of a table")
    how = parser.add_argument_group("how to write it")
    forms = [form.name for form in WRITERS]
    purposes = ", ".join([*(f"{form.name} ({form.purpose})" for form in WRITERS), *more])
    how.add_argument("--format", default=forms[0], metavar="FORM", help=f"{purposes}; default: {forms[0]}")
    how.add_argument(
        "--unit", choices=get_args(TimeUnit), default="auto", help="unit of times in text and markdown (default: auto)"
    )
    how.add_argument(
        "--width", type=_natural, metavar="N", help="width of text; 0: as wide as it takes (default: the terminal's)"
    )
    return parser


def _folder(text: str) -> Path:
    return Path(text).expanduser()


def _positive(text: str) -> int:
    return _number(text, 1)


def _natural(text: str) -> int:
    return _number(text, 0)


def _number(text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= MOST):
        raise ArgumentTypeError(f"{text!r} is no whole number from {least:,} to {MOST:,}")
    return int(text)


_PARSERS = {
    "explore": _explorer_parser,
    "summary": _summary_parser,
    "report": _report_parser,
    "query": _query_parser,
    "diff": _diff_parser,
    "check": _check_parser,
    "export": _export_parser,
    "cache": _cache_parser,
}
