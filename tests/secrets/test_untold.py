"""Texts of callers, people, models and apps are compared with no secret: what is seen of them tells none (D6)."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

import toolwright as tw
from tests.runtime.test_spaces import CONFIRM, ENTER, calls, says
from toolwright import testing
from toolwright.core.json_value import JSON
from toolwright.core.model import CallDelta, ModelCall, ModelEvent, ModelRequest, ModelResponse, TextDelta
from toolwright.core.threads.event import Event, Topic
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio

KEY = "sk-live-Zx9Qw7Lm2Rt5"
OTHER = "pw-test-Aa1Bb2Cc3Dd4"
CUT = [f"{KEY[:length]} … (20 characters)" for length in range(8, len(KEY))]
WORDS = " ".join(
    [KEY, *CUT, base64.b64encode(KEY.encode()).decode(), json.dumps(KEY), "The house of the host"]
)
PIECES = [WORDS[at : at + 3] for at in range(0, 60, 3)]
SECRETS = [(KEY, "the house"), (OTHER, "a cottage")]

Begin = Callable[[Runtime, str, str], Awaitable[tuple[Topic, str]]]

INTERNAL = tw.Tool(name="note", description="Note.", kind="internal", parameters={"type": "object"})


@tw.tool(description="Pay.", requires_approval=True)
async def pay(to: str) -> str:
    return "Paid."


@tw.tool(description="Ask.")
async def ask(state: tw.ThreadState, question: str) -> str:
    answer = await state.elicit(question, {"type": "object", "properties": {"word": {"type": "string"}}})
    assert answer.content == {"word": WORDS}
    return "Asked."


class Speaking:
    """A model that writes each of its turns piece by piece, and records its requests."""

    name = "test:speaking"

    def __init__(self, *turns: dict[str, Any]) -> None:
        self._turns = list(turns)
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        turn: dict[str, Any] = (
            self._turns[request.step - 1] if request.step <= len(self._turns) else {"text": WORDS}
        )
        for piece in PIECES:
            yield TextDelta(text=piece)
            await asyncio.sleep(0.06)  # longer than deltas are batched
        made = [
            ModelCall(id=f"c{at}", name=each["name"], arguments=json.dumps(each["args"]))
            for at, each in enumerate(turn.get("calls", []))
        ]
        for at, call in enumerate(made):
            for start in range(0, len(call.arguments), 30):
                yield CallDelta(index=at, name=call.name, arguments=call.arguments[start : start + 30])
                await asyncio.sleep(0.06)
        yield ModelResponse(text="".join(PIECES), calls=tuple(made))


def host(model: Speaking, secret: str, words: str) -> tw.App:
    prompt = tw.Prompt("host", WORDS, model=model, tools=[INTERNAL, pay, ask, CONFIRM])
    agent = tw.Agent("host", prompt, toolkits=["spaces", "mind"], env={"KEY": secret}, home_tools="all")
    return tw.App(agents=[agent], env={"APP_KEY": secret, "PLACE": words})


async def answered(rt: Runtime, run_id: str, person: str) -> None:
    """Answer what the run asks, as a person, until it has ended."""
    answers: dict[str, JSON] = {
        "pay": {"approved": True, "args": {"to": WORDS}, "reason": WORDS},
        "elicit": {"action": "accept", "content": {"word": WORDS}},
        "confirmAction": WORDS,
    }
    async for event in rt.runs.stream(run_id):
        match event:
            case tw.CallWaiting() | tw.CallStarted(name="elicit"):
                await rt.calls.submit(run_id, event.call_id, answers[event.name], by=person)
            case _:
                pass


async def in_a_thread(rt: Runtime, person: str, secret: str) -> tuple[Topic, str]:
    """Send a message in a thread of the person that knows the secret. Return its topic and its run."""
    thread = await rt.threads.create("host", person, arguments={KEY: WORDS}, env={"MINE": secret})
    file = tw.Attachment(name=f"{KEY}.txt", mime_type="text/plain", data="aGk=")
    return Topic(kind="thread", id=thread.id), (await rt.threads.send(thread.id, WORDS, [file])).id


async def in_a_space(rt: Runtime, person: str, secret: str) -> tuple[Topic, str]:
    """Say something in a space. Return its topic and the agent's run."""
    said = await rt.spaces.say("tea", person, WORDS, {KEY: WORDS})
    return Topic(kind="space", id="tea"), next(iter(said.runs.values()))


