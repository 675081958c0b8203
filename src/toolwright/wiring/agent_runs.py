"""Run of an agent, from its message to its result: `tw.run`, `tw.run_sync`, `tw.stream`."""

import asyncio
import inspect
import os
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, aclosing, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import NoneType, TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeAlias, TypeVar, cast

from toolwright.core import errors
from toolwright.core.agents.agent import Agent, Deps, Out
from toolwright.core.agents.prompt import Env
from toolwright.core.agents.run_result import CallWaiting, RunDone, RunEvent, RunResult, TextDelta
from toolwright.core.checks import brief_value, is_number
from toolwright.core.concurrency import DaemonThreads, within
from toolwright.core.json_value import JSON
from toolwright.core.results import Attachment, ToolResult
from toolwright.core.threads.approval import terms_from_json
from toolwright.core.threads.call import Call
from toolwright.core.value import changed
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.threads.runs import OpenWait
from toolwright.wire.call import arguments_json
from toolwright.wiring.app import App
from toolwright.wiring.settings import MEMORY, PREFIX, Settings
from toolwright.wiring.shared_runtimes import CANCEL_PATIENCE, BackgroundLoop, Owner, shared_runtime

Approval: TypeAlias = bool | Mapping[str, JSON]
Approve: TypeAlias = Callable[[CallWaiting], Approval | Awaitable[Approval]]
"""Function that decides on a call waiting for approval. Returns True, False, or `{approved, args?, reason?}`."""


MAX_REJECTED = 3
"""Number of rejected answers of `approve` to one call after which the run's caller gets the error."""
_P = ParamSpec("_P")
_R = TypeVar("_R")
_APPROVAL = "approval"


def check_approve(approve: object) -> None:
    """Raise `InvalidRequest` unless `approve` is None or callable."""
    if approve is not None and not callable(approve):
        raise errors.InvalidRequest(
            f"approve must be a function that takes the waiting call, not {brief_value(approve)}."
        )


def _waiting(call: Call, reason: str) -> CallWaiting:
    why = terms_from_json(call.terms).why if call.awaits_approval else None
    return CallWaiting(call.id, call.name, arguments_json(call.arguments), reason, why=why)


async def ask_approval(approve: Approve, call: CallWaiting) -> JSON:
    """Call `approve` with a call that waits for an approval, in a thread if it is not async; return its answer.

    Exceptions of `approve` are raised. Raises `InvalidRequest` if the answer has the wrong form.
    """
    if inspect.iscoroutinefunction(approve):
        answer = await approve(call)
    else:
        # A prompt that no one answers must not delay the end of the program.
        threads = DaemonThreads(1, "toolwright-approve")
        context = copy_context()
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(threads, lambda: context.run(approve, call))
        answer = await answer if inspect.isawaitable(answer) else answer
    return _read(answer, call.name)


