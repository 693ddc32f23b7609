"""Lists of Kineto events -> columns of numbers, where the compiled scanner is there to do it.

Owns which members of an event are which columns, what the keys of its groups mean, and which events are left to be
decoded as objects: those of rare phases, those that belong to a collective, and those that are spelled in an unusual
way. A list that the scanner refuses, or with arrows that tell who launched what, is decoded as objects, whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from tracehound.formats.json.columns import MISSING
from tracehound.formats.kineto.args import Args
from tracehound.formats.kineto.elements import Counter, Element, Id, Instant, decoded
from tracehound.formats.kineto.legacy import LAUNCHING
from tracehound.formats.kineto.piece import GLOO, MEMORY, Signature
from tracehound.formats.torch_names import PARAMS
from tracehound.intervals import Ints
from tracehound.native.scan import ANY, BETWEEN, NULL, NUMBER, TEXT, Field, Kind, Objects, Scanner, scanner

COMPLETE: Final = "X"
INSTANTS: Final = "iI"
ARROWS: Final = "stf"

(
    TS, DUR, CORRELATION, EXTERNAL, EXTERNAL_OLD, BYTES, SEQUENCE, FORWARD,
    CHANGE, ADDRESS, HOLDER_TYPE, HOLDER, ALLOCATED, RESERVED,
) = range(14)  # fmt: skip
"""The columns of numbers; times are ns."""

PLACE, NAME, _LAUNCHED, _CALLED = range(4)
"""The groups: where an event is, what it is called, how a kernel was launched, what an operator was called with."""

_NUMBERS: Final = {
    "correlation": CORRELATION,
    "External id": EXTERNAL,
    "external id": EXTERNAL_OLD,
    "bytes": BYTES,
    "Sequence number": SEQUENCE,
    "Fwd thread id": FORWARD,
    "Bytes": CHANGE,
    "Addr": ADDRESS,
    "Device Type": HOLDER_TYPE,
    "Device Id": HOLDER,
    "Total Allocated": ALLOCATED,
    "Total Reserved": RESERVED,
}
_HOW: Final = ("grid", "block", "registers", "shared", "blocks_per_sm", "warps_per_sm", "occupancy", "occupancy_old")
_WITH: Final = ("dims", "dims_old", "types", "strides", "concrete", "stack", "hierarchy")
_ODD: Final = (
    "collective", "dtype", "group", "description", "ranks", "size", "collective_number", "elements_in",
    "elements_out", "split_in", "split_out", "source", "destination", "awaited", "recorded",
)  # fmt: skip
"""Args that few events have."""

_SPELLED: Final = dict(zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True))
_ID: Final = TEXT | NUMBER | NULL

_FIELDS: Final = (
    Field("ph", Kind.TAG),
    Field("args", Kind.NESTED),
    Field("ts", Kind.TICKS, column=TS),
    Field("dur", Kind.TICKS, column=DUR),
    Field("cat", Kind.PART, column=PLACE, part=0, types=TEXT),
    Field("pid", Kind.PART, column=PLACE, part=1, types=_ID),
    Field("tid", Kind.PART, column=PLACE, part=2, types=_ID),
    Field("device", Kind.PART, nested=True, column=PLACE, part=3, types=_ID),
    Field("stream", Kind.PART, nested=True, column=PLACE, part=4, types=_ID),
    Field("name", Kind.PART, column=NAME, types=TEXT),
    *(Field(key, Kind.WHOLE, nested=True, column=column) for key, column in _NUMBERS.items()),
    *(
        Field(_SPELLED[name], Kind.PART, nested=True, column=group, part=part, types=ANY)
        for group, names in ((_LAUNCHED, _HOW), (_CALLED, _WITH))
        for part, name in enumerate(names)
    ),
    *(Field(_SPELLED[name], Kind.ODD, nested=True) for name in _ODD),
)

_COLLECTIVE: Final = (f'"{PARAMS}"', f'"{GLOO}')
"""How the names of events that belong to a collective begin, as they are spelled: their args are looked at."""

_FEW: Final = 4
"""A list of which more than one in so many is left over is decoded whole: that is faster."""

_MUCH: Final = 16 << 20
"""Keys of so many bytes are not kept for the next list: they hardly repeat."""

T = TypeVar("T")


class Place(NamedTuple):
    """Where an event is, as the file spells it."""

    signature: Signature
    device: Id
    stream: Id


class Keys(Generic[T]):
    """What the codes of a group stand for."""

    def __init__(self, group: int, meaning: Callable[[list[bytes]], T]) -> None:
        self.values: list[T] = []
        self._group = group
        self._meaning = meaning

    def read(self, of: Scanner) -> None:
        """Those that the scanner met since. Raises msgspec's errors for what nobody can read."""
        for key in of.keys(self._group, len(self.values)):
            self.values.append(self._meaning(key.split(BETWEEN)))


