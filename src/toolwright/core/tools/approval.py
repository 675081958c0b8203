"""Approval of calls by a person: which calls require it, who can give it, and the time limit."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args

from toolwright.core.checks import brief_value, is_number, misfit, takes_one
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import OUTSIDE_TIMEOUT
from toolwright.core.results import ToolResult
from toolwright.core.state.state import ThreadState

Predicate: TypeAlias = (
    Callable[[JSONObject], "bool | Awaitable[bool]"]
    | Callable[[JSONObject, ThreadState[Any]], "bool | Awaitable[bool]"]
)
"""Returns whether a call with these validated arguments, in a run with this state, needs an approval."""
Approvers: TypeAlias = Literal["anyone", "service", "person"]
ROLE = "role:"
"""Prefix of an entry of `by` that names a role of people, instead of a person. No id can begin with it."""
FIELDS: Mapping[str, str] = {
    "by": "string or list",
    "notBy": "string",
    "expiresIn": "number",
    "edit": "boolean",
    "reason": "boolean",
}
"""The fields of an approval in a JSON configuration."""
MAX_SECONDS = 1e9  # seconds
_log = logger("toolwright.approval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The approval that a tool's calls require before they start. Raises `DefinitionError` if it is invalid.

    `when` gets the validated arguments and returns whether this call needs approval. Without it every call does. An
    argument that the model omits is not among them, even if it has a default. A second parameter `state` gets the
    run's `ThreadState`, which only reads, for example `state.deps`. `when` can be async; an exception or a
    duration of more than 30 seconds counts as yes. `by` is who may answer: `anyone` who may submit the
    result of such a call (D24), only a `service`, only a `person` who can see the call, or the persons with these ids
    or external ids, or with these roles: `role:finance` is everyone whose token has `finance` in its claim of roles.
    With `not_by="requester"` the person whose message began the run must not answer, or else the thread's owner.
    After `expires_in` seconds the call is refused; None means no limit. With `edit` an approver may change the
    arguments, with `reason` they may give a reason, which the model reads.
    """

    when: Predicate | None = None
    by: Approvers | Collection[str] = "anyone"
    not_by: Literal["requester"] | None = None
    expires_in: float | None = None
    edit: bool = True
    reason: bool = True
    asks_state: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether `when` has a parameter for the run's state."""

    def __post_init__(self) -> None:
        if self.when is not None and not callable(self.when):
            raise DefinitionError(
                f"An approval's when must be a function of the arguments, not {brief_value(self.when)}."
            )
        if self.when is not None and _takes_state(self.when):
            object.__setattr__(self, "asks_state", True)
        elif self.when is not None and not takes_one(self.when):
            raise DefinitionError(
                "An approval's when must accept one parameter, a dict of the arguments, as in lambda arguments: …, or "
                "a second one named state."
            )
        fields = {"by": self.by, "not_by": self.not_by, "edit": self.edit, "reason": self.reason}
        for name, message in faults(fields):
            raise DefinitionError(f"An approval's {name} {message}.")
        if self.expires_in is not None and not _is_duration(self.expires_in):
            raise DefinitionError(
                "An approval's expires_in must be a positive number of seconds, at most 10**9, or None, "
                f"not {self.expires_in!r}."
            )
        if not isinstance(self.by, str):
            object.__setattr__(self, "by", tuple(self.by))

    def asks(self, arguments: JSONObject, state: ThreadState[Any] | None) -> "bool | Awaitable[bool]":
        """Call `when`. Only one that `asks_state` gets the state."""
        when: Callable[..., bool | Awaitable[bool]] | None = self.when
        assert when is not None, "without it every call needs approval"
        return when(arguments, state) if self.asks_state else when(arguments)


def _takes_state(when: Predicate) -> bool:
    """Return whether the function accepts the arguments and, as its second parameter, a `state`."""
    try:
        signature = inspect.signature(when)
        names = list(signature.bind(None, None).arguments)
    except (TypeError, ValueError):  # another number of parameters, or implemented in C, without a signature
        return False
    return names[1:] == ["state"]


def narrower(one: Approval | None, other: Approval) -> Approval:
    """Return an approval that satisfies both: the fewer who may answer, the shorter time. `when` is left out.

    Raises `DefinitionError` if no one could answer both.
    """
    if one is None:
        return other
    limits = [each for each in (one.expires_in, other.expires_in) if each is not None]
    return Approval(
        by=_fewer(one.by, other.by),
        not_by=one.not_by or other.not_by,
        expires_in=min(limits, default=None),
        edit=one.edit and other.edit,
        reason=one.reason and other.reason,
    )