async def first_done(*works: Coroutine[Any, Any, object]) -> None:
    """Wait until the first coroutine has ended, and cancel the others. Raises the error of the first."""
    tasks = [asyncio.ensure_future(each) for each in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _read(answer: object, name: str) -> JSON:
    if isinstance(answer, bool):
        return {"approved": answer}
    if isinstance(answer, Mapping):
        return {**answer}  # pyright: ignore[reportUnknownVariableType]  # validated on submission
    raise errors.InvalidRequest(
        f"approve must return True, False or {{approved, args?, reason?}} for {name!r}, "
        f"not {brief_value(answer)}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """A run to execute: its agent, message, settings and thread."""

    owner: Owner
    agent: str
    content: str
    settings: Settings
    thread_id: str | None
    model: object | None
    attachments: Sequence[Attachment]
    approve: Approve | None
    deps: object
    values: Mapping[str, Any] = field(repr=False)  # of a new thread


class AgentStream(Generic[Out]):
    """A run in progress: `async for event in stream` within its block, and `await stream.result()`.

    `thread_id` and `run_id` are set within the block. Leaving the block before the run has ended cancels the run.
    """

    def __init__(self, order: _Order) -> None:
        self._order = order
        self._stack = AsyncExitStack()
        self._runtime: Runtime | None = None
        self._result: RunResult[Out] | None = None
        self._is_sync = False
        self._reported: set[tuple[str, str]] = set()  # reported calls, each with its reason
        self._runs_below: dict[str, str] = {}  # runs of children, by the calls that wait for them
        self.thread_id = ""
        self.run_id = ""

    async def __aenter__(self) -> Self:
        order = self._order
        async with AsyncExitStack() as stack:
            shared = shared_runtime(order.owner, order.settings, order.model, order.thread_id)
            runtime, keep = await stack.enter_async_context(shared)
            self._runtime = runtime
            self.thread_id = await _thread(runtime, order)
            await keep(self.thread_id)
            stack.enter_context(runtime.calling(self.thread_id))
            run = await runtime.threads.send(self.thread_id, order.content, order.attachments, order.deps)
            self.run_id = run.id
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._stack:
            if self._result is None:
                await asyncio.shield(asyncio.ensure_future(self._cancel()))

    async def __aiter__(self) -> AsyncGenerator[RunEvent]:
        """Yield the events of the run, from its beginning; the last one is `RunDone`.

        Raises `RunFailed` after the last event if the run has failed or was cancelled. With the journal in memory,
        raises `InvalidRequest` if the run waits for input that no other process can provide: the answer to a
        `CallWaiting` that was not answered, or missing variables.
        """
        async with aclosing(self._events()) as events:
            async for event in events:
                if isinstance(event, RunDone):
                    self._result = await self._with_files(event.result)
                    yield RunDone(self._result)
                else:
                    yield event
        _succeeded(await self.result())

    def __iter__(self) -> Iterator[RunEvent]:
        """Yield all events in sync code, without a block: `for event in tw.stream(agent, "…")`.

        The agent runs in the thread that `run_sync` uses. Raises the same errors as `async for`.
        """
        self._is_sync = True
        return _BACKGROUND.iterate(self._whole())

    async def _whole(self) -> AsyncGenerator[RunEvent]:
        async with self:
            async for event in self:
                yield event

    async def _events(self) -> AsyncGenerator[RunEvent]:
        """Yield the run's events, each wait of a call only once."""
        async with aclosing(self._open.runs.stream(self.run_id)) as recorded:
            events = self._with_waits(recorded) if self._is_watched else recorded
            async with aclosing(events):
                async for event in events:
                    if not isinstance(event, CallWaiting):
                        yield event
                    elif (event.call_id, event.reason) not in self._reported:
                        self._reported.add((event.call_id, event.reason))
                        yield event

    async def _with_waits(self, events: AsyncGenerator[RunEvent]) -> AsyncGenerator[RunEvent]:
        """Yield the events. Waits that only a child's run reports are reported too, then answered or raised."""
        event: asyncio.Future[RunEvent | None] | None = None
        wait: asyncio.Future[OpenWait | None] | None = None
        try:
            while True:
                event = event or asyncio.ensure_future(anext(events, None))
                wait = wait or asyncio.ensure_future(self._next_wait())
                await asyncio.wait((event, wait), return_when=asyncio.FIRST_COMPLETED)
                if event.done() or (open_wait := wait.result()) is None:  # None: the run has finished
                    if (happened := await event) is None:
                        return
                    event = None
                    yield happened
                    if isinstance(happened, TextDelta) and not wait.done():
                        continue
                elif (reported := self._report(open_wait)) is not None:
                    yield reported
                else:
                    await self._answer(open_wait)
                wait.cancel()  # the wait can have been answered in the meantime: look again
                wait = None
        finally:
            await _cancelled(*[each for each in (event, wait) if each is not None])

    def _report(self, wait: OpenWait) -> CallWaiting | None:
        """Return the event of a waiting call, or None if it was reported before or no call waits."""
        if wait.call is None or (wait.call.id, wait.reason) in self._reported:
            return None
        self._runs_below[wait.call.id] = wait.run_id
        return _waiting(wait.call, wait.reason)

    async def _next_wait(self) -> OpenWait | None:
        """Return the next wait that has to be answered here, or None once the run has finished."""
        _, wait = await self._open.runs.wait_for_input(self.run_id, self._can_others_answer)
        return wait

    def _can_others_answer(self, wait: OpenWait) -> bool:
        """Return whether other processes can answer: on a database, everything but approvals given by `approve`."""
        return not self._is_in_memory and not (self._order.approve and wait.reason == _APPROVAL)

    async def _answer(self, wait: OpenWait) -> None:
        """Answer the wait with `approve`. Raises `InvalidRequest` if no one can answer it in this process."""
        approve, call = self._order.approve, wait.call
        if approve is None or call is None or wait.reason != _APPROVAL:
            raise errors.InvalidRequest(_unanswered(wait))

        waiting = _waiting(call, wait.reason)
        await first_done(self._open.runs.wait(self.run_id), self._ask(approve, waiting, wait.run_id))

    async def _ask(self, approve: Approve, waiting: CallWaiting, run_id: str) -> None:
        """Submit the answer of `approve`. An answer that the call rejects, such as invalid `args`, is asked for again.

        Raises `InvalidRequest` if the call rejects three answers; it is still open then.
        """
        details: list[dict[str, str]] = []
        for _ in range(MAX_REJECTED):
            answer = await ask_approval(approve, waiting)
            try:
                with suppress(errors.AlreadyOver, errors.CallExpired):  # answered elsewhere, or too late
                    await self._open.calls.submit(run_id, waiting.call_id, answer)
                return
            except (errors.InvalidRequest, errors.InvalidJSON) as error:
                waiting = replace(waiting, error=error.message)
                details = error.details if isinstance(error, errors.InvalidRequest) else []
        raise errors.InvalidRequest(
            f"approve gave no valid answer for the call {waiting.name!r}: {waiting.error}", details
        )

    @property
    def _is_in_memory(self) -> bool:
        return self._order.settings.database_url.startswith(MEMORY)

    @property
    def _is_watched(self) -> bool:
        return self._is_in_memory or self._order.approve is not None

    async def result(self) -> RunResult[Out]:
        """Wait for the end of the run and return its result. Raises `RunFailed` if it failed or was cancelled."""
        if self._result is None:
            await self._open.runs.wait(self.run_id)
            self._result = await self._with_files(await self._open.runs.result(self.run_id))
        return _succeeded(self._result)

    async def _with_files(self, result: RunResult[Any]) -> RunResult[Out]:
        """Return the result with the bytes of its files if the journal is in memory."""
        paths = {ref.path for message in result.messages for ref in message.attachments}
        if not paths or not self._is_in_memory:
            return result
        files: dict[str, bytes] = {}
        for path in sorted(paths):
            with suppress(errors.NotFound):  # a handler has deleted it
                files[path] = await self._open.files.read(self.thread_id, path)
        return changed(result, files=files)

    async def finished(self) -> RunResult[Out]:
        """Return the result without reading the events. Raises the same errors as `async for`."""
        while self._is_watched and (wait := await self._next_wait()) is not None:
            await self._answer(wait)
        return await self.result()

    def submit(self, call_id: str, result: JSON | ToolResult) -> Awaitable[None]:
        """Submit the result of a waiting call, such as an answer or an approval.

        Await it in async code; in a plain `for` loop the result is submitted when it returns. Raises `NotFound`,
        `CallResolved`, `CallExpired`, `CallCancelled`, `InvalidRequest`; in that case nothing has changed.
        """
        runtime, run_id = self._open, self._runs_below.get(call_id, self.run_id)
        if not self._is_sync:
            return _submitted(runtime, run_id, call_id, result)
        _BACKGROUND.wait(lambda: _submitted(runtime, run_id, call_id, result))
        return _Done()

    @property
    def _open(self) -> Runtime:
        if self._runtime is None:
            raise errors.InvalidRequest(
                "A stream must be used within its block: async with tw.stream(…) as stream."
            )
        return self._runtime

    async def _cancel(self) -> None:
        """Cancel the run if it has not finished, because no caller waits for it."""
        with suppress(errors.AlreadyOver, errors.NotFound, TimeoutError):
            await self._open.runs.cancel(self.run_id)
            await self._open.runs.wait(self.run_id, CANCEL_PATIENCE)


def stream(
    agent: Agent[Out, Deps] | str,
    content: str,
    *,
    thread: str | None = None,
    app: App | None = None,
    database_url: str | None = None,
    settings: Settings | None = None,
    attachments: Sequence[Attachment] = (),
    user_id: str | None = None,
    env: Env | None = None,
    tenvs: Mapping[str, JSON] | None = None,
    messages: Sequence[object] | None = None,
    model: str | object | None = None,
    approve: Approve | None = None,
    deps: Deps | None = None,
) -> AgentStream[Out]:
    """Run an agent and follow it: `async with tw.stream(agent, "…") as stream: async for event in stream`.

    Sync code iterates over it without a block: `for event in tw.stream(agent, "…")`. Takes the arguments of `run`.
    Calls that wait for an approval are answered by `approve`, all others in the loop with `stream.submit`. With the
    journal in memory, an unanswered call ends the stream with `InvalidRequest`. A failed run raises `RunFailed` after
    its last event.
    """
    check_approve(approve)
    values = {
        name: each
        for name, each in (("user_id", user_id), ("env", env), ("tenvs", tenvs), ("messages", messages))
        if each is not None
    }
    if thread is not None and values:
        raise errors.InvalidRequest(
            f"{next(iter(values))}= is only allowed with a new thread. Leave it out, because {thread!r} exists already."
        )
    return AgentStream(
        _Order(
            owner=_owner(agent, app),
            agent=agent if isinstance(agent, str) else agent.id,
            content=content,
            settings=_settings(database_url, settings),
            thread_id=thread,
            model=model,
            attachments=attachments,
            approve=approve,
            deps=deps,
            values=values,
        )
    )


async def run(
    agent: Agent[Out, Deps] | str,
    content: str,
    *,
    thread: str | None = None,
    app: App | None = None,
    database_url: str | None = None,
    settings: Settings | None = None,
    attachments: Sequence[Attachment] = (),
    user_id: str | None = None,
    env: Env | None = None,
    tenvs: Mapping[str, JSON] | None = None,
    messages: Sequence[object] | None = None,
    model: str | object | None = None,
    timeout: float | None = None,
    approve: Approve | None = None,
    deps: Deps | None = None,
) -> RunResult[Out]:
    """Send an agent a message and wait for the result: `(await tw.run(agent, "…")).output`.

    Starts a new conversation, or continues `thread`, the `thread_id` of an earlier result. Without `database_url` or
    `settings` the journal is in memory, as long as the agent and the event loop exist. `app` has the other agents that
    the agent calls; with it, the agent can be given by name. `model` overrides the agent's model. `user_id`, `env` and
    `tenvs` are set on a new thread, which continues `messages`, a conversation from elsewhere (see
    `Runtime.threads.create`). `approve` is called with each call that waits for an approval (a `CallWaiting`), in
    a thread unless it is async, and returns True, False, or `{approved, args?, reason?}`. After an answer that the call
    rejects it is called again, with the reason in the call's `error`. `deps` is a value of the type that the agent
    declares, which tools read as `state.deps`; it is stored with the run. Without it, a run in an existing thread has
    the deps of the run before it.

    Raises `InvalidRequest` if a run with its journal in memory waits for an approval or values that cannot arrive; the
    run is cancelled. Raises `RunFailed` if the run failed or was cancelled, `TimeoutError` if it has not finished
    within `timeout` seconds. The run is cancelled on a timeout, or if the awaiting task is cancelled.
    """
    running = stream(
        agent,
        content,
        thread=thread,
        app=app,
        database_url=database_url,
        settings=settings,
        attachments=attachments,
        user_id=user_id,
        env=env,
        tenvs=tenvs,
        messages=messages,
        model=model,
        approve=approve,
        deps=deps,
    )
    if timeout is not None and not (is_number(timeout) and timeout > 0):
        raise errors.InvalidRequest(
            f"timeout must be a positive number of seconds, not {brief_value(timeout)}."
        )
    late = f"The run did not finish within {timeout} seconds and was cancelled."
    async with within(timeout, late), running:
        return await running.finished()


def _called_like(
    _: Callable[_P, Awaitable[_R]],
) -> Callable[[Callable[..., object]], Callable[_P, _R]]:
    """Return a decorator that gives a function the parameters of another one."""
    return lambda function: cast("Callable[_P, _R]", function)


@_called_like(run)
def run_sync(agent: Agent | str, content: str, **options: Any) -> object:  # as `run`
    """Run an agent from sync code, even if an event loop is running, as in a notebook.

    Takes the arguments of `run`. The agent's tools run in a separate thread, whose event loop all calls of `run_sync`
    share.
    """
    return _BACKGROUND.wait(partial(run, agent, content, **options))


def _unanswered(wait: OpenWait) -> str:
    """Return the error message of a run that waits for input that no one can provide."""
    if wait.call is None:
        return f"The run waits for missing variables. Pass env={{…}} with {', '.join(wait.missing)}."
    if wait.reason == _APPROVAL:
        return "The run waits for an approval. Pass approve=, or a database_url so that another process can answer it."
    return (
        "The run waits for a person's answer to a question, which approve does not get. Use tw.stream and answer its "
        "CallWaiting event with stream.submit(…), or pass a database_url so that another process can answer it."
    )


async def _submitted(runtime: Runtime, run_id: str, call_id: str, result: JSON | ToolResult) -> None:
    await runtime.calls.submit(run_id, call_id, result)


async def _cancelled(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel the tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Done:
    """Awaitable that is already done."""

    def __await__(self) -> Generator[None]:
        return
        yield


async def _thread(runtime: Runtime, order: _Order) -> str:
    """Return the thread of the run; create it if none is given."""
    if order.thread_id is None:
        return (await runtime.threads.create(order.agent, **order.values)).id
    thread = await runtime.threads.get(order.thread_id)
    agent = await runtime.agents.get(order.agent)
    if thread.agent != agent.id:
        raise errors.InvalidRequest(
            f"The thread {thread.id!r} is not a conversation with the agent {agent.name!r}."
        )
    return thread.id


def _owner(agent: object, app: object) -> Owner:
    """Return the owner of the catalog: the app, or the agent alone."""
    if not isinstance(app, App | NoneType):
        raise errors.DefinitionError(f"app= must be a toolwright.App, not {brief_value(app)}.")
    if app is None and not isinstance(agent, Agent):
        raise errors.DefinitionError(
            f"agent must be a tw.Agent, or the name of an agent of app=, not {brief_value(agent)}."
        )
    if app is not None and isinstance(agent, Agent) and agent not in app.catalog.agents:
        raise errors.DefinitionError(f"The agent {agent.name!r} is not in the app.")
    return app if app is not None else agent  # type: ignore[return-value]  # as just checked


def _settings(database_url: str | None, settings: Settings | None) -> Settings:
    """Return the given settings, or the environment's settings with the journal in memory."""
    if not isinstance(settings, Settings | NoneType):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise errors.DefinitionError(f"settings= must be toolwright.Settings, not {brief_value(settings)}.")
    if settings is None:
        variables = [(name, each) for name, each in os.environ.items() if name.upper().startswith(PREFIX)]
        return _environment_settings(database_url or MEMORY, frozenset(variables))
    if database_url is not None:
        raise errors.InvalidRequest("Give either database_url= or settings=, not both.")
    return settings


@lru_cache(maxsize=16)
def _environment_settings(database_url: str, variables: frozenset[tuple[str, str]]) -> Settings:
    """Return the settings of an environment with these variables. Cached: parsing takes longer than a run in memory."""
    return Settings(database_url=database_url)


def _succeeded(result: RunResult[Out]) -> RunResult[Out]:
    if result.status in ("failed", "cancelled"):
        raise errors.RunFailed(result.error or f"The run was {result.status}.", result)
    return result


_BACKGROUND = BackgroundLoop()
