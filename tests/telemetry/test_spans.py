"""Spans of runs: their nesting and their attributes."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.databases import stores
from tests.kit import add, call, ran, send_to
from tests.telemetry.watching import DONE, Watching, agent_of, at_work, led, lines
from toolwright.core.model import Model
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.testing import FunctionModel, ScriptedModel, trace_tree

pytestmark = pytest.mark.anyio


@tw.tool(description="Fail.")
async def fail(state: tw.ThreadState) -> str:
    raise ValueError(f"no luck with {await state.env('KEY')}")


@tw.tool(description="Call add.", name="caller")
async def caller(state: tw.ThreadState) -> object:
    return (await state.invoke_tool("add", {"a": 1, "b": 2})).result


ask = tw.Tool(
    name="ask", description="Ask outside.", kind="external", timeout=60.0, parameters={"type": "object"}
)


def parent_id(span: ReadableSpan) -> int:
    """Return the id of a span's parent."""
    assert span.parent is not None
    return span.parent.span_id


@requirement("S4-3-4")
async def test_a_call_is_below_its_step_and_that_below_its_run() -> None:
    watching = Watching()
    app = tw.App(agents=[agent_of("boss", [call("add", a=1, b=2), DONE], add)])
    async with at_work(app, watching) as rt:
        run = await led(rt, "boss")
    assert run.status == "completed"
    assert trace_tree(watching.ended) == lines("""
        invoke_agent boss
          read_inbox
          execute_run boss
          step 1
            build_prompt
            chat scripted
            execute_tool add
          step 2
            build_prompt
            chat scripted
    """)
    assert watching.traces == 1
    by_id = {span.context.span_id: span for span in watching.ended if span.context is not None}
    step = by_id[parent_id(watching.span("execute_tool add"))]
    assert by_id[parent_id(step)].name == "invoke_agent boss", "a call is a grandchild of the span of its run"


async def test_spans_have_the_names_and_attributes_of_the_genai_conventions() -> None:
    watching = Watching()
    app = tw.App(agents=[agent_of("boss", [call("add", a=1, b=2), DONE], add)])
    async with at_work(app, watching) as rt:
        run = await led(rt, "boss")
        [made] = await rt.calls.list(status=None, run_id=run.id)
        agent_id = (await rt.agents.active("boss")).agent_id
    led_span, called = watching.span("invoke_agent boss"), watching.span("execute_tool add")
    [chat, _] = [span for span in watching.ended if span.name == "chat scripted"]
    assert led_span.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "boss",
        "gen_ai.agent.id": agent_id,
        "gen_ai.conversation.id": run.thread_id,
        "toolwright.run.id": run.id,
    }
    said = dict(watching.span("execute_run boss").attributes or {})
    seconds = said.pop("toolwright.commit.seconds")
    assert isinstance(seconds, float) and seconds > 0
    assert said == {
        "gen_ai.usage.input_tokens": run.usage.input_tokens,
        "gen_ai.usage.output_tokens": run.usage.output_tokens,
        "toolwright.run.id": run.id,
        "toolwright.run.resumed": False,
        "toolwright.run.status": "completed",
        "toolwright.run.steps": 2,
        "toolwright.commits": 4,
    }
    assert called.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": made.id,
        "toolwright.call.kind": "function",
        "toolwright.call.attempt": 1,
        "toolwright.call.outcome": "success",
    }
    assert (chat.kind, (chat.attributes or {})["gen_ai.request.model"]) == (SpanKind.CLIENT, "scripted")
    assert {"gen_ai.response.model", "gen_ai.usage.output_tokens"} <= set(chat.attributes or {})


async def test_a_call_of_a_handler_is_below_the_call_that_made_it() -> None:
    watching = Watching()
    app = tw.App(agents=[agent_of("boss", [call("caller"), DONE], caller, add)])
    async with at_work(app, watching) as rt:
        await led(rt, "boss")
    assert watching.tree == lines("""
        invoke_agent boss
          step 1
            chat scripted
            execute_tool caller
              execute_tool add
          step 2
            chat scripted
    """)


