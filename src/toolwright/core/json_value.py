"""JSON as a type: serialization, size and depth; and conversion of Python values to plain JSON (D2)."""

import json
import math
import re
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from json import encoder
from pathlib import PurePath
from typing import NoReturn, TypeAlias, cast
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import (
    CoreSchema,
    PydanticSerializationError,
    SchemaValidator,
    ValidationError,
    core_schema,
    to_json,
    to_jsonable_python,
)

from toolwright.core.errors import InvalidJSON
from toolwright.core.limits import MAX_INTEGER_BITS, MAX_NAME, MAX_NESTING
from toolwright.core.text import brief, quantity, sentence

JSON: TypeAlias = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None
JSONObject: TypeAlias = dict[str, JSON]
_LEVELS = 12  # maximum depth of a value that is copied in compiled code
_MAX_OF_A_KEY = 100  # maximum characters
_LARGE = 1_000  # parts, at some microseconds each
_LIKE_A_PART = 64  # characters
_SMALL_PART = 8  # characters: a number with the key before it
NOT_ONE_LINE = "must not hold line breaks or other control characters"
_PYDANTIC = ("pydantic", "pydantic_core")
NOT_WRITABLE = "must be text without NUL or lone surrogates"
"""The end of the error message about a text that the journal cannot store."""


def _encoder(*, ascii: bool) -> Callable[[JSON], str]:
    """Return a function that writes compact JSON, with one C encoder for all values where it is available."""
    usual = json.JSONEncoder(ensure_ascii=ascii, allow_nan=False, separators=(",", ":"))
    make: Callable[..., Callable[[JSON, int], tuple[str, ...]]] | None = getattr(
        encoder, "c_make_encoder", None
    )
    if make is None:
        return usual.encode
    text = encoder.encode_basestring_ascii if ascii else encoder.encode_basestring
    chunks = make(None, usual.default, text, None, ":", ",", False, False, False)

    def encode(value: JSON) -> str:
        return text(value) if type(value) is str else "".join(chunks(value, 0))

    return encode


_encode = _encoder(ascii=True)
_encode_unescaped = _encoder(ascii=False)


def dumps(value: JSON) -> str:
    """Return compact ASCII JSON. Raises `InvalidJSON` for values that are not JSON (NaN, bytes, sets, cycles)."""
    return _written(value, _encode)


def dumps_unescaped(value: JSON) -> str:
    """Return compact JSON with unescaped letters; ASCII if it has a lone surrogate, which UTF-8 cannot encode.

    Raises `InvalidJSON` like `dumps`.
    """
    text = _written(value, _encode_unescaped)
    return dumps(value) if has_half_characters(text) else text


def utf8_size(value: JSON) -> int:
    """Return the approximate size of the value as compact JSON in UTF-8, never less than the exact size."""
    try:
        return len(to_json(value))
    except PydanticSerializationError:  # a lone surrogate
        return len(dumps(value))


def utf8_longer(text: str, most: int) -> bool:
    """Return whether the text has more than `most` bytes in UTF-8. Does not look at texts that are surely longer."""
    if len(text) > most or text.isascii():
        return len(text) > most
    return 4 * len(text) > most and len(text.encode("utf-8", "surrogatepass")) > most


def has_half_characters(text: str) -> bool:
    """Return whether the text has a lone surrogate, which UTF-8 cannot encode."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate; the same object if it has none."""
    return (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if has_half_characters(text)
        else text
    )


def _written(value: JSON, encode: Callable[[JSON], str]) -> str:
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJSON(sentence(f"This value cannot be written as JSON: {error}")) from error


_NUMBERS: Mapping[type, CoreSchema] = {
    int: core_schema.int_schema(strict=True, ge=-(2**63), le=2**63 - 1),
    float: core_schema.float_schema(strict=True, allow_inf_nan=False),
}
"""Integers of 64 bits, and finite floats."""


def _refuse(_: object) -> NoReturn:
    raise TypeError


_KEY = core_schema.union_schema(
    [
        core_schema.str_schema(strict=True),  # first choice for `str` itself, second for its subclasses
        core_schema.chain_schema(
            [core_schema.is_instance_schema(str), core_schema.no_info_plain_validator_function(_refuse)]
        ),
    ]
)


def json_levels(name: str, levels: int) -> list[CoreSchema]:
    """Return schema definitions of JSON up to that depth, named `name-0` (scalars) to `name-<levels>`.

    They accept only values of built-in types: no subclasses, tuples, enums, or keys that are not text. In addition to
    `ValidationError` they raise `TypeError` for a key of a subclass of `str`.
    """
    as_is = core_schema.any_schema()
    scalars = {str: as_is, bool: as_is, type(None): as_is, **_NUMBERS}
    return [_level(name, level, scalars) for level in range(levels + 1)]


