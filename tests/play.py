"""Units for tests of stores, as a drain and its neighbours make them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

from toolwright.core.journal.store import Store
from toolwright.core.journal.units import (
    Advance,
    Answer,
    Claim,
    Committed,
    CreateThread,
    Finish,
    Leave,
    Leaving,
    PostMessage,
    RequestCancel,
    RetryEvent,
    RetryRun,
    Settle,
    Unit,
)
from toolwright.core.threads.call import Call, CallMove, CallStatus
from toolwright.core.threads.event import EventDraft, Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.threads.run import Run, Step, Usage
from toolwright.core.threads.thread import Thread

A = TypeVar("A", bound=Advance)
S = TypeVar("S", bound=Settle)

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def later(seconds: float) -> datetime:
    """Return a timestamp that many seconds after the time of the tests."""
    return AT + timedelta(seconds=seconds)


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid4().hex}"


def token() -> str:
    return new_id("tok")


def draft(type: str, **payload: Any) -> EventDraft:  # any JSON
    return EventDraft(type, payload)


def said(text: str, run_id: str | None = None, **fields: Any) -> Message:  # fields of Message
    return Message(id=new_id("msg"), role="user", content=text, run_id=run_id, created_at=AT, **fields)


def post(thread_id: str, event_id: str | None = None, run_id: str | None = None) -> PostMessage:
    """Return the unit that posts a message to a thread."""
    event = InboxEvent(
        thread_id=thread_id,
        event_id=event_id or new_id("msg"),
        type="message",
        content={"text": "hello"},
        created_at=AT,
    )
    run = Run(id=run_id or new_id("run"), thread_id=thread_id, agent="helper", created_at=AT)
    return PostMessage(token=token(), at=AT, event=event, run=run, queued=draft("run.queued"))


def settle(kind: type[S], thread_id: str, call_id: str, at: datetime = AT) -> S:
    """Return the unit that ends an open external call."""
    notice = InboxEvent(
        thread_id=thread_id,
        event_id=f"tr:{call_id}",
        type="tool_result",
        content={"toolCallId": call_id},
        created_at=at,
    )
    return kind(
        token=token(),
        at=at,
        thread_id=thread_id,
        call_id=call_id,
        result={"status": "success", "result": kind.__name__},
        notice=notice,
        event=draft("tool.done", callId=call_id),
    )


def request_cancel(thread_id: str, run_id: str) -> RequestCancel:
    return RequestCancel(token=token(), at=AT, thread_id=thread_id, run_id=run_id)


def retry_event(thread_id: str, event_id: str, at: datetime = AT) -> RetryEvent:
    return RetryEvent(token=token(), at=at, thread_id=thread_id, event_id=event_id)


def retry_run(thread_id: str, run_id: str, at: datetime = AT) -> RetryRun:
    queued = draft("run.queued", runId=run_id)
    return RetryRun(token=token(), at=at, thread_id=thread_id, run_id=run_id, queued=queued)


def leave(thread_id: str, gen: int, due: datetime | None = None) -> Leave:
    return Leave(token=token(), at=AT, thread_id=thread_id, leaving=Leaving(gen=gen, due=due))


async def committed(store: Store, unit: Unit) -> Committed:
    """Commit the unit and return its answer. Fails if a guard fails."""
    answer = await store.commit(unit)
    assert isinstance(answer, Committed), (type(unit).__name__, answer)
    return answer


class Drain:
    """A drain of one thread: it tracks the epoch, the sequence number and its run."""

    def __init__(self, store: Store, thread_id: str, run: Run, epoch: int = 0, seq: int = 0) -> None:
        self.store = store
        self.thread_id = thread_id
        self.run = run
        self.epoch = epoch
        self.seq = seq

    # fields of the unit
    def unit(self, kind: type[A], run: dict[str, Any] | None = None, **fields: Any) -> A:
        """Return a unit with the drain's fence, and the current run with these changes."""
        return kind(
            token=token(),
            at=AT,
            thread_id=self.thread_id,
            epoch=self.epoch,
            seq=self.seq,
            run=replace(self.run, **run) if run else self.run,
            was=self.run,
            **fields,
        )

    async def do(self, unit: Advance) -> Committed:
        """Commit the unit and update the drain."""
        answer = await committed(self.store, unit)
        self.moved_by(unit)
        return answer

    def moved_by(self, unit: Advance) -> None:
        self.run = unit.run
        self.seq += len(unit.messages)
        self.epoch += type(unit).__name__ in {"Claim", "Takeover"}

    async def claim(self, read: Sequence[str] = ()) -> None:
        await self.do(
            self.unit(Claim, {"status": "running", "held": True, "started_at": AT}, read=tuple(read))
        )

    async def answer(self, *calls: Call, text: str = "") -> None:
        """Commit the model's answer, with these calls."""
        number = self.run.step_count + 1
        message = Message(
            id=new_id("msg"),
            role="assistant",
            content=text,
            run_id=self.run.id,
            step=number,
            calls=tuple(
                MessageCall(id=c.id, name=c.name, arguments=c.arguments, model_call_id=c.model_call_id)
                for c in calls
            ),
            created_at=AT,
        )
        await self.do(
            self.unit(
                Answer,
                {"step_count": number},
                messages=(message,),
                calls=calls,
                step=step(self.run.id, number),
                events=(draft("step.done"),),
            )
        )

    async def end(self, at: datetime = AT) -> None:
        """End the run, which makes the thread idle."""
        run = {"status": "completed", "stop_reason": "end_turn", "completed_at": at, "held": False}
        await self.do(replace(self.unit(Finish, run), at=at))

    def call(self, status: CallStatus = "created", **fields: Any) -> Call:  # fields of Call
        """Return a call of the next step."""
        given: dict[str, Any] = {
            "id": new_id("call"),
            "thread_id": self.thread_id,
            "run_id": self.run.id,
            "agent": self.run.agent,
            "step": self.run.step_count + 1,
            "position": 0,
            "name": "look",
            "kind": "function",
            "arguments": "{}",
            "model_call_id": "toolu_1",
            "status": status,
            "created_at": AT,
        }
        return Call(**{**given, **fields})


