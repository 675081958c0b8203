"""Read-only facts for a handler: its thread, its run, its calls and messages."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

from toolwright.core.agents.agent import Reach, home_thread_id_of
from toolwright.core.checks import brief_value
from toolwright.core.dependencies.scope import Scope
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.space_effects import Source
from toolwright.core.json_value import JSONObject
from toolwright.core.ports import Clock
from toolwright.core.results import ToolResult
from toolwright.core.spaces import Entity
from toolwright.core.state import checks as given
from toolwright.core.state.checks import tool_call
from toolwright.core.text import brief, clean_text
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import QueuedCall
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tenvs_needed import MissingTenvs
from toolwright.core.value import changed
from toolwright.runtime.carried import Carried
from toolwright.runtime.context.commit import Injected
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.execution import RunExecution
from toolwright.runtime.context.record import source_of

MAX_QUEUED = 100


class Facts(Carried):
    """The call, its thread and the active agent."""

    __slots__ = ("_call", "_context")

    _context: RunContext
    _call: Call | None

    @property
    def run_context(self) -> RunContext:
        """The current run's context, for built-in tools."""
        return self._context

    @property
    def thread(self) -> Thread:
        """The thread, for built-in tools."""
        return self._context.thread

    @property
    def deps_run_id(self) -> str | None:
        """The id of the run if it has deps, for built-in tools."""
        run = self._context.run
        return None if run.deps is None else run.id

    @property
    def missing_home_tenvs(self) -> MissingTenvs:
        """The tenvs that the agent's tools require and its home thread cannot provide, for built-in tools."""
        active = self._context.base
        at_home = active is None or self._context.thread.id == home_thread_id_of(self._context.thread.agent)
        return MissingTenvs() if at_home or active is None else active.missing_home_tenvs

    async def reach(self) -> Reach:
        """Return the spaces and memory that the calling agent may reach in this thread, for built-in tools."""
        base = self._context.base
        assert base is not None, "an agent that is not there makes no calls"
        return await self._context.space.reach(base.agent)

    @property
    def clock(self) -> Clock:
        """The clock, for built-in tools."""
        return self._context.clock

    @property
    def dependencies(self) -> Scope:
        """The scope of dependencies that are open in the run, for the executor of functions."""
        return self._context.dependencies

    @property
    def lifespan(self) -> Any:  # whatever the app's lifespan yields
        return self._context.lifespan

    @property
    def thread_id(self) -> str:
        return self._context.thread.id

    @property
    def agent_id(self) -> str:
        return self._context.thread.agent

    @property
    def user_id(self) -> str | None:
        return self._context.thread.user_id

    @property
    def call_id(self) -> str:
        return self.call.id

    @property
    def created_at(self) -> datetime:
        return self._context.thread.created_at

    @property
    def arguments(self) -> JSONObject | None:
        return self._context.thread.arguments

    @property
    def call(self) -> Call:
        """This call, as the parent of calls that it makes. Raises `InvalidRequest` if the state has no call."""
        if self._call is None:
            raise InvalidRequest("Only a tool's handler has a call. Here the state is that of the run.")
        return self._call

    @property
    def author(self) -> Entity | None:
        """The agent as an entity, for built-in tools."""
        return self._context.author

    @property
    def space_id(self) -> str | None:
        """The space that the agent is in, for built-in tools."""
        return self._context.space.space_id

    @property
    def trigger(self) -> JSONObject | None:
        """The space message that the run reads, or None, for built-in tools."""
        return self._context.space.trigger

    @property
    def chain_depth(self) -> int:
        """Depth of the run in a chain of agents, for built-in tools."""
        return self._context.run.chain_depth

    @property
    def source(self) -> Source:
        """The source of the call's effects in spaces, for built-in tools."""
        return source_of(self._context)


