"""Decisions of people, services and apps about calls and runs: who decided, when, and through which door (D30)."""

import hashlib
import json
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.value import Value

Door: TypeAlias = Literal["http", "console", "mcp", "cli", "app"]
Action: TypeAlias = Literal["approved", "rejected", "submitted", "set", "cancelled", "retried"]


class Decider(Value):
    """Person, service, host or app that decides, and the `door` through which it does.

    A `person` and a `service` come from a checked credential: `id` is the person's entity, or the name of the secret
    key. A `host` acts without one: the operator at the command line, or an MCP host for its model. An `app` is its own
    code, and `id` is only what it says.
    """

    kind: Literal["person", "service", "host", "app"]
    door: Door
    id: str | None = None
    name: str | None = None


def sender_of(by: Decider) -> JSONObject:
    """Return who has sent a message, as stored with it."""
    return {"kind": by.kind, "door": by.door, "id": by.id, "name": by.name}


def caller_of(sender: JSONObject | None) -> Decider | None:
    """Return who has sent a message, as stored by `sender_of`."""
    return None if sender is None else Decider(**cast("Any", sender))


def decision(
    action: Action,
    by: Decider,
    at: datetime,
    *,
    arguments: str | None = None,
    definition: str | None = None,
    terms: str | None = None,
) -> JSONObject:
    """Return a decision as stored: on these arguments (JSON text), under these hashes of definition and terms."""
    fields: JSONObject = {
        "action": action,
        "by": {"kind": by.kind, "id": by.id, "name": by.name},
        "at": at.isoformat(),
        "door": by.door,
    }
    if arguments is not None:
        fields["args"] = _parsed(arguments)
    hashes = {"definitionHash": definition, "termsHash": terms}
    return fields | {name: each for name, each in hashes.items() if each is not None}


def approved_definition(decisions: tuple[JSONObject, ...]) -> str | None:
    """Return the hash of the definition that the newest approval is for, or None if it has none."""
    approvals = [each for each in decisions if each.get("action") == "approved"]
    written = approvals[-1].get("definitionHash") if approvals else None
    return written if isinstance(written, str) else None


def decisions_from_json(parsed: JSON) -> tuple[JSONObject, ...]:
    """Return the stored decisions. Raises `TypeError` for JSON of another form."""
    if not isinstance(parsed, list) or not all(isinstance(each, dict) for each in parsed):
        raise TypeError("decisions are a list of objects")
    return tuple(cast("list[JSONObject]", parsed))


def hash_of(value: JSON) -> str:
    """Return a stable hash of the value, regardless of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def _parsed(arguments: str) -> Any:  # arguments that the tool's schema has accepted
    return json.loads(arguments or "{}")