async def test_spans_of_a_handlers_own_are_below_its_call() -> None:
    watching = Watching()

    @tw.tool(description="Look.")
    def look() -> str:  # runs in a thread
        with watching.tracers.get_tracer("mine").start_as_current_span("my work"):
            return "seen"

    app = tw.App(agents=[agent_of("boss", [call("look"), DONE], look)])
    async with at_work(app, watching) as rt:
        await led(rt, "boss")
    assert "    execute_tool look\n      my work\n" in watching.tree


async def test_what_a_prompt_tool_asks_and_calls_is_below_its_call() -> None:
    watching = Watching()
    below = ScriptedModel([call("add", a=1, b=2), {"text": "Three."}])
    sums = tw.Prompt(
        "sums", "You sum.", tool_description="Sums.", expose_as_tool=True, model=below, tools=[add]
    )
    boss = agent_of("boss", [call("sums", message="Sum it."), DONE], "sums")
    async with at_work(tw.App(agents=[boss], prompts=[sums]), watching) as rt:
        await led(rt, "boss")
    assert watching.tree == lines("""
        invoke_agent boss
          step 1
            chat scripted
            execute_tool sums
              step 1
                chat scripted
                execute_tool add
              step 2
                chat scripted
          step 2
            chat scripted
    """)


async def test_a_child_is_below_the_call_that_began_it_and_its_parent_goes_on_in_the_same_trace() -> None:
    watching = Watching()
    child = agent_of("child", [DONE], expose_as_tool=True, tool_description="Works.")
    prompt = tw.Prompt(
        "boss",
        "You ask.",
        model=ScriptedModel([call("child", message="Do it"), DONE]),
        tools=[tw.SubagentToolConfig(name="child")],
    )
    async with at_work(tw.App(agents=[tw.Agent("boss", prompt), child]), watching) as rt:
        run = await led(rt, "boss")
        assert run.status == "completed"
    assert watching.traces == 1
    assert watching.tree == lines("""
        invoke_agent boss
          step 1
            chat scripted
            execute_tool child: waiting
              invoke_agent child
                step 1
                  chat scripted
          step 1
            execute_tool child
          step 2
            chat scripted
    """)


SUM_UP: dict[str, object] = {
    "type": "object",
    "description": "Sums a text up.",
    "properties": {"text": {"type": "string"}, "_delegate": {"const": "anonymous"}, "_output": {}},
    "required": ["text"],
}


def answer(output: object, *calls: dict[str, object]) -> dict[str, object]:
    """Return a turn of a composed request."""
    return {"text": json.dumps({"output": output, "calls": list(calls)})}


async def test_a_delegate_is_below_the_call_that_it_executes() -> None:
    watching, registry = Watching(), tw.Registry()
    registry.tool("sum_up", SUM_UP)
    turns = [answer(None, {"_tool": "sum_up", "text": "long"}), answer({"done": True})]
    model = ScriptedModel({"request": turns, "sum_up": [answer("short")]})
    async with at_work(tw.App(registry=registry), watching) as rt, asyncio.timeout(20):
        tool = {"type": "tool", "tool": "sum_up"}
        await rt.request({"model": model}, {"type": "object", "additionalProperties": True}, [tool])
    assert watching.tree == lines("""
        invoke_agent composed requests
          step 1
            chat scripted
            execute_tool sum_up: waiting
              invoke_agent composed requests
                step 1
                  chat scripted
          step 1
            execute_tool sum_up
          step 2
            chat scripted
    """)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_run_that_waits_goes_on_in_the_same_trace_in_the_next_process(
    kind: str, tmp_path: Path
) -> None:
    before, after = Watching(), Watching()
    async with stores(kind, tmp_path) as store:
        async with at_work(_asker(), before, store, inline_wait=0.0) as rt:
            run = await send_to(rt, "boss", "go")
            async with asyncio.timeout(10):
                async for event in rt.events.follow(Topic(kind="run", id=run.id), after=0):
                    if event.type == "run.waiting":
                        break
            calls = await rt.calls.list(status=("waiting",), run_id=run.id)
        async with at_work(_asker(), after, store) as rt:
            await rt.calls.submit(run.id, calls[0].id, "They said so.")
            assert (await rt.runs.wait(run.id, 20)).status == "completed"
    assert before.tree == lines("""
        invoke_agent boss
          step 1
            chat scripted
            execute_tool ask: waiting
    """)
    assert after.tree == lines("""
        step 1
          execute_tool ask
        step 2
          chat scripted
    """)
    root = before.span("invoke_agent boss").context
    assert root is not None
    resumed = [span for span in after.ended if span.name.startswith(("step", "execute_run"))]
    for span in (*resumed, before.span("execute_run boss")):
        assert span.parent is not None
        assert (span.parent.trace_id, span.parent.span_id) == (root.trace_id, root.span_id)