def _fewer(
    one: Approvers | Collection[str], other: Approvers | Collection[str]
) -> Approvers | Collection[str]:
    if one == other or other == "anyone":
        return one
    if one == "anyone":
        return other
    lists = [each for each in (one, other) if not isinstance(each, str)]
    if len(lists) == 2:
        both = [each for each in lists[0] if each in lists[1]]
        if both:
            return both
    elif lists and "person" in (one, other):
        return lists[0]
    named = [repr(each) if isinstance(each, str) else ", ".join(map(repr, each)) for each in (one, other)]
    raise DefinitionError(f"two approvals contradict each other: by {named[0]} and by {named[1]}")


Requirement: TypeAlias = "bool | Predicate | Approval | None"
"""A tool's declaration of approval: True or False for all calls, a function of the arguments, or an `Approval`."""


def faults(fields: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the errors of the fields other than `when` and the time limit: pairs of a field and a message."""
    errors: list[tuple[str, str]] = []
    by = fields.get("by", "anyone")
    listed = not isinstance(by, str) and bool(by) and misfit(by, str) is None
    if not listed and by not in get_args(Approvers):
        errors.append(
            ("by", f"must be 'anyone', 'service', 'person' or a list of ids, not {brief_value(by)}")
        )
    elif listed and any(each.strip() == ROLE for each in cast("Collection[str]", by)):
        errors.append(("by", f"must name a role after {ROLE!r}, as in 'role:finance'"))
    wrong = [name for name in ("not_by", "notBy") if fields.get(name) not in (None, "requester")]
    errors += [(name, f"must be 'requester', not {brief_value(fields[name])}") for name in wrong]
    flags = [name for name in ("edit", "reason") if not isinstance(fields.get(name, True), bool)]
    return errors + [(name, f"must be true or false, not {brief_value(fields[name])}") for name in flags]


def approval_of(declared: object, subject: str) -> Approval | None:
    """Return the approval that a tool declares, or None for a tool that needs none. Raises `DefinitionError`."""
    match declared:
        case None | False:
            return None
        case True:
            return Approval()
        case Approval():
            return declared
        case _ if callable(declared) and not isinstance(declared, type):
            return Approval(when=cast("Predicate", declared))
        case _:
            raise DefinitionError(
                f"{subject}: requires_approval must be True, a function of the arguments or an Approval, "
                f"not {brief_value(declared)}."
            )


def requirement(declared: object, subject: str) -> Approval | None:
    """Return the approval declared in Python or in a configuration, or None. Raises `DefinitionError`."""
    if not isinstance(declared, dict):
        return approval_of(declared, subject)
    # a value that is not JSON is an error of its field
    approval, errors = approval_from_json(cast("JSONObject", declared))
    for path, message in errors:
        raise DefinitionError(f"{subject}: requiresApproval.{path} {message}.")
    return approval


async def is_needed(
    approval: Approval, name: str, arguments: JSONObject, state: ThreadState[Any] | None
) -> bool:
    """Return whether a call of the tool `name` with these arguments needs approval; true if that is unknown.

    `state` is for an approval that `asks_state`.
    """
    if approval.when is None:
        return True
    try:
        async with asyncio.timeout(OUTSIDE_TIMEOUT):
            answer = await in_thread_if_large(arguments, approval.asks, arguments, state)
            return bool(await answer if inspect.isawaitable(answer) else answer)
    except Exception:  # noqa: BLE001 - the user's function may raise anything
        _log.exception("The approval rule of %r failed, so the call waits for an approval.", name)
        return True


def needs_approval(name: str) -> ToolResult:
    """Return the error result of a call that requires an approval but is made outside a run."""
    return ToolResult.fail(
        f"Tool {name!r} needs an approval, and only a run can wait for it.", error_code="approval_required"
    )


def approval_from_json(entry: JSON) -> tuple[Approval | None, list[tuple[str, str]]]:
    """Return the approval of a configuration's `requiresApproval`, and its errors by their paths in it."""
    if entry is None or isinstance(entry, bool):
        return (Approval() if entry else None), []
    if not isinstance(entry, dict):
        return None, [("", f"must be true, false or an object, not {brief_value(entry)}")]
    present = {name: each for name, each in entry.items() if each is not None}
    errors = [
        (name, f"is not a known field: there are {', '.join(FIELDS)}")
        for name in present
        if name not in FIELDS
    ]
    errors += faults(present)
    milliseconds = present.get("expiresIn")
    if milliseconds is not None and not _is_duration(milliseconds, 1000):
        errors.append(
            ("expiresIn", f"must be a positive number of milliseconds, not {brief_value(milliseconds)}")
        )
    if errors:
        return None, errors
    renamed = {"notBy": "not_by"}
    fields: dict[str, Any] = {
        renamed.get(name, name): each for name, each in present.items() if name != "expiresIn"
    }
    if isinstance(milliseconds, int | float):
        fields["expires_in"] = milliseconds / 1000
    return Approval(**fields), []


def _is_duration(value: object, unit: int = 1) -> bool:
    return is_number(value) and 0 < value <= MAX_SECONDS * unit
