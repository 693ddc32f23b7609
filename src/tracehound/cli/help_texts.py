"""The help texts of all commands, as ``--help`` prints them. The options are in `arguments`."""

from __future__ import annotations

from tracehound.report import READABLE_ROWS

PATHS = """\
PATH is a file (PyTorch Profiler JSON, xplane.pb, trace.json; plain or .gz), a folder of them, or a TensorBoard log
folder, here or at a URL (s3://, gs://, az://, https://); several PATHs are the ranks of one run.
"""

EXPLORE = f"""\
Explore a performance trace in the terminal.

{PATHS}
commands:
  tracehound PATH...                     explore the trace
  tracehound summary PATH...             one page: devices, steps, breakdown, top ops, longest gaps
  tracehound report PATH... ANALYSIS     one complete table; tracehound report --list names all analyses
  tracehound query PATH... 'SELECT ...'  SQL over the trace; tracehound query --tables lists the tables
  tracehound hlo PATH... [WHAT]          the programs of an XLA profile: HLO text, an instruction, a fusion
  tracehound diff BASELINE CANDIDATE     compare two runs: slower, faster, added, removed, or noise
  tracehound check PATH... --fail-on     a CI gate on one run
  tracehound export PATH... OUT          a file for Perfetto with counter tracks, or a table for pandas, polars, DuckDB
  tracehound capture HOST:PORT           record a running JAX, TensorFlow or PyTorch job, and explore it
  tracehound cache list|clear            list or clear the cache of files
"""

EXPLORE_EXAMPLES = """\
examples:
  tracehound logs/                      the newest run of a TensorBoard log folder
  tracehound logs/ --run 2026_01_31     another run of it
  tracehound rank*.pt.trace.json.gz     all ranks of a PyTorch job, on one clock
  tracehound s3://bucket/runs/7         a folder of a bucket
  tracehound before/ --diff after/      compare two runs
  tracehound summary logs/ | less

Without a terminal on stdin and stdout (in a pipe, a batch job, TERM=dumb) `tracehound PATH` prints the summary.
To open a file that has the name of a command, write ./summary.

exit codes: 0 done, 1 a condition of --fail-on failed, 2 the input or the arguments are not usable (stderr has the
reason), 70 an error in the program or its cache, 130 interrupted, 128 + the number of any other signal.

environment: NO_COLOR turns colors off (letters then stand for kinds; see ?), LC_ALL=C draws in ASCII like --ascii,
COLUMNS sets the width of text without a terminal, TRACEHOUND_CACHE is the cache folder, TRACEHOUND_MAX_INFLATED (such
as 64G) is the largest size to which a gzip file may inflate, XDG_CONFIG_HOME has tracehound/config.toml (keys), and
XDG_STATE_HOME has your last position in each trace. TRACEHOUND_DEBUG=1 shows tracebacks, TRACEHOUND_NATIVE=0 turns
compiled code off.
"""

SUMMARY = f"""\
Show a trace on one page: devices and ranks, findings, the time of every rank, steps, top ops, the longest gaps with
the host activity in them, collectives, and repaired or missing data.

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
Show the table of one analysis. The last argument names the analysis.

{PATHS}
analyses:
{{analyses}}

Text and markdown show {READABLE_ROWS:,} rows unless --top is given; csv and json have all rows.
"""

REPORT_EXAMPLES = """\
examples:
  tracehound report logs/ gaps --top 10                 the longest device gaps, and the activity of every host thread
  tracehound report logs/ host --window 4.210s..4.282s  activity of host threads in that window
  tracehound report b128/ ops --top 20 --unit us        top HLO ops or kernels
  tracehound report rank*.json.gz breakdown             compute, exposed communication and idle time of every rank
  tracehound report rank*.json.gz collectives           collectives: calls, bytes, time
  tracehound report b128/ ops --where 'self > 1ms and name ~ "all.?reduce"'
  tracehound report rank*.json.gz steps --format csv > steps.csv
  tracehound report rank*.json.gz idle --set delay=5us  a setting of the analysis (--explain lists them)
  tracehound report ops --explain                       definitions of its numbers, and differences from other tools
"""

