"""A trace written to a file, or a folder, for other programs."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from tracehound import console
from tracehound.commands.traces import opened, reading, ready
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError, printable
from tracehound.export import Form, Written, apart, destination, named, said
from tracehound.export.destination import Destination
from tracehound.trace import Trace, Window


def run(asked: Namespace) -> int:
    """Write it, and say what was written."""
    if len(asked.paths) < 2:
        what = "to which file?" if asked.paths else "which trace, to which file?"
        raise TracehoundError(f"export {what}", remedy="tracehound export PATH... OUT")
    *asked.paths, out = asked.paths
    folder = destination.folder(out)
    form = named(asked.format or (apart.FORM if folder else ""), out)
    with reading(asked) as shop:
        opening = opened(asked.paths, asked, shop)
        places = _places(out, folder, form, [file.path for file in opening.files], force=asked.force)
        among = form.trace and any(place.lies_in(map(Path, asked.paths)) for place in places.values())
        if among and not asked.force:
            remedy = "write it elsewhere, or anyway with --force"
            raise TracehoundError(
                "lies in the folder that is read, and would be read with it", Path(out), remedy=remedy
            )
        trace, window = ready(opening, asked)
        narrowed = apart.windows(trace, window) if folder else {Path(out): window}
        for path in () if asked.force else narrowed:
            places[path].refuse_old()
        written = [_written(form, trace, window, places[path]) for path, window in narrowed.items()]
    for note in (note for one in written for note in one.notes):
        console.say(printable(": ".join(filter(None, (note.place, note_text(note))))))
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
