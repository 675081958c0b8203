"""Long conversations: the messages that a model sees, and those that are left out."""

import json
from pathlib import Path

import pytest

import toolwright as tw
from tests import journals
from tests.kit import ran
from tests.runtime.narrow import Narrow, all_tokens_of, check_pairs, check_sent, check_valid, echo, tokens_of
from toolwright import testing
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.tools.relations import Resumable
from toolwright.runtime.model.context_window import MAX_KEPT

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("window", [None, 2_000])
async def test_a_long_conversation_is_shortened_and_goes_on(says: bool, window: int | None) -> None:
    model = Narrow(echo, limit=2_000, window=window, says=says)
    agent = tw.Agent("talker", instructions="Talk.", model=model)
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("talker")
        for number in range(60):
            run = await rt.threads.send(thread.id, f"message {number}: " + "word " * 100)
            done = await rt.runs.wait(run.id, 20)
            assert done.status == "completed", done.error
        rows = await rt.threads.messages(thread.id, 500)
        assert len(rows) == 120
    for request in model.requests:
        check_pairs(request.messages)
        assert tokens_of(request) <= 2_000
    assert model.summaries
    if window is not None:
        assert model.refused == 0


@pytest.mark.slow
@pytest.mark.one_journal
@pytest.mark.parametrize("known", ["window", "limit", "refusal"])
async def test_thousands_of_turns_by_the_default_policy(known: str) -> None:
    """The model's window is known, or its provider names a limit when it refuses a request, or gives no number."""
    turns, limit, window = 2_000, 8_000, 16_000 if known == "window" else None
    model = Narrow(echo, limit=limit, window=window, says=known == "limit", counting=all_tokens_of)
    agent = tw.Agent("talker", instructions="Talk.", model=model)
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        for count in (turns, turns // 10):  # the learned limit applies to the next conversation
            thread = await rt.threads.create("talker")
            for number in range(count):
                run = await rt.threads.send(thread.id, f"message {number}: " + "word " * 20)
                done = await rt.runs.wait(run.id, 60)
                assert done.status == "completed", done.error
            messages = await rt.threads.messages(thread.id, 2 * count + 1)
            rows = await rt.threads.compactions(thread.id)
            assert [each.content.split(":")[0] for each in messages if each.role == "user"] == [
                f"message {number}" for number in range(count)
            ]
            assert rows and all(row.summary is not None for row in rows)
            check_sent(messages, rows, model.asked)
    assert model.refused == (0 if known == "window" else 1)
    assert max(map(all_tokens_of, model.requests)) <= limit


@tw.tool
async def tell(state: tw.ThreadState) -> str:
    """Tell how many messages there are, and change the first."""
    messages = await state.get_messages(1_000)
    state.update_message(messages[0].id, "changed")
    return str(len(messages))


@tw.tool
async def change(state: tw.ThreadState, message_id: str) -> str:
    """Change a message without reading it."""
    state.update_message(message_id, "changed blindly")
    return "changed"


async def test_a_claim_reads_what_it_shows_and_a_handler_everything() -> None:
    """On databases too: a thread that is claimed again reads no messages that its requests leave out."""
    calls: list[ModelCall] = []

    def answer(request: ModelRequest) -> ModelResponse:
        if calls and request.messages[-1].role == "user":
            return ModelResponse(calls=(calls.pop(),), model="narrow")
        return ModelResponse(text="Yes.", model="narrow")

    model = Narrow(answer, limit=4_000, window=4_000)
    agent = tw.Agent("talker", instructions="Talk.", model=model, tools=[tell, change])
    async with journals.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("talker")

        async def say(text: str) -> str:
            run = await rt.threads.send(thread.id, text)
            done = await rt.runs.wait(run.id, 60)
            assert done.status == "completed", done.error
            return done.id

        for number in range(40):
            await say(f"message {number}: " + "word " * 100)
        view = await rt._store.view(thread.id)  # pyright: ignore[reportPrivateUsage]  # as a worker reads it
        assert view is not None and view.thread.cut > 0
        assert len(view.messages) < 40
        assert all((each.seq or 0) > view.thread.cut for each in view.messages)
        first = (await rt.threads.messages(thread.id, 1))[0]
        calls.append(ModelCall(id="c1", name="tell", arguments="{}"))
        run_id = await say("How many?")
        results = [
            each.content for each in await rt.threads.messages(thread.id, 1_000) if each.run_id == run_id
        ]
        assert results[2] == "82"
        assert (await rt.threads.messages(thread.id, 1))[0].content == "changed"
        for message_id, result in ((first.id, "changed"), ("msg_none", "There is no message 'msg_none'")):
            arguments = json.dumps({"message_id": message_id})
            calls.append(ModelCall(id="c2", name="change", arguments=arguments))
            run_id = await say("Change it.")
            said = [each for each in await rt.threads.messages(thread.id, 1_000) if each.run_id == run_id]
            assert result in said[2].content
        assert (await rt.threads.messages(thread.id, 1))[0].content == "changed blindly"
        versions = await rt._store.message_versions(thread.id)  # pyright: ignore[reportPrivateUsage]  # as a worker reads it
        assert [each.content for each in versions] == [first.content, "changed"]


@pytest.mark.one_journal
async def test_a_run_that_many_messages_join_is_read_again_on_sqlite(tmp_path: Path) -> None:
    """A statement names each message that stays: SQLite accepts no more than 500."""
    hold: dict[str, str] = {}

    @tw.tool
    async def hear() -> str:
        """Hear what many say."""
        for number in range(600):
            await rt.threads.send(hold["thread"], f"ok {number}")
        return "heard"

    @tw.tool(read_only=True)
    async def write(text: str) -> str:
        """Write something long."""
        return "written"

    long = json.dumps({"text": "word " * 2_000})
    plan = [("hear", "{}"), *[("write", long)] * 40]

    def answer(_: ModelRequest) -> ModelResponse:
        if not plan:
            return ModelResponse(text="Done.", model="narrow")
        name, arguments = plan.pop(0)
        call = ModelCall(id="c", name=name, arguments=arguments)
        return ModelResponse(calls=(call,), model="narrow")

    model = Narrow(answer, limit=10**9)
    context = tw.Context(max_tokens=40_000, summarize=False)
    agent = tw.Agent("talker", instructions="Talk.", model=model, tools=[hear, write], context=context)
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    async with tw.App(agents=[agent]).runtime(settings) as rt:
        hold["thread"] = (await rt.threads.create("talker")).id
        for text in ("Go", "Again"):
            run = await rt.threads.send(hold["thread"], text)
            assert (await rt.runs.wait(run.id, 60)).status == "completed"
        rows = await rt.threads.compactions(hold["thread"])
        assert max(len(each.kept) for each in rows) == MAX_KEPT


async def test_a_side_keeps_what_began_the_run_and_not_what_the_other_side_says() -> None:
    text = "blah " * 60
    model = Narrow(lambda request: ModelResponse(text=f"{len(request.messages)} {text}"), limit=10**9)
    context = tw.Context(max_tokens=3_000)
    sides = [tw.Side(tw.Prompt(name, "Talk.", model=model, context=context)) for name in ("one", "two")]
    both = tw.Agent("both", *sides, type="dual_ai", max_session_turns=24)
    async with testing.runtime(tw.App(agents=[both])) as rt:
        run = await ran(rt, "both")
        assert run.status == "completed"
        rows = await rt.threads.compactions(run.thread_id)
        assert rows and {each.kept for each in rows if each.cut} == {(1,)}


@tw.tool(read_only=True)
def look(page: int) -> str:
    """Look at a page."""
    return f"Page {page}. {'line ' * 200}The secret of page {page:02} is S{page * 7919}. {'line ' * 200}"


def looks(request: ModelRequest) -> ModelResponse:
    """Look at the page that is named; tell the secret of one by what `read_result` finds."""
    last = request.messages[-1]
    if last.role == "user" and last.content.startswith("Look at "):
        return calling("look", page=int(last.content.split()[-1]))
    if last.role == "user":
        return calling("read_result", query=f"secret of page {int(last.content.split()[-1]):02}")
    if last.tool_name == "look":
        return ModelResponse(text="Seen.", model="narrow")
    found = json.loads(last.content)
    if "results" in found:
        return calling("read_result", call_id=found["results"][0]["call_id"])
    return ModelResponse(text=found["text"].partition(" is ")[2].partition(".")[0], model="narrow")


def calling(name: str, /, **arguments: object) -> ModelResponse:
    return ModelResponse(calls=(ModelCall(id="c", name=name, arguments=json.dumps(arguments)),))


async def test_a_subagent_that_is_resumed_has_a_long_conversation_of_its_own() -> None:
    """It stays within its budget, and remembers an early result; its parent's conversation is not compacted."""
    references: list[str] = []

    def delegate(request: ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        if last.role != "user":
            return ModelResponse(text=last.content, model="narrow")
        if not references:
            return calling("subagent_create", agent="reader", name="Ada", message=last.content)
        return calling("subagent_message", reference=references[0], message=last.content)

    boss = Narrow(delegate, limit=10**9)
    model = Narrow(looks, limit=8_000, name="test:reader", counting=all_tokens_of)
    context = tw.Context(max_tokens=8_000)
    prompt = tw.Prompt("reader", "Read.", model=model, tools=[look], context=context)
    reader = tw.Agent("reader", prompt, expose_as_tool=True, tool_description="Reads.")
    config = tw.SubagentToolConfig(name="reader", resumable=Resumable())
    agent = tw.Agent("boss", tw.Prompt("boss", "Lead.", model=boss, tools=[config]))
    async with journals.runtime(tw.App(agents=[agent, reader])) as rt:
        thread = await rt.threads.create("boss")

        async def say(text: str) -> str:
            run = await rt.threads.send(thread.id, text)
            done = await rt.runs.wait(run.id, 60)
            assert done.status == "completed", done.error
            return str(done.output)

        for page in range(40):
            await say(f"Look at {page}")
            references[:] = [each.id for each in await rt.threads.children(thread.id)]
        assert f"S{3 * 7919}" in await say("Tell the secret of page 3")
        [child] = await rt.threads.children(thread.id)
        rows = await rt.threads.compactions(child.id)
        messages = await rt.threads.messages(child.id, 1_000)
        check_sent(messages, rows, model.asked)
        assert len([each for each in messages if each.role == "user"]) == 41
        assert await rt.threads.compactions(thread.id) == []
    assert rows and rows[-1].summary is not None
    assert "SUMMARY of what was said." in model.asked[-1].messages[0].content
    assert model.refused == 0
    for request in model.asked:
        check_valid(request.messages)
        assert all_tokens_of(request) <= 8_000


async def test_each_side_is_counted_as_its_own_provider_counts() -> None:
    """One side's provider counts two and a half times as many tokens as the other's."""

    def twice(request: ModelRequest) -> int:
        return tokens_of(request) * 5 // 2

    one = Narrow(echo, limit=6_000, window=12_000, counting=twice)
    two = Narrow(echo, limit=6_000, window=12_000, counting=tokens_of)
    sides = [tw.Side(tw.Prompt(name, "Talk.", model=model)) for name, model in (("a", one), ("b", two))]
    agent = tw.Agent("both", *sides, type="dual_ai", max_session_turns=1)
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("both")
        for number in range(40):
            run = await rt.threads.send(thread.id, f"{number}. " + "word " * 200)
            assert (await rt.runs.wait(run.id, 20)).status == "completed"
        assert len(await rt.threads.compactions(thread.id)) > 2
    assert one.refused == two.refused == 0
