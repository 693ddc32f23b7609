"""Files that are written to a URL: first to a local folder, then uploaded when they are complete."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tracehound.cli.commands.trace_input import make_access_options
from tracehound.errors import TracehoundError
from tracehound.store.trace_reader import is_url

if TYPE_CHECKING:
    from tracehound.remote.remote_store import RemoteStore


@contextmanager
def staged_output(word: str, options: Namespace, *, replacing: bool) -> Iterator[str]:
    """The local path to write to, for a file or folder (with ``/`` at its end) that a user named by a path or a URL.

    What is written for a URL is uploaded at the end of the context, unless that ends by an error. Raises
    TracehoundError if it cannot be uploaded, or if an object exists there already; `replacing` allows that.
    """
    if not is_url(word):
        yield word
        return
    from tracehound.remote.object_url import parse_url  # noqa: PLC0415, only for URLs
    from tracehound.remote.remote_store import AccessOptions, open_store  # noqa: PLC0415
    from tracehound.store.object_mirror import url_path  # noqa: PLC0415

    url = parse_url(word)
    store = open_store(url, make_access_options(options) or AccessOptions())
    is_folder = not url.key or url.key.endswith("/")
    with TemporaryDirectory(prefix="tracehound-") as folder:
        path = url_path(Path(folder), str(url))
        (path if is_folder else path.parent).mkdir(parents=True)
        if not is_folder and not replacing:
            _refuse_existing(store, url.key, path)
        yield f"{path}/" if is_folder else str(path)
        files = sorted(file for file in path.rglob("*") if file.is_file()) if is_folder else [path]
        keys = {file: url.key + file.relative_to(path).as_posix() if is_folder else url.key for file in files}
        if is_folder and not replacing:
            for file, key in keys.items():
                _refuse_existing(store, key, file)
        for file, key in keys.items():
            store.write_file(key, file)


def _refuse_existing(store: RemoteStore, key: str, path: Path) -> None:
    """Raise TracehoundError if there is an object of this key."""
    from tracehound.remote.remote_error import RemoteError  # noqa: PLC0415, only for URLs

    try:
        store.head(key)
    except RemoteError as error:
        if error.reason == "no_object":
            return
        raise
    raise TracehoundError("exists already", path, remedy="--force replaces it")