QUERY = f"""\
Query a trace in SQL (the dialect of polars). The last argument is the statement; - reads it from stdin.

{PATHS}
tables:
{{tables}}

Write times with a unit (1.5ms); a number without one is in picoseconds. Sums, means and differences of times are times;
duration / 1us is a number. Put text in single quotes; name LIKE '%all_reduce%' and name ~ 'all.?reduce' search it.
Without ORDER BY rows come in any order. An analysis runs when a query names it, with the settings of --set (tracehound
report ANALYSIS --explain lists them); a setting may change its columns. --set by=name applies to every analysis of the
query that has this setting, --set kernels.by=name to that one only.

--rank, --step and --window filter the tables: the part of an event inside the window counts.
Text and markdown show {READABLE_ROWS:,} rows unless --top is given; csv and json have all rows.
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
Show the compiled programs of an XLA profile.

{PATHS}
  tracehound hlo PATH...                    list the programs whose HLO the files have
  tracehound hlo PATH... PROGRAM            the HLO text of a program, by its name or as jit_step(12)
  tracehound hlo PATH... [PROGRAM] OP       one instruction, with or without the % before its name

An instruction is explained in words (for a collective its ranks and bytes, for a copy its memories), with its source
stack, the contents of a fusion or loop, and its operands and users. csv and json have a row for each instruction of a
program. Shapes have their layouts: S(5) is host memory.
"""

HLO_EXAMPLES = """\
examples:
  tracehound hlo profile/ all-reduce.104                its ranks and bytes, in words
  tracehound hlo profile/ fusion.253 --depth 2          its contents, operands and users
  tracehound hlo profile/ jit_train_step | less
  tracehound hlo profile/ jit_train_step --format json | jq '.rows[] | select(.opcode == "all-gather")'
"""

EXPORT = f"""\
Write a trace to a file for other programs. The last argument is the file, or a folder; - is stdout.

{PATHS}
The name of OUT selects the format, or --format does (default for a folder: json.gz):
{{forms}}

JSON keeps every event of a JSON file byte for byte, and adds counter tracks: the queue length of each stream, the
bandwidth of copies and memsets, and if known the device's utilization, SM efficiency and occupancy. For an xplane.pb it
has the events that Tracehound shows. Several ranks become one file with separate processes and ids, on one clock: that
of --align. Tables have the columns of the table events (tracehound query --tables events).

OUT is a folder if that folder exists, or if its name ends with /. Each input file becomes a file in it, with its ranks
and hosts: use it to keep or send one step of a large run.

--rank, --step and --window leave out events outside. An event that crosses an edge is whole in JSON, and cut in tables.
"""

EXPORT_EXAMPLES = """\
examples:
  tracehound export rank0.pt.trace.json.gz out.json.gz       open out.json.gz in ui.perfetto.dev
  tracehound export logs/ step12.json.gz --step 12           one step, of all ranks
  tracehound export logs/ step12/ --step 12                  the same, one file per rank
  tracehound export rank*.json.gz slow.json --rank 3 --window 4.2s..4.3s
  tracehound export logs/ events.parquet                     a row for each event; times in ps
  tracehound export profile/ - --format json | gzip > profile.json.gz
  tracehound export logs/ - --format folded | flamegraph.pl --countname ns > flame.svg

OUT appears when it is complete. An existing file is replaced only with --force, the trace itself never. A trace is
written into the folder that is read (where it would count as one more rank) only with --force.
"""

CAPTURE = """\
Record a running job from outside, and show what it does: in the explorer, or with --findings, --summary or --report as
text. The job needs one line, before it trains: jax.profiler.start_server(9999),
tf.profiler.experimental.server.start(9999) or torch_xla.debug.profiler.start_server(9999). HOST:PORT is one process of
the job; several begin together.

The profile is saved below LOGDIR (default: tracehound-captures), where TensorBoard finds it, too:
LOGDIR/plugins/profile/TIME/HOST_PORT.xplane.pb. Ctrl-C ends a capture early and keeps what was recorded.

Needs the package grpcio: pip install 'tracehound[capture]'.

PyTorch on GPUs has no such server. There, the dynolog daemon of the machine triggers the profiler inside the job:
--dynolog HOST, which needs no package. Start the daemon with --enable_ipc_monitor, and the job with KINETO_USE_DAEMON=1
in its environment. Each process writes its trace into LOGDIR (default: /tmp) of its machine. If this machine sees the
file, it moves it to LOGDIR/plugins/profile/TIME (default: in tracehound-captures). Several processes begin at one time,
16 s after the request. Ctrl-C ends only the wait: the processes record all the same.
"""

