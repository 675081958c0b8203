"""The tool `read_result`: which results it opens, and the places of the matches in them."""

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest

import toolwright as tw
from tests.runtime.narrow import Narrow
from toolwright import testing
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.threads.message import Message
from toolwright.runtime.toolkits import results
from toolwright.runtime.toolkits.results import AT_ONCE

pytestmark = pytest.mark.anyio

SHARP = "ß" * 1_000  # case folding doubles its length


@tw.tool(read_only=True)
def report(number: int) -> str:
    """A report."""
    return f"{SHARP} Report {number} has the word Needle{number}. " + "more " * 500


def asked(**arguments: Any) -> ModelCall:
    return ModelCall(id="", name="read_result", arguments=json.dumps(arguments))


async def converse(rt: Any, thread_id: str, texts: Sequence[str]) -> None:
    """Send each text and wait for its run."""
    for text in texts:
        run = await rt.threads.send(thread_id, text)
        assert (await rt.runs.wait(run.id, 20)).status == "completed"


class Reading:
    """An agent whose conversation has been compacted, and the results of its calls of `read_result`."""

    def __init__(self, rt: Any, thread_id: str, calls: list[ModelCall]) -> None:
        self._rt, self.thread_id, self._calls = rt, thread_id, calls

    async def read(self, **arguments: Any) -> dict[str, Any]:
        self._calls.append(asked(**arguments))
        run = await self._rt.threads.send(self.thread_id, "Read.")
        assert (await self._rt.runs.wait(run.id, 20)).status == "completed"
        messages = await self._rt.threads.messages(self.thread_id, 1_000)
        text = next(each.content for each in reversed(messages) if each.role == "tool")
        return cast("dict[str, Any]", json.loads(text))


def model_of(calls: list[ModelCall], tool: str = "report") -> Narrow:
    """A model that calls the tool for each number that it reads, and makes these calls."""

    def answer(request: ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        if last.role == "user" and last.content.isdecimal():
            call = ModelCall(id="", name=tool, arguments=json.dumps({"number": int(last.content)}))
            return ModelResponse(calls=(call,), model="narrow")
        if last.role == "user" and calls:
            return ModelResponse(calls=(calls.pop(),), model="narrow")
        return ModelResponse(text="Read.", model="narrow")

    return Narrow(answer, limit=10_000, window=10_000)


async def test_what_is_looked_for_is_found_and_read_at_the_place_that_is_told() -> None:
    calls: list[ModelCall] = []
    agent = tw.Agent("clerk", instructions="Read.", model=model_of(calls), tools=[report])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("clerk")
        await converse(rt, thread.id, [str(number) for number in range(20)])
        reading = Reading(rt, thread.id, calls)
        [found] = (await reading.read(query="needle3."))["results"]
        assert "Needle3." in found["text"] and found["tool"] == "report"
        [place] = (await reading.read(call_id=found["call_id"], query="NEEDLE3"))["places"]
        page = await reading.read(call_id=found["call_id"], offset=place["offset"], limit=8)
        assert page["text"] == "Needle3." and page["next_offset"] == place["offset"] + 8
        other = await rt.threads.create("clerk")
        elsewhere = Reading(rt, other.id, calls)
        await converse(rt, other.id, [str(number) for number in range(20, 40)])
        refused = await elsewhere.read(call_id=found["call_id"])
        assert refused["error"].startswith(f"There is no call {found['call_id']!r} with a result")
        assert (await elsewhere.read(query="needle3."))["results"] == []


@tw.tool(read_only=True)
def export(number: int) -> str:
    """A long export: it is kept in a file."""
    first = "é" * (AT_ONCE - 3)
    return f"{first}Needle{number} " + "more " * 1_000 + "NEEDLE at the end"


async def test_a_result_that_is_kept_in_a_file_is_searched_and_read_whole() -> None:
    calls: list[ModelCall] = []
    agent = tw.Agent("clerk", instructions="Read.", model=model_of(calls, "export"), tools=[export])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("clerk")
        await converse(rt, thread.id, ["7", *["word " * 200] * 20])
        reading = Reading(rt, thread.id, calls)
        [found] = (await reading.read(query="needle7"))["results"]  # the match spans two pieces of the search
        assert "Needle7" in found["text"] and found["tool"] == "export"
        places = (await reading.read(call_id=found["call_id"], query="needle"))["places"]
        assert [each["offset"] for each in places] == [AT_ONCE - 3, AT_ONCE + 5 + 5_000]
        page = await reading.read(call_id=found["call_id"], offset=places[1]["offset"])
        assert page["text"] == "NEEDLE at the end" and page["characters"] == AT_ONCE + 5_022


async def test_a_result_is_opened_by_its_id_however_long_ago_it_was() -> None:
    calls: list[ModelCall] = []
    agent = tw.Agent("clerk", instructions="Read.", model=model_of(calls), tools=[report])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("clerk")
        await converse(rt, thread.id, ["0", *["word " * 200] * 20])
        [_, _, first, *_] = await rt.threads.messages(thread.id, 10)
        read = list[object]()
        before = rt._store.messages_before  # pyright: ignore[reportPrivateUsage]  # counts the reads

        async def messages_before(thread_id: str, seq: int | None, limit: int) -> Sequence[Message]:
            read.append(seq)
            return await before(thread_id, seq, limit)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rt._store, "messages_before", messages_before)  # pyright: ignore[reportPrivateUsage]
            page = await Reading(rt, thread.id, calls).read(call_id=first.call_id)
        assert "Needle0" in page["text"]
        assert read == []  # the run's messages are looked up, the thread is not read backwards


