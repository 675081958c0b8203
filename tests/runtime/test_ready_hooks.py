"""The ready-made hooks of `toolwright.hooks`."""

import json
from typing import Any

import pytest

import toolwright as tw
from tests.kit import DONE, Watched, call, calls
from tests.runtime.test_hooks import agent_with, ran, result_in, rulings
from toolwright.core.errors import DefinitionError
from toolwright.testing import runtime

pytestmark = pytest.mark.anyio


@tw.tool(description="Sends money.")
async def pay(amount: int, to: str = "shop") -> str:
    return f"paid {amount} to {to}"


@tw.tool(description="Searches.", read_only=True)
async def search(query: str) -> list[str]:
    return [f"about {query}", "mail bob@x.org"]


def answers(result: tw.RunResult) -> list[str]:
    return [each.content for each in result.messages if each.role == "tool"]


CASES: list[tuple[dict[str, Any], dict[str, Any], str]] = [  # rules, a call, a part of its answer
    ({"allowed": ["search"]}, call("pay", amount=1), "The tool 'pay' must not be called here."),
    ({"allowed": ["pay"]}, call("pay", amount=1), "paid 1 to shop"),
    ({"forbidden": ["pay"]}, call("pay", amount=1), "The tool 'pay' must not be called."),
    ({"forbidden": {"pay": {"properties": {"amount": {"minimum": 100}}}}}, call("pay", amount=99), "paid 99"),
    (
        {"forbidden": {"pay": {"properties": {"amount": {"minimum": 100}}}}},
        call("pay", amount=100),
        "called so.",
    ),
    (
        {"allowed": {"pay": {"properties": {"to": {"const": "shop"}}}}},
        call("pay", amount=1, to="shop"),
        "paid 1",
    ),
    (
        {"allowed": {"pay": {"properties": {"to": {"const": "shop"}}}}},
        call("pay", amount=1, to="me"),
        "called so: to",
    ),
    ({"allowed": {"pay": None}}, call("pay", amount=1), "paid 1"),
]


@pytest.mark.parametrize(("rules", "made", "expected"), CASES)
async def test_tools_are_allowed_and_forbidden_by_name_and_arguments(
    rules: dict[str, Any], made: dict[str, Any], expected: str
) -> None:
    agent = agent_with(tw.hooks.ToolRules(**rules), model=Watched([made, DONE]), tools=[pay, search])
    result, _ = await ran(agent)
    assert expected in answers(result)[0]


async def test_a_run_calls_a_tool_as_often_as_its_limit_says_also_at_once() -> None:
    turns = [calls(*[call("search", query=str(n)) for n in range(3)]), call("search", query="x"), DONE]
    agent = agent_with(tw.hooks.CallLimits(search=2), model=Watched(turns), tools=[search], parallel=4)
    async with runtime(tw.App(agents=[agent])) as rt:
        result, rows = await result_in(rt)
        denied = [each for each in answers(result) if "at most 2 times in a run" in each]
        assert len(denied) == 2
        assert [each.ruling for each in rows] == ["denied"] * 2
        again, _ = await result_in(rt, "Again", result.thread_id)
        assert len([each for each in answers(again) if "at most" in each]) == 2


async def test_patterns_are_replaced_in_requests_answers_arguments_and_results() -> None:
    hook = tw.hooks.ReplacePatterns({r"\w+@\w+\.\w+": "[e-mail]"})
    model = Watched([call("search", query="for ann@x.org"), {"text": "Write to bob@x.org."}])
    async with runtime(tw.App(agents=[agent_with(hook, model=model, tools=[search])])) as rt:
        result, rows = await result_in(rt, "I am ann@x.org")
        assert result.text == "Write to [e-mail]."
        assert json.loads(answers(result)[0]) == ["about for [e-mail]", "mail [e-mail]"]
        assert "@" not in str([[each.content for each in one.messages] for one in model.requests])
        assert "ann@x.org" not in str(model.requests[1].messages[1].calls)
        assert {each.ruling for each in rows} == {"changed", "replaced"}
        kept = await rt.threads.messages(result.thread_id)
        assert kept[0].content == "I am ann@x.org"


@tw.tool(description="Charges a card.")
async def charge(card: int | str) -> Any:
    return {"card": card, "by": {"ann@x.org": True}}


async def test_patterns_are_replaced_in_numbers_and_in_the_keys_of_objects() -> None:
    hook = tw.hooks.ReplacePatterns({r"\d{16}": "[card]", r"\w+@\w+\.\w+": "[e-mail]"}, where=["results"])
    model = Watched([call("charge", card=4111111111111111), DONE])
    result, _ = await ran(agent_with(hook, model=model, tools=[charge]))
    assert json.loads(answers(result)[0]) == {"card": "[card]", "by": {"[e-mail]": True}}


async def test_the_arguments_of_earlier_calls_are_sent_as_json_once_patterns_are_replaced() -> None:
    hook = tw.hooks.ReplacePatterns({r"\d{16}": "[card]"}, where=["requests"])
    model = Watched([call("charge", card=4111111111111111), DONE])
    result, _ = await ran(agent_with(hook, model=model, tools=[charge]))
    assert result.text == "Done."
    [made] = model.requests[1].messages[1].calls
    assert json.loads(made.arguments) == {"card": "[card]"}
    assert "4111" not in str(model.requests[1].messages)


