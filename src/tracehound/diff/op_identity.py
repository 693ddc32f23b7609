"""The identity of an op in any run, and the matches between the ops of two runs.

Owns the parts of names and of HLO text that change from build to build and are dropped, the path from a kernel to the
operators around its launch, the choice of compared events, and the criteria of a match, from the surest to the last
resort. A match may be of one op with many or of many with many (one fusion against three kernels). Knows no step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.devices.kernel_classes import OTHER_CLASS, classify_kernels
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import WORK_COLUMNS, device_work, parent_rows
from tracehound.analysis.timing.device_clock import DEVICE_TIMES
from tracehound.formats.hlo.replica_groups import find_groups_text, format_groups, parse_groups
from tracehound.formats.xla.op_kinds import op_kind
from tracehound.model.short_names import shorten_kernel_name
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Ints

_HLO_NAME_SUFFIX: Final = re.compile(r"(?:[._]\d+|\.(?:clone|remat|cloned|sunk)\d*|\.kd)+$")
"""Suffixes with which XLA makes a name unique: ``fusion.123.clone.remat2``, ``gemm_fusion_dot_1.kd``."""

_KERNEL_NAME_SUFFIX: Final = re.compile(r"(?:_\d+|_[0-9a-f]{8,}|\.kd)+$")
"""Running numbers of generated kernels (Triton's), hashes of their code, the mark of a kernel descriptor."""

_MODULE_NAME_SUFFIX: Final = re.compile(r"(?:\(\d+\)|[._]\d+)+$")
"""The fingerprint or number behind a module's name: ``jit_step(1234567890)``."""

_COMPILATION_DETAILS: Final = re.compile(
    r"%[\w.\-]+|,\s*(?:metadata|backend_config|frontend_attributes|sharding|origin)=\{(?:[^{}]|\{[^{}]*\})*\}"
    r"|,\s*(?:calls|to_apply|channel_id|control-predecessors|custom_call_schedule)=[^,]*"
)
"""Parts of an instruction that differ between two compilations: names of others, ids, origins."""

_MEMORY_SPACE_MARK: Final = re.compile(r"S\(\d+\)")
"""The memory space of a buffer, behind its layout: ``{1,0:T(8,128)S(1)}``."""

_NUMBER_IN_NAME: Final = re.compile(r"[._-]?(?<![A-Za-z])\d+(?:x\d+)*(?![A-Za-z\d])")
"""A number that stands by itself: sizes of blocks and pages in the name of a kernel."""

_SCOPE_NAME: Final = re.compile(r"[A-Za-z_][\w.:\-]*")

_LOOP_SCOPES: Final = frozenset(
    ("while", "body", "cond", "scan", "closed_call", "checkpoint", "remat", "rematted_computation")
)
"""Scopes around loops and repeated code: names stand before and behind them."""

_CALL_SCOPES: Final = frozenset(("shard_map", "pallas_call", "custom_jvp_call", "custom_vjp_call", "core_call", "pjit"))
"""Scopes that say how something is computed, not which part of the model it is."""


def op_name_without_number(name: str) -> str:
    """An HLO op without its number: ``fusion.123.clone`` is a ``fusion``."""
    return _HLO_NAME_SUFFIX.sub("", name) or name


def module_name_without_id(name: str) -> str:
    """A module without its fingerprint."""
    return _MODULE_NAME_SUFFIX.sub("", name) or name


def kernel_family(name: str) -> str:
    """The short name of a kernel, without its running number or hash."""
    short = shorten_kernel_name(name)
    return _KERNEL_NAME_SUFFIX.sub("", short) or short


def custom_call_family(name: str) -> str:
    """A custom call without the settings in its name: ``RPA-bq_32-p_64-.1`` is an ``RPA-bq-p``."""
    bare = op_name_without_number(name)
    return _NUMBER_IN_NAME.sub("", bare).strip("._-") or bare


def named_scope(scope: str) -> str:
    """The named part of an op's scope, without the way in which it is computed there; "" where nothing is named.

    ``jit(f)/Dense/mn,np->mp/dot_general`` and ``jit(f)/Dense/shard_map/jit(kernel)/pallas_call`` are both in
    ``jit(f)/Dense``. Transformations of a function (``jit(f)``) and loops are no names.
    """
    parts = scope.split("/")
    end = 0
    for number, part in enumerate(parts[:-1]):
        named = part not in _CALL_SCOPES and _SCOPE_NAME.fullmatch(part)
        if end and not named:
            break
        if named and part not in _LOOP_SCOPES:
            end = number + 1
    return "/".join(parts[:end])


def instruction_signature(text: str) -> str:
    """A short hash of an HLO instruction: its opcode, shapes, layouts and attributes; "" where there is no text.

    Different spellings of device groups give one hash.
    """
    if not text:
        return ""
    bare = _MEMORY_SPACE_MARK.sub("", "".join(_COMPILATION_DETAILS.sub("", text).split()))
    if (short := find_groups_text(bare)) and (found := parse_groups(short)):
        bare = bare.replace(short, f"replica_groups={format_groups(found)}")
    return blake2b(bare.encode(errors="replace"), digest_size=8).hexdigest()


PATH_SEPARATOR: Final = " > "
"""Between an operator and one that it calls."""

NO_PATH: Final = -1


def operators_of_launches(rank_trace: RankTrace, launch: pl.Series) -> tuple[Ints, pl.DataFrame]:
    """For each launch (ids of host events, null: none) the operators around it, as a row of the frame.

    In the frame `operator` is the outermost one, and `path` all of them from there inward; the last row, for launches
    without operators, has empty words.
    """
    if launch.null_count() == len(launch):
        return np.zeros(len(launch), np.int64), _path_frame([])
    calls = collect_frame(rank_trace.threads.select("id", "name", "kind", "parent", "depth"))
    if calls.is_empty():
        return np.zeros(len(launch), np.int64), _path_frame([])
    ids, wanted = calls["id"].to_numpy(), launch.fill_null(-1).to_numpy()
    row = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    path_rows, words = operator_paths(calls)
    path_of_launch = np.where(ids[row] == wanted, path_rows[row], NO_PATH)
    return np.where(path_of_launch == NO_PATH, words.height - 1, path_of_launch), words


def operator_paths(calls: pl.DataFrame) -> tuple[Ints, pl.DataFrame]:
    """The path of operators down to each host event, itself included, as a row of the frame; `NO_PATH` for none.

    The frame has `operator` and `path` of each distinct path, and in its last row empty words.
    """
    parent, depth = parent_rows(calls), calls["depth"].to_numpy()
    is_op = (calls["kind"] == "op").to_numpy()
    names = calls["name"].cast(pl.String).fill_null("")
    words = names.unique(maintain_order=True)
    code = names.replace_strict(words, pl.Series(range(len(words)), dtype=pl.Int64)).to_numpy()
    path_rows = np.full(len(parent), NO_PATH)
    paths: list[tuple[str, str]] = []
    order = np.argsort(depth, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        above = np.where(parent[rows] >= 0, path_rows[parent[rows]], NO_PATH)
        path_rows[rows] = above
        ops, outer = rows[is_op[rows]], above[is_op[rows]]
        steps, place = np.unique((outer + 1) * len(words) + code[ops], return_inverse=True)
        path_rows[ops] = len(paths) + place
        paths += [_extend_path(paths, *divmod(int(step), len(words)), words) for step in steps]
    return path_rows, _path_frame(paths)


def _path_frame(paths: list[tuple[str, str]]) -> pl.DataFrame:
    """The frame of operator paths, with an empty last row."""
    return pl.DataFrame([*paths, ("", "")], schema={"operator": pl.String, "path": pl.String}, orient="row")


def _extend_path(paths: list[tuple[str, str]], outer: int, code: int, words: pl.Series) -> tuple[str, str]:
    """The path `outer`, counted from 1 (0: no path), with one more operator inside."""
    name = str(words[code])
    if outer == 0:
        return (name, name)
    operator, path = paths[outer - 1]
    return (operator, f"{path}{PATH_SEPARATOR}{name}")


IDENTITY_COLUMNS: Final = ("name", "category", "module", "operator", "path", "scope", "signature", "family")
"""Columns of words, empty where a trace does not have them: `operator` is the outermost one around the launch, `path`
all of them from there inward, `family` the sort of a kernel or of a custom call."""


def op_categories(ops: pl.DataFrame) -> pl.Series:
    """The category of each op (name, category) in tables: of kernels their class, of memsets that of copies.

    Kernels that another device or library names otherwise are of one class: gemm, attention, elementwise.
    """
    kernels = ops.select("name", "category").unique().filter(pl.col("category") == "kernel")
    asked = kernels.select("name", pl.lit("kernel").alias("kind"), pl.lit(None, pl.String).alias("category"))
    classes = kernels.with_columns(classify_kernels(asked)["class"].replace(OTHER_CLASS, OTHER_KERNELS))
    category = pl.when(pl.col("category") == "memset").then(pl.lit("copy")).otherwise("category")
    joined = ops.select("name", "category").join(classes, on=["name", "category"], how="left", maintain_order="left")
    return joined.select(pl.coalesce("class", category).alias("category")).to_series()


OTHER_KERNELS: Final = "other kernels"
"""Category of the kernels of no class."""


def compared_events(rank_trace: RankTrace) -> tuple[pl.DataFrame, str]:
    """The device work, sorted by id; where none was recorded the operators of the host."""
    more = ("lane", "name", "op", "launch", "step", *DEVICE_TIMES)
    events = device_work(rank_trace, *more)
    if events.height or rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height:
        return events, DEVICE_WORK
    on_host = rank_trace.threads.filter(pl.col("kind").is_in(["op", "collective"]))
    return collect_frame(on_host.select(*WORK_COLUMNS, *more)), "operators on the host"


DEVICE_WORK: Final = "work on the device"
"""Compared where any device work was recorded."""

MEMORY_ONLY: Final = "nothing but memory"
"""Compared for memory timelines."""


class IdentifiedOps(NamedTuple):
    """The distinct ops of some events (`IDENTITY_COLUMNS` and their `kind`), and the row of each event among them."""

    ops: pl.DataFrame
    row: Ints


def identify_ops(events: pl.DataFrame, rank_trace: RankTrace) -> IdentifiedOps:
    """The ops of events that have the columns of `compared_events`."""
    path_rows, words = operators_of_launches(rank_trace, events["launch"])
    described = pl.DataFrame({"name": events["name"], "op": events["op"], "kind": events["kind"], "way": path_rows})
    distinct = described.unique(maintain_order=True).with_row_index("at")
    at = described.join(distinct, on=described.columns, how="left", maintain_order="left", nulls_equal=True)[
        "at"
    ].to_numpy()
    identities = _identity_rows(distinct, words[distinct["way"].to_numpy()], rank_trace)
    if identities.is_empty():
        return IdentifiedOps(identities, path_rows)
    identity_number = identities.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64) - 1).to_series().alias("same")
    return IdentifiedOps(
        identities.with_columns(identity_number).unique("same").sort("same").drop("same"),
        identity_number.to_numpy()[at],
    )


