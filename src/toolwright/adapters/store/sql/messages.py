"""SQL of messages, their earlier versions, and calls, including those available to external workers."""

from collections.abc import Mapping as Names
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
    false,
    or_,
    select,
    text,
)

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object, micros
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
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
from toolwright.core.threads.message import Message, MessageCall, MessageVersion, Role, Sent
from toolwright.core.tools.tool import Kind

_NESTED = text("within IS NOT NULL")
_PINNED = text("pinned = 1"), text("pinned")
"""The condition on SQLite, in the form in which it compares booleans, and on Postgres."""


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
    return dumps_unescaped(body)


def _sent_body(sent: Sent) -> JSON:
    counted: list[JSON] = [sent.compaction, sent.version, sent.tokens, sent.counted, sent.budget]
    return [sent.hash, sent.system, sent.changing, sent.tools, *counted]


def _sent(body: Sequence[Any]) -> Sent:  # as written by _sent_body
    return Sent(
        hash=body[0],
        system=body[1],
        changing=body[2],
        tools=body[3],
        compaction=body[4],
        version=body[5],
        tokens=body[6],
        counted=body[7],
        budget=body[8],
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
    }


def _version_text(version: MessageVersion) -> str:
    return dumps_unescaped({"content": version.content, "native": version.native})


def _version(parsed: dict[str, Any]) -> Names[str, Any]:  # as written by _body_text
    return {"content": a_text(parsed["content"]), "native": parsed.get("native")}


messages = Table(
    "messages",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("id", Text, nullable=False),
    Column("run_id", Text),
    Column("step", Integer, nullable=False),
    Column("role", Text, nullable=False, info=one_of(Role)),
    Column("kept", Boolean, nullable=False),
    Column("body", Json(_body, _body_text), nullable=False),
    Column("created_at", Instant(), nullable=False),
    Column("within", Text),
    Column("pinned", Boolean, nullable=False, server_default=false()),
    PrimaryKeyConstraint("thread_id", "seq"),
    Index("messages_within", "within", sqlite_where=_NESTED, postgresql_where=_NESTED),
    Index("messages_by_run", "run_id", "seq"),
    Index("messages_pinned", "thread_id", sqlite_where=_PINNED[0], postgresql_where=_PINNED[1]),
)

message_versions = Table(
    "message_versions",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("body", Json(_version, _version_text), nullable=False),
    PrimaryKeyConstraint("thread_id", "seq", "until"),
)

MESSAGES = Mapping(messages, Message, rest_field="body")
MESSAGE_VERSIONS = Mapping(message_versions, MessageVersion, "seq", rest_field="body")


ON_OFFER = "kind = 'external' AND completed_at IS NULL"
"""Condition of calls that external workers may claim. A query must repeat it exactly to use the indexes."""

IN_PASSING: frozenset[CallStatus] = frozenset({"created", "running", "done"})
BY_STATUS = "status NOT IN ('created', 'running', 'done')"
"""Condition of the index of call statuses: a usual call, which is created, runs and completes, never enters it.

A query must repeat it exactly to use the index, and must not ask for the statuses `IN_PASSING`.
"""

IS_OPEN = f"calls.{BY_STATUS} AND calls.status IN ('waiting', 'pending')"
IS_PENDING = f"calls.{BY_STATUS} AND calls.status = 'pending'"
"""Conditions of calls whose results have not arrived yet, and of calls that no run waits for."""

IN_A_SPACE = "space_id IS NOT NULL"
_BELOW = text("parent_id IS NOT NULL")
_OFFERED, _LEASED = text(ON_OFFER), text(f"{ON_OFFER} AND leased_until IS NOT NULL")

calls = Table(
    "calls",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", Json(a_text), nullable=False),
    Column("kind", Text, nullable=False, info=one_of(Kind)),
    Column("arguments", Json(a_text, dumps_unescaped), nullable=False),
    Column("model_call_id", Json(a_text), nullable=False),
    Column("status", Text, nullable=False, info=one_of(CallStatus)),
    Column("route", Text, info=one_of(Route)),
    Column("result", Json(an_object, dumps_unescaped)),
    Column("attempts", Integer, nullable=False),
    Column("deadline", Instant()),
    Column("expires_at", Instant()),
    Column("created_at", Instant(), nullable=False),
    Column("started_at", Instant()),
    Column("completed_at", Instant()),
    Column("visible", Boolean, nullable=False, server_default=false()),
    Column("space_id", Text),
    Column("repeatable", Boolean, nullable=False, server_default=false()),
    Column("worker", Json(a_text)),
    Column("leased_until", Instant()),
    Column("agent", Text),
    Column("parent_id", Text),
    Column("approval", Text, info=one_of(ApprovalState)),
    Column("terms", Json(an_object, dumps_unescaped)),
    Index("calls_by_parent", "parent_id", sqlite_where=_BELOW, postgresql_where=_BELOW),
    Index("calls_by_run", "run_id", "step", "position"),
    Index("calls_by_time", "created_at"),
    Index(
        "calls_by_status",
        "status",
        "created_at",
        sqlite_where=text(BY_STATUS),
        postgresql_where=text(BY_STATUS),
    ),
    Index(
        "calls_by_space",
        "space_id",
        "created_at",
        sqlite_where=text(IN_A_SPACE),
        postgresql_where=text(IN_A_SPACE),
    ),
    Index("calls_on_offer", "started_at", "id", sqlite_where=_OFFERED, postgresql_where=_OFFERED),
    Index("calls_leased", "leased_until", sqlite_where=_LEASED, postgresql_where=_LEASED),
)


CALLS = Mapping(calls, Call)


class OfferQueries:
    """Queries about calls available to external workers. Their first condition repeats that of the indexes exactly."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = compiled = Compiler(name)
        agent = select(runs.c.agent).where(runs.c.id == calls.c.run_id).scalar_subquery()
        trace = select(runs.c.traceparent).where(runs.c.id == calls.c.run_id).scalar_subquery()
        status = calls.c.status.concat("")  # an expression, so that the index of statuses is not used
        opened = or_(*(status == each for each in OPEN))
        in_time = or_(calls.c.expires_at.is_(None), calls.c.expires_at > number("at"))
        again = and_(calls.c.repeatable, calls.c.leased_until <= number("at"))
        offered = select(*calls.c, agent, trace).where(text(ON_OFFER), opened, in_time).limit(number("limit"))
        start = calls.c.started_at
        behind = and_(start >= number("after"), or_(start > number("after"), calls.c.id > string("after_id")))
        free = or_(calls.c.worker.is_(None), again)
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
        Offer(call=call, agent=row[-2], traceparent=row[-1]) for row in rows for call in CALLS.each([row])
    ]
