"""Settings as the environment calls them, and what is wrong with them in one line."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from pydantic import ValidationError

from toolwright.core.form_faults import form_fault
from toolwright.core.text import sentence

PREFIX = "TOOLWRIGHT_"
_ELSEWHERE = ("APP",)  # read by the command line, not by the settings


def variable(setting: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + setting.upper()


def told(error: ValidationError, settings: Sequence[str]) -> str:
    """What is wrong, a sentence for each setting; never with its value, which may be a secret."""
    return " ".join(
        _sentence(fault["loc"], fault["type"], form_fault(fault), settings) for fault in error.errors()
    )


def warning(environment: Iterable[str], settings: Sequence[str]) -> str | None:
    """The sentence that names the variables of our prefix which nothing reads, None if there are none."""
    known = [variable(name) for name in (*settings, *_ELSEWHERE)]
    unknown = sorted(
        name for name in environment if name.upper().startswith(PREFIX) and name.upper() not in known
    )
    if not unknown:
        return None
    named = ", ".join(name + _meant(name.upper(), known, len(PREFIX)) for name in unknown)
    return sentence(f"No setting is called so, and nothing reads it: {named}")


def _sentence(place: tuple[int | str, ...], kind: str, message: str, settings: Sequence[str]) -> str:
    name = str(place[0]) if place else ""
    if kind == "extra_forbidden":
        return f"There is no setting {name!r}{_meant(name, settings)}."
    return sentence(f"The setting {variable(name)} is not valid: {message[:1].lower()}{message[1:]}")


def _meant(name: str, known: Sequence[str], same: int = 0) -> str:
    """The nearest known name, as a hint; the first `same` characters are those of all."""
    close = get_close_matches(name[same:], [each[same:] for each in known], n=1)
    return f" (did you mean {name[:same]}{close[0]}?)" if close else ""
