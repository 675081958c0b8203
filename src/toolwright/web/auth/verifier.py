"""The seam between who may call and how a token is verified."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from toolwright.core.json_value import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The person whom a good token names, by their external id, and until when: seconds since 1970, None forever.

    `claims` are all of the token's claims.
    """

    external_id: str
    until: float | None = None
    claims: Mapping[str, JSON] = field(default_factory=dict[str, JSON], repr=False)


class TokenVerifier(Protocol):
    """Validates a person's token. Nothing is remembered of it: each request is validated again."""

    async def __call__(self, token: str) -> Named:
        """Whom the token names. Raises `Unauthorized`, or `KeysUnavailable`."""
        ...


def has_claim(claims: Mapping[str, JSON], wanted: str) -> bool:
    """Return whether the claims have the wanted one, given as `name` or `name=value`.

    `name` alone is fulfilled by a value other than null, false, and empty text, lists and objects. `name=value` is
    fulfilled by that text, by the number or boolean that JSON writes so, and by a list that has one of these. A claim
    within an object is named by its path, `realm.roles`, unless there is a claim with the whole path as its name.
    """
    name, equals, value = wanted.partition("=")
    found = claims[name] if name in claims else _at_path(claims, name)
    if not equals:
        return found is not None and found is not False and found != "" and found != [] and found != {}
    each = found if isinstance(found, list) else [found]
    return any(_text(one) == value for one in each)


def _at_path(claims: Mapping[str, JSON], path: str) -> JSON:
    found: JSON = dict(claims)
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _text(claim: JSON) -> str | None:
    if isinstance(claim, str):
        return claim
    return json.dumps(claim) if isinstance(claim, bool | int | float) else None
