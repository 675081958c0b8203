"""Threads as users see them: what is accepted, what is rejected, and the effect of a message after a cancellation."""

import asyncio
from pathlib import Path
from typing import cast

import pytest
from pydantic_ai.models.test import TestModel

import toolwright as tw
from tests.kit import ran
from tests.runtime.rig import assert_valid, running
from tests.runtime.test_loop import calling
from toolwright import testing
from toolwright.core.errors import DefinitionError, InvalidRequest, NotFound, StoreError
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ToolChoice
from toolwright.core.threads.message import Message
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_a_message_after_a_cancel_is_answered_by_a_run_of_its_own() -> None:
    began = asyncio.Event()

    @tw.tool(description="Work.")
    async def work(state: tw.ThreadState) -> str:
        began.set()
        await state.execution.abort_signal.wait()
        return "stopped early"

    model = ScriptedModel({"tester": [calling("work", args={}), {"text": "Never."}]})
    async with asyncio.timeout(20), running(model, [work]) as rig:
        first = await rig.send()
        await began.wait()
        await rig.rt.runs.cancel(first.id)
        second = await rig.rt.threads.send(first.thread_id, "No, do this instead")
        assert second.id != first.id
        assert (await rig.rt.runs.get(first.id)).status == "cancelled"
        await rig.rt.runs.cancel(second.id)
        await rig.rt.runs.wait(second.id)
        assert_valid(await rig.transcript(first.thread_id))


HIDDEN = "\u202e\u2066\x1b\x9b\U000e0041"


async def test_no_message_that_a_model_reads_hides_something_from_people() -> None:
    """Neither a sent message, nor one that a handler queues or injects, nor the first message of a child."""
    read: list[str] = []

    @tw.tool(description="Say more.")
    async def say_more(state: tw.ThreadState) -> str:
        state.inject_message(f"injected{HIDDEN}\n\tyes")
        await state.queue_message(f"queued{HIDDEN}")
        return f"done{HIDDEN}"

    def answer(messages: tuple[Message, ...]) -> object:
        read.extend(each.content for each in messages if each.role != "assistant")
        if messages[-1].content != "sent":
            return {"text": "Good."}
        below = {"name": "below", "args": {"message": f"asked{HIDDEN}"}}
        return {"calls": [{"name": "say_more"}, below]}

    model = testing.FunctionModel(answer)
    below = tw.Agent("below", tw.Prompt("below", model=model))
    front = tw.Agent("front", tw.Prompt("front", model=model, tools=[say_more, below.as_tool("Ask.")]))
    async with testing.runtime(tw.App(agents=[front])) as rt:
        thread = await rt.threads.create("front")
        with pytest.raises(InvalidRequest, match="must not be empty"):
            await rt.threads.send(thread.id, HIDDEN)
        sent = await rt.threads.post(thread.id, f"sent{HIDDEN}")
        assert sent.message.content == "sent"
        assert (await rt.runs.wait(sent.run_id, 20)).status == "completed"
        assert {*read} == {"sent", "asked", "injected\n\tyes", "queued", "done", "Good."}
        shown = [each.content for each in await rt.threads.messages(thread.id)]
        assert not {*HIDDEN} & {*"".join(shown)}


async def test_a_model_object_of_pydantic_ai_is_a_model() -> None:
    prompt = tw.Prompt("p", "Talk.", model=TestModel(custom_output_text="Hello there."))
    async with testing.runtime(tw.App(agents=[tw.Agent("talker", prompt)])) as rt:
        run = await ran(rt, "talker", "Hi")
        assert (run.status, run.output) == ("completed", "Hello there.")


@pytest.mark.parametrize("model", [5, TestModel, object(), ["openai:gpt-6.1-terra"]])
def test_what_is_no_model_is_refused_where_it_is_named(model: object) -> None:
    with pytest.raises(DefinitionError, match="Prompt 'p': model must be"):
        tw.Prompt("p", model=model)


