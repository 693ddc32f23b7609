"""The command ``export``: write a trace to a file, or to a folder, for other programs."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from tracehound.cli import console
from tracehound.cli.commands.staged_output import staged_output
from tracehound.cli.commands.trace_input import find_trace, open_read_context, read_trace_with_warning
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError, is_url_path, path_text, printable
from tracehound.export import ExportFormat, ExportSummary, export_destination, export_summary_text, find_format
from tracehound.export.export_destination import ExportDestination
from tracehound.model.trace import Trace, Window


def run(options: Namespace) -> int:
    """Write the export, and print a summary of it."""
    if len(options.paths) < 2:
        what = "to which file?" if options.paths else "which trace, to which file?"
        raise TracehoundError(f"export {what}", remedy="tracehound export PATH... OUT")
    *options.paths, target = options.paths
    with open_read_context(options) as context, staged_output(target, options, replacing=options.force) as out:
        folder = export_destination.named_folder(out)
        form = find_format(options.format or (export_destination.FOLDER_FORMAT if folder else ""), out)
        reader = find_trace(options.paths, options, context)
        places = _export_destinations(out, folder, form, [file.path for file in reader.files], force=options.force)
        among = form.trace and any(place.lies_in(map(Path, options.paths)) for place in places.values())
        if among and not options.force:
            remedy = "write it elsewhere, or anyway with --force"
            raise TracehoundError(
                "lies in the folder that is read, and would be read with it", Path(out), remedy=remedy
            )
        trace, window = read_trace_with_warning(reader, options)
        narrowed = export_destination.windows_by_file(trace, window) if folder else {Path(out): window}
        for path in () if options.force else narrowed:
            places[path].refuse_existing_file()
        written = [_write_export(form, trace, window, places[path]) for path, window in narrowed.items()]
    for note in (note for one in written for note in one.notes):
        console.print_message(printable(": ".join(filter(None, (note.location_text, note_text(note))))))
    if folder:
        name = f"{printable(path_text(folder) if is_url_path(folder) else folder.name)}{os.sep}"
    else:
        name = places[Path(out)].name
    console.print_message(f"{name}: {export_summary_text(written)}")
    if among:
        console.print_message(f"{name} lies in a folder that was read, and will be read with it")
    return 0


def _export_destinations(
    out: str, folder: Path | None, form: ExportFormat, files: Sequence[Path], *, force: bool
) -> dict[Path, ExportDestination]:
    """The destination of each file that is read, by its path; for an export to one file only that one.

    In a folder a destination may exist already: the files that are written are known only after reading.
    """
    if folder is None:
        return {
            Path(out): export_destination.parse_destination(out, files)
            if force
            else export_destination.parse_new_destination(out, files)
        }
    words = [str(folder / name) for name in export_destination.output_paths(files, form.suffix)]
    return {
        file: export_destination.parse_destination(word, files, folder) for file, word in zip(files, words, strict=True)
    }


def _write_export(form: ExportFormat, trace: Trace, window: Window, place: ExportDestination) -> ExportSummary:
    with place.open_for_writing() as file, console.writing_progress(place.name) as tell:
        return form.write(trace, window, file, tell)
