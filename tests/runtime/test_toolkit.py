"""`rt.toolkit`: definitions and handlers for a custom loop, every call recorded in a run (S4 "Registry")."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.databases import stores
from tests.kit import add, call, ran, send_to
from tests.runtime.family_rig import RESUMABLE, create, home, worker
from toolwright import testing
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.agent import TOOLKITS
from toolwright.core.errors import (
    InvalidRequest,
    NotFound,
    RunOver,
    TenvsRequired,
    ThreadTerminated,
)
from toolwright.core.journal.store import KnownMessages, Store, ThreadView
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Topic
from toolwright.core.tools.function import FunctionExecutor
from toolwright.runtime.runs.loop import MAX_AT_ONCE
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.toolkits.toolkit import Toolkit
from toolwright.testing import EmbeddedMotor, MemoryBus, NoLock, ScriptedModel
from toolwright.wire.run import run_with_steps
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

S4_TOOLS = (*TOOLKITS["channels"], *TOOLKITS["memory"])


@tw.tool(description="Fail.")
async def fail() -> None:
    raise RuntimeError("broken")


class Gate:
    """A tool `hold` that waits until the test releases it."""

    def __init__(self) -> None:
        self.begun, self.open = asyncio.Event(), asyncio.Event()
        self.tool = tw.tool(name="hold", description="Wait.", timeout=None)(self.wait)

    async def wait(self) -> str:
        self.begun.set()
        await self.open.wait()
        return "held"


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Yield to the loop until the condition holds."""
    for _ in range(100_000):
        if await check():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


@tw.tool(description="Who calls.")
async def who(state: tw.ThreadState) -> dict[str, Any]:
    return {"agent": state.agent_id, "thread": state.thread_id}


ASK_OUT = tw.Tool.from_config(
    {
        "name": "askOutside",
        "description": "Ask.",
        "inputSchema": {"type": "object"},
        "executionType": "external",
    }
)
ASK_LATER = tw.Tool.from_config(
    {
        "name": "askLater",
        "description": "Ask.",
        "inputSchema": {"type": "object"},
        "executionType": "external",
        "isAsync": True,
    }
)


class Needed(BaseModel):
    region: str


def agent(name: str, *tools: Any, **more: Any) -> tw.Agent:
    prompt = tw.Prompt(name, "You are an office worker.", tools=tools, model=more.pop("model", None))
    options: dict[str, Any] = {"toolkits": ["channels", "memory"], **more}
    return tw.Agent(name, prompt, **options)


@asynccontextmanager
async def working(*agents: tw.Agent, **app: Any) -> AsyncGenerator[Runtime]:
    async with testing.runtime(tw.App(agents=agents or (agent("michael", add, fail, who),), **app)) as rt:
        yield rt


def told(answer: JSONObject) -> Any:
    """Return the one text of an answer, as JSON."""
    assert set(answer) <= {"content", "is_error"}
    [content] = answer["content"]  # type: ignore[misc]  # a list
    assert set(content) == {"type", "text"} and content["type"] == "text"  # type: ignore[arg-type,index]
    return json.loads(content["text"])  # type: ignore[index,arg-type]


async def record(rt: Runtime, run_id: str) -> list[tuple[str, str | None, str | None]]:
    """Return the run's record of calls: type, tool, call."""
    run = await rt.runs.get(run_id)
    shown: Any = run_with_steps(run, await rt.runs.steps(run_id), await rt.runs.messages(run_id))
    entries = [entry for step in shown["steps"] for entry in step["messages"]]
    return [(each["messageType"], each.get("toolName"), each.get("toolCallId")) for each in entries]


def pairs(entries: Sequence[tuple[str, str | None, str | None]]) -> dict[str | None, list[str]]:
    """Return the types of the entries of each call."""
    by_call: dict[str | None, list[str]] = {}
    for type_, _, call_id in entries:
        by_call.setdefault(call_id, []).append(type_)
    return by_call


BOTH = ["tool_call_message", "tool_return_message"]


@requirement("S4-1-1", "S4-1-2", "S4-3-1")
async def test_the_definitions_are_those_of_all_its_tools_for_each_wire() -> None:
    async with working() as rt:
        toolkit = rt.toolkit("michael")
        names = ["add", "fail", "who", *S4_TOOLS]
        assert [each["name"] for each in toolkit.definitions] == names == list(toolkit.handlers)
        assert all(set(each) == {"name", "description", "input_schema"} for each in toolkit.definitions)
        send = next(each for each in toolkit.definitions if each["name"] == "send_message")
        schema: Any = send["input_schema"]
        assert (schema["required"], set(schema["properties"])) == (
            ["channelId", "text"],
            {"channelId", "text"},
        )
        assert [each["function"]["name"] for each in toolkit.definitions_for("openai")] == names  # type: ignore[call-overload,index]
        assert "add" in toolkit.handlers and "nope" not in toolkit.handlers
        assert len(toolkit.handlers) == len(names)
        toolkit.definitions.clear()
        assert len(toolkit.definitions) == len(names)


