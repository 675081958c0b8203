"""A single message that is too long fails, by name, and no other message waits for it."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import toolwright as tw
from tests.kit import ran
from tests.runtime.narrow import Narrow, all_tokens_of, check_valid, echo, prompt_of
from tests.runtime.rig import running
from toolwright import testing
from toolwright.core.agents.mind import PlanChange
from toolwright.core.errors import ContextTooLong
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run, Usage
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio

LIMIT = 6_000
HUGE = "huge " * 12_000  # 15,000 tokens, and less than the limit for a file
CREW = ("michael", "jim", "dwight")


def assert_names(run: Run, message_id: str, name: str = "test:narrow") -> None:
    """Check that the run has failed for that message, and that its error says so and what to do."""
    assert (run.status, run.error_code) == ("failed", ContextTooLong.code)
    assert run.error is not None
    assert run.error.startswith(f"The message {message_id} has some ")
    assert f"tokens, and a request to {name} may have " in run.error
    assert run.error.endswith("Send less at once, or send it as a file that a tool reads.")


@pytest.mark.parametrize("window", [None, LIMIT])
@pytest.mark.parametrize("says", [True, False])
async def test_a_message_that_cannot_fit_fails_by_name_and_the_next_one_is_answered(
    says: bool, window: int | None
) -> None:
    model = Narrow(echo, limit=LIMIT, window=window, says=says, counting=all_tokens_of)
    async with running(model) as rig:
        thread = await rig.rt.threads.create("tester")
        for _ in range(3):
            before = await rig.rt.threads.send(thread.id, "Hi")
            assert (await rig.rt.runs.wait(before.id, 20)).status == "completed"
        sent = await rig.rt.threads.post(thread.id, HUGE)
        run = await rig.rt.runs.wait(sent.run_id, 20)
        [message] = [each for each in await rig.rt.threads.messages(thread.id) if each.content == HUGE]
        assert_names(run, message.id)
        assert model.refused <= 6 and (window is None or model.refused == 0)
        for _ in range(3):
            after = await rig.rt.threads.send(thread.id, "And now?")
            done = await rig.rt.runs.wait(after.id, 20)
            assert done.status == "completed", done.error


async def test_a_message_that_fits_is_answered_though_a_lower_limit_was_guessed() -> None:
    """A limit learned from a refusal without a number never fails a run by itself."""
    model = Narrow(echo, limit=3_500, says=False, counting=all_tokens_of)
    policy = tw.Context(max_tokens=4_000, summarize=False)
    async with running(model, prompt_options={"context": policy}) as rig:
        first, second = [await rig.rt.threads.create("tester") for _ in range(2)]
        while not model.refused:  # the next request is accepted
            run = await rig.rt.threads.send(first.id, "word " * 200)
            assert (await rig.rt.runs.wait(run.id, 20)).status == "completed"
        [row] = await rig.rt.threads.compactions(first.id)
        assert row.budget is not None and row.budget < 3_000
        for thread in (second, first):
            run = await rig.rt.threads.send(thread.id, "word " * 2_500)  # 3,125 tokens
            done = await rig.rt.runs.wait(run.id, 20)
            assert (done.status, done.error) == ("completed", None)
        refused = model.refused
        run = await rig.rt.threads.send(second.id, "word " * 3_300)
        done = await rig.rt.runs.wait(run.id, 20)
        assert_names(done, (await rig.transcript(second.id))[-1].id)
        assert model.refused == refused, "it is longer than the policy lets it be"


@pytest.mark.parametrize("window", [None, LIMIT])
@pytest.mark.parametrize("says", [True, False])
async def test_many_messages_at_once_are_answered_together(says: bool, window: int | None) -> None:
    model = Narrow(echo, limit=LIMIT, window=window, says=says, counting=all_tokens_of)
    agent = tw.Agent("tester", tw.Prompt("tester", "Test.", model=model))
    async with testing.by_hand(tw.App(agents=[agent])) as (rt, motor):
        thread = await rt.threads.create("tester")
        for number in range(30):
            await rt.threads.post(thread.id, f"{number}. " + "word " * 300)
        await motor.run_until_idle()
        [run] = await rt.runs.list(limit=50)
        assert (run.status, run.error) == ("completed", None)
        [request] = model.requests
        assert request.messages[-1].content.startswith("29. ")
        assert "messages were left out to save space" in request.messages[0].content
        assert len(request.messages) > 5  # as many of the newest as fit


async def test_many_messages_that_join_a_run_are_answered_together() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    @tw.tool(read_only=True)
    async def wait() -> str:
        """Wait."""
        begun.set()
        await gate.wait()
        return "Done."

    def answer(request: ModelRequest) -> ModelResponse:
        if request.messages[-1].content == "Go":
            return ModelResponse(calls=(ModelCall(id="c", name="wait", arguments="{}"),))
        return ModelResponse(text=request.messages[-1].content[:3])

    model = Narrow(answer, limit=LIMIT, window=2 * LIMIT, counting=all_tokens_of)
    async with running(model, [wait]) as rig:
        run = await rig.send()
        await begun.wait()
        for number in range(10, 50):
            await rig.rt.threads.post(run.thread_id, f"{number}. " + "word " * 300)
        gate.set()
        done = await rig.rt.runs.wait(run.id, 20)
        assert (done.status, done.output, done.error) == ("completed", "49.", None)
        assert done.step_count == 2
        for request in model.asked:
            check_valid(request.messages)
        said = [each.content for each in await rig.transcript(run.thread_id) if each.role == "user"]
        assert [each[:2] for each in said] == ["Go", *map(str, range(10, 50))]


NUMBER = 100


@tw.tool(read_only=True)
def look(number: int) -> str:
    """Look."""
    return f"Found {number}. " + "x" * 577


def many_calls(request: ModelRequest) -> ModelResponse:
    """Make a hundred calls, and then say which results are shown and which are references."""
    last = request.messages[-1]
    if last.role == "user":
        calls = [
            ModelCall(id=f"c{one}", name="look", arguments=f'{{"number":{one}}}') for one in range(NUMBER)
        ]
        return ModelResponse(calls=tuple(calls))
    results = [each.content for each in request.messages if each.role == "tool"]
    return ModelResponse(text=f"{len(results)} {sum('read_result' in each for each in results)}")


async def test_many_results_that_are_too_short_for_references_are_sent_as_bare_ones() -> None:
    model = Narrow(many_calls, limit=12_000, window=24_000, counting=all_tokens_of)
    async with running(model, [look]) as rig:
        run = await rig.run("Look")
        assert (run.status, run.output) == ("completed", f"{NUMBER} {NUMBER}")
        [row] = await rig.rt.threads.compactions(run.thread_id)
        assert row.bare > row.cleared == 0
        [*_, prompt] = await rig.rt.sent_prompts.of_run(run.id, 10)
        assert [*prompt.messages] == [*model.requests[-1].messages]
        again = await rig.rt.runs.wait((await rig.rt.threads.send(run.thread_id, "Look")).id, 20)
        assert again.status == "completed"


async def test_an_answer_that_is_too_long_to_be_sent_back_is_named_and_the_next_message_is_answered() -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        if request.messages[-1].content == "Look":
            arguments = f'{{"number":1,"why":"{HUGE}"}}'
            return ModelResponse(calls=(ModelCall(id="c", name="look", arguments=arguments),))
        return ModelResponse(text="Done.")

    model = Narrow(answer, limit=LIMIT, window=2 * LIMIT, counting=all_tokens_of)
    async with running(model, [look]) as rig:
        run = await rig.run("Look")
        [asked] = [each for each in await rig.transcript(run.thread_id) if each.calls]
        assert run.error is not None
        assert run.error.startswith(f"The agent's answer {asked.id} has, with its calls, some 15")
        assert run.error.endswith("Have the model write less at once, or choose a model that takes more.")
        again = await rig.rt.runs.wait((await rig.rt.threads.send(run.thread_id, "And now?")).id, 20)
        assert (again.status, again.output) == ("completed", "Done.")


async def test_results_that_do_not_fit_even_as_bare_references_are_named_together() -> None:
    model = Narrow(many_calls, limit=3_500, window=7_000, counting=all_tokens_of)
    async with running(model, [look]) as rig:
        run = await rig.run("Look")
        assert run.error is not None
        assert run.error.startswith(f"The results of {NUMBER} calls that were made at once have some ")
        assert run.error.endswith("Have the model make fewer calls at once, and its tools return less.")


@pytest.mark.parametrize("says", [True, False])
async def test_pinned_messages_that_do_not_fit_together_are_named_together(says: bool) -> None:
    model = Narrow(echo, limit=10**9, says=says, counting=all_tokens_of)
    async with running(model) as rig:
        thread = await rig.rt.threads.create("tester")
        for number in range(25):
            sent = await rig.rt.threads.post(thread.id, f"{number}. " + "word " * 300)
            await rig.rt.runs.wait(sent.run_id, 20)
        for message in await rig.rt.threads.messages(thread.id, 100):
            if message.role == "user":
                await rig.rt.threads.pin(thread.id, message.id)
        model.limit = LIMIT
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "And now?")).id, 20)
        assert run.error is not None and run.error.startswith("The 25 pinned messages have some 9")
        most = "6000 tokens" if says else "fewer"  # the number given by the model, and no guess of ours
        assert run.error.endswith(f"a request to test:narrow may have {most}: Too long. Unpin some of them.")


async def test_a_composed_request_whose_context_cannot_fit_names_it() -> None:
    model = Narrow(echo, limit=LIMIT, window=LIMIT, counting=all_tokens_of)
    context = [
        {"role": "user", "content": HUGE},
        {"role": "assistant", "content": "Yes?"},
        {"type": "text", "text": "Go on."},
    ]
    async with testing.runtime(tw.App()) as rt:
        run = await rt.begin_request({"model": model}, {"type": "object"}, context)
        failed = await rt.runs.wait(run.id, 20)
        assert failed.error is not None
        assert failed.error.startswith("The context of the request to the agent ")
        assert failed.error.endswith("Send less of it, or choose a model that takes more.")


async def test_what_was_said_in_channels_has_a_share_of_a_small_window() -> None:
    model = Narrow(echo, limit=LIMIT, window=2 * LIMIT, counting=all_tokens_of)
    agent = tw.Agent("jim", tw.Prompt("jim", "You talk.", model=model), toolkits=["channels", "memory"])
    async with testing.by_hand(tw.App(agents=[agent])) as (rt, motor):
        pam = await rt.entities.create(external_id="pam", display_name="Pam")
        await rt.spaces.create("G", "public", id="g", members=[pam.id, "jim"])
        for number in range(30):
            await rt.spaces.say("g", pam.id, f"{number}. " + "word " * 600)
            await motor.run_until_idle()
        runs = await rt.runs.list(limit=50)
        assert {each.status for each in runs} == {"completed"}, [each.error for each in runs]
        assert model.refused == 0
        last = model.asked[-1]
        assert "29. word" in last.messages[-1].content
        assert "29. word" not in prompt_of(last), "what the conversation has is not told again"


async def test_what_was_said_in_channels_is_told_shorter_where_a_provider_refuses_it_without_a_number() -> (
    None
):
    model = Narrow(echo, limit=4_000, says=False, counting=all_tokens_of)
    agent = tw.Agent("host", tw.Prompt("host", "You host.", model=model), toolkits=["channels"])
    async with testing.by_hand(tw.App(agents=[agent])) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id])
        for number in range(20):
            await rt.spaces.say("tea", husam.id, f"{number}. " + "word " * 700)
        await rt.spaces.add_member("tea", "host")
        for number in range(20, 30):
            await rt.spaces.say("tea", husam.id, f"{number}. " + "word " * 20)
            await motor.run_until_idle()
        runs = await rt.runs.list(limit=100)
        assert {each.status for each in runs} == {"completed"}
        assert await failed_of(rt, "host") == []
        assert "29. word" in model.asked[-1].messages[-1].content and model.refused <= 8


async def test_what_waits_from_many_spaces_is_read_in_parts_that_can_be_left_out() -> None:
    model = Narrow(echo, limit=12_000, window=24_000, counting=all_tokens_of)
    agent = tw.Agent("host", tw.Prompt("host", "You host.", model=model), toolkits=["spaces"])
    async with testing.by_hand(tw.App(agents=[agent])) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host"])
        for number in range(60):
            await rt.spaces.say("tea", husam.id, f"{number}. " + "word " * 300)
        await motor.run_until_idle()
        assert {each.status for each in await rt.runs.list()} == {"completed"}
        assert await failed_of(rt, "host") == []
        home = (await rt.agents.get("host")).home_thread_id
        said = [each.content for each in await rt.threads.messages(home, 100) if each.role == "user"]
        assert all(each.startswith("INBOX:") and len(each) < 25_000 for each in said)
        assert sum(each.count("[Husam: ") for each in said) == 60


async def test_a_system_text_that_cannot_fit_is_named() -> None:
    model = Narrow(echo, limit=LIMIT, counting=all_tokens_of)
    agent = tw.Agent("talker", tw.Prompt("talker", HUGE, model=model))
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        run = await ran(rt, "talker", "Hi")
        assert run.error is not None and run.error.startswith(
            "The system text and the tools of the agent 'talker' have some 15"
        )
        assert run.error.endswith("Shorten them, or choose a model that takes more.")
        assert model.refused <= 6


async def test_a_model_that_refuses_everything_is_asked_a_few_times_and_no_other_thread_pays_for_it() -> None:
    refusing = [True]

    def count(request: ModelRequest) -> int:
        return LIMIT + 1 if refusing[0] and any(each.attachments for each in request.messages) else 1

    model = Narrow(echo, limit=LIMIT, says=False, counting=count)
    async with running(model) as rig:
        thread = await rig.rt.threads.create("tester")
        file = tw.Attachment(name="a.png", mime_type="image/png", data="aGk=")
        for _ in range(30):
            await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "word " * 300)).id, 20)
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Look", [file])).id, 20)
        assert (run.status, run.error_code) == ("failed", ContextTooLong.code)
        assert 1 <= model.refused <= 6
        other = await rig.rt.threads.create("tester")
        for _ in range(30):
            await rig.rt.runs.wait((await rig.rt.threads.send(other.id, "word " * 300)).id, 20)
        assert len(model.requests[-1].messages) == 59


async def failed_of(rt: Runtime, name: str) -> Sequence[InboxEvent]:
    """Return the inbox of an agent."""
    return [each for each in await rt.inboxes.list(name) if each.status != "processed"]


@pytest.mark.parametrize("says", [True, False])
async def test_a_message_of_a_space_that_cannot_fit_is_parked_and_the_round_goes_on(says: bool) -> None:
    jims = Narrow(echo, limit=LIMIT, says=says, counting=all_tokens_of)
    others = Narrow(echo, limit=10**9, name="test:wide")
    agents = [
        tw.Agent(
            name,
            tw.Prompt(name, "You talk.", model=jims if name == "jim" else others),
            toolkits=["channels", "memory"],
        )
        for name in CREW
    ]
    async with testing.by_hand(tw.App(agents=agents)) as (rt, motor):
        pam = await rt.entities.create(external_id="pam", display_name="Pam")
        await rt.spaces.create("G", "public", id="g", members=[pam.id, *CREW], delivery="sequential")
        for text in ("Hello", HUGE):
            await rt.spaces.say("g", pam.id, text)
            await motor.run_until_idle()
        [event] = await failed_of(rt, "jim")
        assert (event.status, event.attempts) == ("failed", 3)
        for other in ("michael", "dwight"):
            assert [each.status for each in await rt.inboxes.list(other)] == ["processed", "processed"]
        runs = [each for each in await rt.runs.list(limit=50) if each.status == "failed"]
        assert len(runs) == 3
        for run in runs:
            assert run.error is not None and run.error.startswith("The message evt_")
        assert jims.refused <= 6 * 3
        await rt.spaces.say("g", pam.id, "And now?")
        await motor.run_until_idle()
        assert [each.status for each in await rt.inboxes.list("jim")].count("processed") == 2
        await rt.inboxes.retry("jim", event.event_id)
        await motor.run_until_idle()
        [event] = await failed_of(rt, "jim")
        assert (event.status, event.attempts) == ("failed", 3)
        if not says:  # a limit never given as a number is tried again
            jims.limit = 10**9
            await rt.inboxes.retry("jim", event.event_id)
            await motor.run_until_idle()
            assert await failed_of(rt, "jim") == []


async def test_a_plan_that_cannot_fit_is_parked_after_its_third_time() -> None:
    model = Narrow(echo, limit=900, counting=all_tokens_of)
    agent = tw.Agent("thinker", tw.Prompt("thinker", "Think.", model=model), toolkits=["mind"])
    async with testing.by_hand(tw.App(agents=[agent])) as (rt, motor):
        plan = PlanChange(name="Tea", instruction="Make tea. " * 390, run_after="5 minutes")
        await rt.minds.set_plans("thinker", [plan])
        await motor.run_timers()
        await motor.run_until_idle()
        [event] = await rt.inboxes.list("thinker")
        assert (event.type, event.status, event.attempts) == ("plan", "failed", 3)


@dataclass
class Refusing:
    """A model without a window that refuses requests longer than `limit` tokens, with an error chosen by the test."""

    limit: int
    error: Callable[[int], ContextTooLong]
    counting: Callable[[ModelRequest], int] = all_tokens_of
    name: str = "test:refusing"
    sizes: list[int] = field(default_factory=list[int])
    refused: int = 0

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        size = self.counting(request)
        if size > self.limit:
            self.refused += 1
            raise self.error(size)
        if "summary" not in request.who:
            self.sizes.append(size)
        yield ModelResponse(text=f"answer {len(request.messages)}", usage=Usage(input_tokens=size))


async def talk(rt: Runtime, agent: str, texts: Sequence[str]) -> Run:
    """Send the messages, all but the last of which are answered. Return the run of the last one."""
    thread = await rt.threads.create(agent)
    for text in texts[:-1]:
        done = await rt.runs.wait((await rt.threads.send(thread.id, text)).id, 30)
        assert done.status == "completed", done.error
    return await rt.runs.wait((await rt.threads.send(thread.id, texts[-1])).id, 30)


@pytest.mark.parametrize("says", [True, False])
async def test_a_request_aims_at_the_limit_that_is_named_and_not_below_what_cannot_be_left_out(
    says: bool,
) -> None:
    """The system text alone takes nine tenths of the limit."""

    def error(size: int) -> ContextTooLong:
        return ContextTooLong("Too long.", *((5_000, size) if says else ()))

    model = Refusing(5_000, error)
    agent = tw.Agent("tester", tw.Prompt("tester", "rule " * 3_600, model=model))
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        run = await talk(rt, "tester", [f"{number}. " + "word " * 60 for number in range(20)])
        assert (run.status, run.error) == ("completed", None)
        assert model.refused <= (3 if says else 12)


async def test_the_room_for_the_answer_is_no_part_of_what_is_learned() -> None:
    """The provider counts 4,096 tokens for the answer: the rest for the conversation is the limit."""

    def error(size: int) -> ContextTooLong:
        return ContextTooLong("Too long.", 8_192, size + 4_096, 4_096)

    model = Refusing(8_192 - 4_096, error)
    agent = tw.Agent("tester", tw.Prompt("tester", "Talk.", model=model))
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        run = await talk(rt, "tester", ["word " * 200] * 40)
        assert (run.status, model.refused) == ("completed", 1)
        assert max(model.sizes) > 2_500


@pytest.mark.parametrize("numbers", [(5, 9_000), (9_000, 5), (5_000, 4_000_000), (10**9, None), (0, 0)])
async def test_numbers_that_cannot_be_are_not_believed(numbers: tuple[int, int | None]) -> None:
    model = Refusing(4_000, lambda _: ContextTooLong("Too long.", *numbers))
    agent = tw.Agent("tester", tw.Prompt("tester", "Talk.", model=model))
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        run = await talk(rt, "tester", ["word " * 200] * 40)
        assert (run.status, run.error) == ("completed", None)
        assert max(model.sizes[-10:]) > 2_000


async def test_many_messages_are_shortened_until_they_fit_however_far_they_are_above() -> None:
    model = Refusing(3_000, lambda _: ContextTooLong("No."))
    agent = tw.Agent("tester", tw.Prompt("tester", "Talk.", model=model))
    async with testing.by_hand(tw.App(agents=[agent])) as (rt, motor):
        thread = await rt.threads.create("tester")
        for number in range(40):
            await rt.threads.post(thread.id, f"{number}. " + "word " * 1_200)
        await motor.run_until_idle()
        [run] = await rt.runs.list()
        assert (run.status, run.error) == ("completed", None)


async def test_what_is_refused_to_the_end_names_what_is_too_long_and_not_only_the_providers_words() -> None:
    model = Refusing(1_000, lambda _: ContextTooLong("No."))
    agent = tw.Agent("tester", tw.Prompt("tester", "Talk.", model=model))
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        run = await talk(rt, "tester", ["Hi", "word " * 6_000])
        assert run.error is not None and run.error.startswith("The message msg_")
        assert "may have fewer: No. Send less at once" in run.error


@pytest.mark.parametrize("text", ["привет мир ", "γειά σου κόσμε "])
async def test_a_message_is_not_failed_by_an_estimate_that_its_provider_does_not_share(text: str) -> None:
    """A provider counts such words as one token for four letters, like English ones."""

    def count(request: ModelRequest) -> int:
        return sum(len(each.content) for each in request.messages) // 4

    model = Narrow(echo, limit=8_000, window=16_000, counting=count)
    agent = tw.Agent("tester", tw.Prompt("tester", "Talk.", model=model))
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        run = await talk(rt, "tester", [text * (28_000 // len(text))])
        assert (run.status, run.error) == ("completed", None)


async def test_another_model_of_the_same_name_has_its_own_limit() -> None:
    models = [Narrow(echo, limit=limit, says=True, counting=all_tokens_of) for limit in (2_000, 20_000)]
    agents = [tw.Agent(f"agent{n}", tw.Prompt("p", "Talk.", model=each)) for n, each in enumerate(models)]
    async with testing.runtime(tw.App(agents=agents)) as rt:
        for number in range(2):
            await talk(rt, f"agent{number}", ["word " * 300] * 20)
        assert models[0].refused == 1 and models[1].refused == 0
        assert len(models[1].requests[-1].messages) == 39


async def test_the_newest_messages_of_a_long_inbox_are_read_in_order() -> None:
    """A message with a rank that is read last is left out last, and none is read before an earlier one."""
    model = Narrow(echo, limit=8_000, window=16_000, counting=all_tokens_of)
    agent = tw.Agent("host", tw.Prompt("host", "You host.", model=model), toolkits=["spaces"])
    async with testing.by_hand(tw.App(agents=[agent])) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host"])
        for number in range(100, 160):
            await rt.spaces.say("tea", husam.id, f"No {number}. " + "word " * 200)
        await rt.spaces.say("tea", husam.id, "No 160. The meeting is moved.")
        await motor.run_until_idle()
        text = "\n".join([each.content for each in model.asked[0].messages[1:]])
        read = [int(each) for each in re.findall(r"No (\d{3})\.", text)]
        assert len(read) > 5 and read == sorted(read) and read[-1] == 160


async def test_a_limit_that_was_learned_fails_no_request_that_its_provider_would_take() -> None:
    """One agent's answers take most of the window; another agent's do not."""
    window = 32_000

    def error(size: int) -> ContextTooLong:
        return ContextTooLong("Too long.", window, size + 28_000, 28_000)

    model = Refusing(4_000, error)
    settings = {"max_tokens": 28_000}
    novelist = tw.Agent("novelist", tw.Prompt("p", "Write.", model=model, model_settings=settings))
    clerk = tw.Agent("clerk", tw.Prompt("p", "Talk.", model=model))
    async with testing.runtime(tw.App(agents=[novelist, clerk])) as rt:
        run = await talk(rt, "novelist", ["word " * 1_500] * 4)
        assert run.status == "completed" and model.refused == 1
        model.limit = window
        run = await talk(rt, "clerk", ["word " * 12_000])
        assert (run.status, run.error) == ("completed", None)


async def test_a_guess_from_one_refusal_fails_no_other_agent_without_asking() -> None:
    left = [0]  # requests that are refused for no reason

    def count(request: ModelRequest) -> int:
        left[0] -= 1
        return 10**6 if left[0] == 0 else all_tokens_of(request)

    model = Refusing(100_000, lambda _: ContextTooLong("413"), counting=count)
    texts = {"a": "Talk.", "b": "rule " * 1_200}
    agents = [tw.Agent(name, tw.Prompt("p", text, model=model)) for name, text in texts.items()]
    async with testing.runtime(tw.App(agents=agents)) as rt:
        left[0] = 3
        assert (await talk(rt, "a", ["word " * 100] * 4)).status == "completed"
        assert model.refused == 1
        run = await talk(rt, "b", ["word " * 1_000])
        assert (run.status, run.error) == ("completed", None)
        run = await talk(rt, "a", ["word " * 3_000] * 4)
        assert run.status == "completed" and max(model.sizes) > 8_000  # a limit that was too low is forgotten
        assert model.refused == 1


async def test_a_request_that_cannot_be_shorter_is_not_sent_again() -> None:
    model = Refusing(2_000, lambda _: ContextTooLong("No."))
    agent = tw.Agent("tester", tw.Prompt("tester", "Talk.", model=model))
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        run = await talk(rt, "tester", ["word " * 5_000])
        assert run.status == "failed" and model.refused <= 2
        assert len(await rt.threads.compactions(run.thread_id)) <= 1


async def test_another_model_is_not_bound_by_the_limit_of_the_one_before(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    thread_id = ""
    for name, limit, count in (("test:small", 4_000, 12), ("test:big", 400_000, 2)):
        model = Narrow(echo, limit=limit, name=name, counting=all_tokens_of)
        agent = tw.Agent("tester", tw.Prompt("tester", "Talk.", model=model))
        async with tw.App(agents=[agent]).runtime(settings) as rt:
            thread_id = thread_id or (await rt.threads.create("tester")).id
            for _ in range(count):
                text = "word " * (500 if limit == 4_000 else 10_000)
                done = await rt.runs.wait((await rt.threads.send(thread_id, text)).id, 20)
                assert (done.status, done.error) == ("completed", None)
        assert model.refused <= 1
    assert len([each for each in model.requests[-1].messages if len(each.content) > 40_000]) == 2
