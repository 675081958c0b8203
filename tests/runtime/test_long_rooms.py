"""Rooms used for months: no agent is blocked, all answer in turn, each space stays readable."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolwright as tw
from tests.runtime.narrow import Narrow, bytes_of, check_valid
from toolwright import testing
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.threads.compaction import HEADER, TITLE, text_tokens
from toolwright.core.threads.message import Message
from toolwright.runtime.model.summaries import last_lines

pytestmark = pytest.mark.anyio

CREW = ("michael", "jim", "dwight")
LIMIT = 60_000  # bytes
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def speaks(request: ModelRequest) -> ModelResponse:
    """Post once in the space of the message, then stop."""
    last = request.messages[-1]
    if last.role != "user" and last.tool_name != "enter_space":
        return ModelResponse(text=".")
    heard = next(each for each in reversed(request.messages) if each.role == "user")
    place = heard.content.rpartition("spaceId: ")[2].split(",")[0]
    text = f"{request.who[0]} says: {'bla ' * 60}"
    if "enter_space" not in [each.name for each in request.tools]:
        return calls("send_message", channelId=place, text=text)
    if last.role == "user":
        return calls("enter_space", spaceId=place)
    return calls("send_message", text=text)


def calls(name: str, **arguments: str) -> ModelResponse:
    return ModelResponse(calls=(ModelCall(id="c", name=name, arguments=json.dumps(arguments)),))


def room_of(model: Narrow, toolkits: list[str]) -> tw.App:
    prompts = [tw.Prompt(name, f"You are {name}.", model=model) for name in CREW]
    return tw.App(agents=[tw.Agent(each.name, each, toolkits=toolkits) for each in prompts])


@pytest.mark.parametrize("toolkit", ["channels", "spaces"])
@pytest.mark.parametrize("rounds", [70, pytest.param(250, marks=pytest.mark.exhaustive)])
async def test_everybody_answers_in_turn_to_the_end(rounds: int, toolkit: str) -> None:
    model = Narrow(speaks, limit=LIMIT, says=False, counting=bytes_of)
    app = room_of(model, [toolkit, "memory"])
    async with testing.by_hand(app) as (rt, motor):
        pam = await rt.entities.create(external_id="pam", display_name="Pam")
        await rt.spaces.create("G", "public", id="g", members=[pam.id, *CREW], delivery="sequential")
        for number in range(rounds):
            await rt.spaces.say("g", pam.id, f"Round {number}: {'tell me ' * 25}")
            await motor.run_until_idle(500)
        said = [each.message.content.split()[0] for each in await rt.spaces.messages("g", 100)]
        if toolkit == "channels":
            assert said == ["Round", *CREW] * 25
        assert all(said[start : start + 10].count(name) for name in CREW for start in range(0, 90, 10))
        statuses: set[str] = set()
        for offset in range(0, rounds * 3, 100):
            statuses |= {run.status for run in await rt.runs.list(limit=100, offset=offset)}
        assert statuses == {"completed"}
        assert model.summaries
        for request in model.asked:
            check_valid(request.messages)


async def test_each_spaces_last_lines_stay_readable_after_a_summary() -> None:
    model = Narrow(speaks, limit=10**9)
    policy = tw.Context(max_tokens=12_000)
    agent = tw.Agent(
        "jim", tw.Prompt("jim", "You are Jim.", model=model, context=policy), toolkits=["channels"]
    )
    async with testing.by_hand(tw.App(agents=[agent])) as (rt, motor):
        pam = await rt.entities.create(external_id="pam", display_name="Pam")
        places = [f"space{number}" for number in range(8)]
        for place in places:
            await rt.spaces.create(place, "public", id=place, members=[pam.id, "jim"])
        for number in range(12):
            for place in places:
                await rt.spaces.say(place, pam.id, f"{place} line {number}. {'word ' * 40}")
                await motor.run_until_idle(500)
        home = (await rt.agents.get("jim")).home_thread_id
        shortened = [each for each in model.asked if each.messages[0].id.startswith(HEADER)]
        assert shortened and len(await rt.threads.messages(home, 1_000)) == 12 * 8 * 4
        for request in shortened:
            text = "\n".join(each.content for each in request.messages if each.role == "user")
            for place in places:
                assert f"spaceId: {place}," in text


async def test_what_a_run_reads_is_not_said_again_among_the_last_lines_of_its_space() -> None:
    looks: list[ModelResponse] = []
    model = Narrow(lambda _: looks.pop() if looks else ModelResponse(text="."), limit=10**9)

    @tw.tool(description="Look.")
    async def look(text: str) -> str:
        return "Seen."

    policy = tw.Context(max_tokens=3_000, summarize=False)
    prompt = tw.Prompt("jim", "You are Jim.", model=model, tools=[look], context=policy)
    app = tw.App(agents=[tw.Agent("jim", prompt, toolkits=["spaces"])])
    async with testing.by_hand(app) as (rt, motor):
        pam = await rt.entities.create(external_id="pam", display_name="Pam")
        await rt.spaces.create("Tea", id="tea", members=[pam.id, "jim"])
        await rt.spaces.say("tea", pam.id, "Before.")
        await motor.run_until_idle(500)
        looks += [calls("look", text="word " * 500)] * 5
        await rt.spaces.say("tea", pam.id, "Look around.")
        await motor.run_until_idle(500)
    texts = ["\n".join(each.content for each in request.messages) for request in model.asked[-4:]]
    assert all(text.count("Look around.") == 1 for text in texts)
    assert texts[-1].startswith(TITLE) and 'Pam: "Before."' in texts[-1]


LINES = st.tuples(st.integers(0, 30), st.sampled_from([1, 200, 3_000]), st.sampled_from(["a", "漢"]))


@given(st.lists(LINES, max_size=30), st.integers(50, 3_000))
def test_the_last_lines_of_spaces_have_their_room(given_lines: list[tuple[int, int, str]], room: int) -> None:
    messages = [
        Message(
            id=f"evt_{number}",
            role="user",
            content=f'INBOX: [Pam: "{one * size}"] (in "S", spaceId: s{space}, messageId: m{number})',
            created_at=NOW,
        )
        for number, (space, size, one) in enumerate(given_lines)
    ]
    text = last_lines(messages, room)
    if text is None:
        assert not messages or room < 400
        return
    assert text_tokens(text) <= room
    assert f"spaceId: s{given_lines[-1][0]}, messageId: m{len(messages) - 1})" in text
    header = Message(id=f"{HEADER}1", role="user", content=f"Before.\n\n{text}", created_at=NOW)
    assert last_lines([header], room) == text
