"""The files that make up one trace, found under the paths that a user names.

A path is a file, a folder of files, or a TensorBoard log folder. A file is recognized by its first bytes; names only
tell hosts and runs apart. `trace_files` chooses which files of a folder are opened together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.errors import TracehoundError
from tracehound.formats import detect_format
from tracehound.formats.file_signatures import CompanionFileError
from tracehound.formats.inflate import is_gzip
from tracehound.model import units
from tracehound.model.notes import Note
from tracehound.store.file_names import ASCEND_OUTPUT, ascend_folder, is_ascend_folder
from tracehound.store.recording_choice import choose_recording
from tracehound.store.run_folders import are_one_run, may_be_one_run
from tracehound.store.trace_files import (
    FoundFiles,
    TraceFile,
    choose_files,
    natural_sort_key,
    notes_of_equal_files,
    peek,
)

_DERIVED_FILE = re.compile(r".*\.(hlo_proto|op_stats\w*)\.pb|ALL_HOSTS\..*|.*\.(SSTABLE|LEVELDB)")
"""Files that profilers and viewers write beside a profile and that hold nothing new."""

_PERFETTO_FORM = re.compile(r"perfetto_trace\.json(\.gz)?")
"""A form of an XLA profile that lies beside others and holds nothing new; opened if it is there alone."""

_ASCEND_COMPANION = re.compile(r"profiler_info(_\d+)?\.json|profiler_metadata\.json|communication(_matrix)?\.json")
"""Files that torch_npu writes beside its traces; the names of some have the rank."""

_ASCEND_RANK = re.compile(r"profiler_info_(\d{1,6})\.json")

_TRACE_LIKE_NAME = re.compile(r".*\.(json|pb|gz|trace)", re.IGNORECASE)
_NON_TRACE_NAME = re.compile(
    r".*\.(pyc?|pyi|so[.\d]*|a|o|[ch](pp|xx|c)?|cuh?|js|css|html?|md|rst|ya?ml|toml|xml|sh|vim|p[lm]|[mp]o"
    r"|png|jpe?g|gif|svg|pdf|whl|jar|safetensors|pt|pth|ckpt|npy|npz)",
    re.IGNORECASE,
)
"""Names of files that often lie beside traces and are never one; opened only if a user names them."""

_RANK_FOLDER = re.compile(r"^\d+$|(?:^|[^a-z])(?:r|rank|worker|proc|node|host|gpu|device)[-_]?\d+", re.IGNORECASE)
"""Names of folders for single ranks or hosts of a job."""

_PROFILE_FOLDER = Path("plugins") / "profile"

STDIN = "-"
"""The name of stdin for other programs."""

_STDIN_PATH = Path("/dev/stdin")
"""The path of stdin if a file is redirected to it."""

MAX_FOLDERS, MAX_NON_TRACES = 10_000, 20_000
"""Limits of a search, in folders and in files that are no traces; exceeding one is an error."""

MAX_SUBFOLDERS_ASIDE, MAX_NON_TRACES_ASIDE = 50, 200
"""Limits of the search in subfolders of a folder that has traces itself, which only makes a note."""

MAX_FETCHED_TOGETHER = 256
"""Files whose ends are fetched together; if they are no traces, a search may end before the next ones."""


SearchListener = Callable[[int], None]
"""Called for each file with the number of files looked at so far; an exception that it raises ends the search."""


def ignore_search(files: int) -> None:
    """A `SearchListener` that does nothing."""


FetchEnds = Callable[[Sequence[Path], SearchListener], Mapping[Path, TracehoundError]]
"""Called with files before they are opened: makes their two ends available; returns the errors of those that failed."""


def fetch_nothing(paths: Sequence[Path], look: SearchListener) -> Mapping[Path, TracehoundError]:
    """A `FetchEnds` for files of this machine."""
    del paths, look
    return {}


def may_be_trace(name: str) -> bool:
    """True if a file of this name in a folder is opened to see whether it is a trace."""
    return not (name.startswith(".") or _DERIVED_FILE.fullmatch(name) or _NON_TRACE_NAME.fullmatch(name))


def find_trace_files(
    paths: Sequence[Path],
    run: str | None = None,
    look: SearchListener = ignore_search,
    fetch_ends: FetchEnds = fetch_nothing,
) -> FoundFiles:
    """The files of the trace under `paths`, in the order given; within a folder by name, ``2`` before ``10``.

    `run` names a run of a TensorBoard log folder, or one of several recordings in a folder; without it the newest run
    is taken, and the newest recording that most processes have. Files that are no traces are skipped with a note. A
    file that is reached by several paths counts once. Raises TracehoundError if nothing readable is there, and for a
    path that does not exist: a typing error must not look like a smaller trace.
    """
    files: list[TraceFile] = []
    notes: list[Note] = []
    listed, runs, run_found = set[Path](), list[str](), False
    refused: dict[Path, TracehoundError] = {}
    for path in paths:
        try:
            search = _FolderSearch({path.resolve()}, look, fetch_ends)
        except RuntimeError as error:  # Python's error for a loop
            raise TracehoundError("too many levels of symbolic links", path) from error
        try:
            found = _find_recording(path, run, search) if _is_folder(path) else _find_named_file(path, search)
        except _NoTraceError as error:
            refused[path] = error
            notes.append(_refused_path_note(path, error))
            continue
        except _TooManyFilesError as error:
            raise TracehoundError(error.message, path, remedy="name that of the trace") from error
        files.extend(found.files)
        notes.extend((*found.notes, *search.unreadable))
        listed.update(found.listed)
        runs.extend(found.runs)
        run_found = run_found or found.run_found
    for path in paths:
        if any(file.path.parent == path for file in files):
            notes.extend(_notes_of_subfolder_traces(path, files, fetch_ends))
    if refused and not files:
        raise next(iter(refused.values()))
    if run is not None and not run_found and not any(run in file.path.parts for file in files):
        raise TracehoundError(f"no run {run!r}", path=paths[0], remedy=_known_runs(runs))
    unique = {_resolve_folder(file.path): _with_rank_beside(file) for file in files}
    notes.extend(notes_of_equal_files({file.path: file.size for file in unique.values()}))
    return FoundFiles(tuple(unique.values()), tuple(notes), tuple(refused), frozenset(listed))


def _known_runs(runs: Sequence[str]) -> str:
    """The runs and recordings to choose from."""
    return f"there are {units.join_some(list(dict.fromkeys(runs)), 5)}" if runs else "there is one run only"


def _find_recording(folder: Path, run: str | None, search: _FolderSearch) -> FoundFiles:
    """The traces of a folder, of one recording."""
    found = _find_in_folder(folder, run, search)
    files = tuple(map(_with_rank_beside, found.files))
    chosen = choose_recording(files, None if found.run_found else run)
    return FoundFiles(
        chosen.files,
        (*found.notes, *chosen.notes),
        listed=frozenset(file.path for file in chosen.files),
        run_found=found.run_found or chosen.run_found,
        runs=(*found.runs, *chosen.runs),
    )


def _with_rank_beside(file: TraceFile) -> TraceFile:
    """The file with the rank that torch_npu writes into the name of another file; unchanged without it."""
    folder = ascend_folder(file.path)
    if folder is None or file.rank is not None:
        return file
    with suppress(OSError):
        ranks = {int(match[1]) for path in folder.iterdir() if (match := _ASCEND_RANK.fullmatch(path.name))}
        return replace(file, rank=ranks.pop()) if len(ranks) == 1 else file
    return file


def _find_named_file(path: Path, search: _FolderSearch) -> FoundFiles:
    """The file that a user named. Raises _NoTraceError if it exists, but is no trace or cannot be read."""
    for error in search.fetch_ends([path], search.listener).values():
        raise error
    try:
        return FoundFiles((_recognize_file(path),), ())
    except TracehoundError as error:
        if str(path) == STDIN and not path.exists():
            if _STDIN_PATH.is_file():
                remedy = f"give the file's path, or {_STDIN_PATH}"
                raise TracehoundError("stdin is not read by this name", path, remedy=remedy) from error
            raise TracehoundError("a pipe cannot be read", path, remedy="save it to a file first") from error
        if not path.exists():
            raise
        raise _NoTraceError(error.message, error.path, error.where, error.remedy) from error


def _refused_path_note(path: Path, error: TracehoundError) -> Note:
    """A note about a path that gives no trace."""
    return Note("dropped", "path_refused", file=str(path), where=error.where, values=(("why", error.message),))


def _resolve_folder(path: Path) -> Path:
    """The path with its folder resolved, equal for all ways to a file. Links are kept: they may stand for ranks."""
    return path.parent.resolve() / path.name


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise TracehoundError((error.strerror or "cannot be read").lower(), path=path) from error


def _recognize_file(path: Path) -> TraceFile:
    try:
        return TraceFile(path, detect_format(path), path.stat().st_size, is_gzip(path))
    except OSError as error:
        raise TracehoundError((error.strerror or "cannot be read").lower(), path=path) from error


class _FolderSearch(Struct):
    """The state of a search: resolved folders visited so far, and counts of files."""

    visited: set[Path]
    listener: SearchListener = ignore_search
    fetch_ends: FetchEnds = fetch_nothing
    files: int = 0
    non_traces: int = 0
    max_folders: int = field(default_factory=lambda: MAX_FOLDERS)
    max_non_traces: int = field(default_factory=lambda: MAX_NON_TRACES)
    unreadable: list[Note] = field(default_factory=list)
    """Notes about folders that cannot be read."""

    def enter_folder(self, folder: Path) -> bool:
        """Register a folder; False if it was visited before. Raises _TooManyFilesError."""
        self.listener(self.files)
        if (place := folder.resolve()) in self.visited:
            return False
        self.visited.add(place)
        if len(self.visited) > self.max_folders:
            raise _TooManyFilesError(f"holds more than {self.max_folders:,} folders")
        return True

    def count_file(self) -> None:
        """Count a file."""
        self.files += 1
        self.listener(self.files)

    def count_non_trace(self) -> None:
        """Count a file that is no trace. Raises _TooManyFilesError."""
        self.non_traces += 1
        if self.non_traces > self.max_non_traces:
            raise _TooManyFilesError(f"holds more than {self.max_non_traces:,} files that are no traces")


class _NoTraceError(TracehoundError):
    """A path holds no readable trace."""


class _UnreadableFolderError(TracehoundError):
    """A folder cannot be read."""


class _TooManyFilesError(TracehoundError):
    """A search exceeds the limits on folders or files."""


class _SeveralTracesError(TracehoundError):
    """A folder holds traces of different runs."""


def _find_in_folder(folder: Path, run: str | None, search: _FolderSearch) -> FoundFiles:
    """The traces of a folder: of its TensorBoard profiles, else its own files, else those of its subfolders."""
    try:
        profile = _profile_folder(folder)
        if profile is not None:
            return _find_in_profile(profile, run, search)
        direct = _find_among_files(folder, search)
        if direct.files:
            return direct
        return _find_in_subfolders(folder, run, direct.notes, search)
    except OSError as error:
        raise _UnreadableFolderError((error.strerror or "cannot be read").lower(), path=folder) from error


def _profile_folder(folder: Path) -> Path | None:
    """The folder `plugins/profile`, given itself, its parent `plugins`, or the log folder; None if there is none."""
    candidates = [folder / _PROFILE_FOLDER, folder / "profile" if folder.name == "plugins" else folder]
    for candidate in candidates:
        if candidate.is_dir() and candidate.name == "profile" and any(child.is_dir() for child in candidate.iterdir()):
            return candidate
    return None


def _find_in_profile(profile: Path, run: str | None, search: _FolderSearch) -> FoundFiles:
    """The traces of the chosen run, else of the newest run that holds any: runs are named by their time."""
    runs = sorted((child for child in profile.iterdir() if child.is_dir()), key=lambda child: child.name, reverse=True)
    names = tuple(child.name for child in runs)
    if run in names:
        found = _find_among_files(profile / run, search)
        return FoundFiles(found.files, found.notes, run_found=True, runs=names)
    skipped: list[Note] = []
    for at, child in enumerate(runs):
        found = _find_among_files(child, search)
        skipped.extend(found.notes)
        if found.files:
            joined = _runs_of_other_hosts(child, found, runs[at + 1 :], search)
            files = (*(file for each in reversed(joined.values()) for file in each.files), *found.files)
            notes = (*(note for each in joined.values() for note in each.notes), *found.notes)
            return FoundFiles(files, (*notes, *_run_notes(profile, [child, *joined], len(runs))), runs=names)
    raise _NoTraceError(f"no run here holds a profile{_first_reason(skipped)}", path=profile)


def _runs_of_other_hosts(
    run: Path, found: FoundFiles, older: Sequence[Path], search: _FolderSearch
) -> dict[Path, FoundFiles]:
    """Older runs that are one run with this one: each host wrote a folder of its own."""
    joined, files = dict[Path, FoundFiles](), list(found.files)
    for child in older:
        if not may_be_one_run(run, child):
            break
        other = _find_among_files(child, search)
        if other.files and not are_one_run(files, other.files):
            break
        if other.files:
            joined[child] = other
            files += other.files
    return joined


def _run_notes(profile: Path, opened: Sequence[Path], total: int) -> list[Note]:
    """Notes about runs that are opened together, and about others that are not opened."""
    names, others = tuple(sorted(run.name for run in opened)), total - len(opened)
    together = Note("inferred", "runs_opened_together", len(opened), file=str(profile), values=(("runs", names),))
    newest = Note("info", "run_opened", others, file=str(profile), values=(("run", opened[0].name),))
    return [*([together] if len(opened) > 1 else []), *([newest] if others else [])]


def _first_reason(notes: Sequence[Note]) -> str:
    """The first file that was skipped and why, in parentheses."""
    return f" ({Path(notes[0].file).name}: {dict(notes[0].values)['why']})" if notes else ""


def _find_among_files(folder: Path, search: _FolderSearch) -> FoundFiles:
    """The traces among a folder's own files. If an XLA host has several forms, the xplane is taken.

    Empty files are opened only if their names look like traces, since kernel file systems list their files as empty.
    Files with names of other formats are not opened.
    """
    candidates = list(_files_to_open(folder, search))
    perfetto = [path for path in candidates if _PERFETTO_FORM.fullmatch(path.name)]
    found = _recognize_files([path for path in candidates if path not in perfetto], search)
    return _recognize_files(perfetto, search, found.notes) if perfetto and not found.files else found


def _recognize_files(paths: Sequence[Path], search: _FolderSearch, before: Sequence[Note] = ()) -> FoundFiles:
    """The traces among these files of a folder, and notes about the others, after those `before`.

    Raises _UnreadableFolderError if none of them can be fetched: the cause is not in one of them.
    """
    files: list[TraceFile] = []
    notes: list[Note] = list(before)
    not_fetched: list[TracehoundError] = []
    for path, failures in _fetched_files(paths, search):
        if path in failures:
            not_fetched.append(failures[path])
        likely = _TRACE_LIKE_NAME.fullmatch(path.name)
        try:
            files.append(_recognize_listed_file(path, failures))
        except CompanionFileError as error:
            notes.append(Note("info", "companion_file", file=str(path), values=(("why", error.message),)))
        except TracehoundError as error:
            if likely:
                notes.append(_refused_path_note(path, error))
            search.count_non_trace()
    if not_fetched and len(not_fetched) == len(paths):
        first = not_fetched[0]
        raise _UnreadableFolderError(first.message, first.path, first.where, first.remedy)
    found = choose_files(files)
    return FoundFiles(found.files, (*notes, *found.notes))


def _fetched_files(
    paths: Sequence[Path], search: _FolderSearch
) -> Iterator[tuple[Path, Mapping[Path, TracehoundError]]]:
    """Files that may be traces, once their ends are there, and the errors of fetching some."""
    for start in range(0, len(paths), MAX_FETCHED_TOGETHER):
        together = paths[start : start + MAX_FETCHED_TOGETHER]
        failures = search.fetch_ends(together, search.listener)
        for path in together:
            search.listener(search.files)  # opening a file may take long
            yield path, failures


def _files_to_open(folder: Path, search: _FolderSearch) -> Iterator[Path]:
    """The files of a folder that may be traces, in natural order."""
    for path in sorted(folder.iterdir(), key=natural_sort_key):
        search.count_file()
        if path.is_dir() or _ASCEND_COMPANION.fullmatch(path.name):
            continue
        if may_be_trace(path.name):
            if _TRACE_LIKE_NAME.fullmatch(path.name) or (path.is_file() and path.stat().st_size):
                yield path
        elif _NON_TRACE_NAME.fullmatch(path.name) and path.is_file() and path.stat().st_size:
            search.count_non_trace()


def _recognize_listed_file(path: Path, failures: Mapping[Path, TracehoundError]) -> TraceFile:
    """A file listed in a folder, which may be a broken link. Raises the error of fetching it."""
    if path in failures:
        raise failures[path]
    if path.is_symlink() and not path.exists():
        raise TracehoundError("a link to what is not there", path)
    return _recognize_file(path)


def _sorted_subfolders(folder: Path) -> Iterator[Path]:
    """The subfolders to search, in natural order: of a recording by torch_npu only that with the results."""
    children = [child for child in folder.iterdir() if child.is_dir() and not child.name.startswith(".")]
    results = [child for child in children if child.name == ASCEND_OUTPUT]
    yield from sorted(results or children, key=natural_sort_key)


def _notes_of_subfolder_traces(folder: Path, files: Sequence[TraceFile], fetch_ends: FetchEnds) -> list[Note]:
    """Notes about traces in subfolders of a folder that has traces itself; they are not opened."""
    search = _FolderSearch(
        {folder.resolve()},
        fetch_ends=fetch_ends,
        max_folders=MAX_SUBFOLDERS_ASIDE,
        max_non_traces=MAX_NON_TRACES_ASIDE,
    )
    read = {parent for file in files for parent in file.path.parents}
    holding: list[Path] = []
    with suppress(_TooManyFilesError, OSError):  # a note about the folders found so far is still useful
        holding.extend(
            child
            for child in _sorted_subfolders(folder)
            if child not in read and search.enter_folder(child) and _holds_trace(child, search)
        )
    if not holding:
        return []
    return [Note("info", "traces_in_subfolder", len(holding), file=str(holding[0]))]


def _holds_trace(folder: Path, search: _FolderSearch) -> bool:
    """True if a folder holds a trace. Raises _TooManyFilesError."""
    try:
        return bool(_find_in_folder(folder, None, search).files)
    except _TooManyFilesError:
        raise
    except TracehoundError as error:
        return isinstance(error, _SeveralTracesError)


def _find_in_subfolders(folder: Path, run: str | None, notes: tuple[Note, ...], search: _FolderSearch) -> FoundFiles:
    """The traces of the subfolders."""
    found: dict[Path, FoundFiles] = {}
    several: dict[Path, _SeveralTracesError] = {}
    children = list(_sorted_subfolders(folder))
    run_found = False
    if chosen := [child for child in children if child.name == run]:
        children, run, run_found = chosen, None, True
    for child in children:
        if not search.enter_folder(child):
            continue
        try:
            inner = _find_in_folder(child, run, search)
        except _TooManyFilesError:
            raise
        except _SeveralTracesError as error:
            several[child] = error
            continue
        except _UnreadableFolderError as error:
            search.unreadable.append(_refused_path_note(error.path or child, error))
            continue
        except TracehoundError:
            continue
        if inner.files:
            found[child] = inner
    if not found and not several:
        raise _NoTraceError(f"no trace in this folder{_first_reason((*notes, *search.unreadable))}", path=folder)
    joined = _join_subfolders(folder, found, several, notes)
    return replace(joined, run_found=run_found or joined.run_found)


def _join_subfolders(
    folder: Path, found: Mapping[Path, FoundFiles], several: Mapping[Path, _SeveralTracesError], notes: tuple[Note, ...]
) -> FoundFiles:
    """The traces of all subfolders if these belong together (rank0, rank1), else of the only one that has any.

    Folders whose names differ only in numbers belong together, except those of runs (bs128, bs256): their names mention
    no ranks and their files record the same rank.
    """
    if not found:
        raise next(iter(several.values()))
    families = {re.sub(r"\d+", "#", child.name) for child in found}
    ranked = all(_RANK_FOLDER.search(child.name) or is_ascend_folder(child) for child in found)
    if len(families) > 1 or several or (not ranked and _repeat_a_rank(found.values())):
        holding = sorted((*found, *several))
        names = units.join_some([child.name for child in holding], 6)
        raise _SeveralTracesError(f"holds {len(holding)} different traces", path=folder, remedy=f"open one of {names}")
    files = tuple(file for inner in found.values() for file in inner.files)
    return FoundFiles(
        files,
        notes + tuple(note for inner in found.values() for note in inner.notes),
        run_found=any(inner.run_found for inner in found.values()),
        runs=tuple(name for inner in found.values() for name in inner.runs),
    )


def _repeat_a_rank(findings: Collection[FoundFiles]) -> bool:
    """True if files of two subfolders record the same rank of a job, or without ranks the same process."""
    if len(findings) < 2:
        return False
    claims = [{_claim(file) for file in each.files} - {None} for each in findings]
    return len(set[Hashable]().union(*claims)) < sum(map(len, claims))


def _claim(file: TraceFile) -> Hashable:
    """The rank that a file records, else its process; None if neither is known."""
    facts = peek(file)
    if facts.rank is not None:
        return facts.rank
    return None if facts.process is None else (facts.host, facts.process)