@requirement("S4-1-3", "S4-3-3", "S4-3-5")
async def test_the_six_tools_answer_in_the_documents_form_and_are_recorded_once() -> None:
    async with working() as rt:
        await rt.spaces.create("General", "public", id="general", members=["michael"])
        toolkit = rt.toolkit("michael")
        handlers = toolkit.handlers
        sent = told(await handlers["send_message"]({"channelId": "general", "text": "Hello"}))
        assert told(await handlers["react_to_message"]({"messageId": sent["messageId"], "emoji": "👋"})) == {
            "success": True
        }
        assert told(await handlers["do_nothing"]({})) == {"action": "none"}
        assert told(await handlers["update_memory"]({"label": "mood", "content": "calm"})) == {
            "success": True
        }
        stored = told(await handlers["store_memory"]({"content": "Tea at four", "tags": ["tea"]}))
        found = told(await handlers["search_memory"]({"query": "TEA"}))
        assert [(each["id"], each["content"], each["tags"]) for each in found["passages"]] == [
            (stored["passageId"], "Tea at four", ["tea"])
        ]
        assert toolkit.run_id is not None
        entries = await record(rt, toolkit.run_id)
        assert [name for type_, name, _ in entries if type_ == BOTH[0]] == [
            "send_message",
            "react_to_message",
            "do_nothing",
            "update_memory",
            "store_memory",
            "search_memory",
        ]
        assert list(pairs(entries).values()) == [BOTH] * 6
        [run] = await rt.runs.list()
        assert (run.id, run.status, run.stop_reason) == (toolkit.run_id, "completed", "end_turn")
        [shown] = await rt.spaces.messages("general")
        assert shown.author is not None and shown.author.display_name == "michael"
        assert [each.emoji for each in shown.reactions] == ["👋"]


