"""The explorer, or the summary without a terminal.

The explorer is imported only when it starts: other commands never import the terminal toolkit.
"""

from __future__ import annotations

from argparse import Namespace

from tracehound.cli import console
from tracehound.cli.arguments import to_diff_arguments, to_summary_arguments
from tracehound.cli.commands import diff, summary
from tracehound.cli.commands.trace_input import find_trace, named_file, open_read_context, shown_paths
from tracehound.diff.baseline_file import load_baseline
from tracehound.errors import TracehoundError
from tracehound.system.malloc import keep_large_freed_memory


def run(options: Namespace) -> int:
    """Start the explorer; print the summary if there is no terminal."""
    if options.theme is not None and not console.is_interactive():
        from tracehound.ui.themes import resolve_theme_name  # noqa: PLC0415, only a given theme needs it

        resolve_theme_name(options.theme)
    if options.cluster and console.is_interactive():
        remedy = "tracehound summary --cluster and report --cluster do, and report PATH rank_map shows all ranks"
        raise TracehoundError("the explorer does not use a cluster", remedy=remedy)
    if options.diff:
        return _explore_comparison(options)
    if not console.is_interactive():
        return summary.run(to_summary_arguments(options))
    with open_read_context(options) as context:
        reader = find_trace(options.paths, options, context, leaving=True)
        reader.start_workers()
        options.paths = shown_paths(options.paths)
        from tracehound.ui.launch import run_explorer  # noqa: PLC0415, a headless run must not import it

        keep_large_freed_memory()
        return run_explorer(reader, options, console.stdout_alphabet(options))


def _explore_comparison(options: Namespace) -> int:
    """Show two runs side by side in the explorer; print their comparison if there is no terminal."""
    if len(options.paths) != 1:
        raise TracehoundError("--diff compares one PATH with CANDIDATE", remedy="a folder holds all ranks of a run")
    if not console.is_interactive():
        return diff.run(to_diff_arguments(options))
    with open_read_context(options) as context:
        for path in (*options.paths, options.diff):
            local = named_file(path, context)
            if load_baseline(local) is not None:
                remedy = "compare with it by: tracehound diff BASELINE CANDIDATE"
                raise TracehoundError("is a baseline: it has no events to draw", local, remedy=remedy)
        baseline, candidate = (
            find_trace([path], options, context, leaving=True) for path in (*options.paths, options.diff)
        )
        baseline.start_workers()
        candidate.start_workers()
        *options.paths, options.diff = shown_paths((*options.paths, options.diff))
        from tracehound.ui.launch import run_comparison  # noqa: PLC0415, a headless run must not import it

        keep_large_freed_memory()
        return run_comparison(baseline, candidate, options, console.stdout_alphabet(options))
