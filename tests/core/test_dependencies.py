"""Dependencies of tools that are called without a runtime: values, clean-up, rejected declarations."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from toolwright import testing
from toolwright.core.errors import DefinitionError

pytestmark = pytest.mark.anyio


class Pool:
    """An open resource."""

    def __init__(self, name: str = "pool") -> None:
        self.name = name


@contextlib.asynccontextmanager
async def context_manager() -> AsyncGenerator[Pool]:
    yield Pool("context manager")


class Opener:
    """A callable object."""

    async def __call__(self) -> Pool:
        return Pool("object")

    def method(self) -> Pool:
        return Pool("method")


def plain() -> Pool:
    assert threading.current_thread() is not threading.main_thread()
    return Pool("plain")


async def on_loop() -> Pool:
    assert threading.current_thread() is threading.main_thread()
    return Pool("async")


def generator() -> Iterator[Pool]:
    assert threading.current_thread() is not threading.main_thread()
    yield Pool("generator")


async def async_generator() -> AsyncIterator[Pool]:
    yield Pool("async generator")


def named(name: str) -> Pool:
    return Pool(name)


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (plain, "plain"),
        (on_loop, "async"),
        (generator, "generator"),
        (async_generator, "async generator"),
        (context_manager, "context manager"),
        (Opener(), "object"),
        (Opener().method, "method"),
        (Pool, "pool"),
        (partial(named, name="partial"), "partial"),
        (lambda: Pool("lambda"), "lambda"),
    ],
)
async def test_a_function_of_any_form_gives_the_value_to_tools_of_both_forms(
    fn: Callable[..., object], name: str
) -> None:
    @tw.tool(description="Async.")
    async def later(pool: Annotated[Pool, tw.Depends(fn)], word: str) -> str:
        return f"{pool.name} {word}"

    @tw.tool(description="Sync.")
    def now(word: str, pool: Annotated[Pool, tw.Depends(fn)]) -> str:
        return f"{pool.name} {word}"

    tools = tw.Toolset([later, now])
    for each in ("later", "now"):
        result = await tools.call(each, {"word": "hi"})
        assert (result.status, result.result, result.error) == ("success", f"{name} hi", None)
    tools.close()


def test_a_dependency_is_no_part_of_the_schema() -> None:
    @tw.tool(description="Finds.")
    async def find(query: str, pool: Annotated[Pool, tw.Depends(plain)]) -> str:
        return query

    assert find.parameters == {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
        "additionalProperties": False,
    }
    assert not find.stands_alone


async def test_what_a_model_gives_under_the_name_of_a_dependency_is_not_taken() -> None:
    @tw.tool(description="Finds.")
    async def find(query: str, pool: Annotated[Pool, tw.Depends(on_loop)]) -> str:
        return pool.name

    result = await tw.Toolset([find]).call("find", {"query": "a", "pool": "mine"})
    assert result.error == "Invalid arguments: pool: is not a known argument."


async def test_a_dependency_stands_beside_state_defaults_and_a_model_of_arguments() -> None:
    class Query(BaseModel):
        text: str

    @tw.tool(description="Finds.", args=Query)
    async def find(state: tw.ThreadState, query: Query, pool: Annotated[Pool, tw.Depends(on_loop)]) -> str:
        return f"{state.thread_id} {query.text} {pool.name}"

    @tw.tool
    async def count(pool: Annotated[Pool, tw.Depends(on_loop)], times: int = 2) -> str:
        """Counts.

        Args:
            pool: The pool.
            times: How often.
        """
        return pool.name * times

    tools = tw.Toolset([find, count])
    assert (await tools.call("find", {"text": "a"}, testing.MemoryState(thread_id="t"))).result == "t a async"
    assert (await tools.call("count", {})).result == "asyncasync"
    assert await count(Pool("x"), 3) == "xxx"  # called as a plain function


async def test_dependencies_take_the_state_and_others_and_one_value_serves_a_call() -> None:
    opened: list[str] = []

    async def settings(state: tw.ThreadState) -> str:
        opened.append("settings")
        return state.thread_id

    def pool(where: Annotated[str, tw.Depends(settings)], size: int = 3) -> str:
        opened.append("pool")
        return f"{where}/{size}"

    @tw.tool(description="Finds.")
    async def find(
        one: Annotated[str, tw.Depends(pool)],
        two: Annotated[str, tw.Depends(pool)],
        where: Annotated[str, tw.Depends(settings)],
    ) -> str:
        return f"{one} {two} {where}"

    tools = tw.Toolset([find])
    state = testing.MemoryState(thread_id="t")
    assert (await tools.call("find", {}, state)).result == "t/3 t/3 t"
    assert opened == ["settings", "pool"]
    await tools.call("find", {}, state)
    assert opened == ["settings", "pool"] * 2  # outside a run, one value per call
    tools.close()


async def test_values_are_cleaned_up_after_the_call_the_last_one_first_also_when_the_tool_fails() -> None:
    said: list[str] = []

    async def first() -> AsyncIterator[str]:
        said.append("open first")
        yield "1"
        said.append("close first")

    def second(before: Annotated[str, tw.Depends(first)]) -> Iterator[str]:
        said.append("open second")
        try:
            yield before + "2"
        finally:
            said.append("close second")

    @tw.tool(description="Fails.")
    async def fail(both: Annotated[str, tw.Depends(second)]) -> str:
        said.append(both)
        raise LookupError("no")

    result = await tw.Toolset([fail]).call("fail", {})
    assert result.status == "error"
    assert said == ["open first", "open second", "12", "close second", "close first"]


def fails_plain() -> Pool:
    raise LookupError("no pool today")


async def fails_async() -> Pool:
    raise LookupError("no pool today")


def fails_generator() -> Iterator[Pool]:
    raise LookupError("no pool today")
    yield Pool()


async def fails_async_generator() -> AsyncIterator[Pool]:
    raise LookupError("no pool today")
    yield Pool()


async def exits() -> Pool:
    raise SystemExit("no pool today")


@pytest.mark.parametrize("fn", [fails_plain, fails_async, fails_generator, fails_async_generator, exits])
async def test_a_dependency_that_raises_makes_the_call_an_error_as_a_handler_does(
    fn: Callable[..., object],
) -> None:
    @tw.tool(description="Finds.")
    async def find(pool: Annotated[Pool, tw.Depends(fn)]) -> str:
        return pool.name

    result = await tw.Toolset([find]).call("find", {})
    assert result.status == "error"
    assert result.error is not None
    assert "no pool today" in result.error
    assert result.stack is not None
    assert fn.__name__ in result.stack


async def yields_nothing() -> AsyncIterator[Pool]:
    if threading.active_count() < 0:
        yield Pool()


def yields_nothing_sync() -> Iterator[Pool]:
    if threading.active_count() < 0:
        yield Pool()


@pytest.mark.parametrize("fn", [yields_nothing, yields_nothing_sync])
async def test_a_generator_that_yields_no_value_is_an_error(fn: Callable[..., object]) -> None:
    @tw.tool(description="Finds.")
    async def find(pool: Annotated[Pool, tw.Depends(fn)]) -> str:
        return pool.name

    result = await tw.Toolset([find]).call("find", {})
    assert result.error is not None
    assert f"The dependency '{fn.__name__}' yielded no value" in result.error


async def closes_badly() -> AsyncIterator[Pool]:
    yield Pool()
    raise LookupError("it would not close")


def closes_badly_sync() -> Iterator[Pool]:
    yield Pool()
    raise LookupError("it would not close")


async def yields_twice() -> AsyncIterator[Pool]:
    yield Pool()
    yield Pool("second")


def yields_twice_sync() -> Iterator[Pool]:
    yield Pool()
    yield Pool("second")


@pytest.mark.parametrize(
    ("fn", "logged"),
    [
        (closes_badly, "The clean-up of the dependency 'closes_badly' failed"),
        (closes_badly_sync, "The clean-up of the dependency 'closes_badly_sync' failed"),
        (yields_twice, "The dependency 'yields_twice' yields twice"),
        (yields_twice_sync, "The dependency 'yields_twice_sync' yields twice"),
    ],
)
async def test_a_failing_clean_up_is_logged_and_changes_no_result(
    fn: Callable[..., object], logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    @tw.tool(description="Finds.")
    async def find(pool: Annotated[Pool, tw.Depends(fn)]) -> str:
        return pool.name

    with caplog.at_level(logging.ERROR):
        result = await tw.Toolset([find]).call("find", {})
    assert (result.status, result.result) == ("success", "pool")
    assert [record.getMessage().startswith(logged) for record in caplog.records] == [True]


@pytest.mark.idle_clock
async def test_a_clean_up_that_hangs_is_cancelled_logged_and_changes_no_result(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: list[str] = []

    async def hangs() -> AsyncIterator[Pool]:
        yield Pool()
        try:
            await asyncio.Event().wait()
        finally:
            said.append("cancelled")

    @tw.tool(description="Finds.")
    async def find(pool: Annotated[Pool, tw.Depends(hangs)]) -> str:
        return pool.name

    result = await tw.Toolset([find]).call("find", {})
    assert (result.result, said) == ("pool", ["cancelled"])
    assert "The clean-up of the dependency 'hangs' took more than 10 s" in caplog.text


@pytest.mark.idle_clock
async def test_a_dependency_that_hangs_is_under_the_timeout_of_the_call() -> None:
    said: list[str] = []

    async def hangs() -> AsyncIterator[Pool]:
        try:
            await asyncio.Event().wait()
            yield Pool()
        finally:
            said.append("given up")

    @tw.tool(description="Finds.", timeout=5.0)
    async def find(pool: Annotated[Pool, tw.Depends(hangs)]) -> str:
        return pool.name

    result = await tw.Toolset([find]).call("find", {})
    assert (result.error_code, result.error) == ("timeout", "Tool timed out after 5000ms")
    assert said == ["given up"]


async def test_a_plain_generator_that_is_given_up_while_it_opens_is_closed_in_its_thread() -> None:
    opening, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Iterator[Pool]:
        opening.set()
        go_on.wait(60)
        try:
            yield Pool()
        finally:
            closed.set()

    @tw.tool(description="Finds.")
    async def find(pool: Annotated[Pool, tw.Depends(slow)]) -> str:
        return pool.name

    tools = tw.Toolset([find])
    call = asyncio.create_task(tools.call("find", {}))
    await asyncio.to_thread(opening.wait, 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 60)
    tools.close()


async def test_a_call_that_is_cancelled_cleans_up() -> None:
    at_work, said = asyncio.Event(), list[str]()

    async def open_pool() -> AsyncIterator[Pool]:
        yield Pool()
        await asyncio.sleep(0)  # a clean-up that waits
        said.append("closed")

    @tw.tool(description="Finds.")
    async def find(pool: Annotated[Pool, tw.Depends(open_pool)]) -> str:
        at_work.set()
        await asyncio.Event().wait()
        return pool.name

    call = asyncio.create_task(tw.Toolset([find]).call("find", {}))
    await at_work.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert said == ["closed"]


async def test_what_is_entered_around_a_yield_is_left_in_the_same_task_and_context() -> None:
    word: ContextVar[str] = ContextVar("word")
    said: list[str] = []

    async def group() -> AsyncIterator[asyncio.TaskGroup]:
        token = word.set("inside")
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(1000):
            yield tasks
        word.reset(token)

    def in_thread() -> Generator[None]:
        token = word.set("inside")
        yield
        word.reset(token)
        said.append("reset")

    @tw.tool(description="Finds.")
    async def find(
        tasks: Annotated[asyncio.TaskGroup, tw.Depends(group)],
        nothing: Annotated[None, tw.Depends(in_thread)],
    ) -> str:
        tasks.create_task(asyncio.sleep(0)).add_done_callback(lambda _: said.append("task"))
        return word.get("outside")

    assert (await tw.Toolset([find]).call("find", {})).result == "outside"
    assert sorted(said) == ["reset", "task"]


async def test_a_handler_of_a_schema_tool_has_dependencies_too() -> None:
    registry = tw.Registry()
    registry.tool(
        "find", {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    )

    @registry.handler("find")
    async def find(query: str, pool: Annotated[Pool, tw.Depends(on_loop)]) -> str:
        return f"{query} {pool.name}"

    assert (await tw.Toolset(registry.tools()).call("find", {"query": "a"})).result == "a async"


# ── rejected declarations ───────────────────────────────────────────────────────────────────────────────────────


def cycle_a(b: "OfB") -> int:
    return b


def cycle_b(a: "OfA") -> int:
    return a


OfA = Annotated[int, tw.Depends(cycle_a)]
OfB = Annotated[int, tw.Depends(cycle_b)]


def untyped(dsn) -> Pool:  # pyright: ignore  # the error under test
    return Pool()


def asks_for_text(dsn: str) -> Pool:
    return Pool(dsn)


def by_place(state: tw.ThreadState, /) -> Pool:
    return Pool(state.thread_id)


def by_default(pool: Pool = tw.Depends(plain)) -> str:  # noqa: B008  # pyright: ignore  # the error under test
    return pool.name


async def default_style(pool: Pool = tw.Depends(plain)) -> str:  # noqa: B008  # pyright: ignore  # the error under test
    return pool.name


async def annotated_alone(pool: tw.Depends(plain)) -> str:  # pyright: ignore  # the error under test
    return "x"


async def without_function(pool: Annotated[Pool, tw.Depends]) -> str:
    return pool.name


async def two(pool: Annotated[Pool, tw.Depends(plain), tw.Depends(on_loop)]) -> str:
    return pool.name


async def part_of_type(pool: Annotated[Pool, tw.Depends(plain)] | None) -> str:
    return "x"


async def of_cycle(a: Annotated[int, tw.Depends(cycle_a)]) -> str:
    return "x"


async def of_untyped(pool: Annotated[Pool, tw.Depends(untyped)]) -> str:  # pyright: ignore
    return "x"


async def of_text(pool: Annotated[Pool, tw.Depends(asks_for_text)]) -> str:
    return "x"


async def of_place(pool: Annotated[Pool, tw.Depends(by_place)]) -> str:
    return "x"


async def of_default(pool: Annotated[str, tw.Depends(by_default)]) -> str:
    return "x"


FAULTY: list[tuple[Any, str]] = [
    (default_style, "parameter 'pool' has Depends as its default; write it around the whole type"),
    (annotated_alone, "parameter 'pool' is annotated with Depends alone; write it around the whole type"),
    (without_function, "parameter 'pool': Depends needs the function that gives the value"),
    (two, "parameter 'pool' has two Depends. Keep one"),
    (part_of_type, "parameter 'pool' has Depends in a part of its type"),
    (of_cycle, "its dependencies are a cycle: cycle_a → cycle_b → cycle_a"),
    (of_untyped, "the dependency 'untyped', parameter 'dsn': it has no source for its value"),
    (
        of_text,
        "the dependency 'asks_for_text', parameter 'dsn': it has no source for its value. Annotate it as",
    ),
    (of_place, "the dependency 'by_place', parameter 'state' is positional-only"),
    (of_default, "the dependency 'by_default', parameter 'pool' has Depends as its default"),
]


@pytest.mark.parametrize(("handler", "fault"), FAULTY)
def test_what_cannot_be_given_is_refused_when_the_tool_is_defined(
    handler: Callable[..., object], fault: str
) -> None:
    with pytest.raises(DefinitionError, match=fault) as raised:
        tw.tool(description="Finds.")(handler)
    assert raised.value.message.startswith(f"Tool '{handler.__name__}'")


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: tw.Depends(), "Depends needs the function that gives the value"),
        (lambda: tw.Depends("pool"), "Depends takes a function that gives the value, not 'pool'"),  # type: ignore[arg-type]
        (lambda: tw.Depends(plain, cached=1.5), "cached must be True or False, not 1.5"),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_mark_is_refused(make: Callable[[], object], fault: str) -> None:
    with pytest.raises(DefinitionError, match=fault):
        make()


async def test_the_type_of_an_async_generator_is_taken_as_well() -> None:
    async def pool() -> AsyncGenerator[Pool, None]:
        yield Pool("typed")

    @tw.tool(description="Finds.")
    async def find(pool: Annotated[Pool, tw.Depends(pool)]) -> str:
        return pool.name

    assert (await tw.Toolset([find]).call("find", {})).result == "typed"
