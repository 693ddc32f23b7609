"""A scanner of a few fields, and lists for it to read: sound ones whose columns are known, and damaged ones."""

from __future__ import annotations

import json
import re
from random import Random
from typing import NamedTuple

from tracehound.numeric.native.scanners import (
    ABSENT_NUMBER,
    ANY_TYPE,
    KEY_SEPARATOR,
    NULL,
    NUMBER,
    TEXT,
    FieldKind,
    JsonField,
    JsonScanner,
    make_json_scanner,
)

FIELDS = (
    JsonField("ph", FieldKind.TAG),
    JsonField("args", FieldKind.NESTED),
    JsonField("ts", FieldKind.TICKS, column=0),
    JsonField("id", FieldKind.WHOLE, column=1),
    JsonField("id", FieldKind.WHOLE, nested=True, column=2),
    JsonField("name", FieldKind.PART, column=0, part=0, types=TEXT),
    JsonField("pid", FieldKind.PART, column=1, part=0, types=TEXT | NUMBER | NULL),
    JsonField("dims", FieldKind.PART, nested=True, column=1, part=1, types=ANY_TYPE),
    JsonField("group", FieldKind.ODD, nested=True),
)
PLAIN = "Xs"
START = '"odd:'

Members = list[tuple[str, str]]
"""Keys and values of an object, spelled as JSON; an object's value is empty, and its members follow its key."""


class Row(NamedTuple):
    """What the scanner should say of an object that is not among the others."""

    tag: str
    numbers: tuple[int, int, int]
    keys: tuple[bytes, bytes]


def made() -> JsonScanner | None:
    """A scanner of these fields."""
    return make_json_scanner(FIELDS, PLAIN, (0, (START,)))


def row(members: Members, nested: Members) -> Row | None:
    """What should be said of an object with these members, and these of its args; None where it is for others."""
    known = {"ph", "args", "ts", "id", "name", "pid"}
    keys = [json.loads(key) for key, _ in members]
    inner = [json.loads(key) for key, _ in nested]
    if any("\\" in key for key, _ in [*members, *nested]) or "group" in inner:
        return None
    if any(keys.count(key) > 1 for key in known) or any(inner.count(key) > 1 for key in ("id", "dims")):
        return None
    said = {json.loads(key): value for key, value in members}
    args = {json.loads(key): value for key, value in nested}
    tag = said.get("ph", '""')
    name, pid, dims = said.get("name", ""), said.get("pid", ""), args.get("dims", "")
    ticks, one, two = _ticks(said.get("ts")), _whole(said.get("id")), _whole(args.get("id"))
    if None in (ticks, one, two) or tag not in ('"X"', '"s"') or (name and name[0] != '"') or name.startswith(START):
        return None
    if pid[:1] in ("[", "{", "t", "f"):
        return None
    return Row(tag[1], (ticks, one, two), (name.encode(), KEY_SEPARATOR.join((pid.encode(), dims.encode()))))


def _ticks(text: str | None) -> int | None:
    if text is None:
        return ABSENT_NUMBER
    if not re.fullmatch(r"-?\d{1,16}(\.\d{1,3})?", text):
        return None
    whole, _, rest = text.lstrip("-").partition(".")
    found = int(whole) * 1000 + int(rest.ljust(3, "0"))
    return None if found >= 2**62 else -found if text[0] == "-" else found


def _whole(text: str | None) -> int | None:
    if text is None:
        return ABSENT_NUMBER
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def damaged(text: bytes, random: Random) -> bytes:
    """A text with a byte or some changed, cut or put in, its brackets left alone."""
    inner = bytearray(text[1:-1])
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(inner) + 1)
        way = random.randrange(4)
        if way == 0 and at < len(inner):
            inner[at] = (
                random.choice(b'{}[]",:\\ \n0129-+.eEtfn\x00\x1f\x7f\x80\xff')
                if random.random() < 0.8
                else inner[at] ^ 1
            )
        elif way == 1:
            del inner[at : at + random.randrange(1, 20)]
        elif way == 2:
            inner[at:at] = random.choice(
                (b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"\\u12", b"\\ud800", b"-", b".")
            )
        else:
            del inner[at:]
    return b"[%b]" % inner
