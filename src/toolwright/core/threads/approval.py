"""Approvals as stored in the journal: status, terms and answers."""

from typing import Literal, TypeAlias, cast

from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.text import quantity
from toolwright.core.threads.decision import hash_of
from toolwright.core.value import Value

ApprovalState: TypeAlias = Literal["asked", "approved", "edited"]
"""State of a call that needs an approval: asked for, approved as requested, or approved with edited arguments."""
NOT_APPROVED = "not_approved"
_TERMS = frozenset({"by", "notBy", "seconds", "edit", "reason"})
_ANSWER = frozenset({"approved", "args", "reason"})
_UNITS = ((3_600, "hour"), (60, "minute"))


class Terms(Value):
    """The terms of an approval.

    `by` is who may answer; `not_by` are the ids of people who must not, None if that is not declared. `seconds` the
    time limit, or None for no limit. `edit` and `reason` allow answers with changed arguments, or with a reason.
    `schema` validates changed arguments; it is None if they are validated when the call starts. `definition` is the
    hash of the tool's definition that the approval is for, None for older calls. `returned` is that of the definition
    for which an answer was rejected, because the answering process has another. `hooked` terms include what hooks have
    required, `why` are their reasons.
    """

    by: str | tuple[str, ...] = "anyone"
    not_by: tuple[str, ...] | None = None
    seconds: float | None = None
    edit: bool = True
    reason: bool = True
    schema: JSONObject | None = None
    definition: str | None = None
    returned: str | None = None
    hooked: bool = False
    why: str | None = None


class ApprovalAnswer(Value):
    """The answer to a call that waits for an approval; `arguments` replace the call's own."""

    approved: bool
    arguments: JSONObject | None = None
    reason: str | None = None


def terms_to_json(terms: Terms) -> JSONObject:
    """Return the terms as stored in the call's row."""
    by: JSON = terms.by if isinstance(terms.by, str) else [*terms.by]
    fields: JSONObject = {"by": by, "edit": terms.edit, "reason": terms.reason}
    if terms.seconds is not None:
        fields["seconds"] = terms.seconds
    if terms.schema is not None:
        fields["schema"] = terms.schema
    if terms.not_by is not None:
        fields["notBy"] = [*terms.not_by]
    if terms.hooked:
        fields["hooked"] = True
    texts = {"definition": terms.definition, "returned": terms.returned, "why": terms.why}
    return fields | {name: each for name, each in texts.items() if each is not None}


def terms_from_json(fields: JSONObject | None) -> Terms:
    """Return the terms from a call's row."""
    if not fields:
        return Terms()
    by, seconds, schema, why = (fields.get(name) for name in ("by", "seconds", "schema", "why"))
    definition, returned, not_by = fields.get("definition"), fields.get("returned"), fields.get("notBy")
    return Terms(
        by=tuple([str(each) for each in by]) if isinstance(by, list) else str(by),
        not_by=tuple([str(each) for each in not_by]) if isinstance(not_by, list) else None,
        seconds=seconds if isinstance(seconds, int | float) else None,
        edit=fields.get("edit") is True,
        reason=fields.get("reason") is True,
        schema=schema if isinstance(schema, dict) else None,
        definition=definition if isinstance(definition, str) else None,
        returned=returned if isinstance(returned, str) else None,
        hooked=fields.get("hooked") is True,
        why=why if isinstance(why, str) else None,
    )


def hash_of_terms(stored: JSONObject | None) -> str:
    """Return a hash of a call's stored terms, except what they say about the tool's definition."""
    told = {name: each for name, each in (stored or {}).items() if name in _TERMS}
    return hash_of(told)


def is_answer(result: JSON | ToolResult) -> bool:
    """Return whether the result has the form of an answer to an approval."""
    answer = result.result if isinstance(result, ToolResult) else result
    return isinstance(answer, dict) and isinstance(answer.get("approved"), bool) and answer.keys() <= _ANSWER


def read_approval(terms: Terms, result: JSON | ToolResult) -> ApprovalAnswer:
    """Return the answer to a call that waits for an approval on these terms.

    Raises `InvalidRequest` if it is not an answer to an approval.
    """
    answer = result.result if isinstance(result, ToolResult) else result
    failed = isinstance(result, ToolResult) and result.status == "error"
    if failed or not isinstance(answer, dict) or not isinstance(answer.get("approved"), bool):
        raise InvalidRequest(
            "This call waits for an approval: submit {approved: true or false, args?, reason?}.",
            [{"path": "result.approved", "message": "must be true or false"}],
        )
    unknown = next((name for name in answer if name not in _ANSWER), None)
    if unknown is not None:
        raise _invalid_value(unknown[:60], "is not known: an approval has approved, args and reason")
    approved, arguments, reason = answer["approved"] is True, answer.get("args"), answer.get("reason")
    if arguments is not None and not isinstance(arguments, dict):
        raise _invalid_value("args", "must be an object")
    if arguments is not None and not approved:
        raise _invalid_value("args", "is only taken with an approval")
    if arguments is not None and not terms.edit:
        raise _invalid_value("args", "is not taken: this call is approved as it is, or not at all")
    if reason is not None and not isinstance(reason, str):
        raise _invalid_value("reason", "must be text")
    if reason and not terms.reason:
        raise _invalid_value("reason", "is not taken for this call")
    return ApprovalAnswer(
        approved=approved,
        arguments=cast("JSONObject | None", arguments),  # an object, as just validated
        reason=reason.strip() or None if reason else None,
    )


def refused(reason: str | None = None) -> ToolResult:
    """Return the error result of a call that was not approved."""
    message = f"The call was not approved: {reason}" if reason else "The call was not approved."
    return ToolResult.fail(message, error_code=NOT_APPROVED)


def unanswered(terms: Terms) -> ToolResult:
    """Return the error result of a call that was not approved in time."""
    within = "in time" if terms.seconds is None else f"within {_spoken(terms.seconds)}"
    return refused(f"nobody answered {within}.")


def _spoken(seconds: float) -> str:
    for size, noun in _UNITS:
        if seconds >= size and seconds % size == 0:
            return quantity(int(seconds // size), noun)
    return quantity(int(seconds) if seconds == int(seconds) else seconds, "second")


def _invalid_value(name: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"result.{name} {message}.", [{"path": f"result.{name}", "message": message}])
