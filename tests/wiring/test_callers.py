"""Context variables: a run of `tw.run` is executed in its caller's context, any other run in an empty one."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import Annotated, Any, TypeAlias
from weakref import WeakKeyDictionary

import pytest
from pydantic import AfterValidator, BaseModel

import toolwright as tw
from tests.kit import send_to
from toolwright import testing
from toolwright.core.threads.message import Message

pytestmark = pytest.mark.anyio

USER: ContextVar[str] = ContextVar("user", default="nobody")
PEOPLE = ("ada", "bob", "cy", "dee", "eve", "fay")
Seen: TypeAlias = dict[str, dict[str, str]]
Door: TypeAlias = Callable[[tw.App, str], Awaitable[object]]


class Noting:
    """An app whose parts note which user they see, by the person who sent the message."""

    def __init__(self) -> None:
        self.seen: Seen = {}
        in_thread = self._sync_tool()
        child = tw.Agent(
            "child",
            tool_description="Looks.",
            model=testing.FunctionModel(self._turns("child's model", "look_in_thread")),
            tools=[in_thread],
        )
        parent = tw.Agent(
            "parent",
            model=testing.FunctionModel(self._turns("model", "look", "look_in_thread", "child")),
            tools=[self._async_tool(), in_thread, child.as_tool()],
            output=self._output(),
        )
        self.app = tw.App(agents=[parent, child])

    def note(self, sender: str, where: str) -> str:
        self.seen.setdefault(sender, {})[where] = USER.get()
        return sender

    def _async_tool(self) -> tw.Tool:
        def validated(sender: str) -> str:
            return self.note(sender, "validator")

        def current_user() -> str:
            return USER.get()

        @tw.tool
        async def look(
            sender: Annotated[str, AfterValidator(validated)], user: Annotated[str, tw.Depends(current_user)]
        ) -> str:
            """Look."""
            self.seen[sender]["dependency"] = user
            await asyncio.sleep(0)
            return self.note(sender, "async tool")

        return look

    def _sync_tool(self) -> tw.Tool:
        @tw.tool
        def look_in_thread(sender: str) -> str:
            """Look."""
            return self.note(sender, "sync tool")

        return look_in_thread

    def _output(self) -> type[BaseModel]:
        def checked(sender: str) -> str:
            return self.note(sender, "output")

        class Output(BaseModel):
            sender: Annotated[str, AfterValidator(checked)]

        return Output

    def _turns(self, where: str, *names: str) -> Callable[[Sequence[Message]], dict[str, Any]]:
        def turn(messages: Sequence[Message]) -> dict[str, Any]:
            sender = self.note(messages[0].content, where)
            if any(message.role == "tool" for message in messages):
                return {"text": f'{{"sender": "{sender}"}}'}
            return {"calls": [{"name": each, "args": _arguments(each, sender)} for each in names]}

        return turn


def _arguments(tool: str, sender: str) -> dict[str, Any]:
    return {"message": sender} if tool == "child" else {"sender": sender}


PLACES = {"model", "child's model", "validator", "dependency", "async tool", "sync tool", "output"}


async def by_run(app: tw.App, user: str) -> None:
    await tw.run("parent", user, app=app)


async def by_stream(app: tw.App, user: str) -> None:
    async with tw.stream("parent", user, app=app) as stream:
        async for _ in stream:
            pass


async def in_a_thread(app: tw.App, user: str) -> None:
    await asyncio.to_thread(lambda: tw.run_sync("parent", user, app=app))


async def as_a_plain_loop(app: tw.App, user: str) -> None:
    await asyncio.to_thread(lambda: [*tw.stream("parent", user, app=app)])


@pytest.mark.parametrize("door", [by_run, by_stream, in_a_thread, as_a_plain_loop])
async def test_callers_at_once_each_see_their_own_values_everywhere_in_their_run(door: Door) -> None:
    noting = Noting()

    async def call(user: str) -> None:
        USER.set(user)
        await door(noting.app, user)

    await asyncio.gather(*[asyncio.create_task(call(user)) for user in PEOPLE])
    assert noting.seen == {user: dict.fromkeys(PLACES, user) for user in PEOPLE}


async def test_a_request_is_executed_in_the_context_of_its_caller() -> None:
    seen: Seen = {}

    def turn(messages: Sequence[Message]) -> dict[str, Any]:
        seen[messages[-1].content[-3:]] = {"model": USER.get()}
        return {"text": '{"calls": [], "output": {}}'}

    async with testing.runtime(tw.App(), model=testing.FunctionModel(turn)) as rt:

        async def ask(user: str) -> None:
            USER.set(user)
            await rt.request({}, {"type": "object"}, user)

        await asyncio.gather(*[asyncio.create_task(ask(user)) for user in ("ada", "bob")])
    assert {values["model"] for values in seen.values()} == {"ada", "bob"}


async def test_a_message_sent_to_a_runtime_is_processed_in_an_empty_context() -> None:
    noting = Noting()
    USER.set("the one who has opened the runtime")
    async with noting.app.runtime(tw.Settings(database_url="memory://")) as rt:

        async def send(user: str) -> None:
            USER.set(user)
            run = await send_to(rt, "parent", user)
            await rt.runs.wait(run.id, 20)

        await asyncio.gather(*[asyncio.create_task(send(user)) for user in PEOPLE])
    assert noting.seen == {user: dict.fromkeys(PLACES, "nobody") for user in PEOPLE}


async def test_a_run_that_outlives_its_caller_no_longer_sees_their_values() -> None:
    called, may_answer, seen = asyncio.Event(), asyncio.Event(), list[str]()

    async def turn(messages: Sequence[Message]) -> dict[str, Any]:
        seen.append(USER.get())
        if messages[-1].content == "Wait.":
            called.set()
            await may_answer.wait()
        return {"text": "Done."}

    agent = tw.Agent("slow", model=testing.FunctionModel(turn))
    async with tw.App(agents=[agent]).runtime(tw.Settings(database_url="memory://")) as rt:
        thread = await rt.threads.create("slow")

        async def call() -> None:
            USER.set("ada")
            with rt.calling(thread.id):
                await rt.threads.send(thread.id, "Wait.")
                await called.wait()

        await asyncio.create_task(call())
        may_answer.set()
        await rt.threads.send(thread.id, "Hello again.")
        run = await rt.threads.send(thread.id, "And again.")
        await rt.runs.wait(run.id, 20)
        later = await rt.threads.send(thread.id, "Later.")
        await rt.runs.wait(later.id, 20)
    assert (seen[0], seen[-1]) == ("ada", "nobody")


async def test_no_task_that_outlives_a_caller_has_their_values() -> None:
    """The class of the fault: background tasks inherit the context of the caller that happens to start them."""
    loop, contexts = asyncio.get_running_loop(), WeakKeyDictionary[asyncio.Task[Any], Context]()

    def make(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        given = options.get("context")
        contexts[task] = copy_context() if given is None else given
        return task

    noting, first, second = Noting(), asyncio.Event(), asyncio.Event()

    async def call(user: str) -> None:
        USER.set(user)
        async with tw.stream("parent", user, app=noting.app) as stream:
            await stream.result()
            (first if user == "ada" else second).set()
            await (second if user == "ada" else asyncio.Event()).wait()

    loop.set_task_factory(make)  # pyright: ignore[reportArgumentType]  # asyncio passes coroutines only
    ada = asyncio.create_task(call("ada"))
    await first.wait()
    bob = asyncio.create_task(call("bob"))
    await ada
    gc.collect()
    left = {
        task.get_name()
        for task, context in contexts.items()
        if context.get(USER) == "ada" and not task.done()
    }
    bob.cancel()
    loop.set_task_factory(None)
    assert left == set()
    assert any(task.get_name() == "toolwright-motor" for task in contexts)
