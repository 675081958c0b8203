"""Processes that continue a long conversation, or a room in which people talk, and that kill themselves."""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.crash.dying import Witness, at_work, no_work_left
from tests.crash.forks import Order
from tests.runtime.narrow import prompt_of
from toolwright.core.agents.catalog import Catalog
from toolwright.core.errors import ContextTooLong
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Usage
from toolwright.core.value import changed
from toolwright.runtime.runtime import Runtime

BUDGET = 6_000  # tokens of a request in the conversation
TURNS, LOOKS = 150, 10  # turns, and turns per message
QUESTION = "What was the secret of turn "
CREW = ("michael", "jim", "dwight")
WINDOW = 12_000  # tokens of the models in the room, half of them for the answer
ROUNDS = 24


def secret_of(turn: int) -> str:
    return f"S{turn * 7919 % 100_003}"


def result_of(turn: int) -> str:
    """Return a result whose middle contains something that no reference shows."""
    half = f"line of turn {turn} " * 40
    return f"{half} The secret of turn number {turn:04} is {secret_of(turn)}. {half}"


class Provider(ABC):
    """A model that refuses requests of more than `limit` tokens, as it counts them.

    It records refused and accepted ones.
    """

    def __init__(self, name: str, folder: Path, limit: int, window: int | None = None) -> None:
        self.name, self.window, self._limit = name, window, limit
        self._refused, self._sent = Witness(folder / "refused"), Witness(folder / "sent")

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        tokens = counted(request)
        if tokens > self._limit:
            self._refused.note(str(tokens))
            raise ContextTooLong("Too long.", self._limit, tokens)
        self._sent.note(str(tokens))
        answer = ModelResponse(text="It is a summary.") if "summary" in request.who else self.answer(request)
        yield changed(answer, usage=Usage(input_tokens=tokens, output_tokens=1))

    @abstractmethod
    def answer(self, request: ModelRequest) -> ModelResponse:
        """Return the answer to a request that is short enough."""


def counted(request: ModelRequest) -> int:
    """Return the tokens of a request as a third of its characters, which is a third more than our estimate."""
    parts: list[object] = [prompt_of(request), [[each.name, each.parameters] for each in request.tools]]
    parts += [[each.role, each.content, [call.arguments for call in each.calls]] for each in request.messages]
    return len(json.dumps(parts)) // 3


def call(name: str, **arguments: object) -> ModelResponse:
    return ModelResponse(calls=(ModelCall(id="c", name=name, arguments=json.dumps(arguments)),))


# ── a conversation ──────────────────────────────────────────────────────────────────────────────────────────────


class Looking(Provider):
    """A model that looks ten times for each message, and answers a question with the result of `read_result`."""

    def answer(self, request: ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        if last.role == "user" and last.content.startswith(QUESTION):
            turn = int(last.content.removeprefix(QUESTION))
            assert secret_of(turn) not in str(request.messages), "the result is shown no more"
            return call("read_result", query=f"turn number {turn:04}")
        if last.role == "user":
            return call("look", turn=int(last.content.split()[-1]))
        if last.tool_name == "look":
            turn = looked(request.messages)
            return ModelResponse(text="Seen.") if turn % LOOKS == 0 else call("look", turn=turn + 1)
        found = json.loads(last.content)
        if "results" in found:
            return call("read_result", call_id=found["results"][0]["call_id"])
        said = re.search(r"is (S\d+)\.", found["text"])
        return ModelResponse(text=said[1] if said else "I do not know.")


def looked(messages: tuple[Message, ...]) -> int:
    """Return the turn of the last call, whatever its result is."""
    [made] = next(each.calls for each in reversed(messages) if each.calls)
    turn: int = json.loads(made.arguments)["turn"]
    return turn


def looker(folder: Path) -> Catalog:
    effects = Witness(folder / "effects")

    @tw.tool(description="Look.")
    async def look(state: tw.ThreadState, turn: int) -> str:
        effects.note(state.call_id or "")
        return result_of(turn)

    model = Looking("test:looking", folder, BUDGET)
    policy = tw.Context(max_tokens=BUDGET)
    return Catalog(
        agents=[tw.Agent("looker", tw.Prompt("looker", "Look.", model=model, tools=[look], context=policy))]
    )


async def converse(rt: Runtime, question: int | None) -> None:
    """Continue the conversation to its end; then ask for the secret of a turn, if requested."""
    threads = await rt.threads.list()
    thread = threads[0] if threads else await rt.threads.create("looker")
    runs = await rt.runs.list(limit=100)
    for each in runs:
        await rt.runs.wait(each.id)
    for number in range(len(runs), TURNS // LOOKS):
        run = await rt.threads.send(thread.id, f"Look from turn {number * LOOKS + 1}")
        await rt.runs.wait(run.id)
    if question is not None:
        run = await rt.threads.send(thread.id, f"{QUESTION}{question}")
        await rt.runs.wait(run.id)


# ── a room ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Speaking(Provider):
    """A model that posts once in each round, after reading the earlier posts of the round."""

    def answer(self, request: ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        if last.role != "user":
            return ModelResponse(text=".")
        who, [number] = request.who[0], re.findall(r"Round (\d+):", last.content)
        for each in CREW[: CREW.index(who)]:
            assert prompt_of(request).count(said(each, int(number))) == 1
        return call("send_message", channelId="g", text=said(who, int(number)))


def said(who: str, number: int) -> str:
    """Return the post of an agent in a round."""
    return f"{who} says to round {number}: {'bla ' * 60}"


def room(folder: Path) -> Catalog:
    model = Speaking("test:speaking", folder, WINDOW // 2, WINDOW)
    return Catalog(
        agents=[tw.Agent(name, tw.Prompt(name, "Be.", model=model), toolkits=["channels"]) for name in CREW]
    )


async def talk(rt: Runtime) -> None:
    """Post the remaining messages, each after all agents have answered the previous one."""
    pam = await rt.entities.create(external_id="pam", display_name="Pam")
    if not await rt.spaces.list():
        members = [pam.id, *CREW]
        await rt.spaces.create("G", "public", id="g", members=members, delivery="sequential")
    for number in range(ROUNDS):
        if await count(rt) <= number * 4:
            await rt.spaces.say("g", pam.id, f"Round {number}: {'tell me ' * 25}")
        async for _ in rt.events.follow(Topic(kind="spaces", id=""), after=0):
            if await count(rt) >= (number + 1) * 4:
                break


async def count(rt: Runtime) -> int:
    """Return the number of messages in the room."""
    return max([each.message.seq or 0 for each in await rt.spaces.messages("g", 1)], default=0)


async def run(order: Order) -> None:
    folder, question = Path(order["folder"]), order.get("question")
    catalog: Any = room(folder) if order["place"] == "room" else looker(folder)
    async with at_work(order, catalog) as runtime, asyncio.timeout(90):
        if order["place"] == "room":
            await talk(runtime)
            await no_work_left(order)
        else:
            await converse(runtime, question)