async def test_a_search_of_many_results_lets_others_have_their_turn() -> None:
    calls: list[ModelCall] = []
    agent = tw.Agent("clerk", instructions="Read.", model=model_of(calls), tools=[report])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("clerk")
        await converse(rt, thread.id, [str(number) for number in range(60)])
        turns = list[int]()  # of another task, at each page that the search reads
        others = 0

        async def others_work() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        before = rt._store.messages_before  # pyright: ignore[reportPrivateUsage]  # called for each page

        async def messages_before(thread_id: str, seq: int | None, limit: int) -> Sequence[Message]:
            turns.append(others)
            return await before(thread_id, seq, limit)

        working = asyncio.create_task(others_work())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rt._store, "messages_before", messages_before)  # pyright: ignore[reportPrivateUsage]
            assert await Reading(rt, thread.id, calls).read(query="nowhere") == {"results": []}
        working.cancel()
        assert len(turns) > 3 and all(one < two for one, two in pairwise(turns))


async def test_an_agent_without_tools_is_offered_none_when_its_conversation_is_shortened() -> None:
    model = Narrow(lambda _: ModelResponse(text="Yes.", model="narrow"), limit=2_000, window=2_000)
    agent = tw.Agent("talker", instructions="Talk.", model=model)
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("talker")
        await converse(rt, thread.id, ["word " * 100] * 30)
        assert (await rt.threads.get(thread.id)).compacted
    assert {request.tools for request in model.requests} == {()}


async def test_a_search_says_what_it_has_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[ModelCall] = []
    agent = tw.Agent("clerk", instructions="Read.", model=model_of(calls), tools=[report])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("clerk")
        await converse(rt, thread.id, [str(number) for number in range(30)])
        reading = Reading(rt, thread.id, calls)
        assert await reading.read(query="nowhere") == {"results": []}
        monkeypatch.setattr(results, "MAX_SEARCHED", 50)
        notes = ["Only the newest 50 messages were searched."]
        assert await reading.read(query="nowhere") == {"results": [], "notes": notes}


async def test_a_search_says_that_it_has_not_searched_old_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_SEARCHED_BYTES", 1_500_000)
    calls: list[ModelCall] = []
    agent = tw.Agent("clerk", instructions="Read.", model=model_of(calls, "export"), tools=[export])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("clerk")
        await converse(rt, thread.id, [str(number) for number in range(3)])
        answer = await Reading(rt, thread.id, calls).read(query="nowhere")
        [note] = answer["notes"]
        assert note.startswith("Only the beginning of ") and note.endswith(
            "Pass a call_id to search all of it."
        )
