"""Options of ``tracehound capture``: on-demand traces by dynolog, tracers, and snapshots."""

from __future__ import annotations

from tracehound.cli.argument_parser import (
    CommaListAction,
    CommandParser,
    NonEmptyAction,
    duration_argument,
    whole_number_argument,
)


def add_dynolog_options(parser: CommandParser) -> None:
    """Add the options of traces by dynolog."""
    group = parser.add_argument_group("PyTorch jobs, by the dynolog daemon of their machine")
    group.add_argument(
        "--dynolog", action=NonEmptyAction, default="", metavar="HOST[:PORT]",
        help="ask this daemon for traces (default port: 1778)",
    )  # fmt: skip
    group.add_argument(
        "--pid", action="append", default=[], type=whole_number_argument(1, 2**31 - 1), metavar="N",
        help="only this process and its children (default: all of the job); may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--job-id", type=whole_number_argument(0, 2**31 - 1), metavar="N",
        help="SLURM_JOB_ID of the processes (default: that of this shell, else 0: processes without one)",
    )  # fmt: skip
    group.add_argument(
        "--iterations", type=whole_number_argument(1, 2**31 - 1), metavar="N",
        help="record so many steps of the optimizer in place of a time",
    )  # fmt: skip
    group.add_argument(
        "--record", action=CommaListAction, default="", metavar="LIST",
        help="more about each operator: shapes, stacks, memory, flops, modules",
    )  # fmt: skip


def add_tracer_options(parser: CommandParser) -> None:
    """Add the levels and options of a server's tracers."""
    tracers = parser.add_argument_group("tracers")
    levels = (
        ("host", 3, "2, snapshots 1", "events of host threads: 1 the main ones, 2 more, 3 all"),
        ("device", 1, "1", "kernels and ops of the devices, where these are no CPUs"),
        ("python", 1, "1, snapshots 0", "Python calls: many events, which slow the job down"),
    )
    for name, most, default, meaning in levels:
        tracers.add_argument(
            f"--{name}-tracer-level", type=whole_number_argument(0, most), metavar="N",
            help=f"0 to {most}: {meaning} (default: {default})",
        )  # fmt: skip
    tracers.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="an option of a device's tracer, see below; may be repeated",
    )  # fmt: skip


def add_snapshot_options(parser: CommandParser) -> None:
    """Add the options of continuous profiling."""
    snapshots = parser.add_argument_group("snapshots")
    snapshots.add_argument(
        "--snapshot", action="store_true", help="record all the time, and save what just happened whenever you say so"
    )
    snapshots.add_argument(
        "--every", type=duration_argument, metavar="TIME", help="take a snapshot each time that this long has passed"
    )
    snapshots.add_argument(
        "--max-age", type=duration_argument, metavar="TIME",
        help="keep events for so long, which bounds the job's memory (default: 30s, or the time of --every)",
    )  # fmt: skip
    snapshots.add_argument(
        "--count", type=whole_number_argument(1), metavar="N", help="end after so many snapshots (default: at Ctrl-C)"
    )
    snapshots.add_argument(
        "--restart", action="store_true", help="stop a recording that another client has left on, and begin anew"
    )