class CountingStore:
    """Counts the messages that drains have read, and compares their cached messages with the journal's."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.read, self.known = 0, 0

    async def view(self, thread_id: str, known: KnownMessages | None = None) -> ThreadView | None:
        view, fresh = await self.inner.view(thread_id, known), await self.inner.view(thread_id)
        if view is None or fresh is None:
            return view
        if known is not None and view.messages is known.messages:
            self.known += 1
            assert view.messages == fresh.messages
        else:
            self.read += len(view.messages)
        return view

    def __getattr__(self, name: str) -> Any:  # other methods pass through
        return getattr(self.inner, name)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_call_does_not_read_the_calls_before_it(kind: str, tmp_path: Path) -> None:
    app = tw.App(
        agents=[tw.Agent("michael", tw.Prompt("m", "x", model=ScriptedModel([])), toolkits=["memory"])]
    )
    async with stores(kind, tmp_path) as open_store:
        bus = MemoryBus()
        store = CountingStore(await open_store(bus))
        journal = cast("Store", store)
        motor = EmbeddedMotor(journal, SystemClock(), NoLock(), sweep=0.02)
        parts = DefaultParts(store=journal, motor=motor, bus=bus, executors={"function": FunctionExecutor()})
        rt = Runtime(app.catalog, parts, Settings())
        await rt.start()
        try:
            toolkit = rt.toolkit("michael")
            for n in range(30):
                await toolkit.handlers["store_memory"]({"content": f"Tea {n}", "tags": []})
            assert toolkit.run_id is not None
            run = await rt.runs.get(toolkit.run_id)
            kept = await rt.threads.messages(run.thread_id, limit=100)
        finally:
            await rt.stop(1.0)
    assert len(kept) == 60
    assert store.known > 0
    assert store.read <= 60  # each message at most once; 30 drains that read everything would read 870


@requirement("S4-3-1", "S4-3-3")
async def test_whatever_is_wrong_is_a_result_and_is_recorded() -> None:
    async with working() as rt:
        toolkit = rt.toolkit("michael")
        cyclic: dict[str, Any] = {}
        cyclic["self"] = cyclic
        wrong: list[tuple[str, object, str]] = [
            ("add", {"a": 1}, "b: is missing"),
            ("add", {"a": "1", "b": 2, "c": 3}, "a: must be an integer"),
            ("add", '{"a": 1', "not valid JSON"),
            ("add", [1, 2], "must be a JSON object"),
            ("add", {"a": float("nan"), "b": 1}, "Invalid arguments: a is nan, which JSON cannot represent."),
            (
                "add",
                {"a": 1j, "b": object()},
                "Invalid arguments: a is of the type complex, which JSON cannot represent.",
            ),
            ("add", cyclic, "Invalid arguments: hold more than 100000 JSON values."),
            ("add", {"a": [0] * 200_000}, "Invalid arguments: hold more than 100000 JSON values."),
            ("add", None, "must be a JSON object"),
            ("update_memory", {"label": "x", "content": "y", "agentId": "jim"}, "agentId"),
            ("fail", {}, "broken"),
            ("nope", {}, "There is no tool 'nope'."),
            ("", {}, "There is no tool ''."),
        ]
        for name, given, error in wrong:
            answer = await toolkit.handlers[name](given)
            assert answer["is_error"] is True
            assert error in told(answer)["error"], (name, given)
        assert told(await toolkit.handlers["add"]('{"a": 1, "b": 2}')) == 3
        assert told(await toolkit.handlers["add"](b'{"a": 2, "b": 2}')) == 4
        assert toolkit.run_id is not None
        assert list(pairs(await record(rt, toolkit.run_id)).values()) == [BOTH] * (len(wrong) + 2)


async def test_calls_are_recorded_in_their_order_also_beside_invalid_ones() -> None:
    gate = Gate()
    async with working(agent("michael", gate.tool, add)) as rt:
        toolkit = rt.toolkit("michael")
        asking = [asyncio.create_task(toolkit.call("hold", {}))]
        await gate.begun.wait()
        thread_id = (await rt.runs.get(toolkit.run_id or "")).thread_id
        for n, given in enumerate([1, float("nan"), float("inf"), 2], 2):
            asking.append(asyncio.create_task(toolkit.call("add", {"a": given, "b": n})))
            await until(lambda count=n: posted(rt, thread_id, count))
        gate.open.set()
        assert ["is_error" in await each for each in asking] == [False, False, True, True, False]
        recorded = [
            each.content for each in await rt.runs.messages(toolkit.run_id or "") if each.role == "tool"
        ]
        assert recorded[:2] == ["held", "3"] and recorded[-1] == "7"
        assert list(pairs(await record(rt, toolkit.run_id or "")).values()) == [BOTH] * 5


@requirement("S4-1-4", "S4-3-2")
async def test_calls_of_many_toolkits_at_once_are_never_mixed() -> None:
    names = [f"worker{n}" for n in range(8)]
    async with working(*[agent(name, who) for name in names]) as rt:
        await rt.spaces.create("General", "public", id="general", members=names)
        ids = {name: (await rt.agents.get(name)) for name in names}
        toolkits = [rt.toolkit(name) for name in names for _ in range(10)]

        async def work(n: int, toolkit: Toolkit, name: str) -> None:
            text = f"{name} {n}"
            answers = await asyncio.gather(
                toolkit.handlers["who"]({}),
                toolkit.handlers["send_message"]({"channelId": "general", "text": text}),
                toolkit.handlers["update_memory"]({"label": f"b{n}", "content": text}),
                toolkit.handlers["store_memory"]({"content": text}),
                *[toolkit.handlers["do_nothing"]({}) for _ in range(24)],
            )
            assert told(answers[0])["agent"] == ids[name].id
            assert not any("is_error" in each for each in answers)

        owners = [name for name in names for _ in range(10)]
        await asyncio.gather(
            *[work(n, each, owner) for n, (each, owner) in enumerate(zip(toolkits, owners, strict=True))]
        )
        said = await rt.spaces.messages("general", 200)
        assert Counter(each.message.content.split()[0] for each in said) == dict.fromkeys(names, 10)
        for each in said:
            assert each.message.entity_id == ids[each.message.content.split()[0]].entity_id
        for name in names:
            assert {each.content.split()[0] for each in await rt.blocks.list(name)} == {name}
            assert {each.content.split()[0] for each in await rt.passages.list(name, 100)} == {name}
        runs = await rt.runs.list(limit=1_000)
        assert len(runs) == len(toolkits)
        for run in runs:
            assert list(pairs(await record(rt, run.id)).values()) == [BOTH] * 28


async def test_calls_are_recorded_in_a_run_that_is_over_and_leave_it_as_it_was() -> None:
    model = ScriptedModel([{"text": "Good morning."}])
    async with working(agent("michael", add, model=model)) as rt:
        run = await ran(rt, "michael", "Hello")
        toolkit = await rt.toolkit("michael", run.id)
        assert told(await toolkit.handlers["add"]({"a": 1, "b": 2})) == 3
        after = await rt.runs.wait(run.id, 10)
        assert (after.id, after.status, after.stop_reason, after.output) == (
            run.id,
            "completed",
            "end_turn",
            "Good morning.",
        )
        assert [type_ for type_, _, _ in await record(rt, run.id)] == [
            "user_message",
            "assistant_message",
            *BOTH,
        ]
        again = await rt.runs.wait((await rt.threads.send(run.thread_id, "Thanks")).id, 10)
        assert (again.id != run.id, again.status, again.output) == (True, "completed", "Good morning.")
        roles = [each.role for each in await rt.threads.messages(run.thread_id)]
        assert roles == ["user", "assistant", "assistant", "tool", "user", "assistant"]
        types = [each.type for each in await rt.events.list(Topic(kind="run", id=run.id))]
        assert [each for each in types if each.startswith("run.")] == [
            "run.queued",
            "run.started",
            "run.completed",
        ] * 2


async def test_skipping_ends_no_run_that_was_over() -> None:
    model = ScriptedModel([{"text": "Good morning."}])
    async with working(agent("michael", model=model, toolkits=["spaces"])) as rt:
        run = await ran(rt, "michael", "Hello")
        toolkit = await rt.toolkit("michael", run.id)
        assert told(await toolkit.handlers["skip"]({"reason": "Nothing to do"})) == {"skipped": True}
        after = await rt.runs.wait(run.id, 10)
        assert (after.status, after.stop_reason, after.output) == ("completed", "end_turn", "Good morning.")
        assert told(await toolkit.handlers["skip"]({})) == {"skipped": True}


async def test_a_call_joins_the_run_in_progress_and_the_model_goes_on() -> None:
    model, gate = ScriptedModel([call("hold"), {"text": "Done."}]), Gate()
    async with working(agent("michael", gate.tool, add, model=model)) as rt:
        thread = await rt.threads.create("michael")
        run = await rt.threads.send(thread.id, "Go")
        await gate.begun.wait()
        toolkit = await rt.toolkit("michael", run.id)
        asking = asyncio.create_task(toolkit.call("add", {"a": 2, "b": 2}))
        await until(lambda: posted(rt, thread.id, 1))
        gate.open.set()
        assert told(await asking) == 4
        run = await rt.runs.wait(run.id, 10)
        assert (run.status, run.output) == ("completed", "Done.")
        calls = [name for type_, name, _ in await record(rt, run.id) if type_ == BOTH[0]]
        assert calls == ["hold", "add"]


async def posted(rt: Runtime, thread_id: str, count: int) -> bool:
    """Return whether that many calls have arrived in the thread."""
    agent_id = (await rt.threads.get(thread_id)).agent
    return sum(each.type == "call" for each in await rt.inboxes.list(agent_id, thread_id, 1_000)) == count


async def test_a_run_that_does_not_fit_is_refused() -> None:
    model, gate = ScriptedModel([call("hold"), {"text": "."}]), Gate()
    async with working(agent("michael", gate.tool, model=model), agent("jim", model=model)) as rt:
        run = await send_to(rt, "michael")
        with pytest.raises(InvalidRequest, match="does not belong to the agent 'jim'"):
            await rt.toolkit("jim", run.id)
        with pytest.raises(InvalidRequest, match="does not belong to the agent 'jim'"):
            await rt.toolkit("jim", run.id).handlers["do_nothing"]({})
        await rt.runs.cancel(run.id)
        await rt.runs.wait(run.id, 15)
        with pytest.raises(RunOver, match="is cancelled: it accepts no more calls"):
            await rt.toolkit("michael", run.id)
        with pytest.raises(NotFound, match="There is no run 'run_nobody'"):
            await rt.toolkit("michael", "run_nobody")
        with pytest.raises(NotFound, match="There is no agent 'nobody'"):
            await rt.toolkit("nobody")
        with pytest.raises(NotFound, match="There is no agent 'agt_requests'"):
            await rt.toolkit("agt_requests")
        with pytest.raises(InvalidRequest, match=r"write `await rt\.toolkit"):
            _ = rt.toolkit("nobody").definitions


async def test_an_agent_that_needs_a_threads_values_has_no_toolkit_of_its_own() -> None:
    @tw.tool(description="Needs a key.", tenvs=Needed)
    async def needy() -> str:
        return "."

    async with working(agent("michael", needy)) as rt:
        with pytest.raises(TenvsRequired, match="region"):
            await rt.toolkit("michael")
        with pytest.raises(TenvsRequired, match="region"):
            await rt.toolkit("michael").handlers["do_nothing"]({})
        assert list(await rt.threads.list()) == []


async def test_a_toolkit_of_its_own_begins_another_run_after_one_that_was_cancelled() -> None:
    gate = Gate()
    async with working(agent("michael", gate.tool, add)) as rt:
        toolkit = rt.toolkit("michael")
        asking = asyncio.create_task(toolkit.call("hold", {}))
        await gate.begun.wait()
        first = toolkit.run_id or ""
        thread_id = (await rt.runs.get(first)).thread_id
        behind = asyncio.create_task(toolkit.call("add", {"a": 1, "b": 1}))
        await until(lambda: posted(rt, thread_id, 2))
        await rt.runs.cancel(first)
        cut = told(await asking)
        assert "cancelled" in cut["error"] and cut["error_code"] == "cancelled"
        assert told(await behind)["error"] == "Run cancelled before this call began."
        assert list(pairs(await record(rt, first)).values()) == [BOTH] * 2
        assert told(await toolkit.handlers["add"]({"a": 1, "b": 2})) == 3
        assert toolkit.run_id != first
        assert (await rt.runs.get(first)).status == "cancelled"


async def test_a_handler_cannot_wait_for_a_call_of_the_run_that_waits_for_it() -> None:
    made: list[Toolkit] = []

    @tw.tool(description="Calls itself.")
    async def recurse() -> str:
        return str(await made[0].handlers["add"]({"a": 1, "b": 2}))

    async with working(agent("michael", recurse, add)) as rt:
        made.append(rt.toolkit("michael"))
        answer = told(await made[0].handlers["recurse"]({}))
        assert "waits for this handler" in answer["error"] and "state.invoke_tool" in answer["error"]
        assert told(await made[0].handlers["add"]({"a": 1, "b": 2})) == 3
        made[0] = rt.toolkit("michael")
        nested = await rt.toolkit("michael").handlers["recurse"]({})
        assert "'text': '3'" in str(nested)


async def test_calls_that_are_begun_and_calls_that_wait_are_given_up_with_their_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = Gate(), Gate()
    again = tw.tool(name="again", description="Wait.", timeout=None)(second.wait)
    async with working(agent("michael", first.tool, again, add)) as rt:
        toolkit = rt.toolkit("michael")
        asking = [asyncio.create_task(toolkit.call("hold", {}))]
        await first.begun.wait()
        run_id = toolkit.run_id or ""
        thread_id = (await rt.runs.get(run_id)).thread_id
        asking += [asyncio.create_task(toolkit.call(name, {"a": 1, "b": 1})) for name in ("again", "add")]
        await until(lambda: posted(rt, thread_id, 3))
        first.open.set()
        await second.begun.wait()
        asking.append(asyncio.create_task(toolkit.call("add", {"a": 1, "b": 1})))
        await until(lambda: posted(rt, thread_id, 4))
        await rt.runs.cancel(run_id)
        held, *given_up = [await each for each in asking]
        assert "is_error" not in held
        assert [told(each)["error_code"] for each in given_up] == ["cancelled", "not_begun", "not_begun"]
        assert list(pairs(await record(rt, run_id)).values()) == [BOTH] * 4
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_a_handler_cannot_wait_for_another_run_of_its_own_thread() -> None:
    made: list[Toolkit] = []

    @tw.tool(description="Calls an earlier run.", timeout=5)
    async def look_back() -> str:
        return str(await made[0].handlers["add"]({"a": 1, "b": 2}))

    model = ScriptedModel([{"when": "back", **call("look_back")}, {"text": "."}])
    async with working(agent("michael", look_back, add, model=model)) as rt:
        first = await ran(rt, "michael", "Hi")
        made.append(await rt.toolkit("michael", first.id))
        await rt.runs.wait((await rt.threads.send(first.thread_id, "back")).id, 10)
        results = [each.content for each in await rt.threads.messages(first.thread_id) if each.role == "tool"]
        assert len(results) == 1 and "waits for this handler" in results[0]


async def test_while_the_thread_executes_another_run_a_call_waits() -> None:
    gate = Gate()
    model = ScriptedModel([{"when": "hold", **call("hold")}, {"text": "."}])
    async with working(agent("michael", gate.tool, add, model=model)) as rt:
        first = await ran(rt, "michael", "Hi")
        toolkit = await rt.toolkit("michael", first.id)
        second = await rt.threads.send(first.thread_id, "hold")
        await gate.begun.wait()
        asking = asyncio.create_task(toolkit.call("add", {"a": 1, "b": 2}))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asking.done()
        gate.open.set()
        assert told(await asking) == 3
        assert (await rt.runs.get(second.id)).status == "completed"
        assert [name for type_, name, _ in await record(rt, first.id) if type_ == BOTH[0]] == ["add"]


async def test_a_thread_that_is_over_takes_no_calls() -> None:
    @tw.tool(description="End it all.")
    async def end_all(state: tw.ThreadState) -> str:
        await state.terminate()
        return "over"

    async with working(agent("michael", end_all)) as rt:
        toolkit = rt.toolkit("michael")
        answer = await toolkit.handlers["end_all"]({})
        assert answer == {"content": [{"type": "text", "text": "over"}]}
        with pytest.raises(ThreadTerminated):
            await toolkit.handlers["do_nothing"]({})


async def test_calls_that_others_answer_are_waited_for_or_pending() -> None:
    async with working(agent("michael", ASK_OUT, ASK_LATER)) as rt:
        toolkit = rt.toolkit("michael")
        later = told(await toolkit.handlers["askLater"]({}))
        assert set(later) == {"status", "pendingToolCallId"} and later["status"] == "pending"
        asking = asyncio.create_task(toolkit.call("askOutside", {}))

        async def waits() -> bool:
            return bool(await rt.calls.list(status=["waiting"]))

        await until(waits)
        [open_call] = await rt.calls.list(status=["waiting"])
        await rt.calls.submit(open_call.run_id, open_call.id, {"yes": True})
        assert told(await asking) == {"yes": True}


async def test_prompts_and_agents_are_called_like_every_tool() -> None:
    sums = tw.Prompt(
        "sums",
        "You sum.",
        tool_description="Sums.",
        expose_as_tool=True,
        model=ScriptedModel([{"text": "six"}]),
    )
    scout = tw.Agent(
        "scout",
        tw.Prompt("scout", "You look.", model=ScriptedModel([{"text": "Seen."}])),
        expose_as_tool=True,
        tool_description="Looks.",
    )
    boss = tw.Agent(
        "boss", tw.Prompt("boss", "You lead.", tools=["sums", tw.SubagentToolConfig(name="scout")])
    )
    async with working(boss, scout, prompts=[sums]) as rt:
        toolkit = rt.toolkit("boss")
        assert list(toolkit.handlers) == ["sums", "scout"]
        six = await toolkit.handlers["sums"]({"message": "1+2+3"})
        assert six == {"content": [{"type": "text", "text": "six"}]}
        seen = await toolkit.handlers["scout"]({"message": "Look"})
        assert seen == {"content": [{"type": "text", "text": "Seen."}]}


async def test_a_thread_that_was_handed_over_takes_no_calls_of_who_has_left_it() -> None:
    gate = Gate()
    scout = tw.Agent(
        "scout", tw.Prompt("scout", "You look.", tools=[who]), expose_as_tool=True, tool_description="S."
    )
    boss = tw.Agent("boss", tw.Prompt("boss", "You lead.", tools=["scout", who, gate.tool]))
    async with working(boss, scout) as rt:
        toolkit = rt.toolkit("boss")
        held = asyncio.create_task(toolkit.call("hold", {}))
        await gate.begun.wait()
        run_id = toolkit.run_id or ""
        thread_id = (await rt.runs.get(run_id)).thread_id
        scouted = asyncio.create_task(toolkit.call("scout", {"message": "Take over"}))
        await until(lambda: posted(rt, thread_id, 2))
        behind = [asyncio.create_task(toolkit.call("who", {})) for _ in range(MAX_AT_ONCE)]
        await until(lambda: posted(rt, thread_id, 2 + MAX_AT_ONCE))
        gate.open.set()
        assert await held == {"content": [{"type": "text", "text": "held"}]}
        assert await scouted == {"content": [{"type": "text", "text": "scout answers from now on."}]}
        answers = [told(await each) for each in behind]
        assert Counter(each.get("agent", each.get("error")) for each in answers) == {
            (await rt.agents.get("boss")).id: MAX_AT_ONCE - 1,
            "The thread was handed over to another agent before this call began.": 1,
        }
        assert list(pairs(await record(rt, run_id)).values()) == [BOTH] * (2 + MAX_AT_ONCE)
        third = told(await toolkit.handlers["who"]({}))
        assert third["agent"] == (await rt.agents.get("boss")).id
        assert third["thread"] != (await rt.runs.get(run_id)).thread_id
        with pytest.raises(InvalidRequest, match="was handed over to another agent"):
            await rt.toolkit("boss", run_id)


async def test_an_agent_that_is_configured_over_http_is_awaited() -> None:
    async with working() as rt:
        await rt.agents.save("dwight", {"agent": {"system": "Be."}, "toolkits": ["channels", "memory"]})
        toolkit = await rt.toolkit("dwight")
        assert [each["name"] for each in toolkit.definitions] == [*S4_TOOLS]
        assert told(await toolkit.handlers["do_nothing"]({})) == {"action": "none"}
        unawaited = rt.toolkit("dwight")
        assert told(await unawaited.handlers["do_nothing"]({})) == {"action": "none"}
        assert len(unawaited.definitions) == len(S4_TOOLS)


async def test_a_deleted_agent_calls_nothing_any_more() -> None:
    async with working() as rt:
        await rt.agents.save("dwight", {"agent": {"system": "Be."}, "toolkits": ["channels", "memory"]})
        await rt.spaces.create("General", "public", id="general")
        toolkit = await rt.toolkit("dwight")
        await toolkit.handlers["do_nothing"]({})
        await rt.agents.delete("dwight")
        with pytest.raises(NotFound, match="'dwight' no longer exists"):
            await toolkit.handlers["send_message"]({"channelId": "general", "text": "Boo."})
        assert list(await rt.spaces.messages("general")) == []


async def test_who_waits_may_go_and_the_call_is_executed_all_the_same() -> None:
    gate = Gate()
    async with working(agent("michael", gate.tool)) as rt:
        toolkit = rt.toolkit("michael")
        asking = asyncio.create_task(toolkit.call("hold", {}))
        await gate.begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
        gate.open.set()
        run = await rt.runs.wait(toolkit.run_id or "", 10)
        assert run.status == "completed"
        assert list(pairs(await record(rt, run.id)).values()) == [BOTH]


async def test_a_message_to_the_toolkits_thread_is_answered_by_the_model() -> None:
    gate = Gate()
    async with working(
        agent("michael", gate.tool, model=ScriptedModel([{"text": "-"}, {"text": "Yes?"}]))
    ) as rt:
        toolkit = rt.toolkit("michael")
        asking = asyncio.create_task(toolkit.call("hold", {}))
        await gate.begun.wait()
        joined = await rt.threads.send((await rt.runs.get(toolkit.run_id or "")).thread_id, "Hello?")
        assert joined.id == toolkit.run_id
        gate.open.set()
        await asking
        run = await rt.runs.wait(joined.id, 10)
        assert (run.status, run.output, run.calls_only) == ("completed", "Yes?", False)


async def begun(rt: Runtime, toolkit: Toolkit, calls: int = 1) -> str:
    """Return the id of the toolkit's thread, once that many calls have arrived in it."""

    async def there() -> bool:
        return any(run.id == toolkit.run_id for run in await rt.runs.list())

    await until(there)
    thread_id = (await rt.runs.get(toolkit.run_id or "")).thread_id
    await until(lambda: posted(rt, thread_id, calls))
    return thread_id