class Scanned(Struct, frozen=True, eq=False):
    """A list of events as columns, which hold until the next list is scanned.

    `elements` are those that are left over, each with its position in the list, and `texts` the JSON of each. The keys
    of a table mean the same as long as the table is the same object; `launched` and `called` are as `Combinations` has
    them.
    """

    objects: Objects
    left: Ints
    elements: list[Element]
    texts: list[bytes]
    places: Keys[Place]
    names: Keys[str]
    launched: Keys[tuple[Any, ...]]
    called: Keys[bytes]

    def __len__(self) -> int:
        return len(self.objects.tags)


class Scan:
    """Decodes lists of events, for one reader of one file."""

    def __init__(self, native: Scanner) -> None:
        self._scanner = native
        self._tables = _tables()

    def decoded(self, data: memoryview) -> Scanned | list[Element]:
        """The events of a list. Raises msgspec's errors and UnicodeDecodeError for what is none."""
        if self._scanner.held > _MUCH:
            self._forget()
        objects = self._scanner.objects(data)
        if objects is None or len(objects.others) * _FEW > len(objects.tags):
            return decoded(data)
        texts = [bytes(data[begin:end]) for _, begin, end in objects.others.tolist()]
        elements = decoded(b"[%b]" % b",".join(texts)) if texts else []
        if any(map(samples, elements)) and any((objects.tags == ord(tag)).any() for tag in INSTANTS):
            return decoded(data)  # what is held, and which counter comes first, follow from the order of all of them
        try:
            if not objects.ascii:
                str(data, "utf-8")
            for table in self._tables:
                table.read(self._scanner)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._forget()
            return decoded(data)
        return Scanned(objects, objects.others[:, 0], elements, texts, *self._tables)

    def _forget(self) -> None:
        self._scanner.forget()
        self._tables = _tables()


def scan() -> Scan | None:
    """What decodes lists of events; None where the compiled scanner is missing."""
    plain = f"{COMPLETE}{INSTANTS}{ARROWS}"
    native = scanner(_FIELDS, plain, (NAME, _COLLECTIVE))
    return None if native is None else Scan(native)


def _tables() -> tuple[Keys[Place], Keys[str], Keys[tuple[Any, ...]], Keys[bytes]]:
    return Keys(PLACE, _place), Keys(NAME, _name), Keys(_LAUNCHED, _how), Keys(_CALLED, _with)


def samples(element: Element) -> bool:
    """Whether an element gives samples of counters."""
    return isinstance(element, Counter) or (isinstance(element, Instant) and element.name == MEMORY)


def _read(text: bytes, none: Any = None) -> Any:  # noqa: ANN401, any value of JSON
    return msgspec.json.decode(text) if text else none


def _place(parts: list[bytes]) -> Place:
    cat, pid, tid, device, stream = parts
    signature = (_read(cat, ""), _read(pid), _read(tid))
    if signature[0] == LAUNCHING:
        raise msgspec.ValidationError("an arrow that is looked at")
    return Place(signature, _read(device), _read(stream))


def _name(parts: list[bytes]) -> str:
    name = str(_read(parts[0], ""))
    if (name == PARAMS or name.startswith(GLOO)) and not parts[0].decode().startswith(_COLLECTIVE):
        raise msgspec.ValidationError("a name in disguise")
    return name


def _how(parts: list[bytes]) -> tuple[Any, ...]:
    grid, block, registers, shared, blocks, warps, occupancy, old = parts
    full = _number(occupancy)
    known = (_number(registers, MISSING), _number(shared, MISSING), _number(blocks), _number(warps))
    return (grid, block, *known, _number(old) if full is None else full)


def _number(text: bytes, none: Any = None) -> Any:  # noqa: ANN401
    """What stands where a number should, but not true and false, which Python takes for 1 and 0."""
    value = _read(text, none)
    return None if isinstance(value, bool) else value


def _with(parts: list[bytes]) -> bytes:
    dims, old, *rest = parts
    return BETWEEN.join((dims or old, *rest))
