"""Paths that a person named -> the files that make up one trace.

Owns what counts as a trace's file: a file, a folder of files, a TensorBoard log folder, several of these. A file is
recognised by its first bytes; names only tell hosts and runs apart. Which of a folder's are opened together `preferred`
knows. Knows nothing of what is inside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from tracehound import units
from tracehound.errors import TracehoundError
from tracehound.formats import recognise
from tracehound.formats.inflate import is_compressed
from tracehound.formats.unknown import CompanionError
from tracehound.notes import Note
from tracehound.store.alike import copies
from tracehound.store.found import Finding, Found
from tracehound.store.natural import natural
from tracehound.store.preferred import claim, preferred

_DERIVED = re.compile(
    r"perfetto_trace\.json(\.gz)?|.*\.(hlo_proto|op_stats\w*)\.pb|ALL_HOSTS\..*|.*\.(SSTABLE|LEVELDB)"
)
"""Files that profilers and viewers leave beside a profile, and that hold nothing else than it does."""

_LIKELY = re.compile(r".*\.(json|pb|gz|trace)", re.IGNORECASE)
_OTHER = re.compile(
    r".*\.(pyc?|pyi|so[.\d]*|a|o|[ch](pp|xx|c)?|cuh?|js|css|html?|md|rst|ya?ml|toml|xml|sh|vim|p[lm]|[mp]o"
    r"|png|jpe?g|gif|svg|pdf|whl|jar|safetensors|pt|pth|ckpt|npy|npz)",
    re.IGNORECASE,
)
"""Names of what is so often beside traces, or everywhere, and never one: it is opened only when a person names it."""

_RANKED = re.compile(r"^\d+$|(?:^|[^a-z])(?:r|rank|worker|proc|node|host|gpu|device)[-_]?\d+", re.IGNORECASE)
"""How folders of ranks of one job, or of its hosts, are called."""

_PROFILE = Path("plugins") / "profile"

STDIN = "-"
"""What other programs take for their stdin."""

_INPUT = Path("/dev/stdin")
"""Stdin as a file, where it is one."""

MOST_FOLDERS, MOST_FILES = 10_000, 20_000
"""So many folders, and in them files that are no traces, are looked into, and no more: who names a disk hears of it."""

FOLDERS_ASIDE, FILES_ASIDE = 50, 200
"""The same for what lies beside traces, and is only to be told of."""


Look = Callable[[int], None]
"""Told how many files were looked at so far, with each; what it raises ends the search."""


def silent(files: int) -> None:
    """Nobody is told."""


def find(paths: Sequence[Path], run: str | None = None, look: Look = silent) -> Finding:
    """The files of the trace under `paths`, in the order given; within a folder by name, ``2`` before ``10``.

    `run` names a run of a TensorBoard log folder; without it the newest is taken, and in a folder so is the newest
    recording that most processes have. What is no trace, or holds none, is noted and passed over. A file to which
    several paths lead, through whatever folders, is one. Raises TracehoundError when nothing readable is there, and for
    a path that does not exist: a slip of the pen must not look like a smaller trace.
    """
    files: list[Found] = []
    notes: list[Note] = []
    refused: dict[Path, TracehoundError] = {}
    for path in paths:
        try:
            search = _Search({path.resolve()}, look)
        except RuntimeError as error:  # how Python tells of a loop
            raise TracehoundError("too many levels of symbolic links", path) from error
        try:
            found = _in_folder(path, run, search) if _is_folder(path) else _named(path)
        except _EmptyError as error:
            refused[path] = error
            notes.append(_dropped(path, error))
            continue
        except _TooManyError as error:
            raise TracehoundError(error.message, path, remedy="name that of the trace") from error
        files.extend(found.files)
        notes.extend((*found.notes, *search.shut))
    for path in paths:
        if any(file.path.parent == path for file in files):
            notes.extend(_beside(path, files))
    if refused and not files:
        raise next(iter(refused.values()))
    if run is not None and not any(run in file.path.parts for file in files):
        raise TracehoundError(f"no run {run!r} here", path=paths[0])
    unique = {_place(file.path): file for file in files}
    notes.extend(copies({file.path: file.size for file in unique.values()}))
    return Finding(tuple(unique.values()), tuple(notes), tuple(refused))


def _named(path: Path) -> Finding:
    """A file that a person named. Raises _EmptyError when it is there, and is no trace or cannot be read."""
    try:
        return Finding((_file(path),), ())
    except TracehoundError as error:
        if str(path) == STDIN and not path.exists():
            if _INPUT.is_file():
                remedy = f"give the file's path, or {_INPUT}"
                raise TracehoundError("stdin is not read by this name", path, remedy=remedy) from error
            raise TracehoundError("a pipe cannot be read", path, remedy="save it to a file first") from error
        if not path.exists():
            raise
        raise _EmptyError(error.message, error.path, error.where, error.remedy) from error


def _dropped(path: Path, error: TracehoundError) -> Note:
    """What is said of a path that gives nothing."""
    return Note("dropped", "path_refused", file=str(path), where=error.where, values=(("why", error.message),))


def _place(path: Path) -> Path:
    """What all ways to a file have in common. Links to one file are files of their own: ranks that share it."""
    return path.parent.resolve() / path.name


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise TracehoundError((error.strerror or "cannot be read").lower(), path=path) from error


def _file(path: Path) -> Found:
    try:
        return Found(path, recognise(path), path.stat().st_size, is_compressed(path))
    except OSError as error:
        raise TracehoundError((error.strerror or "cannot be read").lower(), path=path) from error


class _Search(Struct):
    """What was looked into so far: folders, whatever links led there, and how many files that are no traces."""

    folders: set[Path]
    look: Look = silent
    files: int = 0
    strangers: int = 0
    most_folders: int = field(default_factory=lambda: MOST_FOLDERS)
    most_files: int = field(default_factory=lambda: MOST_FILES)
    shut: list[Note] = field(default_factory=list)
    """What is said of folders that cannot be read."""

    def entered(self, folder: Path) -> bool:
        """Look into a folder, unless that was done before. Raises _TooManyError."""
        self.look(self.files)
        if (place := folder.resolve()) in self.folders:
            return False
        self.folders.add(place)
        if len(self.folders) > self.most_folders:
            raise _TooManyError(f"holds more than {self.most_folders:,} folders")
        return True

    def seen(self) -> None:
        """Look at a file."""
        self.files += 1
        self.look(self.files)

    def passed(self) -> None:
        """Pass over a file that is no trace. Raises _TooManyError."""
        self.strangers += 1
        if self.strangers > self.most_files:
            raise _TooManyError(f"holds more than {self.most_files:,} files that are no traces")


class _EmptyError(TracehoundError):
    """A path holds no trace that can be read."""


class _ShutError(TracehoundError):
    """A folder cannot be read."""


class _TooManyError(TracehoundError):
    """There are more folders than anyone would search."""


class _SeveralError(TracehoundError):
    """A folder holds traces of different runs."""


def _in_folder(folder: Path, run: str | None, search: _Search) -> Finding:
    """What a folder holds."""
    try:
        profile = _profile_folder(folder)
        if profile is not None:
            return _in_profile(profile, run, search)
        direct = _files_of(folder, search)
        if direct.files:
            return direct
        return _below(folder, run, direct.notes, search)
    except OSError as error:
        raise _ShutError((error.strerror or "cannot be read").lower(), path=folder) from error


def _profile_folder(folder: Path) -> Path | None:
    """The `plugins/profile` of a log folder, be it the folder itself, its `plugins`, or the log folder."""
    candidates = [folder / _PROFILE, folder / "profile" if folder.name == "plugins" else folder]
    for candidate in candidates:
        if candidate.is_dir() and candidate.name == "profile" and any(child.is_dir() for child in candidate.iterdir()):
            return candidate
    return None


def _in_profile(profile: Path, run: str | None, search: _Search) -> Finding:
    """The chosen run, else the newest that holds a trace: runs are named by their time."""
    runs = sorted((child for child in profile.iterdir() if child.is_dir()), key=lambda child: child.name, reverse=True)
    if run is not None:
        chosen = [child for child in runs if child.name == run]
        if not chosen:
            known = units.several([child.name for child in runs], 5)
            raise TracehoundError(f"no run {run!r}", path=profile, remedy=f"there are {known}")
        return _files_of(chosen[0], search)
    passed_over: list[Note] = []
    for child in runs:
        found = _files_of(child, search)
        passed_over.extend(found.notes)
        if found.files:
            others = len(runs) - 1
            more = [Note("info", "run_opened", others, file=str(profile), values=(("run", child.name),))]
            return Finding(found.files, (*found.notes, *(more if others else [])))
    raise _EmptyError(f"no run here holds a profile{_why(passed_over)}", path=profile)


def _why(notes: Sequence[Note]) -> str:
    """The first file that was passed over, in brackets."""
    return f" ({Path(notes[0].file).name}: {dict(notes[0].values)['why']})" if notes else ""


def _files_of(folder: Path, search: _Search) -> Finding:
    """The traces among a folder's own files. Of an XLA host that left both forms, the xplane is taken.

    Of several recordings of a run it is the newest that has most processes. Files without a byte are opened only where
    their names say that they should be traces: a kernel's have none. Those that are called like something else are not
    opened at all.
    """
    files: list[Found] = []
    notes: list[Note] = []
    for path in sorted(folder.iterdir(), key=natural):
        search.seen()
        likely = _LIKELY.fullmatch(path.name)
        if path.is_dir() or path.name.startswith(".") or _DERIVED.fullmatch(path.name):
            continue
        if not likely and not (path.is_file() and path.stat().st_size):
            continue
        if _OTHER.fullmatch(path.name):
            search.passed()
            continue
        try:
            files.append(_listed(path))
        except CompanionError as error:
            notes.append(Note("info", "companion_file", file=str(path), values=(("why", error.message),)))
        except TracehoundError as error:
            if likely:
                notes.append(_dropped(path, error))
            search.passed()
    found = preferred(files)
    return Finding(found.files, (*notes, *found.notes))


def _listed(path: Path) -> Found:
    """A file that a folder lists: a link in it may lead nowhere."""
    if path.is_symlink() and not path.exists():
        raise TracehoundError("a link to what is not there", path)
    return _file(path)


def _folders(folder: Path) -> Iterator[Path]:
    """The subfolders in which traces are looked for."""
    children = (child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))
    yield from sorted(children, key=natural)


def _beside(folder: Path, files: Sequence[Found]) -> list[Note]:
    """What is said of subfolders of a folder that has traces itself: theirs are those of other runs, or forgotten."""
    search = _Search({folder.resolve()}, most_folders=FOLDERS_ASIDE, most_files=FILES_ASIDE)
    read = {parent for file in files for parent in file.path.parents}
    holding: list[Path] = []
    with suppress(_TooManyError, OSError):  # what was found so far is worth a word
        holding.extend(
            child for child in _folders(folder) if child not in read and search.entered(child) and _holds(child, search)
        )
    if not holding:
        return []
    return [Note("info", "traces_in_subfolder", len(holding), file=str(holding[0]))]


def _holds(folder: Path, search: _Search) -> bool:
    """Whether there is a trace in a folder. Raises _TooManyError."""
    try:
        return bool(_in_folder(folder, None, search).files)
    except _TooManyError:
        raise
    except TracehoundError as error:
        return isinstance(error, _SeveralError)


def _below(folder: Path, run: str | None, notes: tuple[Note, ...], search: _Search) -> Finding:
    """The traces of subfolders."""
    found: dict[Path, Finding] = {}
    several: dict[Path, _SeveralError] = {}
    children = list(_folders(folder))
    if chosen := [child for child in children if child.name == run]:
        children, run = chosen, None
    for child in children:
        if not search.entered(child):
            continue
        try:
            inner = _in_folder(child, run, search)
        except _TooManyError:
            raise
        except _SeveralError as error:
            several[child] = error
            continue
        except _ShutError as error:
            search.shut.append(_dropped(error.path or child, error))
            continue
        except TracehoundError:
            continue
        if inner.files:
            found[child] = inner
    if not found and not several:
        raise _EmptyError(f"no trace in this folder{_why((*notes, *search.shut))}", path=folder)
    return _family(folder, found, several, notes)


def _family(
    folder: Path, found: Mapping[Path, Finding], several: Mapping[Path, _SeveralError], notes: tuple[Note, ...]
) -> Finding:
    """What was found in subfolders: all of it when they are one family (rank0, rank1), else the one there is.

    Folders whose names differ in numbers alone are one, but not those of runs (bs128, bs256): files of two of them
    record the same rank, and their names speak of none.
    """
    if not found:
        raise next(iter(several.values()))
    families = {re.sub(r"\d+", "#", child.name) for child in found}
    ranked = all(_RANKED.search(child.name) for child in found)
    if len(families) > 1 or several or (not ranked and _repeat(found.values())):
        holding = sorted((*found, *several))
        names = units.several([child.name for child in holding], 6)
        raise _SeveralError(f"holds {len(holding)} different traces", path=folder, remedy=f"open one of {names}")
    files = tuple(file for inner in found.values() for file in inner.files)
    return Finding(files, notes + tuple(note for inner in found.values() for note in inner.notes))


def _repeat(findings: Collection[Finding]) -> bool:
    """Whether files of two of them record the same rank of a job."""
    if len(findings) < 2:
        return False
    claims = [{claim(file) for file in each.files} - {None} for each in findings]
    return len(set[int | None]().union(*claims)) < sum(map(len, claims))