class NestedCalls:
    """Makes the calls of a handler. `invoke` calls the tool by name, with its arguments as JSON text; see `make`."""

    def __init__(
        self, invoke: Callable[[str, str, bool], Awaitable[ToolResult]], execution: RunExecution
    ) -> None:
        self._invoke = invoke
        self._execution = execution
        # calls run one after another, because a replay after a crash needs the same order
        self._one = asyncio.Lock()
        self._inside: asyncio.Task[Any] | None = None  # whatever the task returns

    async def make(
        self, name: str, arguments: JSONObject | str | None, *, built_in: bool = False
    ) -> ToolResult:
        """Make the call; a failure is an error result. Raises `InvalidRequest` after the handler's call has ended.

        A `built_in` tool is available to handlers only, even if another tool has its name.
        """
        name, text = tool_call(name, arguments)
        async with self._one:
            self._execution.check()
            self._inside = asyncio.current_task()
            try:
                return await self._invoke(name, text, built_in)
            finally:
                self._inside = None

    async def close(self) -> None:
        """End the unfinished calls of the handler."""
        if self._inside is not None:
            self._inside.cancel()
            async with self._one:  # wait until the cancelled call has released it
                pass

    def queue(self, name: str, arguments: JSONObject | str | None) -> None:
        """Queue a call for the end of the step. Raises `InvalidRequest` for more than 100 of them."""
        name, text = tool_call(name, arguments)
        if len(self._execution.queued) >= MAX_QUEUED:
            raise InvalidRequest(f"A call can queue at most {MAX_QUEUED} tools.")
        self._execution.queued = (*self._execution.queued, QueuedCall(name=name, arguments=text))


Speaker = Literal["user", "assistant"]


class CallMessages:
    """The messages of one call: those that it adds to its thread, and those that it edits."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._injected: dict[str, Injected] = {}
        self._edits: dict[str, str] = {}
        self._unchecked: set[str] = set()  # edited messages that were not read yet

    def messages(self, limit: int, offset: int) -> Sequence[Message]:
        """Return the messages, oldest first, including those that this call has added and edited."""
        given.page(limit, offset)
        return tuple([self._edited(each) for each in self._all()[offset : offset + limit]])

    def message(self, message_id: str) -> Message | None:
        """Return a message, or None if it does not exist."""
        wanted_id = given.text("The id of a message", message_id)
        message = next((each for each in self._all() if each.id == wanted_id), None)
        return None if message is None else self._edited(message)

    def inject(self, content: str, role: str) -> str:
        """Add a message in the name of a user or the agent, with the call's result. Return its id."""
        if role not in get_args(Speaker):
            raise InvalidRequest(
                f"The role of a message must be 'user' or 'assistant', not {brief_value(role)}."
            )
        message_id = self._context.new_id("msg")
        speaker: Speaker = "user" if role == "user" else "assistant"
        text = self._context.redactor.text(clean_text(given.message(content)))
        self._injected[message_id] = Injected(message_id, speaker, text)
        return message_id

    def update(self, message_id: str, content: str) -> None:
        """Change the text of a message, with the call's result."""
        if self.message(message_id) is None:
            if self._context.has_read_all:
                raise _no_message(message_id)
            self._unchecked.add(message_id)
        text = self._context.redactor.text(clean_text(given.text("A message", content)))
        injected = self._injected.get(message_id)
        if injected is None:
            self._edits[message_id] = text
        else:
            self._injected[message_id] = changed(injected, content=text)

    async def check(self) -> None:
        """Read the edited messages that a compacted conversation leaves out. Raises `NotFound` for unknown ones."""
        if not self._unchecked:
            return
        await self._context.read_all()
        for message_id in self._unchecked:
            if self.message(message_id) is None:
                del self._edits[message_id]
                raise _no_message(message_id)

    @property
    def injected(self) -> list[Injected]:
        """The messages added to the call's result."""
        return [*self._injected.values()]

    @property
    def edits(self) -> list[Message]:
        """The edited messages."""
        messages = [self.message(each) for each in self._edits]
        return [each for each in messages if each is not None]

    def _all(self) -> list[Message]:
        """Return the messages, including those added by this call, which have no position yet."""
        stored = self._context.all_messages
        if not self._injected:
            return stored
        ids = {each.id for each in stored}  # messages of a finished call are stored already
        return [
            *stored,
            *[
                injected_message(self._context, each)
                for each in self._injected.values()
                if each.id not in ids
            ],
        ]

    def _edited(self, message: Message) -> Message:
        content = self._edits.get(message.id)
        if content is None:
            return message
        return changed(message, content=content, native=None, reasoning=None, reasoning_shared=False)


def _no_message(message_id: str) -> NotFound:
    return NotFound(f"There is no message {brief(repr(message_id), 200)} in this thread.")


def injected_message(context: RunContext, injected: Injected, seq: int | None = None) -> Message:
    """Return an injected message with its position, if it has one."""
    return Message(
        id=injected.id,
        role=injected.role,
        content=injected.content,
        seq=seq,
        run_id=context.run.id,
        step=context.run.step_count,
        side=context.side if injected.role == "assistant" else None,
        created_at=context.clock.now(),
    )
