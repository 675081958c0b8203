"""Literals in unions: pydantic takes 1 for `Literal[True]`, and true for `Literal[1]`, which JSON keeps apart."""

from functools import partial
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BeforeValidator


def confused(members: tuple[Any, ...]) -> bool:  # any annotations
    """Whether one of a union's literals would be taken for what another member means."""
    bools = [each for each in members if _bare(each) is bool or True in _kinds(each)]
    numbers = [each for each in members if _bare(each) in (int, float) or False in _kinds(each)]
    literal = [each for each in (*bools, *numbers) if get_origin(_bare(each)) is Literal]
    return bool(literal) and bool(bools) and any(each is not bools[0] for each in numbers)


def exactly(member: Any) -> Any:  # any annotation
    """The same, a literal so that it takes no boolean for a number and no number for a boolean."""
    bare = _bare(member)
    if get_origin(bare) is not Literal:
        return member
    return Annotated[member, BeforeValidator(partial(_checked, get_args(bare)))]


def _checked(options: tuple[object, ...], value: object) -> object:
    if isinstance(value, int | float) and not any(
        value == each and isinstance(value, bool) == isinstance(each, bool) for each in options
    ):
        raise ValueError("must be one of the literals")
    return value


def _kinds(member: Any) -> set[bool]:  # any annotation
    """Whether there are booleans (True), and a 0 or 1 (False), among a literal's options."""
    bare = _bare(member)
    if get_origin(bare) is not Literal:
        return set()
    return {
        isinstance(each, bool) for each in get_args(bare) if isinstance(each, int) and int(each) in (0, 1)
    }


def _bare(member: Any) -> Any:  # any annotation
    return get_args(member)[0] if get_origin(member) is Annotated else member
