"""Decisions on the wire: who has approved, answered, cancelled or retried, when and through which door (D30)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.decision import Action, Door
from toolwright.wire.rendering import ABSENT, Absent
from toolwright.wire.shape import Json, Shape


class DecidedBy(Shape):
    """Person, service, host or app that has decided.

    A person or a service is identified by the checked credential: `id` is the person's entity, or the name of the
    secret key. A host is the operator at the command line, or an MCP host for its model. An app's own code has
    submitted the answer, and `id` is what it says.
    """

    kind: Literal["person", "service", "host", "app"]
    id: str | None = None
    name: str | None = None


class Decision(Shape):
    """A decision about a call or a run: on these arguments, under hashes of the tool's definition and the terms."""

    action: Action
    by: DecidedBy
    at: datetime
    door: Door
    args: Annotated[Json, ABSENT] = None
    definition_hash: Absent[str] = None
    terms_hash: Absent[str] = None


def decisions_fields(decisions: Sequence[JSONObject], args: JSON = None) -> JSONObject:
    """Return the newest decision as `decision`, and all as `decisions` if there are several.

    Decisions without arguments of their own are about `args`.
    """
    if not decisions:
        return {}
    shown: list[JSON] = [
        each if args is None or "args" in each else {**each, "args": args} for each in decisions
    ]
    return {"decision": shown[-1]} if len(shown) == 1 else {"decision": shown[-1], "decisions": shown}
