"""SQL of messages, their earlier versions, and calls, including those available to external workers."""

from collections.abc import Mapping as Names
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object, micros
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of, partial_index
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    Statement,
    number,
    read_rows,
    statements,
    string,
)
from toolwright.adapters.store.sql.threads import runs
from toolwright.core.journal.reads import Offer
from toolwright.core.json_value import JSON, JSONObject, dumps, dumps_unescaped
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.approval import ApprovalState
from toolwright.core.threads.call import OPEN, Call, CallStatus, Route
from toolwright.core.threads.decision import decisions_from_json
from toolwright.core.threads.message import (
    Decided,
    Message,
    MessageCall,
    MessageVersion,
    Role,
    Sent,
    StateReport,
)
from toolwright.core.tools.tool import Kind

_PINNED = sa.text("pinned = 1"), sa.text("pinned")
"""The condition on SQLite, in the form in which it compares booleans, and on Postgres."""
ON_OFFER = "kind = 'external' AND completed_at IS NULL"
"""Condition of calls that external workers may claim. A query must repeat it exactly to use the indexes."""
BY_STATUS = "status NOT IN ('created', 'running', 'done')"
"""Condition of the index of call statuses: a usual call, which is created, runs and completes, never enters it.

A query must repeat it exactly to use the index, and must not ask for the statuses `IN_PASSING`.
"""
IN_A_SPACE = "space_id IS NOT NULL"


def _body_text(message: Message) -> str:
    """Return JSON of a message without its position, run and time. Missing fields are left out."""
    body: JSONObject = {"content": message.content}
    if message.calls:
        body["calls"] = [[c.id, c.name, c.arguments, c.model_call_id] for c in message.calls]
    answered: list[JSON] = [message.call_id, message.model_call_id, message.tool_name, message.status]
    if any(part is not None for part in answered):
        body["call"] = answered
    if message.side is not None:
        body["side"] = message.side
    if message.by is not None:
        body["by"] = message.by
    if message.stack is not None:
        body["stack"] = message.stack
    if message.attachments:
        body["attachments"] = [_attachment_body(ref) for ref in message.attachments]
    if message.native is not None:
        body["native"] = message.native
    if message.sent is not None:
        body["sent"] = _sent_body(message.sent)
    if message.state is not None:
        body["state"] = [message.state.agent, {**message.state.parts}]
    if message.reasoning is not None:
        body["reasoning"] = [message.reasoning, message.reasoning_shared]
    if message.sender is not None:
        body["sender"] = message.sender
    if message.imported:
        body["imported"] = message.source_id
    if message.decided is not None:
        decided = message.decided
        body["decided"] = [decided.prompt, decided.instructions, [*decided.unavailable]]
    return dumps_unescaped(body)


def _sent_body(sent: Sent) -> JSON:
    counted: list[JSON] = [sent.compaction, sent.version, sent.tokens, sent.counted, sent.budget]
    change: list[JSON] = [] if sent.change is None else [sent.change]
    return ["", sent.system, "", sent.tools, *counted, *change]  # earlier versions wrote the empty ones


def _sent(body: Sequence[Any]) -> Sent:  # as written by _sent_body
    return Sent(
        system=body[1],
        tools=body[3],
        compaction=body[4],
        version=body[5],
        tokens=body[6],
        counted=body[7],
        budget=body[8],
        change=body[9] if len(body) > 9 else None,
    )


def _attachment_body(ref: AttachmentRef) -> JSON:
    described: list[JSON] = [ref.width, ref.height, ref.description, ref.digest]
    return [ref.id, ref.path, ref.name, ref.mime_type, ref.size, *described]


def _attachment(body: Sequence[Any]) -> AttachmentRef:  # as written by _attachment_body
    return AttachmentRef(
        id=body[0],
        path=body[1],
        name=body[2],
        mime_type=body[3],
        size=body[4],
        width=body[5],
        height=body[6],
        description=body[7],
        digest=body[8],
    )