async def test_patterns_are_replaced_in_the_state_that_an_agent_is_shown_and_in_its_earlier_reports() -> None:
    def instructions(state: tw.ThreadState) -> str:
        return "Write to ann@x.org."

    hook = tw.hooks.ReplacePatterns({r"\w+@\w+\.\w+": "[e-mail]"}, where=["requests"])
    model = Watched([call("search", query="x"), DONE])
    told = tw.Dynamic(instructions, per_step=True)
    agent = tw.Agent("a", instructions=told, model=model, hooks=[hook], tools=[search])
    async with runtime(tw.App(agents=[agent])) as rt:
        result, rows = await result_in(rt)
        first, second = model.requests
        assert first.state is not None
        assert first.state.parts == {"instructions": "Write to [e-mail]."}
        earlier = second.messages[1].state
        assert earlier is not None
        assert earlier.parts == first.state.parts
        assert second.state is None or not second.state.parts  # it has not changed
        assert (rows[0].details or {})["state"] is True
        prompts = await rt.sent_prompts.of_run(result.run_id)
        assert "Write to [e-mail]." in (prompts[0].changing or "")
        assert "@x" not in str([(each.changing, each.messages) for each in prompts])


async def test_a_pattern_that_takes_too_long_fails_the_hook() -> None:
    hook = tw.hooks.ReplacePatterns({r"(?:a|aa)+$": "x"}, where=["requests"], seconds=0.01)
    result, _ = await ran(agent_with(hook), "a" * 40 + "!")
    assert (result.status, result.error_code) == ("failed", "hook_failed")


@pytest.mark.parametrize(
    ("verdict", "expected", "ruling"),
    [
        ({"verdict": "allow"}, "paid 5", []),
        ({"verdict": "deny", "reason": "Too much."}, "Too much.", ["denied"]),
        ({"verdict": "perhaps"}, "which is no verdict", ["failed"]),
        (None, "which is no verdict", ["failed"]),
    ],
)
async def test_a_model_decides_about_calls(verdict: object, expected: str, ruling: list[str]) -> None:
    judge = Watched([{"text": "I think…" if verdict is None else f"```json\n{json.dumps(verdict)}\n```"}])
    hook = tw.hooks.Judge(judge, "No large sums.", tools=["pay"])
    result, rows = await ran(
        agent_with(
            hook, model=Watched([call("pay", amount=5), call("search", query="x"), DONE]), tools=[pay, search]
        )
    )
    assert expected in answers(result)[0]
    assert [each.ruling for each in rows] == ruling
    assert len(judge.requests) == 1
    assert '"amount":5' in judge.requests[0].messages[0].content.replace(" ", "")


async def test_a_judging_model_has_a_person_decide_and_rejects_messages() -> None:
    judge = Watched([{"text": '{"verdict": "allow"}'}, {"text": '{"verdict": "ask", "reason": "Look."}'}])
    asking = iter(['{"verdict": "allow"}', '{"verdict": "ask", "reason": "Look."}'])

    async def say(_: object) -> None:
        judge.says([{"text": next(asking)}])

    judge.before = say
    hook = tw.hooks.Judge(judge, "Be careful.", messages=True, approval=tw.Approval(by="service"))
    agent = agent_with(hook, model=Watched([call("pay", amount=5), DONE]), tools=[pay])
    async with runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.threads.send(thread.id, "Pay.")
        await rt.runs.wait_for_input(run.id)
        assert rulings([*await rt.runs.verdicts(run.id)]) == [("Judge", "before_call", "asked", "Look.")]
        [waiting] = await rt.calls.list(status=["waiting"])
        await rt.calls.submit(run.id, waiting.id, {"approved": True})
        assert (await rt.runs.wait(run.id)).output == "Done."


@pytest.mark.parametrize(
    "make",
    [
        lambda: tw.hooks.ToolRules(allowed="search"),
        lambda: tw.hooks.ToolRules(forbidden={"pay": {"type": 3}}),
        lambda: tw.hooks.CallLimits(search=-1),
        lambda: tw.hooks.CallLimits({"search": True}),
        lambda: tw.hooks.ReplacePatterns({"(": "x"}),
        lambda: tw.hooks.ReplacePatterns({"a": r"\9"}),
        lambda: tw.hooks.CallLimits({"search": 1}, search=2),
        lambda: tw.hooks.ReplacePatterns({"a": "x"}, where=["messages"]),  # type: ignore[list-item]  # user input
        lambda: tw.hooks.Judge("m", 3),  # type: ignore[arg-type]  # the same
        lambda: tw.hooks.Judge("m", "x", tools="pay"),
        lambda: tw.hooks.Judge("m", "x", approval=True),  # type: ignore[arg-type]  # the same
        lambda: tw.hooks.Judge("m", "x", approval=tw.Approval(when=lambda arguments: True)),
        lambda: tw.hooks.ToolRules(forbidden=5),  # type: ignore[arg-type]  # the same
        lambda: tw.hooks.CallLimits(["search"]),  # type: ignore[arg-type]  # the same
        lambda: tw.hooks.ReplacePatterns(["a"]),  # type: ignore[arg-type]  # the same
        lambda: tw.hooks.ReplacePatterns({"a": 5}),  # type: ignore[dict-item]  # the same
        lambda: tw.hooks.ReplacePatterns({"a": "x"}, where=None),  # type: ignore[arg-type]  # the same
        lambda: tw.hooks.ReplacePatterns({"a": "x"}, seconds=0),
    ],
)
def test_an_invalid_ready_made_hook_is_refused_where_it_is_made(make: Any) -> None:
    with pytest.raises(DefinitionError):
        make()