async def test_a_message_that_joins_before_the_first_call_is_executed_is_answered_too() -> None:
    app = tw.App(agents=[agent("michael", add, model=ScriptedModel([{"text": "Yes?"}]))])
    async with testing.by_hand(app) as (rt, motor):
        toolkit = rt.toolkit("michael")
        asking = asyncio.create_task(toolkit.call("add", {"a": 1, "b": 2}))
        joined = await rt.threads.send(await begun(rt, toolkit), "Hello?")
        assert joined.id == toolkit.run_id
        await motor.run_until_idle()
        assert told(await asking) == 3
        run = await rt.runs.get(joined.id)
        assert (run.status, run.output, run.calls_only) == ("completed", "Yes?", False)


async def test_a_late_result_that_a_run_of_calls_reads_is_shown_to_the_model() -> None:
    app = tw.App(agents=[agent("michael", add, ASK_LATER, model=ScriptedModel([{"text": "Noted."}]))])
    async with testing.by_hand(app) as (rt, motor):
        toolkit = rt.toolkit("michael")
        asking = asyncio.create_task(toolkit.call("askLater", {}))
        thread_id, first = await begun(rt, toolkit), toolkit.run_id or ""
        await motor.run_until_idle()
        pending = told(await asking)["pendingToolCallId"]
        asking = asyncio.create_task(toolkit.call("add", {"a": 1, "b": 1}))
        await begun(rt, toolkit, 2)
        await rt.runs.cancel(first)
        await motor.run_until_idle()
        assert "cancelled" in told(await asking)["error"]
        asking = asyncio.create_task(toolkit.call("add", {"a": 1, "b": 1}))
        await until(lambda: posted(rt, thread_id, 3))
        await rt.calls.submit(first, pending, {"yes": True})
        await motor.run_until_idle()
        assert told(await asking) == 2
        run = await rt.runs.get(toolkit.run_id or "")
        assert run.id != first and (run.status, run.output) == ("completed", "Noted.")


