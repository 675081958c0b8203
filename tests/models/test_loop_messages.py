"""Long loops of the official clients with an agent's toolkit: within the budget, pairs complete, nothing lost."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

import toolwright as tw
from tests.models.wire_server import WireAnswer, WireCall, WireRequest, WireServer
from tests.runtime.narrow import Narrow
from toolwright import testing
from toolwright.core.errors import ContextTooLong, InvalidRequest
from toolwright.core.model import ModelResponse
from toolwright.core.threads.message import Message
from toolwright.runtime.model import context_window
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.toolkits.toolkit import Toolkit
from toolwright.testing import FunctionModel

pytestmark = pytest.mark.anyio

BUDGET = 8_000
PAGES = 60
OLD = 3  # the page whose secret is requested at the end
TASK = "Look at all pages, then tell the secret of the third."
SYSTEM = "You look at pages."


def secret_of(page: int) -> str:
    return f"S{page * 7919}"


@tw.tool(read_only=True)
def look(page: int) -> str:
    """Look at a page."""
    half = f"line of page {page}. " * 90
    return f"{half} The secret of page {page} is {secret_of(page)}. {half}"


def app_of(context: tw.Context | None = None, model: Any = None) -> tw.App:
    prompt = tw.Prompt("clerk", "Look.", model=model, tools=[look], context=context)
    return tw.App(agents=[tw.Agent("clerk", prompt)])


class Provider:
    """Looks at page after page, and then reads the third again, by its reference."""

    def __init__(self) -> None:
        self.page = self.longest = self.calls = 0
        self.reference = ""
        self.bodies: list[Any] = []

    def __call__(self, request: WireRequest) -> WireAnswer:
        body: Any = request.body
        tokens = len(json.dumps([body.get(each) for each in ("system", "messages", "tools")])) // 4
        assert tokens <= BUDGET, tokens
        self.longest = max(self.longest, tokens)
        self.bodies.append(body)
        check_pairs(body["messages"])
        text = json.dumps(body["messages"])
        found = re.search(rf'call_id\\+": \\+"(\w+)\\+"}} to read it\.\]\\nline of page {OLD}\.', text)
        self.reference = found[1] if found else self.reference
        if self.page < PAGES:
            self.page += 1
            return self._asking("look", page=self.page)
        if "places" not in text:
            assert "read_result" in [each.get("function", each)["name"] for each in body["tools"]]
            return self._asking("read_result", call_id=self.reference, query="secret")
        secret = re.search(rf"secret of page {OLD} is (S\d+)", json.dumps(body["messages"][-1]))
        return WireAnswer(text=(secret[1] if secret else "?",))

    def _asking(self, name: str, **arguments: object) -> WireAnswer:
        self.calls += 1
        call = WireCall(id=f"c{self.calls}", name=name, arguments=(json.dumps(arguments),))
        return WireAnswer(text=("Let me see.",), calls=(call,))


def check_pairs(messages: list[Any]) -> None:
    """Check that each call is directly followed by its result, each result has its call, and the user begins."""
    open_calls: list[str] = []
    first = next(each for each in messages if each["role"] != "system")
    assert first["role"] == "user"
    for message in messages:
        content: Any = message["content"]
        blocks: Any = [] if content is None or isinstance(content, str) else content
        results = [each["tool_use_id"] for each in blocks if each["type"] == "tool_result"]
        if message["role"] == "tool":
            results = [message["tool_call_id"]]
        for each in results:
            open_calls.remove(each)
        if not results:
            assert open_calls == []
        open_calls += [each["id"] for each in blocks if each["type"] == "tool_use"]
        open_calls += [each["id"] for each in message.get("tool_calls") or ()]
    assert open_calls == []


@asynccontextmanager
async def provided() -> AsyncGenerator[tuple[Provider, WireServer]]:
    provider = Provider()
    async with WireServer(answering=provider) as server:
        yield provider, server


async def anthropic_loop(toolkit: Toolkit, server: WireServer, messages: list[Any]) -> str:
    """Answer the messages, which are compacted in place before each request. Return the last text."""
    async with AsyncAnthropic(base_url=server.base_url, api_key="x") as client:
        while True:
            messages[:] = await toolkit.fit(messages, system=SYSTEM)
            tools: Any = toolkit.definitions
            answer = await client.messages.create(
                model="claude-sonnet-5-5", max_tokens=1_000, system=SYSTEM, messages=messages, tools=tools
            )
            messages.append({"role": "assistant", "content": answer.content})
            uses = [block for block in answer.content if block.type == "tool_use"]
            if not uses:
                return "".join([block.text for block in answer.content if block.type == "text"])
            results: list[Any] = []
            for use in uses:
                result = await toolkit.handlers[use.name](use.input)
                results.append({"type": "tool_result", "tool_use_id": use.id, **result})
            messages.append({"role": "user", "content": results})


async def openai_loop(toolkit: Toolkit, server: WireServer, messages: list[Any]) -> str:
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="x") as client:
        while True:
            messages[:] = await toolkit.fit(messages)
            tools: Any = toolkit.definitions_for("openai")
            completion = await client.chat.completions.create(model="gpt-4o", messages=messages, tools=tools)
            answer = completion.choices[0].message
            messages.append(answer)
            if not answer.tool_calls:
                return answer.content or ""
            for use in answer.tool_calls:
                assert use.type == "function"
                result = await toolkit.handlers[use.function.name](use.function.arguments)
                messages.append({"role": "tool", "tool_call_id": use.id, "content": result["content"]})


LOOPS: Mapping[str, Any] = {"anthropic": anthropic_loop, "openai": openai_loop}


def opening(wire: str) -> list[Any]:
    task = {"role": "user", "content": TASK}
    return [{"role": "system", "content": SYSTEM}, task] if wire == "openai" else [task]


@pytest.mark.parametrize("wire", [*LOOPS])
async def test_a_long_loop_stays_within_the_budget_and_reads_an_old_result(wire: str) -> None:
    async with (
        provided() as (provider, server),
        testing.runtime(app_of(tw.Context(max_tokens=BUDGET))) as rt,
    ):
        toolkit = rt.toolkit("clerk")
        assert "read_result" not in toolkit.handlers
        messages = opening(wire)
        assert await LOOPS[wire](toolkit, server, messages) == secret_of(OLD)
        assert "read_result" in toolkit.handlers and len(toolkit.handlers) == 2
        run = await rt.runs.get(toolkit.run_id or "")
        assert (run.status, run.step_count) == ("completed", PAGES + 1)
    assert provider.longest > BUDGET // 2
    for body in provider.bodies:
        assert TASK in [each["content"] for each in body["messages"]]  # never left out
    same = [
        json.dumps(after["messages"]).startswith(json.dumps(before["messages"])[:-1])
        for before, after in zip(provider.bodies, provider.bodies[1:], strict=False)
    ]
    assert (
        same.count(False) < len(same) // 3
    )  # between two compactions each request begins with the previous one
    assert [*map(len, [provider.bodies[0]["tools"], provider.bodies[-1]["tools"]])] == [1, 2]


@pytest.mark.parametrize("wire", [*LOOPS])
async def test_a_loop_that_goes_on_in_another_process_reads_what_was_called_before(wire: str) -> None:
    """The caller keeps its messages; the journal has the results."""
    async with (
        provided() as (provider, server),
        testing.runtime(app_of(tw.Context(max_tokens=BUDGET))) as rt,
    ):
        messages = opening(wire)
        first = rt.toolkit("clerk")
        for page in range(1, 6):
            use = {"id": f"c{page}", "name": "look", "input": {"page": page}}
            result = await first.handlers["look"](use["input"])
            messages += pair(wire, use, result)
        provider.page = 5
        again = await rt.toolkit("clerk", first.run_id)
        assert await LOOPS[wire](again, server, messages) == secret_of(OLD)
        third = await rt.toolkit("clerk", first.run_id)
        assert "read_result" not in third.handlers
        assert (
            await third.fit(messages) == messages
        )  # compacted by another loop: the results that it left out can be read here too
        assert "read_result" in third.handlers


def pair(wire: str, use: Any, result: Any) -> list[Any]:
    """Return a call and its result, in that wire format."""
    if wire == "anthropic":
        block = {"type": "tool_result", "tool_use_id": use["id"], **result}
        return [
            {"role": "assistant", "content": [{"type": "tool_use", **use}]},
            {"role": "user", "content": [block]},
        ]
    function = {"name": use["name"], "arguments": json.dumps(use["input"])}
    call = {"id": use["id"], "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": use["id"], "content": result["content"]},
    ]


def talk(turns: int) -> list[Any]:
    """Return a conversation without calls."""
    said = [
        [{"role": "user", "content": f"Word {n}. " * 100}, {"role": "assistant", "content": "Yes."}]
        for n in range(turns)
    ]
    return [each for turn in said for each in turn] + [{"role": "user", "content": "And now?"}]


async def fitted(rt: Runtime, messages: list[Any], **more: Any) -> list[Any]:
    return await rt.toolkit("clerk").fit(messages, **more)


async def test_older_turns_become_a_summary_that_the_next_one_goes_on_from() -> None:
    model = Narrow(lambda _: ModelResponse(text="Hm."), limit=100_000, window=20_000)
    async with testing.runtime(app_of(model=model)) as rt:
        short = await fitted(rt, talk(10))
        assert short == talk(10) and not model.requests
        messages = talk(60)
        before = json.dumps(messages)
        short = await fitted(rt, messages)
        assert json.dumps(messages) == before and all(each in messages for each in short[1:])
        assert short[0]["role"] == "user" and "SUMMARY of what was said." in short[0]["content"]
        count = len(model.summaries)
        again = await fitted(rt, short)
        assert again == short and all(a is b for a, b in zip(again, short, strict=True))
        longer = await fitted(rt, [*short, *talk(60)])
        assert "SUMMARY of what was said." in longer[0]["content"]
        assert "SUMMARY of what was said." in model.summaries[count].messages[0].content
        assert [each for each in longer[1:] if "is not shown" in each["content"]] == []


async def test_without_a_model_older_turns_are_left_out_and_counted() -> None:
    async with testing.runtime(app_of()) as rt:
        short = await fitted(rt, talk(60), max_tokens=4_000)
        count = len(talk(60)) - len(short) + 1
        assert short[0]["content"].endswith(f" {count} messages were left out to save space.]")
        assert len(json.dumps(short)) // 4 < 4_000
        longer = await fitted(rt, [*short, *talk(20)], max_tokens=4_000)
        count += len(short) - 1 + len(talk(20)) - (len(longer) - 1)
        assert longer[0]["content"].endswith(f" {count} messages were left out to save space.]")


async def test_results_of_other_tools_and_images_are_cut_and_their_pairs_stay() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 90_000}}
    async with testing.runtime(app_of()) as rt:
        messages = opening("anthropic")
        for n in range(20):
            own: dict[str, Any] = {"content": [{"type": "text", "text": f"{n}: " + "own " * 500}]}
            if n == 0:
                own["content"].append(image)
            messages += pair("anthropic", {"id": f"o{n}", "name": "own", "input": {}}, own)
        messages[2]["content"].append({"type": "text", "text": "Go on."})
        short = await fitted(rt, messages, max_tokens=9_000)
    check_pairs(short)
    assert len(short) == len(messages) and short[-1] is messages[-1]
    result, text = short[2]["content"]
    assert result["content"].startswith("[The result of this call is not shown any more to save space: 2")
    assert "read_result" not in json.dumps(short) and "0: own own" in result["content"]
    assert text == {"type": "text", "text": "Go on."}


@pytest.mark.parametrize("bad", ["text", {"type": "function_call"}, {"role": "robot"}, {"role": 1}, object()])
async def test_what_is_no_message_is_refused_by_its_place(bad: object) -> None:
    async with testing.runtime(app_of()) as rt:
        with pytest.raises(InvalidRequest, match=re.escape("messages[1] ")):
            await fitted(rt, [*opening("anthropic"), bad], max_tokens=4_000)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"role": "user", "content": {"text": "word"}}, "messages[2].content has an unknown form"),
        ({"role": "user", "content": 5}, "messages[2].content has an unknown form: 5."),
        ({"role": "user", "content": ["word"]}, "messages[2].content[0] is not an object: 'word'."),
        ({"role": "assistant", "tool_calls": {}}, "messages[2].tool_calls has an unknown form"),
        ({"role": "assistant", "tool_calls": [1]}, "messages[2].tool_calls[0] is not an object: 1."),
    ],
)
async def test_what_could_not_be_counted_is_refused_by_its_place(bad: object, said: str) -> None:
    async with testing.runtime(app_of()) as rt:
        with pytest.raises(InvalidRequest, match=re.escape(said)):
            await fitted(rt, [*opening("openai"), bad], max_tokens=4_000)


async def test_a_call_of_a_kind_that_is_not_known_counts_and_keeps_its_result() -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sh", "input": "word " * 20_000}}
    said = [
        {"role": "user", "content": "Run it."},
        {"role": "assistant", "tool_calls": [custom]},
        {"role": "tool", "tool_call_id": "c1", "content": "Done."},
    ]
    async with testing.runtime(app_of()) as rt:
        with pytest.raises(
            ContextTooLong, match=re.escape("The agent's answer messages[1] has, with its calls")
        ):
            await fitted(rt, said, max_tokens=4_000)
        later = [*said, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Go on."}]
        assert "c1" not in json.dumps(await fitted(rt, later, max_tokens=4_000))


async def test_a_summary_that_takes_too_long_holds_up_a_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_window, "MOST_WAIT", 0.05)
    asked: list[object] = []

    async def hang(messages: tuple[Message, ...]) -> str:
        asked.append(messages)
        await asyncio.Event().wait()
        return ""

    writer = FunctionModel(hang)
    agent = tw.Agent("clerk", instructions="Look.", model=writer, tools=[look])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        toolkit = rt.toolkit("clerk")
        for _ in range(2):
            short = await toolkit.fit(talk(60), max_tokens=4_000)
            assert "were left out to save space" in short[0]["content"]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"messages": None}, "messages must be a list of messages, not None"),
        ({"messages": "Hello"}, "messages must be a list of messages, not 'Hello'"),
        ({"max_tokens": 0}, "max_tokens must be a number of tokens, at least 1000, not 0"),
        ({"max_tokens": "9000"}, "max_tokens must be a number of tokens, at least 1000, not '9000'"),
        ({"system": 3}, "system must be text, not 3"),
    ],
)
async def test_what_fit_cannot_take_is_reported(given: dict[str, Any], said: str) -> None:
    async with testing.runtime(app_of()) as rt:
        with pytest.raises(InvalidRequest) as caught:
            arguments: dict[str, Any] = {"messages": talk(1), "max_tokens": 4_000, **given}
            await rt.toolkit("clerk").fit(**arguments)
    assert said in str(caught.value)


async def test_a_limit_has_to_be_known_and_a_message_has_to_fit() -> None:
    async with testing.runtime(app_of()) as rt:
        assert await fitted(rt, []) == []
        with pytest.raises(InvalidRequest, match="Pass max_tokens="):
            await fitted(rt, talk(1))
        long = [{"role": "user", "content": "word " * 20_000}]
        with pytest.raises(ContextTooLong, match=re.escape("The message messages[0] has some 25")):
            await fitted(rt, long, max_tokens=4_000)
        with pytest.raises(ContextTooLong, match="The system text and the tools of the agent 'clerk'"):
            await fitted(rt, talk(1), max_tokens=4_000, system="word " * 20_000)


@pytest.mark.parametrize("wire", [*LOOPS])
@pytest.mark.parametrize("seed", range(8))
async def test_whatever_a_loop_has_said_is_valid_and_fits(wire: str, seed: int) -> None:
    chance, budget = Random(seed), 3_000
    async with testing.runtime(app_of()) as rt:
        toolkit, messages = rt.toolkit("clerk"), opening(wire)
        last = messages[-1]
        for number in range(40):
            kind = chance.choice(["call", "call", "own", "say"])
            if kind == "say":
                last = {"role": "user", "content": f"Task {number}. " * chance.choice([1, 30])}
                messages += [{"role": "assistant", "content": "Done."}, last]
            else:
                use = {
                    "id": f"c{number}",
                    "name": "look",
                    "input": {"page": chance.choice([number, "wrong"])},
                }
                own = {"content": [{"type": "text", "text": "own " * chance.choice([1, 200, 1_500])}]}
                result = own if kind == "own" else await toolkit.handlers["look"](use["input"])
                messages += pair(wire, use, result)
            messages = await toolkit.fit(messages, max_tokens=budget)
            check_pairs(messages)
            assert len(json.dumps([messages, toolkit.definitions_for("openai")])) // 4 <= budget
            assert any(each is last for each in messages)
