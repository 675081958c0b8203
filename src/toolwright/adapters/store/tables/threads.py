"""Tables of threads and of what is said and done in them: runs, their steps, messages."""

from collections.abc import Sequence
from typing import Any, cast, get_args

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
    text,
)

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    any_json,
    long_text_or_none,
    micros,
    micros_or_none,
    read,
    read_instant,
    read_instant_or_none,
    read_or_none,
    text_or_none,
    texts,
)
from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.json_value import JSON, dumps, dumps_unescaped
from toolwright.core.threads.child import ChildEnd, link_from_json, link_json
from toolwright.core.threads.message import Role
from toolwright.core.threads.run import QueuedCall, Run, RunStatus, Side, Step, StopReason, Usage
from toolwright.core.threads.thread import Thread

_NESTED = text("within IS NOT NULL")

threads = Table(
    "threads",
    metadata,
    Column("id", Text, primary_key=True),
    Column("agent", Text, nullable=False),
    Column("user_id", Text),
    Column("parent_id", Text),
    Column("name", Text),
    Column("tags", Text, nullable=False),
    Column("arguments", Text),
    Column("run_id", Text),
    Column("epoch", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("ev", BigInteger, nullable=False),
    Column("posted", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("begun", Boolean, nullable=False, server_default=false()),
    Column("next_run_id", Text),
    Column("space_id", Text),
    Column("active_agent", Text),
    Column("activated", Text),
    Column("link", Text),
    Column("report", Text),
    Column("state", Text, info=one_of(ChildEnd)),
    Column("faults", BigInteger, nullable=False, server_default=text("0")),
    Column("not_before", BigInteger),
    Index("threads_by_parent", "parent_id", "created_at"),
    Index("threads_by_user", "user_id", "created_at"),
    Index("threads_by_time", "created_at"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("status", Text, nullable=False, info=one_of(RunStatus)),
    Column("stop_reason", Text, info=one_of(StopReason)),
    Column("error", Text),
    Column("step_count", Integer, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("side", Text, nullable=False, info=one_of(Side)),
    Column("chain_depth", Integer, nullable=False),
    Column("lives", Integer, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("usage", Text, nullable=False),
    Column("cost", Float),
    Column("output", Text, nullable=False),
    Column("waiting", Text),
    Column("cancel_requested_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("revision", BigInteger),
    Column("queued", Text),
    Index("runs_by_thread", "thread_id", "created_at"),
    Index("runs_by_status", "status", "created_at"),
    Index("runs_by_time", "created_at"),
)

steps = Table(
    "steps",
    metadata,
    Column("run_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("usage", Text, nullable=False),
    Column("cost", Float),
    Column("finish_reason", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("run_id", "number"),
)

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
    Column("body", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("within", Text),
    PrimaryKeyConstraint("thread_id", "seq"),
    Index("messages_within", "within", sqlite_where=_NESTED, postgresql_where=_NESTED),
    Index("messages_by_run", "run_id", "seq"),
)


_NO_USAGE = Usage()
_NO_USAGE_TEXT = "[0,0,0,0]"
SIDES = frozenset(get_args(Side))


def usage_text(usage: Usage) -> str:
    if usage == _NO_USAGE:
        return _NO_USAGE_TEXT
    counts: list[JSON] = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    ]
    return dumps(counts)


def _usage(row: Row, column: int) -> Usage:
    return _NO_USAGE if row[column] == _NO_USAGE_TEXT else read(row, column, _usage_of)


def _usage_of(counts: Sequence[Any]) -> Usage:  # as written by usage_text
    if any(type(count) is not int for count in counts):
        raise TypeError("a count is a whole number")
    given, written, cache_read, cache_write = counts
    return Usage(
        input_tokens=given,
        output_tokens=written,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )


def _sides(written: JSON) -> tuple[Side, ...]:
    sides = texts(written)
    if not SIDES.issuperset(sides):
        raise ValueError("a side has another name")
    return cast("tuple[Side, ...]", sides)  # as has been looked at


def _queued(written: Sequence[Any]) -> tuple[QueuedCall, ...]:  # as written by run_params
    return tuple([QueuedCall(name=n, arguments=a, within=w) for n, a, w in written])


def thread_params(thread: Thread) -> Params:
    return {
        "id": thread.id,
        "agent": thread.agent,
        "user_id": thread.user_id,
        "parent_id": thread.parent_id,
        "name": text_or_none(thread.name),
        "tags": dumps(list(thread.tags)),
        "arguments": long_text_or_none(thread.arguments),
        "run_id": thread.run_id,
        "epoch": thread.epoch,
        "seq": thread.seq,
        "ev": thread.ev,
        "posted": thread.posted,
        "created_at": micros(thread.created_at),
        "begun": thread.begun,
        "next_run_id": thread.next_run_id,
        "space_id": thread.space_id,
        "active_agent": thread.active_agent,
        "activated": dumps(list(thread.activated)) if thread.activated else None,
        "link": None if thread.link is None else dumps(link_json(thread.link)),
        "report": thread.report,
        "state": thread.state,
        "faults": thread.faults,
        "not_before": micros_or_none(thread.not_before),
    }


def thread(row: Row) -> Thread:
    return Thread(
        id=row[0],
        agent=row[1],
        user_id=row[2],
        parent_id=row[3],
        name=read_or_none(row, 4, a_text),
        tags=read(row, 5, texts),
        arguments=read_or_none(row, 6, an_object),
        run_id=row[7],
        epoch=row[8],
        seq=row[9],
        ev=row[10],
        posted=row[11],
        created_at=read_instant(row, 12),
        begun=bool(row[13]),
        next_run_id=row[14],
        space_id=row[15],
        active_agent=row[16],
        activated=read_or_none(row, 17, _sides) or (),
        link=read_or_none(row, 18, link_from_json),
        report=row[19],
        state=row[20],
        faults=row[21],
        not_before=read_instant_or_none(row, 22),
    )


def run_params(run: Run) -> Params:
    return {
        "id": run.id,
        "thread_id": run.thread_id,
        "agent": run.agent,
        "status": run.status,
        "stop_reason": run.stop_reason,
        "error": text_or_none(run.error),
        "step_count": run.step_count,
        "turn": run.turn,
        "side": run.side,
        "chain_depth": run.chain_depth,
        "lives": run.lives,
        "held": run.held,
        "usage": usage_text(run.usage),
        "cost": run.cost,
        "output": dumps_unescaped(run.output),
        "waiting": text_or_none(run.waiting),
        "cancel_requested_at": micros_or_none(run.cancel_requested_at),
        "created_at": micros(run.created_at),
        "started_at": micros_or_none(run.started_at),
        "completed_at": micros_or_none(run.completed_at),
        "revision": run.revision,
        "queued": dumps([[q.name, q.arguments, q.within] for q in run.queued]) if run.queued else None,
    }


def run(row: Row) -> Run:
    return Run(
        id=row[0],
        thread_id=row[1],
        agent=row[2],
        status=row[3],
        stop_reason=row[4],
        error=read_or_none(row, 5, a_text),
        step_count=row[6],
        turn=row[7],
        side=row[8],
        chain_depth=row[9],
        lives=row[10],
        held=bool(row[11]),
        usage=_usage(row, 12),
        cost=row[13],
        output=read(row, 14, any_json),
        waiting=read_or_none(row, 15, an_object),
        cancel_requested_at=read_instant_or_none(row, 16),
        created_at=read_instant(row, 17),
        started_at=read_instant_or_none(row, 18),
        completed_at=read_instant_or_none(row, 19),
        revision=row[20],
        queued=read_or_none(row, 21, _queued) or (),
    )


def step_params(step: Step) -> Params:
    return {
        "run_id": step.run_id,
        "number": step.number,
        "model": step.model,
        "usage": usage_text(step.usage),
        "cost": step.cost,
        "finish_reason": step.finish_reason,
        "created_at": micros(step.created_at),
    }


def step(row: Row) -> Step:
    return Step(
        run_id=row[0],
        number=row[1],
        model=row[2],
        usage=_usage(row, 3),
        cost=row[4],
        finish_reason=row[5],
        created_at=read_instant(row, 6),
    )
