"""JSON text from outside: its values are counted before it is parsed, so that its cost stays within a limit.

A parsed value needs up to a hundred times the memory of its text, and each later pass over it blocks the event loop.
Counting avoids both: it examines the commas and brackets outside strings, at some hundred megabytes per second.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import NoReturn

from pydantic_core import from_json

from toolwright.core.json_value import JSON, Path, spell
from toolwright.core.limits import MAX_INTEGER_BITS, MAX_JSON_VALUES, MAX_NESTING
from toolwright.core.text import brief

READ_SIZE = 64 * 1024
"""Bytes that are counted in one step: a few milliseconds in the worst case, such as `"","","",…`."""

HALF = "must not hold halves of characters (lone surrogates)"
EXACT = 2 * 1024 * 1024
"""Maximum bytes of a text that is parsed again for a better error after the fast parser has rejected it.

The second parser gives an exact message, and finds unpaired surrogates (`\\ud800`) and duplicate names. For longer
texts the error of the fast parser is final; if it stops at an unpaired surrogate, the preceding text determines the
field.
"""

_TELLING = b'"\\[]{},:'
_OTHERS = bytes(byte for byte in range(256) if byte not in _TELLING.replace(b"\\", b""))
_HOLDING = frozenset((dict, list, str))
_HALF = re.compile("[\ud800-\udfff]")
_HALF_WRITTEN = re.compile(rb"\\u[dD][89a-fA-F]")
_AT_HALF = re.compile(r"hex escape at line (\d+) column (\d+)")
_PAIR = 13  # bytes of an escaped surrogate pair, and one more
_MARK = "\uf8ffhalf\uf8ff"  # appended to a text to find where it was cut off
_LOOKED_AT = frozenset((dict, list, float, int))


class NotJson(ValueError):
    """The reason why a text is rejected as JSON, as the end of a sentence without its full stop."""


class TooManyValues(NotJson):
    """The text has more JSON values than its limit allows."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it holds more than {most} JSON values, the most that are taken")


