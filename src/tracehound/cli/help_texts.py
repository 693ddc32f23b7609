"""The help texts of all commands, as ``--help`` prints them. The options are in `arguments`."""

from __future__ import annotations

from tracehound.report import READABLE_ROWS

PATHS = """\
PATH is a file (PyTorch Profiler JSON, xplane.pb, trace.json; plain or .gz), a folder of them, or a TensorBoard log
folder; several PATHs are the ranks of one run.
"""

EXPLORE = f"""\
Explore a performance trace in the terminal.

{PATHS}
commands:
  tracehound PATH...                     explore it
  tracehound summary PATH...             one page: devices, steps, breakdown, top ops, longest gaps
  tracehound report PATH... ANALYSIS     one table, whole; tracehound report --list names them all
  tracehound query PATH... 'SELECT ...'  any question, in SQL; tracehound query --tables lists the tables
  tracehound hlo PATH... [WHAT]          the programs of an XLA profile: their text, an instruction, a fusion opened
  tracehound diff BASELINE CANDIDATE     what became slower, faster, new or gone, why, and whether it is more than noise
  tracehound check PATH... --fail-on     a gate for CI, on one run
  tracehound export PATH... OUT          a file for Perfetto with counter tracks, or a table for pandas, polars, DuckDB
  tracehound cache list|clear            what is kept of files that were read
"""

EXPLORE_EXAMPLES = """\
examples:
  tracehound logs/                      a TensorBoard log folder, its newest run
  tracehound logs/ --run 2026_01_31     another run of it
  tracehound rank*.pt.trace.json.gz     all ranks of a PyTorch job, on one clock
  tracehound before/ --diff after/      two runs, one above the other, and what differs
  tracehound summary logs/ | less

Without a terminal on stdin and stdout (in a pipe, a batch job, TERM=dumb) `tracehound PATH` prints the summary.
A file that is called like a command is opened as ./summary.

exit codes: 0 done, 1 a condition of --fail-on failed, 2 the input or the arguments cannot be used (one line on stderr
says why), 70 a fault of the program or of its cache, 130 interrupted, 128 and the signal's number after another one.

environment: NO_COLOR turns colors off (letters stand for kinds then, ? says which), LC_ALL=C has a terminal drawn on as
--ascii does, COLUMNS sets the width of text where there is no terminal, TRACEHOUND_CACHE says where the cache is,
TRACEHOUND_MAX_INFLATED (such as 64G) to how much a gzip file may grow, XDG_CONFIG_HOME where tracehound/config.toml is
(keys), XDG_STATE_HOME where it is remembered where you were. TRACEHOUND_DEBUG=1 shows where a fault of the program
lies, TRACEHOUND_NATIVE=0 leaves out what is compiled.
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
{{analyses}}

Text and markdown show {READABLE_ROWS:,} rows unless --top says otherwise; csv and json all.
"""

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
search it. Without ORDER BY rows come in any order. Analyses are worked out when a query names them, with the settings
that --set chooses (tracehound report ANALYSIS --explain says which there are); rows of another sort may have other
columns. --set by=name is for every analysis of the query that has such a setting, --set kernels.by=name for that alone.

--rank, --step and --window narrow the tables: an event that crosses the edge of the window counts with the part inside.
Text and markdown show {READABLE_ROWS:,} rows unless --top says otherwise; csv and json all.
"""

QUERY_EXAMPLES = """\
examples:
  tracehound query logs/ 'SELECT name, kind, duration FROM events WHERE duration > 1ms ORDER BY duration DESC LIMIT 20'
  tracehound query rank*.json.gz "SELECT rank, step, sum(duration) AS waited FROM events
                                  WHERE kind = 'collective' GROUP BY rank, step ORDER BY waited DESC"
  tracehound query logs/ --step 12 'SELECT lane, count(*) AS events, max(duration) AS longest FROM events GROUP BY lane'
  tracehound query logs/ 'SELECT before, after, duration FROM gaps WHERE launched < 10us' --format csv > gaps.csv
  tracehound query logs/ --set by=event 'SELECT name, start, duration FROM critical_path ORDER BY start'
  tracehound query --tables events ops
"""

HLO = f"""\
Show the programs of an XLA profile, as the compiler left them.

{PATHS}
  tracehound hlo PATH...                    the programs whose HLO the files hold
  tracehound hlo PATH... PROGRAM            the text of one: by its name, or as jit_step(12)
  tracehound hlo PATH... [PROGRAM] OP       an instruction, with or without the % before its name