def _level(name: str, level: int, scalars: Mapping[type, CoreSchema]) -> CoreSchema:
    choices = {**scalars}
    if level:
        within = core_schema.definition_reference_schema(f"{name}-{level - 1}")
        choices[list] = core_schema.list_schema(within, fail_fast=True)
        choices[dict] = core_schema.dict_schema(_KEY, within, fail_fast=True)
    return core_schema.tagged_union_schema(choices, discriminator=type, ref=f"{name}-{level}")


Path = tuple[str | int, ...]
LONG_KEY = f"must have keys of at most {MAX_NAME} characters"
_TEXTS = (
    Decimal, date, time, timedelta, UUID, PurePath, IPv4Address, IPv6Address, IPv4Network, IPv6Network,
    IPv4Interface, IPv6Interface, re.Pattern,
)  # fmt: skip
"""Types that pydantic serializes as a single text; a `datetime` is a `date`."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def spell(path: Path) -> str:
    """Render a path for messages: `filter.tags.1`."""
    return ".".join(map(str, path))


def unwritable(text: str) -> bool:
    """Return whether the text has characters that the journal cannot store: NUL, or an unpaired surrogate."""
    return "\x00" in text or has_half_characters(text)


def one_line(text: str) -> bool:
    """Return whether the text has no line breaks and no terminal control characters."""
    return (text.isascii() and text.isprintable()) or _CONTROL.search(text) is None


def has_long_key(value: Mapping[str, object]) -> bool:
    """Return whether a key of the object itself is longer than `MAX_NAME` characters."""
    return any(len(key) > MAX_NAME for key in value)


def plain(value: object, nesting: int = MAX_NESTING) -> JSON:
    """Copy `value` as JSON, as pydantic serializes it: models and dataclasses become objects, tuples and sets lists.

    Enums become their values, and `Decimal`, `datetime`, `UUID`, `Path` and similar types texts; numpy's scalars and
    arrays are converted by `tolist`. Keys become text in the same way. Raises `InvalidJSON`, with the path, for values
    that are not JSON: NaN, bytes, cycles, keys without a text, more than `nesting` levels, at most `MAX_NESTING`.
    """
    try:
        copy: JSON = _usual_copier()(value)
    except (ValidationError, TypeError):  # a value can have a class that cannot be looked up
        copy = _plain(value, (), ())
    if nesting < MAX_NESTING and deeper(copy, nesting):
        raise InvalidJSON(f"The value is nested deeper than {quantity(nesting, 'level')}.")
    return copy


def plain_names(value: object) -> JSON:
    """Copy a mapping as `plain` does; its keys must be text. Raises `InvalidJSON` for other keys."""
    for key in _keys(value):
        if not isinstance(key, str):
            raise InvalidJSON(f"The name {brief(repr(key), _MAX_OF_A_KEY)} is not text.")
    return plain(value)


def _keys(value: object) -> Iterable[object]:
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else ()


@cache
def _usual_copier() -> Callable[[object], JSON]:
    """Return a function that copies JSON of built-in types in compiled code.

    It raises `ValidationError` for other values.
    """
    top = core_schema.definition_reference_schema(f"json-{_LEVELS}")
    return SchemaValidator(core_schema.definitions_schema(top, json_levels("json", _LEVELS))).validate_python


def deeper(value: JSON, levels: int) -> bool:
    """Return whether objects and lists are nested deeper than `levels`."""
    within: list[JSON] = [value]
    for _ in range(levels):
        within = [
            part
            for whole in within
            if isinstance(whole, dict | list)
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]
    return any(isinstance(whole, dict | list) for whole in within)


def is_large(value: object) -> bool:
    """Return whether processing the value takes milliseconds, judging by the number of its parts and its texts."""
    cost, within = 0, [value]
    while within:
        part = within.pop()
        if isinstance(part, str):
            cost += len(part) // _LIKE_A_PART
        elif isinstance(part, dict):
            within += cast("dict[object, object]", part).values()
        elif isinstance(part, list | tuple):
            within += cast("Iterable[object]", part)  # isinstance does not check the items
        cost += 1
        if cost + len(within) > _LARGE:
            return True
    return False


def characters(value: object, most_parts: int | None = None) -> int:
    """Return the approximate length of the value as JSON: the characters of its texts, plus a few for each part.

    Parts beyond `most_parts` are not counted.
    """
    count, parts, within = 0, 0, [value]
    while within and parts != most_parts:
        part = within.pop()
        parts += 1
        count += _SMALL_PART
        if isinstance(part, str):
            count += len(part)
        elif isinstance(part, dict):
            within += cast("dict[object, object]", part).values()
        elif isinstance(part, list | tuple):
            within += cast("Iterable[object]", part)  # isinstance does not check the items
    return count


def has_more_values(value: object, most: int) -> bool:
    """Return whether the value has more than `most` JSON values, including itself."""
    count, within = 0, [value]
    while within:
        part = within.pop()
        count += 1
        if isinstance(part, dict):
            within += cast("dict[object, object]", part).values()
        elif isinstance(part, list | tuple):
            within += cast("Iterable[object]", part)  # isinstance does not check the items
        if count + len(within) > most:
            return True
    return False


def surely_longer(value: object, most: int) -> bool:
    """Return whether the value is certainly longer than `most` bytes as JSON, without copying it.

    Untrusted code can put the same long text into a list a million times.
    """
    size, within = 0, [value]
    while within:
        part = within.pop()
        size += 1
        if isinstance(part, str):
            size += len(part)
        elif isinstance(part, dict):
            items = cast("dict[object, object]", part)
            within += [*items, *items.values()]
        elif isinstance(part, list | tuple):
            within += cast("Iterable[object]", part)  # isinstance does not check the items
        if size + len(within) > most:
            return True
    return False


def _plain(value: object, path: Path, ancestors: tuple[int, ...]) -> JSON:
    if value is None or type(value) in (str, bool):
        return value  # type: ignore[return-value]  # narrowed by `type`, which pyright does not follow
    if isinstance(value, Enum):
        return _plain(value.value, path, ancestors)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _integer(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _path_error(path, f"is {float(value)!r}, which JSON cannot represent")
        return float(value)
    return _container(value, path, ancestors)


def _container(value: object, path: Path, ancestors: tuple[int, ...]) -> JSON:
    if id(value) in ancestors:
        raise _path_error(path, "contains itself, which JSON cannot represent")
    if len(ancestors) >= MAX_NESTING:
        raise _path_error(path[:3], f"is nested deeper than {MAX_NESTING} levels")
    ancestors = (*ancestors, id(value))
    if isinstance(value, dict):
        return _object(cast("dict[object, object]", value).items(), path, ancestors)
    if isinstance(value, list | tuple | set | frozenset | deque):
        items = _in_order(cast("Iterable[object]", value))  # isinstance does not check the items
        return [_plain(item, (*path, index), ancestors) for index, item in enumerate(items)]
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="json", by_alias=True, warnings=False), path, ancestors[:-1])
    if is_dataclass(value) and not isinstance(value, type):
        return _object(((f.name, getattr(value, f.name)) for f in fields(value)), path, ancestors)
    return _plain(_serialised(value, path), path, ancestors[:-1])


def _in_order(items: Iterable[object]) -> Iterable[object]:
    """Return the items of a set, sorted if possible, so that the order is the same in every process."""
    if not isinstance(items, set | frozenset):
        return items
    try:
        return sorted(cast("Iterable[str]", items))  # or of any other sortable type
    except TypeError:
        return items


def _serialised(value: object, path: Path) -> object:
    """Return a value of another type as pydantic or numpy serializes it. Rejects bytes and one-shot iterators."""
    to_list = getattr(value, "tolist", None)
    if type(value).__module__ == "numpy" and callable(to_list) and not isinstance(value, bytes):
        made = cast("Callable[[], object]", to_list)()
        if not isinstance(made, bytes | complex):
            return made
    elif isinstance(value, _TEXTS) or type(value).__module__.partition(".")[0] in _PYDANTIC:
        if isinstance(value, Decimal) and not value.is_finite():
            raise _path_error(path, f"is {value}, which JSON cannot represent")
        return str(value) if isinstance(value, PurePath) else to_jsonable_python(value)
    if isinstance(value, Coroutine):
        raise _path_error(path, "is a coroutine: an await is missing")
    raise _path_error(path, f"is of the type {type(value).__name__}, which JSON cannot represent")


def _object(items: Iterable[tuple[object, object]], path: Path, ancestors: tuple[int, ...]) -> JSONObject:
    copy: JSONObject = {}
    for key, item in items:
        name = _key(key, path)
        if name in copy:
            raise _path_error(path, f"has the key {brief(repr(name), _MAX_OF_A_KEY)} twice, once it is text")
        copy[name] = _plain(item, (*path, name), ancestors)
    return copy


def _key(key: object, path: Path) -> str:
    """Return a key as pydantic serializes it: numbers, dates, `UUID` and similar types as text."""
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return key
    if isinstance(key, int | float | Decimal | date | time | timedelta | UUID | PurePath):
        text = _plain(key, path, ())
        return text if isinstance(text, str) else dumps(text)
    raise _path_error(path, f"has the key {brief(repr(key), _MAX_OF_A_KEY)}, and in JSON a key is text")


def _integer(value: int, path: Path) -> int:
    if value.bit_length() > MAX_INTEGER_BITS:
        raise _path_error(path, "is a number of too many digits")
    return int(value)


def _path_error(path: Path, why: str) -> InvalidJSON:
    return InvalidJSON(f"{spell(path) or 'The value'} {why}.")
