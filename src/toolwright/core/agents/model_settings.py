"""Model settings as they are declared in Python: a dict, judged name by name."""

from collections.abc import Callable, Mapping
from typing import cast

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError
from toolwright.core.model import ModelSettings
from toolwright.core.text import hint

_MOST_TOKENS = 2**31


def declared_settings(whose: str, declared: object) -> ModelSettings | None:
    """The settings that a prompt declares; raises `DefinitionError` for a name or a value that is none."""
    if declared is None or isinstance(declared, ModelSettings):
        return declared
    if not isinstance(declared, Mapping):
        raise DefinitionError(f"{whose}: model_settings must be a dict, not {brief_value(declared)}.")
    named = cast("Mapping[object, object]", declared)
    for name, given in named.items():
        rule = _RULES.get(name) if isinstance(name, str) else None
        if rule is None:
            raise DefinitionError(
                f"{whose}: model_settings has no {name!r}; there are {', '.join(_RULES)}.{hint(str(name), _RULES)}"
            )
        wanted, fits = rule
        if given is not None and not fits(given):
            raise DefinitionError(
                f"{whose}: the model setting {name!r} must be {wanted}, not {brief_value(given)}."
            )
    values = {str(name): _kept(each) for name, each in named.items()}
    return ModelSettings(**values)  # type: ignore[arg-type]  # as just judged


def _kept(given: object) -> object:
    return tuple(cast("list[str]", given)) if isinstance(given, list) else given


def _number(least: float, most: float) -> Callable[[object], bool]:
    return lambda given: type(given) in (int, float) and least <= cast("float", given) <= most


def _whole(least: int, most: int) -> Callable[[object], bool]:
    return lambda given: type(given) is int and least <= given < most


def _is_texts(given: object) -> bool:
    if not isinstance(given, list | tuple):
        return False
    return all(isinstance(each, str) and each for each in cast("list[object]", given))


_RULES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "temperature": ("a number from 0", _number(0, 1e9)),
    "top_p": ("a number from 0 to 1", _number(0, 1)),
    "max_tokens": ("a whole number from 1", _whole(1, _MOST_TOKENS)),
    "seed": ("a whole number", _whole(-(2**63), 2**63)),
    "stop_sequences": ("a list of texts", _is_texts),
    "presence_penalty": ("a number", _number(-1e9, 1e9)),
    "frequency_penalty": ("a number", _number(-1e9, 1e9)),
}
"""What each setting must be, in words and as a rule."""
