"""Messages that the owner of a thread hides from its models: a call with its results, reversible, in the records."""

import pytest

import toolwright as tw
from tests.kit import Watched, call, calls
from tests.runtime.talk import Talk, assert_answered, heard, talking
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.threads.message import Message

pytestmark = pytest.mark.anyio


@tw.tool(description="Look.")
async def look() -> str:
    return "seen"


outside = tw.Tool(
    name="outside", description="Ask.", kind="external", is_async=True, parameters={"type": "object"}
)


def app(model: Watched) -> tw.App:
    return tw.App(agents=[tw.Agent("eye", tw.Prompt("eye", "Look.", model=model, tools=[look, outside]))])


async def message(talk: Talk, number: int) -> Message:
    return (await talk.messages())[number]


async def test_a_hidden_message_is_not_sent_and_stays_in_the_records() -> None:
    model = Watched([{"text": "One."}])
    async with talking(app(model), "eye") as talk:
        await talk.say("First")
        [hidden] = await talk.rt.threads.hide_message(
            talk.thread_id, (await message(talk, 0)).id, by="person:ent_ada"
        )
        assert (hidden.content, hidden.kept, hidden.hidden_by) == ("First", False, "person:ent_ada")
        assert await message(talk, 0) == hidden
        await talk.say("Second")
        assert heard(model) == [("assistant", "One."), ("user", "Second")]
        assert await talk.rt.threads.hide_message(talk.thread_id, hidden.id) == [hidden]  # already
        [shown] = await talk.rt.threads.hide_message(talk.thread_id, hidden.id, False)
        assert (shown.kept, shown.hidden_by) == (True, None)
        await talk.say("Third")
        assert heard(model)[0] == ("user", "First")


@pytest.mark.parametrize("chosen", [1, 2, 3])
async def test_calls_and_their_results_are_hidden_together(chosen: int) -> None:
    model = Watched([calls(call("look"), call("look")), {"text": "Done."}])
    async with talking(app(model), "eye") as talk:
        await talk.say("Go")
        hidden = await talk.rt.threads.hide_message(talk.thread_id, (await message(talk, chosen)).id)
        assert [each.role for each in hidden] == ["assistant", "tool", "tool"]
        model.says([{"text": "Again."}])
        await talk.say("And now?")
        assert heard(model) == [("user", "Go"), ("assistant", "Done."), ("user", "And now?")]
        shown = await talk.rt.threads.hide_message(talk.thread_id, hidden[1].id, False)
        assert [each.id for each in shown] == [each.id for each in hidden]
        await talk.say("And now?")
        assert [role for role, _ in heard(model)][:4] == ["user", "assistant", "tool", "tool"]
    assert_answered(model)


async def test_a_run_that_its_provider_refuses_goes_on_after_the_message_is_hidden() -> None:
    model = Watched([{"text": "", "fail": "refused", "message": "messages.0: Could not process."}])
    async with talking(app(model), "eye") as talk:
        assert (await talk.say("Poison")).status == "failed"
        await talk.rt.threads.hide_message(talk.thread_id, (await message(talk, 0)).id)
        model.says([{"text": "Here."}])
        assert (await talk.say("Are you there?")).output == "Here."
        assert heard(model) == [("user", "Are you there?")]


async def test_a_call_without_a_result_is_not_hidden() -> None:
    @tw.tool(description="Hide the answer that calls this.")
    async def hide(state: tw.ThreadState) -> str:
        [_, answer] = await talk.messages()
        with pytest.raises(InvalidRequest, match="has no result yet"):
            await talk.rt.threads.hide_message(talk.thread_id, answer.id)
        return "refused"

    model = Watched([call("hide"), {"text": "Done."}])
    prompt = tw.Prompt("eye", "Look.", model=model, tools=[hide])
    async with talking(tw.App(agents=[tw.Agent("eye", prompt)]), "eye") as talk:
        await talk.say("Go")
        assert await talk.results() == ["refused"]


async def test_a_message_of_another_thread_is_not_found() -> None:
    async with talking(app(Watched([{"text": "One."}])), "eye") as talk:
        await talk.say("Go")
        other = await talk.rt.threads.create("eye")
        for thread_id, message_id in ((other.id, (await message(talk, 0)).id), (talk.thread_id, "msg_x")):
            with pytest.raises(NotFound):
                await talk.rt.threads.hide_message(thread_id, message_id)
        with pytest.raises(NotFound):
            await talk.rt.threads.hide_message("thr_x", "msg_x")