def _identity_rows(distinct: pl.DataFrame, callers: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """`IDENTITY_COLUMNS` and kind of distinct events, given the operators around each."""
    plain = distinct.select(pl.col("name").cast(pl.String).fill_null(""), "op", "kind").hstack(callers)
    known = rank_trace.ops.select(
        "op",
        pl.col("name").alias("hlo"),
        pl.col("category").fill_null("").alias("kind of op"),
        pl.col("module").fill_null(""),
        pl.col("framework").fill_null("").alias("scope"),
        pl.col("text").fill_null(""),
    )
    rows = plain.join(known, on="op", how="left", maintain_order="left").with_columns(
        pl.col("module", "scope", "text", "kind of op").fill_null("")
    )
    is_hlo, kind = pl.col("hlo").is_not_null(), pl.col("kind").cast(pl.String)
    is_call = is_hlo & (pl.col("kind of op") == "custom-call")
    name = pl.coalesce("hlo", "name")
    return rows.select(
        pl.when(is_hlo).then(_map_distinct(name, op_name_without_number)).otherwise(name).alias("name"),
        pl.when(pl.col("kind of op") != "").then("kind of op").otherwise(kind).alias("category"),
        _map_distinct(pl.col("module"), module_name_without_id).alias("module"),
        *(pl.when(is_hlo).then(pl.lit("")).otherwise(column).alias(column) for column in ("operator", "path")),
        "scope",
        _map_distinct(pl.col("text"), instruction_signature).alias("signature"),
        pl.when(is_call)
        .then(_map_distinct(name, custom_call_family))
        .when(is_hlo)
        .then(pl.lit(""))
        .otherwise(_map_distinct(name, kernel_family))
        .alias("family"),
        kind.fill_null("").alias("kind"),
    )


def _map_distinct(words: pl.Expr, change: Callable[[str], str]) -> pl.Expr:
    """The words changed by a function, which is called once for each distinct word."""

    def changed(series: pl.Series) -> pl.Series:
        distinct = series.unique().drop_nulls()
        return series.replace_strict(
            distinct, pl.Series([change(word) for word in distinct], dtype=pl.String), default=None
        )

    return words.map_batches(changed, return_dtype=pl.String)


MATCH_CRITERIA: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (IDENTITY_COLUMNS[:7], "the same in all"),
    (("module", "scope", "signature"), "module, scope and shapes"),
    (("module", "name", "scope"), "module, name and scope"),
    (("module", "category", "place", "signature"), "module, category, place and shapes"),
    (("module", "name", "signature"), "module, name and shapes"),
    (("module", "category", "scope"), "module, category and scope"),
    (("module", "category", "place", "family"), "module, category, place and family"),
    (("module", "category", "place"), "module, category and place"),
    (("module", "category", "family"), "module, category and family"),
    (("module", "kind", "scope"), "module, kind and scope"),
    (("module", "kind", "place"), "module, kind and place"),
    (("scope", "signature"), "scope and shapes"),
    (("name", "scope"), "name and scope"),
    (("name", "signature"), "name and shapes"),
    (("kind", "scope"), "kind and scope"),
    (("signature",), "shapes"),
    (("path", "name"), "call path and name"),
    (("path", "family"), "call path and family"),
    (("path", "category"), "call path and category"),
    (("operator", "name"), "operator and name"),
    (("operator", "family"), "operator and family"),
    (("unscoped", "category"), "name"),
    (("family", "category"), "family"),
    (("path",), "call path"),
    (("operator",), "operator"),
)
"""Columns that two matched ops share, and the name of that criterion; the surest first.

A criterion applies only to ops that have all its words: a trace without scopes is not matched by them. Beside
`IDENTITY_COLUMNS` there are `place`, the named part of the scope; `kind`, whether an HLO op computes, communicates or
copies: communication in a scope is not matched with computation there; and `unscoped`, the name of an op without a
scope, and of all ops where one run has no scopes: names that a compiler gave (``fusion``) say nothing about ops with
different scopes. The operators around a kernel identify it better than its name, which differs between devices."""