def _body(parsed: dict[str, Any]) -> Names[str, Any]:  # as written by _body_text
    """Return the fields of a message by their names."""
    call_id, model_call_id, tool_name, status = parsed.get("call") or (None, None, None, None)
    return {
        "content": a_text(parsed["content"]),
        "calls": tuple(
            [
                MessageCall(id=c[0], name=c[1], arguments=c[2], model_call_id=c[3])
                for c in parsed.get("calls", ())
            ]
        ),
        "side": parsed.get("side"),
        "by": parsed.get("by"),
        "call_id": call_id,
        "model_call_id": model_call_id,
        "tool_name": tool_name,
        "status": status,
        "stack": parsed.get("stack"),
        "attachments": tuple([_attachment(ref) for ref in parsed.get("attachments", ())]),
        "native": parsed.get("native"),
        "sent": None if "sent" not in parsed else _sent(parsed["sent"]),
        "state": StateReport(agent=parsed["state"][0], parts=parsed["state"][1])
        if "state" in parsed
        else None,
        "reasoning": parsed["reasoning"][0] if "reasoning" in parsed else None,
        "sender": parsed.get("sender"),
        "reasoning_shared": "reasoning" in parsed and parsed["reasoning"][1],
        "imported": "imported" in parsed,
        "source_id": parsed.get("imported"),
        "decided": _decided(parsed["decided"]) if "decided" in parsed else None,
    }


def _decided(body: Sequence[Any]) -> Decided:  # as written by _body_text
    return Decided(prompt=body[0], instructions=body[1], unavailable=tuple(body[2]))


def _version_text(version: MessageVersion) -> str:
    return dumps_unescaped({"content": version.content, "native": version.native})


def _version(parsed: dict[str, Any]) -> Names[str, Any]:  # as written by _body_text
    return {"content": a_text(parsed["content"]), "native": parsed.get("native")}