def step(run_id: str, number: int) -> Step:
    return Step(
        run_id=run_id,
        number=number,
        model="test:model",
        usage=Usage(input_tokens=3, output_tokens=4),
        cost=0.25,
        finish_reason="stop",
        created_at=AT,
    )


def change(call: Call, now: CallStatus, **fields: Any) -> CallMove:  # parameters of `moved_to`
    return CallMove(before=call, after=call.moved_to(now, AT, **fields))


def create(thread_id: str | None = None, **fields: Any) -> CreateThread:  # fields of Thread
    """Return the unit that creates a thread."""
    thread = Thread(id=thread_id or new_id("thr"), agent="helper", created_at=AT, **fields)
    return CreateThread(token=token(), at=AT, thread=thread)


async def create_thread(store: Store, thread_id: str = "th_1", **fields: Any) -> None:  # fields of Thread
    await committed(store, create(thread_id, **fields))


async def begun(store: Store, thread_id: str = "th_1") -> Drain:
    """Create a thread with a run that a drain has claimed, whose one message is read."""
    await create_thread(store, thread_id)
    first = post(thread_id)
    await committed(store, first)
    drain = Drain(store, thread_id, first.run)
    await drain.claim([first.event.event_id])
    return drain


async def dump(store: Store) -> dict[str, Any]:  # values of all kinds
    """Return everything that can be read from a journal."""
    found: dict[str, Any] = {"calls": list(await store.calls(limit=10_000))}
    for thread in await store.threads(limit=10_000):
        key = thread.id
        found[key] = {
            "thread": thread,
            "messages": list(await store.messages(key, limit=10_000)),
            "inbox": list(await store.inbox(key, limit=10_000)),
            "events": list(await store.events(Topic(kind="thread", id=key), limit=10_000)),
            "wake": await store.wake(key),
        }
    for run in await store.runs(limit=10_000):
        found[run.id] = (run, list(await store.steps(run.id)))
    return found