async def test_the_parent_is_notified_of_a_session_that_is_cancelled_while_its_run_is_open_again() -> None:
    gate = Gate()
    agents = worker([{"text": "Done it."}], [gate.tool])
    async with home(agents, RESUMABLE, [create(message="Do it"), {"text": "Well."}]) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        [first] = await at.rt.runs.list(thread_id=child.id)
        toolkit = await at.rt.toolkit("worker", first.id)
        asking = asyncio.create_task(toolkit.call("hold", {}))
        await gate.begun.wait()
        assert (await at.rt.threads.send(child.id, "And more")).id == first.id
        await at.rt.runs.cancel(first.id)
        gate.open.set()
        await asking
        assert (await at.rt.runs.wait(first.id, 10)).status == "cancelled"
        events = await at.rt.inboxes.list("boss", thread.id, 10)
        told_of = [each.content["error"] for each in events if each.type == "subagent"]
        assert told_of == ["The session was cancelled."]


async def test_a_parent_without_a_waiting_call_is_notified_of_each_end_of_a_session() -> None:
    gate = Gate()
    agents = worker([{"text": "Done it."}, {"text": "."}, {"text": "Done more."}], [gate.tool])
    config = {**RESUMABLE, "blocking": False}
    async with home(agents, config, [create(message="Do it"), *[{"text": "Well."}] * 3]) as at:
        thread = await at.ran()
        [child] = await at.children(thread.id)
        [first] = await at.rt.runs.list(thread_id=child.id)
        await at.rt.runs.wait(first.id, 10)
        toolkit = await at.rt.toolkit("worker", first.id)
        asking = asyncio.create_task(toolkit.call("hold", {}))
        await gate.begun.wait()
        assert (await at.rt.threads.send(child.id, "And more")).id == first.id
        gate.open.set()
        assert await asking == {"content": [{"type": "text", "text": "held"}]}
        assert (await at.rt.runs.wait(first.id, 10)).output == "Done more."
        events = await at.rt.inboxes.list("boss", thread.id, 10)
        results = [each.content["result"] for each in events if each.content.get("reference") == child.id]
        assert results == ["Done it.", "Done more."]