IN_A_THREAD = [
    calls(
        {"name": "note", "args": {"text": WORDS, KEY: [WORDS]}},
        {"name": "pay", "args": {"to": WORDS}},
        {"name": "ask", "args": {"question": WORDS}},
        {"name": WORDS, "args": {KEY: WORDS}},
        {"name": "pay", "args": {KEY: WORDS}},
        {"name": "set_memories", "args": {"memories": [{"key": KEY, "value": WORDS}]}},
    )
]
IN_A_SPACE = [
    calls(ENTER, says(WORDS), {"name": "read_messages", "args": {"spaceId": "tea"}}),
    calls(
        {"name": "confirmAction", "args": {"question": WORDS}}, {"name": "skip", "args": {"reason": WORDS}}
    ),
]


async def seen(turns: list[dict[str, Any]], begin: Begin, secret: str, place: str) -> tuple[str, str]:
    """Return what is seen live, and all that is recorded, of texts that contain parts of `KEY`."""
    model, live = Speaking(*turns), list[Event]()
    async with testing.runtime(host(model, secret, place)) as rt, asyncio.timeout(60):
        person = (await rt.entities.create(external_id="ada", display_name="Ada")).id
        await rt.entities.set_env(person, {"OWN": {"type": "secret", "value": secret}})
        await rt.spaces.create("Tea", id="tea", members=[person, "host"])
        topic, run_id = await begin(rt, person, secret)
        await answered_and_followed(rt, topic, run_id, person, live)
        run = await rt.runs.get(run_id)
        recorded = [
            run,
            *await rt.runs.messages(run_id),
            *await rt.calls.list(status=None, run_id=run_id),
            *await rt.spaces.messages("tea"),
            *await rt.minds.memories("host"),
            *await rt.events.list(Topic(kind="thread", id=run.thread_id)),
            *await rt.inboxes.list("host"),
            *await rt.files.list(run.thread_id),
        ]
    requests = [(request.system, request.messages, request.tools) for request in model.requests]
    return normalized(live), normalized([*recorded, *requests])


async def answered_and_followed(
    rt: Runtime, topic: Topic, run_id: str, person: str, live: list[Event]
) -> None:
    """Follow the topic until the run, which the person answers, has ended there."""
    answering = asyncio.create_task(answered(rt, run_id, person))
    async for event in rt.events.follow(topic, 0):
        live.append(event)
        if event.type in ("run.completed", "agent.inactive"):
            break
    await answering


def normalized(values: object) -> str:
    """Return the values without the ids and the times that differ from run to run."""
    text = re.sub(r"datetime\([^)]*\)|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)", "TIME", repr(values))
    text = re.sub(r"\b[a-z_]+_[0-9a-f]{16,}[\w.-]*", "ID", text)
    return re.sub(r"0x[0-9a-f]+|'[0-9a-f]{32}'|seconds=[\d.]+", "", text)


@pytest.mark.idle_clock
@pytest.mark.parametrize(("turns", "begin"), [(IN_A_THREAD, in_a_thread), (IN_A_SPACE, in_a_space)])
async def test_nothing_that_is_seen_of_a_text_depends_on_a_secret(
    turns: list[dict[str, Any]], begin: Begin
) -> None:
    (live, recorded), (other_live, other_recorded) = [await seen(turns, begin, *each) for each in SECRETS]
    assert KEY in live and KEY in recorded and "[redacted" not in live + recorded
    assert live == other_live
    assert recorded == other_recorded
