"""Correct uses and mistakes, as mypy --strict and pyright strict see them. A mistake has the comment `mistake`."""

from dataclasses import dataclass
from typing import Annotated, Literal, assert_type

from pydantic import BaseModel, Field

import toolwright as tw


class Answer(BaseModel):
    """An output."""

    text: str


class Refusal(BaseModel):
    """Another output."""

    reason: str


@dataclass(frozen=True)
class Customer:
    """Deps."""

    id: int


@tw.tool(description="Doubles.")
async def double(number: int) -> int:
    return 2 * number


@tw.tool
def half(number: int) -> float:
    """Halve."""
    return number / 2


@tw.tool(description="Greets.")
async def greet(state: tw.ThreadState[Customer], name: str) -> str:
    _ = state.deps.di  # mistake
    return f"{name} {state.deps.id}"


def customer(state: tw.ThreadState[Customer]) -> int:
    return state.deps.id


async def calls(state: tw.ThreadState[Customer]) -> None:
    assert_type(await double(2), int)
    assert_type(half(2), float)
    assert_type(await greet(state, "Ada"), str)
    await double("seven")  # mistake
    half()  # mistake
    await greet(state, 7)  # mistake


agent = tw.Agent("typed", output=Answer, deps=Customer, tools=[double, half, greet])
listed = tw.Agent("listed", output=list[Answer])
either: tw.Agent[Answer | Refusal] = tw.Agent("either", output=Answer | Refusal)
plain = tw.Agent("plain", instructions="Be brief.")
schema = tw.Agent("schema", output={"type": "object"})
words = tw.Agent("words", output=Literal["yes", "no"])
counted = tw.Agent("counted", output=Annotated[int, Field(ge=1)])
app = tw.App(agents=[agent, listed, either, plain, schema, words, counted])


async def runs() -> None:
    result = await tw.run(agent, "Go", deps=Customer(7))
    assert_type(result, tw.RunResult[Answer])
    _ = result.output.text
    _ = result.output.txet  # mistake
    assert_type((await tw.run(listed, "Go")).output, list[Answer])
    output = (await tw.run(either, "Go")).output
    _ = output.reason if isinstance(output, Refusal) else output.text
    _ = (await tw.run(plain, "Go")).output.anything
    _ = (await tw.run("typed", "Go", app=app)).output.anything
    await tw.run(agent, "Go", deps=Answer(text="x"))  # mistake
    await tw.run(agent, "Go", timeot=3)  # mistake
    async with tw.stream(agent, "Go", deps=Customer(7)) as stream:
        assert_type(await stream.result(), tw.RunResult[Answer])


def sync_runs() -> None:
    assert_type(tw.run_sync(agent, "Go", deps=Customer(7)).output, Answer)
    tw.run_sync(agent, "Go", deps=7)  # mistake
    tw.run_sync(agent)  # mistake


def any_agent(other: tw.Agent) -> tw.Agent:
    return other


any_agent(agent)