async def test_calls_are_executed_by_the_agent_as_it_is_configured_now() -> None:
    config: JSONObject = {"agent": {"system": "Be."}, "toolkits": ["channels", "memory"], "tools": []}
    async with working(tools=[add]) as rt:
        await rt.agents.save("dwight", config)
        toolkit = await rt.toolkit("dwight")
        await toolkit.handlers["do_nothing"]({})
        await rt.agents.save("dwight", {**config, "tools": ["add"]})
        again = await rt.toolkit("dwight", toolkit.run_id)
        assert "add" in again.handlers
        assert told(await again.handlers["add"]({"a": 1, "b": 2})) == 3


async def test_on_sqlite_it_is_the_same_and_a_run_goes_on_in_the_next_process(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    gate = Gate()
    app = tw.App(agents=[agent("michael", add, gate.tool)])
    async with app.runtime(settings, grace=0.0) as rt:
        toolkit = rt.toolkit("michael")
        assert told(await toolkit.handlers["add"]({"a": 1, "b": 2})) == 3
        asking = asyncio.create_task(toolkit.call("hold", {}))
        await gate.begun.wait()
        behind = asyncio.create_task(toolkit.call("add", {"a": 5, "b": 5}))
        run_id = toolkit.run_id or ""
        thread_id = (await rt.runs.get(run_id)).thread_id
        await until(lambda: posted(rt, thread_id, 3))
    for each in (asking, behind):
        each.cancel()
    await asyncio.wait([asking, behind])
    async with app.runtime(settings) as rt:
        run = await rt.runs.wait(run_id, 10)
        assert run.status == "completed"
        entries = await record(rt, run_id)
        assert list(pairs(entries).values()) == [BOTH] * 3
        contents = [each.content for each in await rt.runs.messages(run_id) if each.role == "tool"]
        assert contents[0] == "3" and "Interrupted" in contents[1] and contents[2] == "10"
        toolkit = await rt.toolkit("michael", run_id)
        assert told(await toolkit.handlers["add"]({"a": 2, "b": 2})) == 4


async def test_results_are_read_in_the_run_also_by_the_next_process(tmp_path: Path) -> None:
    """`read_result` is started in one step with a call that the end of the process interrupts."""
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    first, second = Gate(), Gate()
    later = tw.tool(name="later", description="Wait.", timeout=None)(second.wait)
    app = tw.App(agents=[agent("michael", add, first.tool, later)])
    async with app.runtime(settings, grace=0.0) as rt:
        toolkit = rt.toolkit("michael")
        assert told(await toolkit.handlers["add"]({"a": 40, "b": 2})) == 42
        asking = [asyncio.create_task(toolkit.call("hold", {}))]
        await first.begun.wait()
        run_id = toolkit.run_id or ""
        thread_id = (await rt.runs.get(run_id)).thread_id
        [added] = [each for each in await rt.runs.messages(run_id) if each.content == "42"]
        asking.append(asyncio.create_task(toolkit.call("later", {})))
        await until(lambda: posted(rt, thread_id, 3))
        asking.append(asyncio.create_task(toolkit.call("read_result", {"call_id": added.call_id})))
        await until(lambda: posted(rt, thread_id, 4))
        first.open.set()
        await second.begun.wait()
    for each in asking:
        each.cancel()
    await asyncio.wait(asking)
    async with app.runtime(settings) as rt:
        assert (await rt.runs.wait(run_id, 10)).status == "completed"
        *_, lost, read = [each.content for each in await rt.runs.messages(run_id) if each.role == "tool"]
        assert "Interrupted" in lost
        page = {"call_id": added.call_id, "tool": "add", "characters": 2, "offset": 0, "text": "42"}
        assert json.loads(read) == page