class HalfCharacter(NotJson):
    """A text within the value at `path` has an unpaired surrogate, so that it cannot be stored or sent."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{spell(path) or 'it'} {HALF}")
        self.path = path


class ValueCount:
    """Counter of the values in a JSON text that arrives in pieces. For invalid JSON the number is arbitrary.

    An empty list or object counts as two. `names` is the number of names in its objects, exact for valid JSON.
    """

    __slots__ = ("_escaped", "_most", "_within", "names", "values")

    def __init__(self, most: int) -> None:
        self._most = most
        self._within = False  # within a string
        self._escaped = False  # the first byte of the next piece is escaped
        self.values = 1
        self.names = 0

    def add(self, piece: bytes) -> None:
        """Count a piece; raises `TooManyValues` as soon as there are more than the most."""
        for start in range(0, len(piece), READ_SIZE):
            self._count(piece[start : start + READ_SIZE])
            if self.values > self._most:
                raise TooManyValues(self._most)

    def _count(self, piece: bytes) -> None:
        if self._escaped:
            piece, self._escaped = piece[1:], False
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
            self._escaped = piece.endswith(b"\\")
        strings = piece.translate(None, _OTHERS).split(b'"')
        outside = b"".join(strings[1::2] if self._within else strings[::2])
        self._within ^= len(strings) % 2 == 0
        self.values += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        self.names += outside.count(b":")


def read_json(
    text: bytes | str,
    *,
    values: int = MAX_JSON_VALUES,
    nesting: int = MAX_NESTING,
    count: ValueCount | None = None,
) -> JSON:
    """Parse JSON strictly: no NaN, no infinity, no duplicate names in an object, no unpaired surrogate.

    Skips a byte order mark (RFC 8259 §8.1). `count` is the number of values if it was counted before. Raises `NotJson`.
    The cost is bounded by `values` and the length of the text.
    """
    raw = _raw(text)
    count = count or _counted(raw, values)
    value = _parsed(raw)
    if _names(value, nesting) < count.names:
        if len(raw) > EXACT:
            raise NotJson("an object has a duplicate key")
        _exactly(raw)
    if _HALF_WRITTEN.search(raw):
        refuse_halves(value)
    return value


def refuse_halves(value: JSON) -> None:
    """Raise `HalfCharacter` if a text or a name in the value has an unpaired surrogate."""
    within: list[tuple[Path, JSON]] = [((), value)]
    while within:
        path, part = within.pop()
        if isinstance(part, str):
            if not part.isascii() and _HALF.search(part):  # texts know whether they are ASCII
                raise HalfCharacter(path)
        elif isinstance(part, list):
            within += [((*path, number), each) for number, each in enumerate(part) if type(each) in _HOLDING]
        elif isinstance(part, dict):
            if any(map(_HALF.search, part)):
                raise HalfCharacter(path)
            within += [((*path, name), each) for name, each in part.items() if type(each) in _HOLDING]


def parse_json(text: bytes | str, *, values: int = MAX_JSON_VALUES) -> JSON:
    """Parse JSON without a detailed error message. The last of several duplicate names is kept.

    Raises `NotJson`, also for unpaired surrogates.
    """
    raw = _raw(text)
    _counted(raw, values)
    try:
        value: JSON = from_json(raw, allow_inf_nan=False, cache_strings="keys")
    except (ValueError, TypeError) as error:
        raise NotJson(brief(str(error), 300)) from None
    _names(value, MAX_NESTING)
    return value


def _raw(text: bytes | str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return raw.removeprefix(BOM_UTF8)


def _counted(raw: bytes, values: int) -> ValueCount:
    count = ValueCount(values)
    count.add(raw)
    return count


def _parsed(raw: bytes) -> JSON:
    try:
        return from_json(raw, allow_inf_nan=False, cache_strings="keys")
    except (ValueError, TypeError) as error:
        if len(raw) <= EXACT:
            return _exactly(raw)  # the slow parser has better messages
        for half in _halves_at(raw, str(error)):
            path = _path_to(raw[: half.start()])
            if path is not None:
                raise HalfCharacter(path) from None
        raise NotJson(brief(str(error), 300)) from None


def _halves_at(raw: bytes, error: str) -> Iterator[re.Match[bytes]]:
    """Return the unpaired surrogates at which the fast parser may have failed, by the position of its error."""
    place = _AT_HALF.search(error)
    if place is None:
        return iter(())
    line = 0
    for _ in range(1, int(place[1])):
        line = raw.index(b"\n", line + 1)
    end = line + int(place[2])
    return _HALF_WRITTEN.finditer(raw, max(0, end - _PAIR), end)


def _path_to(text: bytes) -> Path | None:
    """Return the path of the string at which the text ends; for a name in an object, the path of the object."""
    path, value = _last(text, f'{_MARK}":"{_MARK}"')
    if value == _MARK and path and str(path[-1]).endswith(_MARK):
        return path[:-1]
    path, value = _last(text, f'{_MARK}"')
    return path if isinstance(value, str) and value.endswith(_MARK) else None


def _last(text: bytes, ending: str) -> tuple[Path, JSON]:
    """Return the path and value of the last part of a text after appending `ending`, or null for invalid JSON."""
    try:
        value: JSON = from_json(text + ending.encode(), cache_strings="keys", allow_partial=True)
    except ValueError:
        return (), None
    path: Path = ()
    while value and isinstance(value, dict | list):
        if isinstance(value, dict):
            name = next(reversed(value))
            path, value = (*path, name), value[name]
        else:
            path, value = (*path, len(value) - 1), value[-1]
    return path, value


def _names(value: JSON, nesting: int) -> int:
    """Return the number of names in all objects.

    Raises `NotJson` for values nested too deep and for numbers out of range.
    """
    names, depth, level = 0, 0, [value]
    while level:
        below: list[JSON] = []
        for part in level:
            if isinstance(part, dict | list):
                if depth == nesting:
                    raise NotJson(f"it is nested deeper than {nesting} levels")
                if isinstance(part, dict):
                    names += len(part)
                    below += [each for each in part.values() if type(each) in _LOOKED_AT]
                else:
                    below += [each for each in part if type(each) in _LOOKED_AT]
            elif isinstance(part, float):
                if part - part != 0.0:
                    raise NotJson(f"it contains the number {part!r}, which JSON cannot represent")
            elif isinstance(part, int) and part.bit_length() > MAX_INTEGER_BITS:
                raise NotJson("it contains a number with too many digits")
        level, depth = below, depth + 1
    return names


def _exactly(raw: bytes) -> JSON:
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_once)
    except UnicodeDecodeError:
        raise NotJson("it is not UTF-8") from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError as error:
        if "integer string conversion" in str(error):  # Python's message is advice for programmers
            raise NotJson("it contains a number with too many digits") from None
        raise NotJson(str(error).rstrip(".")) from None


def _once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """Build an object from its pairs. Raises `ValueError` for a duplicate name."""
    once = dict(pairs)
    if len(once) < len(pairs):
        names: set[str] = set()
        duplicate = next(name for name, _ in pairs if name in names or names.add(name))
        raise ValueError(f"an object has a duplicate key: {brief(repr(duplicate), 100)}")
    return once


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