async def test_a_run_whose_process_died_goes_on_below_a_root_that_was_exported(tmp_path: Path) -> None:
    before, after = Watching(), Watching()
    asked, never = asyncio.Event(), asyncio.Event()

    async def silent(_: Sequence[Message]) -> dict[str, object]:
        asked.set()
        await never.wait()
        return DONE

    def boss(model: Model) -> tw.App:
        return tw.App(agents=[tw.Agent("boss", tw.Prompt("boss", "You work.", model=model))])

    async with stores("sqlite", tmp_path) as store, at_work(boss(FunctionModel(silent)), before, store) as rt:
        run = await send_to(rt, "boss", "go")
        async with asyncio.timeout(20):
            await asked.wait()
        exported = [*before.ended]  # the spans exported by a process that dies now
        async with at_work(boss(ScriptedModel([DONE])), after, store) as next_rt:
            assert (await next_rt.runs.wait(run.id, 20)).status == "completed"
    [root] = [span.context for span in exported if span.parent is None]
    known = {span.context.span_id for span in (*exported, *after.ended) if span.context is not None}
    assert all(span.parent is not None and span.parent.span_id in known for span in after.ended)
    assert {span.context.trace_id for span in after.ended if span.context} == {root.trace_id if root else 0}


def _asker() -> tw.App:
    return tw.App(agents=[agent_of("boss", [call("ask"), DONE], ask)])


async def test_an_error_is_on_the_span_of_its_call() -> None:
    watching = Watching()
    app = tw.App(agents=[agent_of("boss", [call("fail"), call("add", a="x"), call("ad"), DONE], fail, add)])
    async with at_work(app, watching) as rt:
        await led(rt, "boss")
    failed = watching.span("execute_tool fail")
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "no luck with None")
    assert (failed.attributes or {})["error.type"] == "tool_error"
    [event] = failed.events
    described = dict(event.attributes or {})
    assert (described["exception.type"], described["exception.message"]) == (
        "ValueError",
        "no luck with None",
    )
    assert "ValueError: no luck with None" in str(described["exception.stacktrace"])
    refused = watching.span("execute_tool add")
    assert (refused.attributes or {})["error.type"] == "invalid_arguments"
    assert refused.events == ()
    assert (watching.span("execute_tool ad").attributes or {})["error.type"] == "unknown_tool"
    assert [failure.type for failure in watching.failures] == ["ValueError"]


SECRET = "sk-very-secret-4711"


async def _with_a_secret(watching: Watching) -> None:
    turns = [
        call("add", a=90125, b=2),
        call("tell"),
        call("fail"),
        call("ask_it"),
        DONE,
    ]

    @tw.tool(description="Tell.")
    async def tell(state: tw.ThreadState) -> str:
        return f"The key is {await state.env('KEY')}."

    @tw.tool(description="Ask.")
    async def ask_it(state: tw.ThreadState) -> tw.ToolResult:
        return tw.ToolResult.fail(f"{await state.env('KEY')} is wrong", error_code="wrong_key")

    app = tw.App(agents=[agent_of("boss", turns, add, tell, fail, ask_it)])
    async with at_work(app, watching) as rt:
        run = await ran(rt, "boss", "go", env={"KEY": SECRET})
        assert run.status == "completed"