def test_a_prompt_says_what_is_wrong_with_it() -> None:
    with pytest.raises(DefinitionError, match="tool_choice"):
        tw.Prompt("p", tool_choice=cast("ToolChoice", "nope"))
    with pytest.raises(DefinitionError, match="tools must be a list"):
        tw.Prompt("p", tools="search")
    with pytest.raises(DefinitionError, match="prompt must be text"):
        tw.Prompt("p", prompt=cast("str", None))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"content": 5}, "content"),
        ({"content": "  "}, "content"),
        ({"content": "a\0b"}, "content"),
        ({"content": "\ud800"}, "content"),
    ],
)
async def test_a_message_that_is_no_text_is_refused(given: JSONObject, path: str) -> None:
    async with running(ScriptedModel([{"text": "Hi."}])) as rig:
        thread = await rig.rt.threads.create("tester")
        with pytest.raises(InvalidRequest) as caught:
            await rig.rt.threads.send(thread.id, cast("str", given["content"]))
        assert caught.value.details[0]["path"] == path


async def test_a_thread_with_what_json_cannot_carry_is_refused_by_every_store() -> None:
    async with running(ScriptedModel([{"text": "Hi."}])) as rig:
        for arguments in ({"x": object()}, {"x": float("nan")}):
            with pytest.raises(InvalidRequest):
                await rig.rt.threads.create("tester", arguments=cast("JSONObject", arguments))
        with pytest.raises(InvalidRequest):
            await rig.rt.threads.create("tester", tags="abc")
        with pytest.raises(InvalidRequest):
            await rig.rt.threads.create("tester", user_id="\ud800")


def delete_database(folder: Path) -> None:
    for file in folder.glob("t.db*"):
        if not file.name.endswith(".lock"):
            file.unlink()


async def test_a_database_that_is_deleted_under_a_process_takes_no_more_commits(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path}/t.db")
    app = tw.App(agents=[tw.Agent("a", tw.Prompt("p", model=ScriptedModel([{"text": "Hi."}])))])
    async with app.runtime(settings, grace=0.0) as rt:
        await rt.threads.create("a")
        delete_database(tmp_path)
        with pytest.raises(StoreError):
            await rt.threads.create("a")
        with pytest.raises(StoreError):
            await rt.health.check()


def test_settings_refuse_names_and_databases_that_do_not_exist() -> None:
    with pytest.raises(DefinitionError, match="databas_url"):
        tw.Settings(databas_url="sqlite:///x.db")  # type: ignore[call-arg]
    for url in ("sqlite:x.db", "sqlite://x.db", "sqlite:///:memory:", "sqlite:///x.db?mode=ro", "mysql://x"):
        with pytest.raises(DefinitionError, match=r"memory|sqlite:///"):
            tw.Settings(database_url=url)


ASKS: dict[str, object] = {"calls": [{"name": "ask", "args": {}}]}
OUTSIDE = tw.Tool.from_config(
    {"name": "ask", "description": "Ask.", "inputSchema": {"type": "object"}, "executionType": "external"}
)


@pytest.mark.parametrize("named", ["name", "id"])
async def test_lists_take_an_agent_by_name_or_id(named: str) -> None:
    app = tw.App(
        agents=[
            tw.Agent("a", model=ScriptedModel([ASKS]), tools=[OUTSIDE]),
            tw.Agent("b", model=ScriptedModel([{"text": "Hi."}])),
        ]
    )
    async with testing.runtime(app) as rt:
        thread = await rt.threads.create("a")
        await rt.threads.create("b")
        run = await rt.threads.send(thread.id, "Go.")
        async for event in rt.runs.stream(run.id):
            if isinstance(event, tw.CallWaiting):
                break
        agent = "a" if named == "name" else app.catalog.agents[0].id
        assert [each.id for each in await rt.threads.list(agent=agent)] == [thread.id]
        assert [each.id for each in await rt.runs.list(agent=agent)] == [run.id]
        assert [each.run_id for each in await rt.calls.list(agent=agent)] == [run.id]
        assert not await rt.threads.list(agent="nobody")


async def test_what_belongs_to_a_run_that_does_not_exist_is_not_found() -> None:
    async with testing.runtime(tw.App()) as rt:
        for read in (
            rt.runs.get,
            rt.runs.messages,
            rt.runs.steps,
            rt.runs.result,
            rt.runs.wait,
            rt.runs.cancel,
        ):
            with pytest.raises(NotFound):
                await read("nope")
