"""What the tools of the mind are given, and what is refused of it: ids, keys and texts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from toolwright.core.errors import InvalidRequest
from toolwright.core.plain import unwritable
from toolwright.core.quantity import quantity
from toolwright.core.text import brief

MOST_GOALS, MOST_MEMORIES, MOST_PLANS = 100, 1_000, 100
"""How many of each an agent keeps."""
LONGEST_TEXT, LONGEST_NAME = 4_000, 200
"""Characters of a description, value or instruction; and of a name, key, status or priority."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class GivenGoal(BaseModel):
    """A goal."""

    id: str | None = Field(default=None, description="The goal to change; without one, a new goal is made.")
    description: str | None = Field(default=None, description="What is wanted. A new goal needs it.")
    status: str | None = Field(default=None, description="How far it is, such as 'active' or 'done'.")
    priority: str | None = Field(default=None, description="How much it matters, such as 'high'.")


class GivenMemory(BaseModel):
    """A memory."""

    key: str = Field(description="What it is about; an existing one is replaced.")
    value: str = Field(description="What is to be remembered.")


class GivenPlan(BaseModel):
    """A plan."""

    model_config = ConfigDict(alias_generator=to_camel)

    id: str | None = Field(default=None, description="The plan to change; without one, a new plan is made.")
    name: str | None = Field(default=None, description="A short name. A new plan needs it.")
    instruction: str | None = Field(
        default=None, description="What you will be told when it runs. A new plan needs it."
    )
    run_after: int | float | str | None = Field(
        default=None, description="Run once, after milliseconds or a text such as '5 hours' or '1h30m'."
    )
    scheduled_at: str | None = Field(
        default=None, description="Run once, at this instant: ISO 8601 with an offset, or with a timezone."
    )
    cron: str | None = Field(
        default=None,
        description="Run again and again: minute, hour, day of month, month, day of week, or '@daily'.",
    )
    timezone: str | None = Field(
        default=None,
        description="The IANA time zone of cron, or of scheduledAt without an offset; else it is UTC.",
    )

    @property
    def says_when(self) -> bool:
        """Whether there is a new time in it."""
        return not (self.run_after is None and self.scheduled_at is None and self.cron is None)


def item_id(prefix: str, given: str | None, call_id: str, n: int) -> str:
    """The id that was given for the `n`th item of a call, else one that is the same when the call is made again."""
    if given is None:
        return f"{prefix}_{sha256(f'{call_id}.{n}'.encode()).hexdigest()[:20]}"
    if _ID.fullmatch(given) is None:
        raise InvalidRequest(
            f"An id is up to 64 letters, digits, '-' and '_', not {brief(repr(given), 200)}: leave it out, and a "
            "new one is made."
        )
    return given


def text(where: str, given: str | None, kept: str | None, most: int = LONGEST_TEXT) -> str:
    """What was given, else what is kept; refused where there is neither, or where it is blank or too long."""
    if given is None and kept is not None:
        return kept
    if given is None or not given.strip():
        raise InvalidRequest(f"{where} is needed.")
    return short(where, given, most)


def short(where: str, given: str, most: int = LONGEST_NAME) -> str:
    """The text, which may be empty; refused if it is too long."""
    if len(given) > most:
        raise InvalidRequest(f"{where} has {quantity(len(given), 'character')}; {most} are allowed.")
    return given


def key(where: str, given: str) -> str:
    """The key of a memory, as every journal can keep it."""
    if unwritable(given):
        raise InvalidRequest(f"{where} must be text without NUL characters or halves of characters.")
    return text(where, given, None, LONGEST_NAME)


def once(what: str, names: Iterable[str]) -> None:
    """Refuse what is given twice in one call: which of them should count?"""
    seen = set[str]()
    for name in names:
        if name in seen:
            raise InvalidRequest(f"The {what} {brief(repr(name), 200)} is given twice.")
        seen.add(name)


def at_most(most: int, whole: Mapping[str, object], what: str) -> None:
    """Refuse to keep more of them."""
    if len(whole) > most:
        raise InvalidRequest(f"That makes {len(whole)} {what}; {most} are allowed. Delete some first.")


def there(what: str, given: Sequence[str], known: Mapping[str, object]) -> None:
    """Refuse to delete what is not there."""
    missing = [each for each in given if each not in known]
    if missing:
        names = brief(", ".join(map(repr, missing)), 200)
        raise InvalidRequest(f"There is no {what} {names}: nothing was deleted.")
