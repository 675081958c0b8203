"""JSON as a type: serialization, its size and its depth."""

import json
from collections.abc import Callable, Mapping
from json import encoder
from typing import NoReturn, TypeAlias

from pydantic_core import CoreSchema, PydanticSerializationError, core_schema, to_json

from toolwright.core.errors import InvalidJSON
from toolwright.core.text import sentence

JSON: TypeAlias = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None
JSONObject: TypeAlias = dict[str, JSON]


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
