"""The table of calls, and which of them are on offer to outside workers."""

from sqlalchemy import Boolean, Column, Index, Integer, Table, Text, false, text

from toolwright.adapters.store.engine.codecs import a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.threads.approval import ApprovalState
from toolwright.core.threads.call import Call, CallStatus, Route
from toolwright.core.tools.tool import Kind

ON_OFFER = "kind = 'external' AND completed_at IS NULL"
"""Among which calls those are that outside workers may claim: a query that is to use the indexes says it so."""

IN_PASSING: frozenset[CallStatus] = frozenset({"created", "running", "done"})
BY_STATUS = "status NOT IN ('created', 'running', 'done')"
"""The condition of the index of the statuses: a usual call, which is created, runs and is done, never enters it.

A query that is to use it says so word by word, and is about none of the statuses `IN_PASSING`.
"""

IS_OPEN = f"calls.{BY_STATUS} AND calls.status IN ('waiting', 'pending')"
IS_PENDING = f"calls.{BY_STATUS} AND calls.status = 'pending'"
"""The conditions of calls whose results are not here yet, and of those that no run waits for."""

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
