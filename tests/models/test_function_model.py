"""The function model: one turn per step, computed from the messages; and the errors of invalid functions."""

from collections.abc import Awaitable, Callable

import pytest

import toolwright as tw
from tests.kit import ran, send_to
from tests.models.asking import answer_of, user
from toolwright import testing
from toolwright.core.errors import DefinitionError, ModelRefused, ModelUnavailable
from toolwright.core.json_value import JSON
from toolwright.core.model import ModelRequest
from toolwright.core.threads.message import Message

pytestmark = pytest.mark.anyio


@tw.tool(description="Look up a price in euros.", read_only=True)
async def price(article: str) -> float:
    return {"tea": 4.5}[article]


def look_up(messages: tuple[Message, ...]) -> JSON:
    """Request the price, then report it."""
    last = messages[-1]
    if last.role == "tool":
        return {"text": f"It is {last.content}."}
    return {"calls": [{"name": "price", "args": {"article": last.content}}]}


async def look_up_later(messages: tuple[Message, ...]) -> JSON:
    return look_up(messages)


async def turn_of(fn: Callable[[tuple[Message, ...]], object]) -> str:
    """Return the text of the answer to one message."""
    return (await answer_of(testing.FunctionModel(fn), ModelRequest(messages=(user("Hello"),)))).text


@pytest.mark.parametrize("fn", [look_up, look_up_later])
async def test_a_function_answers_for_every_prompt_of_the_app(
    fn: Callable[[tuple[Message, ...]], JSON | Awaitable[JSON]],
) -> None:
    app = tw.App(
        agents=[tw.Agent("shop", instructions="Be brief.", model="openai:gpt-6.1-terra", tools=[price])]
    )
    async with testing.runtime(app, model=testing.FunctionModel(fn)) as rt:
        run = await ran(rt, "shop", "tea")
    assert (run.status, run.output) == ("completed", "It is 4.5.")


async def test_an_app_without_any_model_is_given_one_by_the_runtime() -> None:
    app = tw.App(agents=[tw.Agent("shop", instructions="Be brief.")])
    model = testing.ScriptedModel([{"text": "Hello."}])
    async with testing.runtime(app, model=model) as rt:
        thread = await rt.threads.create("shop")
        run = await rt.runs.wait((await rt.threads.send(thread.id, "Hi")).id, 30)
        assert run.output == "Hello."
    async with testing.by_hand(app, model=model) as (rt, motor):
        thread = await rt.threads.create("shop")
        sent = await rt.threads.send(thread.id, "Hi")
        await motor.run_until_idle()
        assert (await rt.runs.get(sent.id)).output == "Hello."


async def test_a_runtime_by_hand_has_the_model_that_its_app_was_given() -> None:
    app = tw.App(agents=[tw.Agent("shop", instructions="Be brief.", model="openai:gpt-6.1-terra")])
    with_model = app.with_model(testing.ScriptedModel([{"text": "Hello."}]))
    async with testing.by_hand(with_model) as (rt, motor):
        sent = await send_to(rt, "shop", "Hi")
        await motor.run_until_idle()
        assert (await rt.runs.get(sent.id)).output == "Hello."


async def test_a_turn_may_fail_as_one_of_a_script() -> None:
    with pytest.raises(ModelRefused, match="Not that"):
        await turn_of(lambda _: {"fail": "refused", "message": "Not that."})
    with pytest.raises(ModelUnavailable):
        await turn_of(lambda _: {"fail": "unavailable"})


@pytest.mark.parametrize(
    ("turn", "fault"),
    [
        (None, "for step 1 is None, but a turn is a dict such as"),
        ("Hello", "is 'Hello', but a turn is a dict such as"),
        ({"when": "x"}, "for step 1: needs one of text, json, calls, thinking, fail"),
        ({"txt": "a"}, "unknown key 'txt'; the keys of a turn are text"),
        ({"calls": [{"args": "{}"}]}, r"calls\.0\.name"),
        (
            {"when": "x", "text": "y"},
            "`when` is only for scripts. Check the messages in the function instead",
        ),
    ],
)
async def test_an_invalid_turn_is_a_clear_error(turn: JSON, fault: str) -> None:
    with pytest.raises(DefinitionError, match=fault):
        await turn_of(lambda _: turn)


async def test_what_the_function_raises_fails_the_run_and_says_so() -> None:
    def broken(messages: tuple[Message, ...]) -> JSON:
        raise LookupError(f"no turn for {messages[-1].content!r}")

    app = tw.App(agents=[tw.Agent("shop", instructions="Be brief.")])
    async with testing.runtime(app, model=testing.FunctionModel(broken)) as rt:
        run = await ran(rt, "shop", "Hi")
    assert (run.status, run.error_code) == ("failed", "model_error")
    assert run.error is not None
    assert "no turn for 'Hi'" in run.error


@pytest.mark.parametrize("fn", [None, "hello", dict])
def test_what_is_no_function_is_refused(fn: Callable[[tuple[Message, ...]], object]) -> None:
    with pytest.raises(DefinitionError, match="FunctionModel requires a function that takes the messages"):
        testing.FunctionModel(fn)
