"""Hooks: each point and verdict, through `tw.run` and `tw.stream`, with their records, failures and limits."""

import asyncio
import dataclasses
from typing import Any, cast

import pytest

import toolwright as tw
from tests.kit import DONE, Watched, add, call, calls, hang, until
from tests.runtime.rig import running
from tests.runtime.solving import DONE as SOLVED
from tests.runtime.solving import greet, greeting, said, solved
from tests.runtime.test_app_calls import ended, result_of
from toolwright.core.errors import AlreadyOver, DefinitionError, InvalidRequest
from toolwright.core.hooks import HookVerdict
from toolwright.core.journal.units import Advance, Unit
from toolwright.core.model import ModelRequest, ModelResponse
from toolwright.core.threads.message import StateReport
from toolwright.core.threads.run import Run
from toolwright.core.value import changed
from toolwright.runtime.runtime import Runtime
from toolwright.testing import by_hand, runtime

pytestmark = pytest.mark.anyio


def agent_with(*hooks: tw.Hooks, model: Watched | None = None, **options: Any) -> tw.Agent:  # of an agent
    return tw.Agent("a", instructions="Help.", model=model or Watched(), hooks=hooks, **options)


async def ran(agent: tw.Agent, text: str = "Go") -> tuple[tw.RunResult, list[HookVerdict]]:
    async with runtime(tw.App(agents=[agent])) as rt:
        return await result_in(rt, text)


async def result_in(
    rt: Runtime, text: str = "Go", thread_id: str | None = None
) -> tuple[tw.RunResult, list[HookVerdict]]:
    if thread_id is None:
        thread_id = (await rt.threads.create("a")).id
    run = await rt.runs.wait((await rt.threads.send(thread_id, text)).id)
    return await rt.runs.result(run.id), [*await rt.runs.verdicts(run.id)]


def rulings(rows: list[HookVerdict]) -> list[tuple[str, str, str, str | None]]:
    return [(each.hook, each.point, each.ruling, each.reason) for each in rows]