async def test_spans_hold_no_arguments_and_no_results() -> None:
    watching = Watching()
    await _with_a_secret(watching)
    assert "90125" not in watching.written
    assert "The key is" not in watching.written
    assert SECRET not in watching.written


async def test_spans_hold_arguments_and_results_without_secrets_where_that_is_switched_on() -> None:
    watching = Watching(content=True)
    await _with_a_secret(watching)
    added = watching.span("execute_tool add").attributes or {}
    assert json.loads(str(added["gen_ai.tool.call.arguments"])) == {"a": 90125, "b": 2}
    assert added["gen_ai.tool.call.result"] == "90127"
    assert (watching.span("execute_tool tell").attributes or {})["gen_ai.tool.call.result"] == (
        "The key is [redacted:KEY]."
    )
    assert SECRET not in watching.written
    assert "[redacted:KEY] is wrong" in watching.written


async def test_arguments_in_spans_are_bounded() -> None:
    watching = Watching(content=True)

    @tw.tool(description="Take.")
    async def take(text: str) -> str:
        return text

    app = tw.App(agents=[agent_of("boss", [call("take", text="x" * 100_000), DONE], take)])
    async with at_work(app, watching) as rt:
        await led(rt, "boss")
    assert len(watching.written) < 40_000


async def test_a_run_is_below_the_span_in_which_its_message_was_sent() -> None:
    watching = Watching()
    app = tw.App(agents=[agent_of("boss", [DONE])])
    async with at_work(app, watching) as rt:
        with watching.tracers.get_tracer("mine").start_as_current_span("my program"):
            await led(rt, "boss")
        await led(rt, "boss")
        assert not trace.get_current_span().get_span_context().is_valid
    assert watching.tree.startswith("my program\n  invoke_agent boss\n")
    assert watching.traces == 2


async def test_a_run_that_fails_says_so_on_its_span() -> None:
    watching = Watching()
    app = tw.App(agents=[tw.Agent("boss", tw.Prompt("boss", "You work."))])
    async with at_work(app, watching) as rt:
        assert (await led(rt, "boss")).status == "failed"
    span = watching.span("execute_run boss")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["toolwright.run.status"] == "failed"


async def test_a_model_that_fails_says_so_on_its_span_without_secrets() -> None:
    watching = Watching()
    refusing = {"text": "", "fail": "refused", "message": f"The key {SECRET} is wrong."}
    async with at_work(tw.App(agents=[agent_of("boss", [refusing])]), watching) as rt:
        run = await ran(rt, "boss", "go", env={"KEY": SECRET})
        assert run.status == "failed"
    span = watching.span("chat scripted")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "The key [redacted:KEY] is wrong."
    assert (span.attributes or {})["error.type"] == "model_refused"
    assert SECRET not in watching.written


class Broken(SpanProcessor):
    """A processor that raises at the start or the end of spans with that name prefix."""

    def __init__(self, moment: str, name: str) -> None:
        self._moment = moment
        self._name = name

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self._raise("start", span.name)

    def on_end(self, span: ReadableSpan) -> None:
        self._raise("end", span.name)

    def _raise(self, moment: str, name: str) -> None:
        if moment == self._moment and name.startswith(self._name):
            raise RuntimeError("no spans here")


@pytest.mark.parametrize("moment", ["start", "end"])
@pytest.mark.parametrize("name", ["invoke", "step", "build", "read", "chat", "execute_tool add", ""])
async def test_a_run_continues_though_it_cannot_be_followed(
    moment: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    watching = Watching()
    watching.tracers.add_span_processor(Broken(moment, name))
    turns = [call("caller"), call("add", a=1, b=2), DONE]
    async with at_work(tw.App(agents=[agent_of("boss", turns, caller, add)]), watching) as rt:
        run = await led(rt, "boss")
        messages = await rt.threads.messages(run.thread_id)
    assert (run.status, run.output) == ("completed", "Done.")
    assert [message.content for message in messages if message.role == "tool"] == ["3", "3"]
    assert "Telemetry failed. The run continues without it." in caplog.messages
