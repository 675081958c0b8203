"""Models with arbitrary answers: the run ends, and its transcript is valid."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

import toolwright as tw
from tests.databases import sqlite_journal
from tests.kit import Watched, raising
from tests.runtime.rig import assert_valid, running
from toolwright.core.journal.store import Store
from toolwright.core.limits import MAX_CALLS
from toolwright.core.model import (
    AttemptStarted,
    CallDelta,
    ModelCall,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    TextDelta,
)
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Usage
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio


@tw.tool(description="Add two whole numbers.", read_only=True)
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


class Saying:
    """A model that sends these events, one answer after the other, and repeats the last one."""

    name = "hostile"

    def __init__(self, *answers: Sequence[ModelEvent]) -> None:
        self.answers = answers
        self.asked = 0

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        for event in answer:
            yield event


def calls(*made: tuple[str, str, str], **fields: object) -> list[ModelEvent]:
    asked = tuple(ModelCall(id=i, name=name, arguments=arguments) for i, name, arguments in made)
    return [ModelResponse(calls=asked, **fields)]  # type: ignore[arg-type]  # fields of the response


DONE: list[ModelEvent] = [ModelResponse(text="Done.")]


async def played(
    tmp_path: Path, *answers: Sequence[ModelEvent], max_steps: int = 50
) -> tuple[Run, Sequence[Message], list[str]]:
    """Execute a run with that model on a journal on disk, followed from start to end."""

    async def store(bus: MemoryBus) -> Store:
        return await sqlite_journal(tmp_path / "t.db", bus.publish)

    async with running(Saying(*answers), [add], max_steps=max_steps, store=store) as rig:
        run = await rig.run()
        messages = await rig.transcript(run.thread_id)
        assert_valid(messages)
        again = await rig.rt.runs.wait((await rig.rt.threads.send(run.thread_id, "Again")).id, 30)
        assert again.over
        assert await rig.store.unread(run.thread_id) == []
        return run, messages, rig.store.names


async def test_calls_for_ever_end_at_the_limit(tmp_path: Path) -> None:
    run, messages, _ = await played(tmp_path, calls(("c", "add", "{}")), max_steps=7)
    assert (run.status, run.stop_reason, run.step_count) == ("completed", "max_steps", 7)
    assert len(messages) == 1 + 7 * 2


async def test_two_hundred_calls_are_answered_in_order(tmp_path: Path) -> None:
    many = calls(*((f"c{n}", "add", f'{{"a": {n}}}') for n in range(200)))
    run, messages, names = await played(tmp_path, many, DONE)
    assert run.status == "completed"
    assert [m.content for m in messages if m.role == "tool"] == [str(n + 2) for n in range(200)]
    assert names.count("Result") == 200


async def test_an_answer_with_more_calls_than_may_be_makes_none(tmp_path: Path) -> None:
    many = calls(*((f"c{n}", "add", f'{{"a": {n}}}') for n in range(MAX_CALLS + 1)))
    run, messages, _ = await played(tmp_path, many, DONE)
    assert (run.status, run.error_code) == ("failed", "model_error")
    assert run.error == "The model asked for 5001 calls in one answer. At most 5000 are made."
    assert [message.role for message in messages] == ["user"]


async def test_ids_that_are_repeated_or_empty_are_told_apart(tmp_path: Path) -> None:
    same = calls(*([("same", "add", "{}")] * 3), ("", "add", "{}"), ("", "add", "{}"))
    run, messages, _ = await played(tmp_path, same, same, DONE)
    assert run.status == "completed"
    for message in messages:
        ids = [call.model_call_id for call in message.calls]
        assert len({*ids}) == len(ids)
        assert all(ids)


@pytest.mark.parametrize(
    "name", ["invented", "", " ", "x" * 1_000_000, "a\x00b", "\ud800", "add\n", "../add"]
)
async def test_names_of_no_tool_are_answered(tmp_path: Path, name: str) -> None:
    run, messages, _ = await played(tmp_path, calls(("c", name, "{}")), DONE)
    assert run.status == "completed"
    [said] = [m for m in messages if m.role == "tool"]
    assert said.status == "error"
    assert len(said.content) < 10_000


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": "' + "x" * 1_000_000 + '"}',
        "x" * 1_000_000,
        "[" * 100_000,
        '{"a": ' + "9" * 10_000 + "}",
        '{"a": "\ud800"}',
        '{"a": "\\ud800"}',
        "\x00",
        '{"a": NaN}',
        '{"a": 1e999}',
        "null",
        '{"a": 1, "a": "x"}',
        '{"' + "k" * 100_000 + '": 1}',
    ],
)
async def test_arguments_of_any_kind_are_answered(tmp_path: Path, arguments: str) -> None:
    run, messages, _ = await played(tmp_path, calls(("c", "add", arguments)), DONE)
    assert run.status == "completed"
    [said] = [m for m in messages if m.role == "tool"]
    assert said.status == "error"
    [asked] = [m for m in messages if m.calls]
    assert asked.calls[0].arguments == arguments
    assert len(said.content) < 10_000


@pytest.mark.parametrize("text", ["\x00", "\ud800 half", "\x07\x1b[2J", "\U000e0041", "x" * 5_000_000, ""])
async def test_texts_of_any_kind_are_kept(tmp_path: Path, text: str) -> None:
    run, messages, _ = await played(tmp_path, [TextDelta(text=text), ModelResponse(text=text)])
    assert (run.status, run.output) == ("completed", text)
    assert messages[-1].content == text


@pytest.mark.parametrize("count", [-5, 2**63, 10**4_000])
async def test_absurd_numbers_do_not_stop_a_run(tmp_path: Path, count: int) -> None:
    usage = Usage(input_tokens=count, output_tokens=count, cache_read_tokens=count, cache_write_tokens=count)
    run, _, _ = await played(tmp_path, [ModelResponse(text="Done.", usage=usage, cost=1e300)])
    assert run.over


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
async def test_absurd_costs_do_not_stop_a_run(tmp_path: Path, cost: float) -> None:
    run, _, _ = await played(tmp_path, [ModelResponse(text="Done.", cost=cost)])
    assert run.over


async def test_deltas_for_calls_that_never_come_are_forgotten(tmp_path: Path) -> None:
    odd: list[ModelEvent] = [
        CallDelta(index=7, name="add", arguments="{"),
        CallDelta(index=-1, name="", arguments="\ud800"),
        AttemptStarted(number=2),
        CallDelta(index=10**30, name="x" * 100_000, arguments="y" * 1_000_000),
        ModelResponse(text="Done."),
    ]
    run, messages, _ = await played(tmp_path, odd)
    assert (run.status, len(messages)) == ("completed", 2)


async def test_an_answer_without_a_response_fails_the_run(tmp_path: Path) -> None:
    run, _, _ = await played(tmp_path, [TextDelta(text="and then")])
    assert run.status == "failed"
    assert "without a response" in str(run.error)


class Endless:
    """A model whose answer never ends; it sends something repeatedly, or nothing at all."""

    name = "endless"

    def __init__(self, every: float | None) -> None:
        self.every = every
        self.closed = asyncio.Event()

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        try:
            while True:
                if self.every is None:
                    await asyncio.Event().wait()
                await asyncio.sleep(self.every or 0)
                yield TextDelta(text="and ")
        finally:
            self.closed.set()


@pytest.mark.parametrize("every", [None, 0.001])
async def test_an_answer_that_never_ends_is_ended(every: float | None) -> None:
    model = Endless(every)
    async with running(model, answer_limits=(0.2, 0.5)) as rig:
        run = await rig.run()
        assert run.status == "failed"
        assert "model" in str(run.error)
        assert model.closed.is_set()


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        pytest.param(SystemExit(3), "The model failed: 3", id="it exits"),
        pytest.param(asyncio.CancelledError(), "The model cancelled its own answer.", id="it cancels itself"),
        pytest.param(GeneratorExit("closed"), "The model failed: closed", id="as a closed generator does"),
    ],
)
async def test_a_model_that_raises_anything_fails_its_run_and_nothing_else(
    error: BaseException, reported: str
) -> None:
    async with running(Watched(before=raising(error))) as rig:
        run = await rig.run()
        assert (run.status, run.error) == ("failed", reported)


ODD_CALL: dict[str, Any] = {"id": "1", "name": "add", "arguments": {"a": 1}}
ODD: list[tuple[dict[str, Any], str]] = [
    ({"text": None}, "None instead of a text"),
    ({"model": 3}, "3 instead of a text"),
    ({"finish_reason": ["stop"]}, "a value of the type list instead of a text"),
    ({"usage": Usage(input_tokens="9")}, "'9' instead of a number"),  # type: ignore[arg-type]
    ({"usage": {"input_tokens": 9}}, "usage or calls of an invalid type"),
    ({"calls": None}, "usage or calls of an invalid type"),
    (
        {"calls": (ModelCall(**ODD_CALL),)},
        "a value of the type dict instead of a text",
    ),
    ({"cost": "1 dollar"}, "'1 dollar' instead of a cost"),
]


@pytest.mark.parametrize(("fields", "words"), ODD, ids=[words for _, words in ODD])
async def test_an_answer_with_values_of_other_types_fails_its_run(
    tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    answer: dict[str, Any] = {"text": "Done.", **fields}
    run, messages, _ = await played(tmp_path, [ModelResponse(**answer)])
    assert run.status == "failed" and run.error is not None
    assert run.error.startswith("hostile returned ") and words in run.error
    assert [each.role for each in messages] == ["user"]


async def test_long_names_by_which_a_model_describes_itself_are_cut(tmp_path: Path) -> None:
    run, _, _ = await played(
        tmp_path, [ModelResponse(text="Hi", model="m" * 10_000, finish_reason="s" * 10_000)]
    )
    assert run.status == "completed"


async def test_a_prompt_whose_model_exits_is_an_error_of_its_call() -> None:
    model = Watched(before=raising(SystemExit(3)))
    prompt = tw.Prompt("below", "", model=model, tool_description="Leaves.", expose_as_tool=True)
    model = Saying(calls(("1", "below", '{"message":"Go"}')), DONE)
    async with running(model, ["below"], prompts=[prompt]) as rig:
        run = await rig.run()
        assert run.status == "completed"
        [answer] = [m for m in await rig.transcript(run.thread_id) if m.role == "tool"]
        assert "The model failed: 3" in answer.content


def leave() -> int:
    raise SystemExit(3)


class Kept(BaseModel):
    number: int = Field(default_factory=leave)


async def test_a_default_that_exits_is_an_error_of_the_arguments() -> None:
    @tw.tool(description="Keeps.", args=Kept)
    async def keep(kept: Kept) -> int:
        return kept.number

    async with running(Saying(calls(("1", "keep", "{}")), DONE), [keep]) as rig:
        run = await rig.run()
        assert run.status == "completed"
        [answer] = [m for m in await rig.transcript(run.thread_id) if m.role == "tool"]
        assert "invalid_arguments" in answer.content