CAPTURE_EXAMPLES = """\
examples:
  tracehound capture localhost:9999                     two seconds of a job, in the explorer
  tracehound capture localhost:9999 --findings          what costs time in it?
  tracehound capture host1:9999,host2:9999 --duration 5s logs/
  tracehound capture --tpu --port 9999 --summary        all hosts of this TPU slice
  tracehound capture host1,host2 --port 9999 --report breakdown --format json > breakdown.json
  tracehound capture --dynolog gpu7 --findings          all PyTorch processes of the machine gpu7
  tracehound capture --dynolog localhost --pid 4711 --iterations 5 --record shapes,stacks
  tracehound capture --snapshot localhost:9999          Enter saves what just happened
  tracehound capture --snapshot localhost:9999 --every 30s --count 4 --findings

The connection is not encrypted, and whoever reaches the port can record. Beyond this machine, use a tunnel:
ssh -L 9999:localhost:9999 HOST, then capture localhost:9999.

A snapshot has the events since the last one, at most the last --max-age. While the job packs it, nothing is recorded;
each message says for how long, and by how much the memory of the job grew. --snapshot ends at Ctrl-C or q Enter, and
stops the recording. Without a terminal, kill -USR1 takes a snapshot.

--python-tracer-level 0 suits TensorFlow, and jobs whose profile becomes too large (gRPC carries 2 GiB).

options of the tracers (--option NAME=VALUE); servers with TPUs or GPUs refuse names that they do not know:
  tpu_trace_mode                         TRACE_ONLY_XLA, TRACE_ONLY_HOST, TRACE_COMPUTE or TRACE_COMPUTE_AND_SYNC
  tpu_num_chips_to_profile_per_task      chips of each host: fewer make smaller profiles
  tpu_num_sparse_cores_to_trace          SparseCores of each chip
  tpu_num_sparse_core_tiles_to_trace     tiles of each SparseCore
  tpu_enable_kernel_profiling            true: inside of Pallas kernels (TPU7x)
  tpu_enable_periodic_counter_sampling   true: hardware counters over time
  tpu_perf_counters                      which hardware counters
  tpu_power_trace_level                  0 to 2: power of the chips
  tpu_circular_buffer_tracing            true: keep the newest events when buffers are full
  max_trace_buffers                      number of trace buffers
  gpu_max_activity_api_events            most kernels and copies that are kept
  gpu_max_callback_api_events            most calls that are kept
  gpu_enable_nvtx_tracking               true: NVTX ranges
  gpu_enable_cupti_activity_graph_trace  true: CUDA graphs as a whole
  gpu_pm_sample_counters                 hardware counters to sample, separated by commas
  gpu_pm_sample_interval_us              time between two samples
  gpu_num_chips_to_profile_per_task      GPUs of each process
  gpu_dump_graph_node_mapping            true: kernels of CUDA graphs by node

exit codes: 0 captured, 1 some servers or processes failed (stderr has a line for each), 2 all failed, or the arguments
are wrong.
"""

DIFF = """\
Compare two runs step for step, over all ranks. The first lines say by how much a step changed, whether that is more
than chance, because of what and on which ranks, and how comparable the runs are. Tables follow: the step and what it
goes to, categories of ops, and every op, matched whatever numbers a compiler gave it; the largest effect on the step
comes first. A change is called one only where the steps of both runs tell it from chance.

BASELINE and CANDIDATE are files or folders, as for the explorer; BASELINE may also be a file of --save-baseline.

--fail-on CONDITION (may be given several times):
  {grammar}

definitions:
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
Check one run against conditions; the exit status is 1 if one fails.

{PATHS}
--fail-on CONDITION (may be given several times; limits have no sign, since there is no baseline):
  {{grammar}}
"""

CHECK_EXAMPLES = """\
examples:
  tracehound check profile/ --fail-on 'idle > 20%' --fail-on 'step_time > 180ms'
  tracehound check profile/ --fail-on 'op:all.?reduce > 15%' --format junit > gate.xml
  tracehound check profile/ --save-baseline main.json   for tracehound diff main.json CANDIDATE
"""

CACHE = """\
Tracehound caches files as Arrow, so that opening a file again is fast. The cache is $XDG_CACHE_HOME/tracehound, or else
~/.cache/tracehound, readable only by its owner. Entries are identified by the file's path, size and time of change. If
the cache exceeds 10 GB, the entries unused for longest are removed.

commands:
  tracehound cache list      the cached files, and when each was last used
  tracehound cache clear     remove all entries that are not in use
"""