class Seen(tw.Hooks):
    """Notes what each point gets."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def before_run(self, event: tw.BeforeRun, /) -> None:
        self.events.append(("before_run", event))

    def before_model(self, event: tw.BeforeModel, /) -> None:
        self.events.append(("before_model", event))

    async def after_model(self, event: tw.AfterModel, /) -> None:
        await asyncio.sleep(0)
        self.events.append(("after_model", event))

    def before_call(self, event: tw.BeforeCall, /) -> None:
        self.events.append(("before_call", event))

    def after_call(self, event: tw.AfterCall, /) -> None:
        self.events.append(("after_call", event))

    async def after_run(self, event: tw.AfterRun, /) -> None:
        self.events.append(("after_run", event))


async def test_hooks_are_asked_at_each_point_and_nothing_is_recorded_without_a_verdict() -> None:
    seen = Seen()
    model = Watched([call("add", a=1, b=2), DONE])
    result, rows = await ran(agent_with(seen, model=model, tools=[add]), "One and two?")
    assert result.text == "Done."
    assert rows == []
    assert [point for point, _ in seen.events] == [
        "before_run", "before_model", "after_model", "before_call", "after_call",
        "before_model", "after_model", "after_run",
    ]  # fmt: skip
    by_point = dict(reversed(seen.events))
    assert by_point["before_run"].message.content == "One and two?"
    assert by_point["before_model"].request.system == "Help."
    assert by_point["after_model"].answer.calls[0].name == "add"
    assert by_point["before_call"].arguments == {"a": 1, "b": 2}
    assert by_point["before_call"].tool.name == "add"
    assert by_point["after_call"].result.result == 3
    assert by_point["after_run"].run.status == "completed"
    for _, event in seen.events:
        assert (event.agent, event.thread_id, event.run_id) == ("a", result.thread_id, result.run_id)
    assert [event.step for _, event in seen.events] == [0, 0, 0, 1, 1, 1, 1, 2]


def noting(log: list[str], own: str) -> tw.Hooks:
    class Noting(tw.Hooks):
        name = own

        def before_call(self, event: tw.BeforeCall, /) -> None:
            log.append(f"before {own}")

        def after_call(self, event: tw.AfterCall, /) -> None:
            log.append(f"after {own}")

    return Noting()


async def test_hooks_of_app_agent_and_prompt_are_asked_in_this_order_and_afterwards_in_the_reverse() -> None:
    log: list[str] = []
    shared = noting(log, "app")
    prompt = tw.Prompt(
        "p", tools=[add], model=Watched([call("add", a=1, b=2), DONE]), hooks=[noting(log, "prompt")]
    )
    agent = tw.Agent("a", prompt, hooks=[noting(log, "agent"), shared])
    async with runtime(tw.App(agents=[agent], hooks=[shared])) as rt:
        await result_in(rt)
    assert log == [
        "before app", "before agent", "before prompt", "after prompt", "after agent", "after app"
    ]  # fmt: skip


class Bouncer(tw.Hooks):
    name = "bouncer"

    def before_run(self, event: tw.BeforeRun, /) -> tw.Reject | None:
        return tw.Reject("Not about that.") if "secret" in event.message.content else None


async def test_a_rejected_message_is_recorded_and_never_sent_to_a_model() -> None:
    model = Watched()
    async with runtime(tw.App(agents=[agent_with(Bouncer(), model=model)])) as rt:
        result, rows = await result_in(rt, "The secret plan")
        assert (result.status, result.stop_reason, result.output) == (
            "completed",
            "rejected",
            "Not about that.",
        )
        assert result.text == "Not about that."
        assert model.requests == []
        assert rulings(rows) == [("bouncer", "before_run", "rejected", "Not about that.")]
        again, _ = await result_in(rt, "Hello", result.thread_id)
        assert again.text == "Done."
        assert [each.content for each in model.requests[0].messages] == ["Hello"]
        kept = await rt.threads.messages(result.thread_id)
        assert [each.content for each in kept] == ["The secret plan", "Not about that.", "Hello", "Done."]


async def test_a_message_that_joins_a_run_is_rejected_with_the_run_and_never_sent() -> None:
    reached, go = asyncio.Event(), asyncio.Event()

    @tw.tool(description="Waits.")
    async def wait() -> str:
        reached.set()
        await go.wait()
        return "waited"

    model = Watched([call("wait"), DONE])
    async with runtime(tw.App(agents=[agent_with(Bouncer(), model=model, tools=[wait])])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.threads.send(thread.id, "Hello")
        await reached.wait()
        joined = await rt.threads.send(thread.id, "The secret plan")
        assert joined.id == run.id
        go.set()
        over = await rt.runs.wait(run.id)
        assert (over.status, over.stop_reason, over.output) == ("completed", "rejected", "Not about that.")
        assert len(model.requests) == 1
        again, _ = await result_in(rt, "And now?", thread.id)
        assert again.text == "Done."
        assert "The secret plan" not in [each.content for each in model.requests[-1].messages]


class Redacting(tw.Hooks):
    name = "redacting"

    def before_model(self, event: tw.BeforeModel, /) -> ModelRequest:
        messages = [
            dataclasses.replace(each, content=each.content.replace("ann@x.org", "[e-mail]"))
            for each in event.request.messages
        ]
        return dataclasses.replace(event.request, messages=tuple(messages))


async def test_a_changed_request_is_sent_and_its_change_is_recorded_and_rebuilt() -> None:
    model = Watched([call("add", a=1, b=2), DONE])
    async with runtime(tw.App(agents=[agent_with(Redacting(), model=model, tools=[add])])) as rt:
        result, rows = await result_in(rt, "I am ann@x.org")
        for request in model.requests:
            assert request.messages[0].content == "I am [e-mail]"
        assert rulings(rows) == [("redacting", "before_model", "changed", None)] * 2
        assert rows[0].details is not None
        assert rows[0].details.keys() == {"messages"}
        prompts = await rt.sent_prompts.of_run(result.run_id)
        assert [each.messages[0].content for each in prompts] == ["I am [e-mail]"] * 2
        kept = await rt.threads.messages(result.thread_id)
        assert kept[0].content == "I am ann@x.org"


class Narrowing(tw.Hooks):
    def before_model(self, event: tw.BeforeModel, /) -> ModelRequest:
        settings = tw.model.ModelSettings(temperature=0.5)
        return dataclasses.replace(event.request, system="Be brief.", tools=(), settings=settings)


async def test_a_hook_changes_instructions_and_settings_and_removes_tools() -> None:
    model = Watched()
    async with runtime(tw.App(agents=[agent_with(Narrowing(), model=model, tools=[add])])) as rt:
        result, rows = await result_in(rt)
        [request] = model.requests
        assert (request.system, request.tools) == ("Be brief.", ())
        assert request.settings is not None
        assert request.settings.temperature == 0.5
        assert rows[0].details == {"instructions": True, "tools": ["add"], "settings": ["temperature"]}
        [prompt] = await rt.sent_prompts.of_run(result.run_id)
        assert (prompt.system, prompt.tools) == ("Be brief.", ())


class Twice(tw.Hooks):
    def before_model(self, event: tw.BeforeModel, /) -> ModelRequest:
        return dataclasses.replace(event.request, tools=event.request.tools * 2)


def changing(**changes: Any) -> tw.Hooks:  # of a request
    class Changing(tw.Hooks):
        def before_model(self, event: tw.BeforeModel, /) -> ModelRequest:
            return dataclasses.replace(event.request, **changes)

    return Changing()


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (changing(who=("b",)), "it changed 'who' of the request"),
        (
            changing(tools=(tw.model.ToolDefinition(name="x", description="", parameters={}),)),
            "it added the tool 'x'",
        ),
        (changing(messages=(3,)), "each message must be a Message"),
        (Twice(), "it named a tool twice"),
        (changing(messages=None), "failed at before_model: "),
        (changing(tools=None), "failed at before_model: "),
        (
            changing(settings={"temperature": 0.5}),
            "the settings must be ModelSettings, not a value of the type",
        ),
        (
            changing(state=StateReport(agent="a", parts={"x": "y"})),
            "it changed the state of the request in more than",
        ),
    ],
)
async def test_a_request_is_not_changed_beyond_what_a_hook_may_change(hook: tw.Hooks, message: str) -> None:
    result, rows = await ran(agent_with(hook, tools=[add]))
    assert (result.status, result.error_code) == ("failed", "hook_failed")
    assert message in (result.error or "")
    assert [each.ruling for each in rows] == ["failed"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": None}, "The hook 'Changing' failed at after_model: it returned None instead of a text."),
        ({"calls": ("x",)}, "failed at after_model: it returned usage or calls of an invalid type"),
        ({"usage": None}, "failed at after_model: it returned usage or calls of an invalid type"),
    ],
)
async def test_an_answer_is_not_changed_to_values_of_other_types(changes: Any, message: str) -> None:
    class Changing(tw.Hooks):
        def after_model(self, event: tw.AfterModel, /) -> ModelResponse:
            return dataclasses.replace(event.answer, **changes)

    class Observing(Changing):
        on_error = "continue"

    result, _ = await ran(agent_with(Changing()))
    assert message in (result.error or "")
    assert result.error_code == "hook_failed"
    result, rows = await ran(agent_with(Observing()))
    assert (result.output, [each.ruling for each in rows]) == ("Done.", ["failed"])


async def test_a_hook_may_not_leave_a_call_without_its_result() -> None:
    class Cutting(tw.Hooks):
        def before_model(self, event: tw.BeforeModel, /) -> ModelRequest:
            return dataclasses.replace(event.request, messages=event.request.messages[:2])

    model = Watched([call("add", a=1, b=2), DONE])
    result, _ = await ran(agent_with(Cutting(), model=model, tools=[add]))
    assert result.status == "failed"
    assert "without its result" in (result.error or "")


class Polite(tw.Hooks):
    name = "polite"

    async def after_model(self, event: tw.AfterModel, /) -> ModelResponse | tw.ModelRetry | None:
        if "damn" in event.answer.text:
            return tw.ModelRetry("Say it politely.")
        if "Done" in event.answer.text:
            return dataclasses.replace(event.answer, text="All done.")
        return None


async def test_an_answer_is_sent_back_with_the_reason_then_changed() -> None:
    model = Watched([{"text": "damn"}, DONE])
    async with runtime(tw.App(agents=[agent_with(Polite(), model=model)])) as rt:
        result, rows = await result_in(rt)
        assert (result.text, result.output) == ("All done.", "All done.")
        assert [each.content for each in model.requests[1].messages][1:] == ["damn", "Say it politely."]
        assert rulings(rows) == [
            ("polite", "after_model", "retried", "Say it politely."),
            ("polite", "after_model", "changed", None),
        ]
        kept = await rt.threads.messages(result.thread_id)
        assert kept[-1].content == "All done."


async def test_a_model_that_is_sent_back_again_and_again_fails_the_run() -> None:
    model = Watched([{"text": "damn"}] * 5)
    result, rows = await ran(agent_with(Polite(), model=model))
    assert (result.status, result.error_code) == ("failed", "hook_failed")
    assert result.error == (
        "A hook has sent the model's answer back 3 times in a row: Say it politely. The last answer: damn"
    )
    assert [each.ruling for each in rows] == ["retried"] * 3
    assert len(model.requests) == 3


class Guard(tw.Hooks):
    name = "guard"

    def __init__(self, verdict: Any) -> None:  # a verdict, or what returns one
        self.verdict = verdict

    def before_call(self, event: tw.BeforeCall, /) -> tw.Deny | tw.Replace | tw.Ask | None:
        verdict: Any = self.verdict(event) if callable(self.verdict) else self.verdict
        return verdict


def one_call(*hooks: tw.Hooks, **options: Any) -> tw.Agent:  # of an agent
    return agent_with(*hooks, model=Watched([call("add", a=1, b=2), DONE]), tools=[add], **options)


async def test_a_denied_call_is_not_executed_and_the_model_reads_why() -> None:
    result, rows = await ran(one_call(Guard(tw.Deny("No sums today."))))
    assert (result.calls[0].result or {}) == {
        "error": "No sums today.",
        "error_code": "denied",
    } or result.calls
    assert rulings(rows) == [("guard", "before_call", "denied", "No sums today.")]
    [answer] = [each for each in result.messages if each.role == "tool"]
    assert "No sums today." in answer.content
    assert answer.status == "error"


async def test_replaced_arguments_are_validated_executed_and_recorded() -> None:
    async with runtime(tw.App(agents=[one_call(Guard(tw.Replace({"a": 5, "b": 5}, "round")))])) as rt:
        result, rows = await result_in(rt)
        [answer] = [each for each in result.messages if each.role == "tool"]
        assert answer.content == "10"
        assert rulings(rows) == [("guard", "before_call", "replaced", "round")]
        assert rows[0].call_id is not None
        row = await rt.calls.get(rows[0].call_id)
        assert (row.arguments, row.requested) == ('{"a":5,"b":5}', '{"a":1,"b":2}')


async def test_replaced_arguments_of_a_call_of_a_handler_are_executed_and_recorded() -> None:
    class Rounding(tw.Hooks):
        def before_call(self, event: tw.BeforeCall, /) -> tw.Replace | None:
            return tw.Replace({"a": 5, "b": 5}, "round") if event.call.name == "add" else None

    @tw.tool(description="Calls add.")
    async def caller(state: tw.ThreadState) -> str:
        done = await state.invoke_tool("add", {"a": 1, "b": 2})
        return f"It is {done.result}."

    model = Watched([call("caller"), DONE])
    async with runtime(tw.App(agents=[agent_with(Rounding(), model=model, tools=[caller, add])])) as rt:
        result, rows = await result_in(rt)
        assert "It is 10." in [each.content for each in result.messages]
        assert rulings(rows) == [("Rounding", "before_call", "replaced", "round")]
        row = await rt.calls.get(rows[0].call_id or "")
        assert (row.arguments, row.requested) == ('{"a":5,"b":5}', '{"a":1,"b":2}')


async def test_invalid_replaced_arguments_deny_the_call() -> None:
    result, rows = await ran(one_call(Guard(tw.Replace({"a": "five", "b": 5}))))
    assert [each.ruling for each in rows] == ["failed"]
    [answer] = [each for each in result.messages if each.role == "tool"]
    assert "it replaced the arguments by invalid ones" in answer.content
    assert result.text == "Done."


async def test_a_call_waits_for_the_approval_that_a_hook_asks_for() -> None:
    asked: list[str] = []

    def over_two(event: tw.BeforeCall) -> tw.Ask | None:
        asked.append(event.call.id)
        return tw.Ask(tw.Approval(by="service"), "over two") if event.arguments["b"] == 2 else None

    async with runtime(tw.App(agents=[one_call(Guard(over_two))])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.threads.send(thread.id, "Go")
        await rt.runs.wait_for_input(run.id)
        [waiting] = await rt.calls.list(status=["waiting"])
        assert waiting.awaits_approval
        assert waiting.terms is not None
        assert (waiting.terms["by"], waiting.terms["why"]) == ("service", "over two.")
        [row] = await rt.runs.verdicts(run.id)
        assert rulings([row]) == [("guard", "before_call", "asked", "over two")]
        await rt.calls.submit(waiting.run_id, waiting.id, {"approved": True})
        assert (await rt.runs.wait(run.id)).output == "Done."
        assert len(asked) == 1
        assert len(await rt.runs.verdicts(run.id)) == 1


async def test_who_approves_in_the_program_reads_why_a_hook_asks() -> None:
    def asks(event: tw.BeforeCall) -> tw.Ask:
        return tw.Ask(reason="it costs money")

    seen: list[str | None] = []

    def approve(waiting: tw.CallWaiting) -> bool:
        seen.append(waiting.why)
        return True

    result = await tw.run(one_call(Guard(asks)), "Go", approve=approve)
    assert (result.text, seen) == ("Done.", ["it costs money."])
    async with tw.stream(one_call(Guard(asks)), "Go", approve=approve) as events:
        told = [each.why async for each in events if isinstance(each, tw.CallWaiting)]
    assert told == ["it costs money."]


async def test_edited_arguments_are_judged_again_and_a_second_question_is_not_asked() -> None:
    def judge(event: tw.BeforeCall) -> tw.Ask | tw.Deny:
        return tw.Deny("Too much.") if event.arguments["b"] == 100 else tw.Ask()

    async with runtime(tw.App(agents=[one_call(Guard(judge))])) as rt:
        for b, expected in ((100, "Too much."), (7, "8")):
            thread = await rt.threads.create("a")
            run = await rt.threads.send(thread.id, "Go")
            await rt.runs.wait_for_input(run.id)
            [waiting] = await rt.calls.list(status=["waiting"])
            await rt.calls.submit(waiting.run_id, waiting.id, {"approved": True, "args": {"a": 1, "b": b}})
            over = await rt.runs.wait(run.id)
            assert over.status == "completed"
            [answer] = [each for each in await rt.threads.messages(thread.id) if each.role == "tool"]
            assert expected in answer.content


async def test_approvals_of_a_tool_and_of_a_hook_are_one_question_that_satisfies_both() -> None:
    careful = dataclasses.replace(add, requires_approval=tw.Approval(by=["ann", "bob"], edit=False))
    agent = agent_with(
        Guard(tw.Ask(tw.Approval(by=["bob", "cid"], expires_in=60))),
        model=Watched([call("add", a=1, b=2), DONE]),
        tools=[careful],
    )
    async with runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.threads.send(thread.id, "Go")
        await rt.runs.wait_for_input(run.id)
        [waiting] = await rt.calls.list(status=["waiting"])
        assert waiting.terms is not None
        assert (waiting.terms["by"], waiting.terms["edit"], waiting.terms["seconds"]) == (["bob"], False, 60)


async def test_approvals_that_nobody_can_give_deny_the_call() -> None:
    careful = dataclasses.replace(add, requires_approval=tw.Approval(by=["ann"]))
    agent = agent_with(
        Guard(tw.Ask(tw.Approval(by="service"))),
        model=Watched([call("add", a=1, b=2), DONE]),
        tools=[careful],
    )
    result, _ = await ran(agent)
    [answer] = [each for each in result.messages if each.role == "tool"]
    assert "contradict each other" in answer.content


class Hiding(tw.Hooks):
    name = "hiding"

    def after_call(self, event: tw.AfterCall, /) -> tw.ToolResult | None:
        return tw.ToolResult.ok(f"about {event.result.result}")


async def test_a_changed_result_is_what_the_model_reads_and_the_journal_has() -> None:
    model = Watched([call("add", a=1, b=2), DONE])
    async with runtime(tw.App(agents=[agent_with(Hiding(), model=model, tools=[add])])) as rt:
        _, rows = await result_in(rt)
        assert model.requests[1].messages[-1].content == "about 3"
        assert rulings(rows) == [("hiding", "after_call", "changed", None)]
        assert rows[0].call_id is not None
        row = await rt.calls.get(rows[0].call_id)
        assert (row.result or {})["result"] == "about 3"


outside = tw.Tool(
    name="outside",
    description="Answered outside.",
    kind="external",
    parameters={"type": "object", "properties": {"question": {"type": "string"}}},
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"result": object()}, "it returned a result that is not JSON"),
        ({"attachments": ("x",)}, "it returned an invalid result"),
        ({"status": "fine"}, "it returned a result with the status 'fine'"),
    ],
)
async def test_a_result_is_not_changed_to_what_is_none(changes: Any, message: str) -> None:
    class Changing(tw.Hooks):
        def after_call(self, event: tw.AfterCall, /) -> tw.ToolResult:
            return dataclasses.replace(event.result, **changes)

    model = Watched([call("add", a=1, b=2), DONE])
    result, rows = await ran(agent_with(Changing(), model=model, tools=[add]))
    assert (result.status, result.error_code) == ("failed", "hook_failed")
    assert f"The hook 'Changing' failed at after_call: {message}" in (result.error or "")
    assert [each.ruling for each in rows] == ["failed"]


async def test_a_submitted_result_is_judged_before_it_is_delivered_and_replaced_in_its_row() -> None:
    model = Watched([call("outside", question="?"), DONE])
    async with runtime(tw.App(agents=[agent_with(Hiding(), model=model, tools=[outside])])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.threads.send(thread.id, "Go")
        [waiting] = await until(lambda: rt.calls.list(status=["waiting"]))
        await rt.calls.submit(waiting.run_id, waiting.id, "42")
        assert (await rt.runs.wait(run.id)).output == "Done."
        assert model.requests[1].messages[-1].content == "about 42"
        assert ((await rt.calls.get(waiting.id)).result or {})["result"] == "about 42"


class Failing(tw.Hooks):
    name = "failing"

    def __init__(self, point: str, error: BaseException) -> None:
        self._point, self._error = point, error

    def _fail(self, point: str) -> None:
        if point == self._point:
            raise self._error

    def before_run(self, event: tw.BeforeRun, /) -> None:
        self._fail("before_run")

    def before_model(self, event: tw.BeforeModel, /) -> None:
        self._fail("before_model")

    async def after_model(self, event: tw.AfterModel, /) -> None:
        await asyncio.sleep(0)
        self._fail("after_model")

    def before_call(self, event: tw.BeforeCall, /) -> None:
        self._fail("before_call")

    async def after_call(self, event: tw.AfterCall, /) -> None:
        self._fail("after_call")

    def after_run(self, event: tw.AfterRun, /) -> None:
        self._fail("after_run")


class Observing(Failing):
    on_error = "continue"


ERRORS = [ValueError("no"), SystemExit(3), asyncio.CancelledError(), StopIteration(1)]


@pytest.mark.parametrize("point", ["before_run", "before_model", "after_model", "after_call"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
async def test_a_hook_that_raises_fails_the_run_with_its_name(point: str, error: BaseException) -> None:
    result, rows = await ran(one_call(Failing(point, error)))
    assert (result.status, result.error_code) == ("failed", "hook_failed")
    assert f"The hook 'failing' failed at {point}" in (result.error or "")
    assert [(each.point, each.ruling) for each in rows] == [(point, "failed")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
async def test_a_hook_that_raises_before_a_call_denies_it(error: BaseException) -> None:
    result, rows = await ran(one_call(Failing("before_call", error)))
    assert result.text == "Done."
    [answer] = [each for each in result.messages if each.role == "tool"]
    assert "The hook 'failing' failed at before_call" in answer.content
    assert [each.ruling for each in rows] == ["failed"]


async def test_a_hook_that_fails_after_the_run_is_logged_alone() -> None:
    result, _ = await ran(one_call(Failing("after_run", ValueError("no"))))
    assert result.status == "completed"


@pytest.mark.parametrize("point", ["before_run", "before_model", "after_model", "before_call", "after_call"])
async def test_a_hook_that_only_observes_fails_nothing(point: str) -> None:
    result, rows = await ran(one_call(Observing(point, ValueError("no"))))
    assert result.text == "Done."
    assert {each.ruling for each in rows} == {"failed"}


class Slow(tw.Hooks):
    timeout = 0.01

    async def before_call(self, event: tw.BeforeCall, /) -> None:
        await hang()


async def test_a_hook_that_takes_too_long_has_failed() -> None:
    result, _ = await ran(one_call(Slow()))
    [answer] = [each for each in result.messages if each.role == "tool"]
    assert "it took longer than 0.01 s" in answer.content


async def test_a_cancelled_run_does_not_wait_for_its_hook() -> None:
    reached = asyncio.Event()

    class Hanging(tw.Hooks):
        async def before_call(self, event: tw.BeforeCall, /) -> None:
            reached.set()
            await hang()

    async with runtime(tw.App(agents=[one_call(Hanging())])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.threads.send(thread.id, "Go")
        await reached.wait()
        await rt.runs.cancel(run.id)
        assert (await rt.runs.wait(run.id)).status == "cancelled"


async def test_the_state_of_a_hook_reads_the_thread_and_neither_writes_nor_reads_secrets() -> None:
    errors: list[str] = []

    class Reading(tw.Hooks):
        async def before_call(self, event: tw.BeforeCall, /) -> None:
            state = event.state
            assert (await state.get_messages())[0].content == "Go"
            assert await state.env("color") == "blue"
            for act in (
                lambda: state.set_value("x", 1),
                lambda: state.emit("x"),
                lambda: state.inject_message("x"),
                lambda: state.call_id,
            ):
                with pytest.raises(InvalidRequest) as raised:
                    act()
                errors.append(raised.value.message)
            for later in (state.env("token"), state.invoke_tool("add", {"a": 1, "b": 1}), state.elicit("?")):
                with pytest.raises(InvalidRequest) as raised:
                    await later
                errors.append(raised.value.message)

    env = {"color": {"value": "blue", "type": "text"}, "token": "s3cret"}
    result, rows = await ran(one_call(Reading(), env=env))
    assert rows == []
    assert result.text == "Done."
    assert errors[0] == "Only a tool's handler can change its thread. Here the state is read-only."
    assert errors[4] == "'token' is a secret, which only a tool's handler can read."


async def test_a_hook_that_changes_the_arguments_in_place_changes_nothing() -> None:
    def spoil(event: tw.BeforeCall) -> None:
        event.arguments["b"] = 100

    result, rows = await ran(one_call(Guard(spoil)))
    [answer] = [each for each in result.messages if each.role == "tool"]
    assert answer.content == "3"
    assert rows == []


async def test_a_hook_asks_a_model_and_the_run_pays_for_it() -> None:
    judge = Watched([{"text": "no", "usage": {"input_tokens": 7000, "output_tokens": 5}}])

    class Judging(tw.Hooks):
        async def before_call(self, event: tw.BeforeCall, /) -> tw.Deny | None:
            verdict = await event.sample("May it?", model=judge, system="Judge.")
            return None if verdict.text == "yes" else tw.Deny(f"The judge says {verdict.text}.")

    result, rows = await ran(one_call(Judging()))
    without, _ = await ran(one_call(Guard(tw.Deny("The judge says no."))))
    assert rulings(rows) == [("Judging", "before_call", "denied", "The judge says no.")]
    assert judge.requests[0].system == "Judge."
    assert result.usage.input_tokens == without.usage.input_tokens + 7000


async def test_an_answer_that_a_hook_gets_while_a_unit_is_committed_is_paid_for_by_the_next() -> None:
    judge = Watched([{"text": "yes", "usage": {"input_tokens": 7000, "output_tokens": 5}}])
    committing, sampled = asyncio.Event(), asyncio.Event()

    class Judging(tw.Hooks):
        async def after_call(self, event: tw.AfterCall, /) -> None:
            if event.call.name == "second":
                await committing.wait()
            await event.sample("Is it right?", model=judge)
            if event.call.name == "second":
                sampled.set()

    async def hold(_: int, unit: Unit) -> None:
        if isinstance(unit, Advance) and unit.run.usage.input_tokens >= 7000 and not committing.is_set():
            committing.set()
            await asyncio.wait_for(sampled.wait(), 30)

    @tw.tool(read_only=True)
    async def first() -> str:
        """The first of two."""
        return "1"

    @tw.tool(read_only=True)
    async def second() -> str:
        """The second of two."""
        return "2"

    own = {"usage": {"input_tokens": 10, "output_tokens": 5}}
    model = Watched([{**calls("first", "second"), **own}, {"text": "Done.", **own}])
    async with running(model, [first, second], options={"hooks": [Judging()], "parallel": 2}) as rig:
        rig.store.before = hold
        run = await rig.run()
    assert (run.status, committing.is_set()) == ("completed", True)
    assert run.usage.input_tokens == 2 * 10 + 2 * 7000


async def test_calls_of_every_kind_of_executor_are_judged() -> None:
    """A function, a prompt tool, a subagent, a tool without an executor, and the calls of a handler."""

    @tw.tool(description="Calls add.")
    async def caller(state: tw.ThreadState) -> str:
        done = await state.invoke_tool("add", {"a": 1, "b": 1})
        return str(done.result)

    sub = tw.Prompt("sub", tool_description="A prompt.", expose_as_tool=True, model=Watched())
    child = tw.Agent("child", instructions="", model=Watched())
    internal = tw.Tool(name="note", description="Notes.", kind="internal", parameters={"type": "object"})
    model = Watched(
        [
            call("caller"),
            call("sub", message="Hi"),
            call("child", message="Hi"),
            call("note"),
            DONE,
        ]
    )
    seen = Seen()
    agent = agent_with(
        seen, model=model, tools=[add, caller, "sub", child.as_tool("A child."), internal], parallel=4
    )
    async with runtime(tw.App(agents=[agent], prompts=[sub])) as rt:
        result, _ = await result_in(rt)
        assert result.text == "Done."
    for point in ("before_call", "after_call"):
        names = [event.call.name for each, event in seen.events if each == point]
        assert sorted(names) == ["add", "caller", "child", "note", "sub"]


async def test_concurrent_calls_are_judged_each_and_run_at_once() -> None:
    inside, both = 0, asyncio.Event()

    @tw.tool(description="Reads.", read_only=True)
    async def look(at: int) -> int:
        nonlocal inside
        inside += 1
        if inside == 2:
            both.set()
        await both.wait()
        return at

    model = Watched([calls(call("look", at=1), call("look", at=2), call("look", at=3)), DONE])

    def not_two(event: tw.BeforeCall) -> tw.Deny | None:
        return tw.Deny("Not two.") if event.arguments["at"] == 2 else None

    hook = Guard(not_two)
    result, rows = await ran(agent_with(hook, Hiding(), model=model, tools=[look], parallel=3))
    answers = [each.content for each in result.messages if each.role == "tool"]
    assert "Not two." in answers[1]
    assert (answers[0], answers[2]) == ("about 1", "about 3")
    assert sorted(each.ruling for each in rows) == ["changed", "changed", "denied"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tw.Agent("a", instructions="", hooks=cast("Any", [3])),
            "hooks must be a list of instances of classes derived",
        ),
        (
            lambda: tw.Agent("a", instructions="", hooks=cast("Any", [tw.Hooks])),
            "hooks must be instances",
        ),
        (
            lambda: tw.Agent("a", instructions="", hooks=cast("Any", tw.Hooks())),
            "hooks must be a list of instances",
        ),
        (lambda: tw.Deny(""), "Deny needs a reason"),
        (lambda: tw.Reject(None), "Reject needs a reason"),  # type: ignore[arg-type]  # input of a user
        (lambda: tw.ModelRetry(3), "ModelRetry needs a reason"),  # type: ignore[arg-type]  # the same
        (lambda: tw.Replace([1]), "Replace needs a dict"),  # type: ignore[arg-type]  # the same
        (lambda: tw.Ask(tw.Approval(when=lambda arguments: True)), "Ask needs an Approval without when="),
        (lambda: tw.Ask(True), "Ask needs a tw.Approval"),  # type: ignore[arg-type]  # the same
    ],
)
def test_invalid_hooks_and_verdicts_are_refused_where_they_are_written(make: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("before_cal", "before_call"),
        ("befor_call", "before_call"),
        ("beforeCall", "before_call"),
        ("after_runs", "after_run"),
        ("onerror", "on_error"),
        ("time_out", "timeout"),
        ("holdText", "hold_text"),
    ],
)
def test_a_misspelt_method_or_attribute_of_a_hook_is_refused_with_the_nearest_one(
    written: str, meant: str
) -> None:
    misspelt = type("Misspelt", (Polite,), {written: None})
    with pytest.raises(DefinitionError, match=rf"has '{written}', which is .* Did you mean '{meant}'\?"):
        tw.App(hooks=[misspelt()])


async def _takes_no_event(self: tw.Hooks) -> None: ...


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hold_text": "yes"}, "hold_text must be True or False, not 'yes'"),
        ({"before_call": None}, "before_call must be a method that takes the event"),
        ({"after_model": _takes_no_event}, "after_model must be a method that takes the event"),
    ],
)
def test_invalid_members_of_a_hook_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        tw.App(hooks=[type("Wrong", (Polite,), fields)()])


def test_a_hook_can_have_methods_of_its_own() -> None:
    tw.App(hooks=[type("Own", (Polite,), {"ask_model": print, "names": (), "log": print})()])


def test_a_hook_without_a_method_and_a_hook_that_is_a_class_are_refused() -> None:
    class Empty(tw.Hooks):
        def on_tool(self, event: object) -> None: ...

    with pytest.raises(
        DefinitionError, match=r"the hook 'Empty' has no method of a hook\. Write one of before_run"
    ):
        tw.App(hooks=[Empty()])
    with pytest.raises(DefinitionError, match=r"hooks must be instances\. Write Polite\(\), not Polite\."):
        tw.App(hooks=cast("Any", [Polite]))


@pytest.mark.parametrize("own", [5, "a\nb", "n" * 201])
def test_the_name_of_a_hook_is_one_line_of_text(own: Any) -> None:
    class Named(Polite):
        name = own

    with pytest.raises(
        DefinitionError, match="the hook 'Named': name must be text of at most 200 characters"
    ):
        tw.App(hooks=[Named()])


async def test_a_verdict_of_another_point_is_a_failure() -> None:
    result, _ = await ran(one_call(Guard(tw.Reject("No."))))
    [answer] = [each for each in result.messages if each.role == "tool"]
    assert "before_call must return one of None, tw.Deny, tw.Replace, tw.Ask" in answer.content


async def test_hooks_of_an_app_hold_for_calls_of_its_toolkits_and_of_configured_agents() -> None:
    app = tw.App(
        tools=[add],
        agents=[tw.Agent("a", instructions="", tools=["add"])],
        hooks=[Guard(tw.Deny("No sums."))],
    )
    async with runtime(app) as rt:
        toolkit = await rt.toolkit("a")
        answer = await toolkit.handlers["add"]({"a": 1, "b": 2})
        assert answer["is_error"] is True
        assert "No sums." in str(answer["content"])


async def test_calls_of_hosts_are_judged_by_the_hooks_of_the_app() -> None:
    for verdict, expected in ((tw.Deny("Not here."), "Not here."), (tw.Replace({"a": 5, "b": 5}), 10)):
        async with runtime(tw.App(tools=[add], hooks=[Guard(verdict)])) as rt:
            row = await ended(rt, "add", {"a": 1, "b": 2})
            result = result_of(rt, row)
            assert (result.error or result.result) == expected
            assert len(await rt.runs.verdicts(row.run_id)) == 1


@pytest.mark.parametrize("has_handler", [True, False])
async def test_calls_of_composed_requests_are_judged_by_the_hooks_of_the_app(has_handler: bool) -> None:
    seen = Seen()
    registry = greeting() if has_handler else tw.Registry()
    app = tw.App(registry=registry, hooks=[Hiding(), seen])
    turns = [said(None, greet("Ada")), said(SOLVED)]
    solution, _ = await solved(turns, app=app)
    assert solution.output == SOLVED
    assert [event.call.name for point, event in seen.events if point == "before_call"] == ["greetUser"]
    assert "about " in str(solution.calls[0].result)


# ── what is shown live ──────────────────────────────────────────────────────────────────────────────────────


async def events_of(agent: tw.Agent) -> list[tw.RunEvent]:
    async with tw.stream(agent, "Go") as stream:
        return [event async for event in stream]


def shown(events: list[tw.RunEvent]) -> str:
    """Return the text as a follower shows it at the end."""
    text = ""
    for each in events:
        if isinstance(each, tw.TextReset):
            text = ""
        elif isinstance(each, tw.TextDelta):
            text += each.text
    return text


async def test_an_answer_that_is_changed_after_it_was_shown_begins_anew() -> None:
    events = await events_of(agent_with(Polite(), model=Watched([{"text": "Done.", "delay": 0.1}])))
    assert any(isinstance(each, tw.TextReset) for each in events)
    assert shown(events) == "All done."


async def test_a_hook_that_holds_the_text_shows_only_the_verdict() -> None:
    class Held(Polite):
        hold_text = True

    model = Watched([{"text": "damn", "delay": 0.1}, {"text": "Done.", "delay": 0.1}])
    events = await events_of(agent_with(Held(), model=model))
    texts = "".join([each.text for each in events if isinstance(each, tw.TextDelta)])
    assert "damn" not in texts
    assert shown(events) == "All done."
    done = events[-1]
    assert isinstance(done, tw.RunDone)
    assert "damn" not in str(done.result.messages)


async def test_a_process_that_dies_before_it_has_asked_about_the_end_is_made_up_for() -> None:
    asked: list[str] = []

    class Dying(tw.Hooks):
        def after_run(self, event: tw.AfterRun, /) -> None:
            asked.append(f"{event.run.status} {event.run.output}")
            if len(asked) == 1:
                raise KeyboardInterrupt

    async with by_hand(tw.App(agents=[agent_with(Dying())])) as (rt, motor):
        thread = await rt.threads.create("a")
        await rt.threads.send(thread.id, "Go")
        with pytest.raises(KeyboardInterrupt):
            await motor.run_until_idle()
        await motor.run_timers()
        assert asked == ["completed Done."] * 2
        await motor.run_timers()
        assert len(asked) == 2


async def test_the_end_of_a_run_is_asked_about_once_if_nothing_happens() -> None:
    asked: list[str] = []

    class Noting(tw.Hooks):
        async def after_run(self, event: tw.AfterRun, /) -> None:
            asked.append(event.run.status)

    async with by_hand(tw.App(agents=[agent_with(Noting())])) as (rt, motor):
        thread = await rt.threads.create("a")
        await rt.threads.send(thread.id, "Go")
        await motor.run_until_idle()
        await motor.run_timers()
        assert asked == ["completed"]


async def test_an_answer_that_is_sent_back_after_it_was_shown_is_void() -> None:
    was_shown = asyncio.Event()

    class Late(Polite):
        async def after_model(self, event: tw.AfterModel, /) -> ModelResponse | tw.ModelRetry | None:
            await was_shown.wait()
            return await super().after_model(event)

    model = Watched([{"text": "damn it all"}, DONE])
    events: list[tw.RunEvent] = []
    async with tw.stream(agent_with(Late(), model=model), "Go") as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, tw.TextDelta):
                was_shown.set()
    texts = [each for each in events if isinstance(each, tw.TextReset | tw.TextDelta)]
    assert texts[:2] == [tw.TextDelta("damn it all"), tw.TextReset()]
    assert shown(events) == "All done."


async def test_a_hook_sees_results_without_secrets_and_its_own_are_redacted() -> None:
    seen: list[object] = []

    class Looking(tw.Hooks):
        def after_call(self, event: tw.AfterCall, /) -> tw.ToolResult:
            seen.append(event.result.result)
            return tw.ToolResult.ok("again s3cret-value")

    @tw.tool(description="Tells.", variables=[tw.Variable("token", type="secret")])
    async def tell(state: tw.ThreadState) -> str:
        return f"it is {await state.env('token')}"

    model = Watched([call("tell"), DONE])
    agent = agent_with(Looking(), model=model, tools=[tell], env={"token": "s3cret-value"})
    result, _ = await ran(agent)
    [answer] = [each for each in result.messages if each.role == "tool"]
    assert "s3cret" not in str(seen)
    assert "s3cret" not in answer.content
    assert "s3cret" not in str(model.requests[1].messages)


@pytest.mark.parametrize("how", ["cancelled", "refused", "approved"])
async def test_a_run_that_waits_for_the_approval_of_a_hook_ends_as_with_any_approval(how: str) -> None:
    async with runtime(tw.App(agents=[one_call(Guard(tw.Ask()))])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.threads.send(thread.id, "Go")
        await rt.runs.wait_for_input(run.id)
        [waiting] = await rt.calls.list(status=["waiting"])
        if how == "cancelled":
            await rt.runs.cancel(run.id)
        else:
            await rt.calls.submit(run.id, waiting.id, {"approved": how == "approved"})
        over = await rt.runs.wait(run.id)
        assert over.status == ("cancelled" if how == "cancelled" else "completed")
        with pytest.raises(AlreadyOver):
            await rt.calls.submit(run.id, waiting.id, {"approved": True})
        [answer] = [each for each in await rt.threads.messages(thread.id) if each.role == "tool"]
        assert (answer.content == "3") is (how == "approved")
        assert [each.ruling for each in await rt.runs.verdicts(run.id)] == ["asked"]


async def test_a_result_that_is_submitted_to_a_call_of_a_handler_is_judged() -> None:
    @tw.tool(description="Asks outside.")
    async def caller(state: tw.ThreadState) -> str:
        done = await state.invoke_tool("outside", {"question": "?"})
        return str(done.result)

    model = Watched([call("caller"), DONE])
    agent = agent_with(Hiding(), model=model, tools=[caller, outside])
    async with runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.threads.send(thread.id, "Go")
        [waiting] = await until(lambda: rt.calls.list(status=["waiting"]))
        await rt.calls.submit(run.id, waiting.id, "42")
        assert (await rt.runs.wait(run.id)).output == "Done."
        assert ((await rt.calls.get(waiting.id)).result or {})["result"] == "about 42"
        assert model.requests[1].messages[-1].content == "about about 42"


async def test_a_request_of_a_handler_is_changed_by_hooks_before_it_is_sent() -> None:
    @tw.tool(description="Asks the model.")
    async def think(state: tw.ThreadState) -> str:
        return (await state.sample("Who is ann@x.org?")).text

    model = Watched([call("think"), DONE])
    async with runtime(tw.App(agents=[agent_with(Redacting(), model=model, tools=[think])])) as rt:
        _, rows = await result_in(rt)
        assert "ann@x.org" not in str([request.messages for request in model.requests])
        assert "Who is [e-mail]?" in [each.content for request in model.requests for each in request.messages]
        assert [each.point for each in rows] == ["before_model"] * len(model.requests)


async def test_an_answer_that_a_hook_makes_costs_what_the_answer_of_the_model_did() -> None:
    class Fresh(tw.Hooks):
        def after_model(self, event: tw.AfterModel, /) -> ModelResponse:
            return ModelResponse(text="Fresh.")

    model = Watched([{"text": "Old.", "usage": {"input_tokens": 70, "output_tokens": 5}}])
    result, _ = await ran(agent_with(Fresh(), model=model))
    assert (result.text, result.usage.input_tokens, result.usage.output_tokens) == ("Fresh.", 70, 5)


later = changed(outside, name="later", is_async=True)


async def test_hooks_are_asked_about_a_result_that_arrives_after_its_run_has_ended() -> None:
    seen = Seen()
    model = Watched([call("later", question="?"), DONE])
    agent = agent_with(seen, Hiding(), model=model, tools=[later])
    async with runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("a")
        first = await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id)
        [pending] = await rt.calls.list(status=["pending"])
        await rt.calls.submit(first.id, pending.id, "42")
        [run] = await until(lambda: _ended_after(rt, first.id, count=1))
        assert (run.status, run.output) == ("completed", "Done.")
        assert "[Tool Result: later]" in model.requests[2].messages[-1].content
        assert '"about 42"' in model.requests[2].messages[-1].content
        assert ((await rt.calls.get(pending.id)).result or {})["result"] == "about 42"
        [row] = await rt.runs.verdicts(run.id)
        assert (row.hook, row.point, row.ruling, row.call_id) == (
            "hiding",
            "after_call",
            "changed",
            pending.id,
        )
        assert [each.result.result for point, each in seen.events if point == "after_call"][-1] == "about 42"
        points = [point for point, _ in seen.events]
        assert points[points.index("after_run") + 1 :][:2] == ["after_call", "before_run"]


async def test_a_late_result_whose_hook_fails_is_never_read() -> None:
    model = Watched([call("later", question="?"), DONE])
    agent = agent_with(Failing("after_call", ValueError("no")), model=model, tools=[later])
    async with runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("a")
        first = await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id)
        [pending] = await rt.calls.list(status=["pending"])
        await rt.calls.submit(first.id, pending.id, "42")
        failed = await until(lambda: _ended_after(rt, first.id, count=3))
        assert {each.error_code for each in failed} == {"hook_failed"}
        again = await rt.runs.wait((await rt.threads.send(thread.id, "Go on")).id)
        assert again.status == "completed"
        read = [each.content for request in model.requests for each in request.messages]
        assert not any("42" in text for text in read), "neither as a message nor as a result"


async def _ended_after(rt: Runtime, first: str, *, count: int) -> list[Run]:
    ended = [each for each in await rt.runs.list() if each.over and each.id != first]
    return ended if len(ended) >= count else []


async def test_a_submitted_result_of_a_cancelled_run_is_changed_before_later_runs_read_it() -> None:
    model = Watched([{"when": "Go on", **DONE}, calls(call("slow"), call("outside", question="?"))])
    begun = asyncio.Event()

    @tw.tool(read_only=True)
    async def slow() -> str:
        """Takes long."""
        begun.set()
        await hang()
        return "never"

    waiting = changed(outside, read_only=True)
    agent = agent_with(Hiding(), model=model, tools=[slow, waiting], parallel=2)
    async with runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.threads.send(thread.id, "Go")
        await begun.wait()
        [open_call] = await until(lambda: rt.calls.list(status=["waiting"]))
        await rt.calls.submit(run.id, open_call.id, "42")
        await rt.runs.cancel(run.id)
        assert (await rt.runs.wait(run.id)).status == "cancelled"
        await rt.runs.wait((await rt.threads.send(thread.id, "Go on")).id)
        read = [each.content for each in model.requests[1].messages if each.tool_name == "outside"]
        assert read == ["about 42"]
        assert [each.ruling for each in await rt.runs.verdicts(run.id)] == ["changed"]