Of an instruction it shows what it does in words (of a collective who takes part and how many bytes, of a copy between
which memories), the stack of source lines, what is inside a fusion or loop, and the operands and users around it.
csv and json have a row for each instruction of a program. Shapes are written with their layouts: S(5) is host memory.
"""

HLO_EXAMPLES = """\
examples:
  tracehound hlo profile/ all-reduce.104                who takes part in it, in words
  tracehound hlo profile/ fusion.253 --depth 2          what is inside, and what is around it
  tracehound hlo profile/ jit_train_step | less
  tracehound hlo profile/ jit_train_step --format json | jq '.rows[] | select(.opcode == "all-gather")'
"""

EXPORT = f"""\
Write a trace to a file for other programs. The last argument is the file, or a folder; - is stdout.

{PATHS}
OUT's name says what is written, or --format does (a folder's is json.gz without it):
{{forms}}

The JSON keeps every event of a JSON file as it is, byte for byte, and adds counter tracks: the length of each stream's
queue, the bandwidth of copies and memsets, and where it is known the device's utilization, SM efficiency and occupancy.
Of an xplane.pb it has what Tracehound shows. Several ranks become one file, in which their processes and ids are told
apart, on one clock: that of --align, which nothing corrects when it is read back. The tables have the columns of the
table events, as tracehound query --tables events lists them.

OUT is a folder where one is there, or its name ends with /. Each file that is read becomes a file in it, so that it
reads back as the ranks and hosts that it was: a step of a large run, to keep or to send.

--rank, --step and --window leave out what lies outside. What crosses an edge is whole in JSON, and cut in a table.
"""

EXPORT_EXAMPLES = """\
examples:
  tracehound export rank0.pt.trace.json.gz out.json.gz       open out.json.gz in ui.perfetto.dev
  tracehound export logs/ step12.json.gz --step 12           one step, of all ranks
  tracehound export logs/ step12/ --step 12                  the same, a file for each rank
  tracehound export rank*.json.gz slow.json --rank 3 --window 4.2s..4.3s
  tracehound export logs/ events.parquet                     a row for each event; times in ps
  tracehound export profile/ - --format json | gzip > profile.json.gz
  tracehound export logs/ - --format folded | flamegraph.pl --countname ns > flame.svg

OUT appears when all of it is written. A file that exists is replaced only with --force, the trace itself never. A trace
is put into the folder that is read, where it would be read as one more rank, only with --force.
"""

DIFF = """\
Compare two runs step for step, over all ranks. The first lines say by how much a step changed, whether that is more
than chance, because of what and on which ranks, and how comparable the runs are. Tables follow: the step and what it
goes to, categories of ops, and every op, matched whatever numbers a compiler gave it; the largest effect on the step
comes first. A change is called one only where the steps of both runs tell it from chance.

BASELINE and CANDIDATE are files or folders, as for the explorer; BASELINE may also be a file of --save-baseline.

--fail-on CONDITION (may be given several times):
  {grammar}

how it is defined:
  {definition}
"""

DIFF_EXAMPLES = """\
examples:
  tracehound diff before/ after/                        what changed?
  tracehound diff before/ after/ --top 50 --format markdown > change.md
  tracehound diff before/ after/ --set samples=64,128   other batch sizes: time per sample, too
  tracehound diff before/ after/ --rank 0 --format json | jq '.results."diff-ops".rows'
  tracehound diff main.json after/ --fail-on 'step_time > +3%' --fail-on 'op:all.?reduce > +10%'
"""

CHECK = f"""\
Judge one run by conditions; exit status 1 when one fails.

{PATHS}
--fail-on CONDITION (may be given several times), without a sign since there is no baseline:
  {{grammar}}
"""

CHECK_EXAMPLES = """\
examples:
  tracehound check profile/ --fail-on 'idle > 20%' --fail-on 'step_time > 180ms'
  tracehound check profile/ --fail-on 'op:all.?reduce > 15%' --format junit > gate.xml
  tracehound check profile/ --save-baseline main.json   for tracehound diff main.json CANDIDATE
"""

CACHE = """\
A file that was read is kept as Arrow, so that opening it again takes no time: in $XDG_CACHE_HOME/tracehound, else in
~/.cache/tracehound, readable by its owner alone, under the file's path, size and time of change. The entries that were
not used for longest go when all take more than 10 GB.

commands:
  tracehound cache list      what is kept, of which file, and when it was last used
  tracehound cache clear     remove it all, except what is in use
"""
