"""The thread as a handler sees it within a run: reads are live, writes wait for the call's result."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from toolwright.core.call import Call
from toolwright.core.event import Event, EventDraft
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.message import Message
from toolwright.core.plain import emitted
from toolwright.core.ports import Bus
from toolwright.core.run import Side
from toolwright.runtime.abort import Abort
from toolwright.runtime.hold import Hold
from toolwright.wire.event import bounded


@dataclass(slots=True)
class RunExecution:
    """Where in its run a call stands."""

    step_count: int
    current_side: Side
    abort_signal: Abort
    stopped: bool = False

    def stop_session(self) -> None:
        """End the run as `session_stop` once this call's result is recorded."""
        self.stopped = True


class RunState:
    """The `ThreadState` of one call of a run. What it `emits` is committed with the call's result."""

    __slots__ = ("_bus", "_call", "_hold", "emitted", "execution")

    def __init__(self, hold: Hold, call: Call, bus: Bus) -> None:
        self._hold = hold
        self._call = call
        self._bus = bus
        self.emitted: list[EventDraft] = []
        self.execution = RunExecution(
            step_count=call.step, current_side=hold.run.side, abort_signal=hold.abort
        )

    @property
    def thread_id(self) -> str:
        return self._hold.thread.id

    @property
    def agent_id(self) -> str:
        return self._hold.thread.agent

    @property
    def user_id(self) -> str | None:
        return self._hold.thread.user_id

    @property
    def call_id(self) -> str:
        return self._call.id

    @property
    def created_at(self) -> datetime:
        return self._hold.thread.created_at

    @property
    def arguments(self) -> JSONObject | None:
        return self._hold.thread.arguments

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        """The thread's messages, oldest first, those of the running step included."""
        return tuple(self._hold.messages[offset : offset + limit])

    def emit(self, event_type: str, data: JSON = None) -> None:
        """Record an event with the call's result; one of more than 8 KiB without its data.

        Raises `InvalidRequest` for a faulty type, `InvalidJSON` for what JSON cannot carry.
        """
        event_type, data = emitted(event_type, data)
        payload: JSONObject = {"toolCallId": self._call.id, "data": data}
        self.emitted.append(bounded(EventDraft(type=event_type, payload=payload)))

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Tell live followers how far the call is; nothing is recorded."""
        run = self._hold.run
        if not self._bus.wanted(run.thread_id, run.id):
            return
        payload: JSONObject = {"streamId": self._call.id, "toolCallId": self._call.id, "done": done}
        payload |= {name: value for name, value in (("total", total), ("text", text)) if value is not None}
        dumps(payload)
        self._bus.publish(
            [
                Event(
                    thread_id=run.thread_id,
                    run_id=run.id,
                    agent=run.agent,
                    type="tool.progress",
                    payload=payload,
                    at=self._hold.clock.now(),
                )
            ]
        )