messages = sa.Table(
    "messages",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("role", sa.Text, nullable=False, info=one_of(Role)),
    sa.Column("kept", sa.Boolean, nullable=False),
    sa.Column("body", Json(_body, _body_text), nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("within", sa.Text),
    sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("hidden_by", sa.Text),
    sa.PrimaryKeyConstraint("thread_id", "seq"),
    partial_index("messages_within", "within", where="within IS NOT NULL"),
    sa.Index("messages_by_run", "run_id", "seq"),
    sa.Index("messages_pinned", "thread_id", sqlite_where=_PINNED[0], postgresql_where=_PINNED[1]),
)

message_versions = sa.Table(
    "message_versions",
    metadata,
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("until", sa.BigInteger, nullable=False),
    sa.Column("body", Json(_version, _version_text), nullable=False),
    sa.PrimaryKeyConstraint("thread_id", "seq", "until"),
)

MESSAGES = Mapping(messages, Message, rest_field="body")
MESSAGE_VERSIONS = Mapping(message_versions, MessageVersion, rest_field="body")


IN_PASSING: frozenset[CallStatus] = frozenset({"created", "running", "done"})

IS_OPEN = f"calls.{BY_STATUS} AND calls.status IN ('waiting', 'pending')"
IS_PENDING = f"calls.{BY_STATUS} AND calls.status = 'pending'"
"""Conditions of calls whose results have not arrived yet, and of calls that no run waits for."""

_LEASED = f"{ON_OFFER} AND leased_until IS NOT NULL"

calls = sa.Table(
    "calls",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("thread_id", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("name", Json(a_text), nullable=False),
    sa.Column("kind", sa.Text, nullable=False, info=one_of(Kind)),
    sa.Column("arguments", Json(a_text, dumps_unescaped), nullable=False),
    sa.Column("model_call_id", Json(a_text), nullable=False),
    sa.Column("status", sa.Text, nullable=False, info=one_of(CallStatus)),
    sa.Column("route", sa.Text, info=one_of(Route)),
    sa.Column("result", Json(an_object, dumps_unescaped)),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("deadline", Instant()),
    sa.Column("expires_at", Instant()),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("started_at", Instant()),
    sa.Column("completed_at", Instant()),
    sa.Column("visible", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("space_id", sa.Text),
    sa.Column("repeatable", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("worker", Json(a_text)),
    sa.Column("leased_until", Instant()),
    sa.Column("agent", sa.Text),
    sa.Column("parent_id", sa.Text),
    sa.Column("approval", sa.Text, info=one_of(ApprovalState)),
    sa.Column("terms", Json(an_object, dumps_unescaped)),
    sa.Column("decisions", Json(decisions_from_json, dumps_unescaped, absent=())),
    sa.Column("requested", Json(a_text, dumps_unescaped)),
    partial_index("calls_by_parent", "parent_id", where="parent_id IS NOT NULL"),
    sa.Index("calls_by_run", "run_id", "step", "position"),
    sa.Index("calls_by_time", "created_at"),
    partial_index("calls_by_status", "status", "created_at", where=BY_STATUS),
    partial_index("calls_by_space", "space_id", "created_at", where=IN_A_SPACE),
    partial_index("calls_on_offer", "started_at", "id", where=ON_OFFER),
    partial_index("calls_leased", "leased_until", where=_LEASED),
)


CALLS = Mapping(calls, Call)


class OfferQueries:
    """Queries about calls available to external workers. Their first condition repeats that of the indexes exactly."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = compiled = Compiler(name)
        agent = sa.select(runs.c.agent).where(runs.c.id == calls.c.run_id).scalar_subquery()
        trace = sa.select(runs.c.traceparent).where(runs.c.id == calls.c.run_id).scalar_subquery()
        status = calls.c.status.concat("")  # an expression, so that the index of statuses is not used
        opened = sa.or_(*(status == each for each in OPEN))
        in_time = sa.or_(calls.c.expires_at.is_(None), calls.c.expires_at > number("at"))
        again = sa.and_(calls.c.repeatable, calls.c.leased_until <= number("at"))
        offered = (
            sa.select(*calls.c, agent, trace).where(sa.text(ON_OFFER), opened, in_time).limit(number("limit"))
        )
        start = calls.c.started_at
        behind = sa.and_(
            start >= number("after"), sa.or_(start > number("after"), calls.c.id > string("after_id"))
        )
        free = sa.or_(calls.c.worker.is_(None), again)
        self._begun = offered.where(free, behind, start < number("before")).order_by(start, calls.c.id)
        self.begun = cache(self._begun_of)
        expired_leases = offered.where(again, calls.c.leased_until >= number("since"))
        self.expired_leases = compiled(expired_leases.order_by(calls.c.leased_until))

    def _begun_of(self, count: int) -> Statement:
        if not count:
            return self._compiled(self._begun)
        return self._compiled(
            self._begun.where(calls.c.name.in_([string(f"name_{i}") for i in range(count)]))
        )


class SqlOffers:
    """The `OfferReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(OfferQueries, driver.dialect)

    async def claimable(
        self,
        at: datetime,
        *,
        after: tuple[datetime, str],
        before: datetime,
        names: Sequence[str] | None = None,
        limit: int = 100,
    ) -> Sequence[Offer]:
        params: Params = {"at": micros(at), "before": micros(before), "limit": limit}
        params |= {"after": micros(after[0]), "after_id": after[1]}
        params |= {f"name_{i}": dumps(name) for i, name in enumerate(names or ())}
        return await self._all(self._sql.begun(len(names or ())), params)

    async def expired_leases(self, at: datetime, *, since: datetime, limit: int = 100) -> Sequence[Offer]:
        return await self._all(
            self._sql.expired_leases, {"at": micros(at), "since": micros(since), "limit": limit}
        )

    async def _all(self, statement: Statement, params: Params) -> list[Offer]:
        return await read_rows(self._driver, _offers, statement, params)


def _offers(rows: Sequence[Row]) -> list[Offer]:
    """Return the available calls of the rows. Broken rows are left out, so that they do not block others."""
    return [
        Offer(call=call, agent=row[-2], traceparent=row[-1]) for row in rows for call in CALLS.readable([row])
    ]
