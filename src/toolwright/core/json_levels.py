"""JSON as a schema of pydantic-core: each value is judged by its very type, so that nothing is tried out."""

from collections.abc import Mapping

from pydantic_core import CoreSchema, core_schema

NUMBERS: Mapping[type, CoreSchema] = {
    int: core_schema.int_schema(strict=True, ge=-(2**63), le=2**63 - 1),
    float: core_schema.float_schema(strict=True, allow_inf_nan=False),
}
"""Whole numbers of 64 bits, and floats that are numbers."""


def json_levels(name: str, levels: int, numbers: Mapping[type, CoreSchema] = NUMBERS) -> list[CoreSchema]:
    """Definitions of JSON that is nested so deep, which one refers to as `name-0` (scalars) to `name-<levels>`.

    They take values of Python's own types only: no subclass, no tuple, no enum, no key that is not text.
    """
    as_is = core_schema.any_schema()
    scalars = {str: as_is, bool: as_is, type(None): as_is, **numbers}
    text = core_schema.tagged_union_schema({str: as_is}, discriminator=type)
    return [_level(name, level, scalars, text) for level in range(levels + 1)]


def _level(name: str, level: int, scalars: Mapping[type, CoreSchema], text: CoreSchema) -> CoreSchema:
    choices = {**scalars}
    if level:
        within = core_schema.definition_reference_schema(f"{name}-{level - 1}")
        choices[list] = core_schema.list_schema(within, fail_fast=True)
        choices[dict] = core_schema.dict_schema(text, within, fail_fast=True)
    return core_schema.tagged_union_schema(choices, discriminator=type, ref=f"{name}-{level}")