NO_MATCH: Final = "no match"


class OpMatch(Struct, frozen=True):
    """Matched ops of the baseline and of the candidate; one side is empty where there is no match.

    They are positions in the frames of ops that were matched.
    """

    baseline: tuple[int, ...]
    candidate: tuple[int, ...]
    how: str

    @property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Baseline and candidate."""
        return self.baseline, self.candidate


def match_ops(baseline: pl.DataFrame, candidate: pl.DataFrame) -> list[OpMatch]:
    """The matches of two frames of ops (`IDENTITY_COLUMNS`, distinct rows); every op is in exactly one."""
    scoped = all((frame["scope"] != "").any() for frame in (baseline, candidate))
    rest = tuple(
        {
            row: _matching_words(op, scoped=scoped)
            for row, op in enumerate(frame.select(IDENTITY_COLUMNS).iter_rows(named=True))
        }
        for frame in (baseline, candidate)
    )
    found: list[OpMatch] = []
    for columns, how in MATCH_CRITERIA:
        for ours, theirs in _rows_with_equal_words(rest, columns):
            found.append(OpMatch(ours, theirs, how))
            for row in ours:
                del rest[0][row]
            for row in theirs:
                del rest[1][row]
    found += [OpMatch((row,), (), NO_MATCH) for row in rest[0]]
    found += [OpMatch((), (row,), NO_MATCH) for row in rest[1]]
    return _match_renamed_products(found, (baseline, candidate))


PRODUCT_CLASSES: Final = ("gemm", "convolution", "attention")
"""Classes of kernels that each device and library names in its own way."""

BY_CLASS: Final = "class of kernels"

_MIN_UNMATCHED: Final = 0.1
"""Kernels of a class are matched as a whole if at least so large a share of their time has no match otherwise."""


def _match_renamed_products(found: list[OpMatch], frames: tuple[pl.DataFrame, pl.DataFrame]) -> list[OpMatch]:
    """The matches, with one for all products of a class where another device or library names them all otherwise.

    Those are the kernels matched by their operators alone, and those without a match, if no family of them is in both
    runs.
    """
    classes = [op_categories(frame).to_list() for frame in frames]
    families = [frame["family"].to_list() for frame in frames]
    weights = [frame["time"].to_list() if "time" in frame.columns else [1] * frame.height for frame in frames]
    for name in PRODUCT_CLASSES:
        of_class = [
            match
            for match in found
            if {classes[at][row] for at, rows in enumerate(match.sides) for row in rows} == {name}
        ]
        pool = [match for match in of_class if match.how in _BY_CALLER or match.how == NO_MATCH]
        sides = [tuple(sorted(row for match in pool for row in match.sides[at])) for at in range(len(frames))]
        known = [{families[at][row] for row in rows} for at, rows in enumerate(sides)]
        if not all(sides) or known[0] & known[1] or not _are_many_unmatched(of_class, weights):
            continue
        found = [match for match in found if match not in pool]
        found.append(OpMatch(sides[0], sides[1], BY_CLASS))
    return found


_BY_CALLER: Final = ("call path and category", "call path", "operator")
"""Criteria that say nothing about the names of kernels."""


def _are_many_unmatched(matches: Sequence[OpMatch], weights: Sequence[Sequence[float]]) -> bool:
    """True if many of these ops of either run have no match."""
    for at, of_run in enumerate(weights):
        total = sum(of_run[row] for match in matches for row in match.sides[at])
        alone = sum(of_run[row] for match in matches if match.how == NO_MATCH for row in match.sides[at])
        if alone and alone >= _MIN_UNMATCHED * total:
            return True
    return False


def _matching_words(op: Mapping[str, str], *, scoped: bool) -> dict[str, str]:
    """All words of an op that a criterion may use; `scoped`: both runs have scopes."""
    name = "" if scoped and op["scope"] else op["name"]
    return {**op, "place": named_scope(op["scope"]), "kind": op_kind(op["name"], op["category"]), "unscoped": name}


def _rows_with_equal_words(
    sides: Sequence[Mapping[int, Mapping[str, str]]], columns: tuple[str, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The rows of both sides with equal words in these columns."""
    whole = columns == MATCH_CRITERIA[0][0]
    ours, theirs = (_rows_by_words(side, columns, whole=whole) for side in sides)
    return ((tuple(rows), tuple(theirs[words])) for words, rows in ours.items() if words in theirs)


def _rows_by_words(
    side: Mapping[int, Mapping[str, str]], columns: tuple[str, ...], *, whole: bool
) -> dict[tuple[str, ...], list[int]]:
    """The rows by their words in these columns; with `whole` also those with empty words."""
    found: dict[tuple[str, ...], list[int]] = {}
    for row, op in side.items():
        words = tuple(op[column] for column in columns)
        if whole or all(words):
            found.setdefault(words, []).append(row)
    return found
