"""Answers that are not whole: cut at the output limit, filtered, refused, empty, or a stream without an end."""

import pytest

from tests.models.asking import MakeModel, answer_of, ask, only
from tests.models.wire_answer import Ending, Stop
from tests.models.wire_server import WireCall, WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.model import AttemptStarted, ModelResponse
from toolwright.core.threads.run import CutReason

pytestmark = pytest.mark.anyio

SEARCH = WireCall(name="search", arguments=("",))


async def test_an_answer_at_the_output_limit_is_cut(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(text=("The result is 1",), stop="max_tokens")
    response = await answer_of(model)
    assert (response.text, response.cut) == ("The result is 1", "max_tokens")


async def test_a_call_at_the_output_limit_is_part_of_a_cut_answer(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.answer(calls=[SEARCH], stop="max_tokens")
    response = await answer_of(model)
    assert ([call.name for call in response.calls], response.cut) == (["search"], "max_tokens")


async def test_a_filtered_answer_says_so(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(text=("I will now",), stop="content_filter")
    response = await answer_of(model)
    is_anthropic = model.name.startswith("anthropic")
    assert response.text == "I will now"
    assert response.cut == ("refusal" if is_anthropic else "content_filter")


@pytest.mark.parametrize(("stop", "cut"), [(None, "empty"), ("max_tokens", "max_tokens")])
async def test_an_answer_of_reasoning_alone_is_empty_unless_the_limit_has_cut_it(
    model: PydanticAIModel, server: WireServer, stop: Stop | None, cut: CutReason
) -> None:
    server.answer(thinking=("Hm",), text=(" \n",), stop=stop)
    assert (await answer_of(model)).cut == cut


@pytest.mark.parametrize("ending", ["cut", "dropped"])
@pytest.mark.parametrize("calls", [[], [SEARCH], [WireCall(name="search", arguments=('{"q":"a"}',))]])
async def test_a_stream_without_an_end_is_an_interrupted_answer_and_asked_for_again(
    model: PydanticAIModel, server: WireServer, ending: Ending, calls: list[WireCall]
) -> None:
    server.answer(text=("The whole",), calls=calls, ending=ending)
    server.answer(text=("The whole answer.",))
    events = await ask(model)
    assert [each.number for each in only(events, AttemptStarted)] == [2]
    assert isinstance(events[-1], ModelResponse)
    assert (events[-1].text, events[-1].calls) == ("The whole answer.", ())


async def test_an_empty_stream_is_an_interrupted_answer(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(ending="cut")
    server.answer(text=("Here.",))
    assert (await answer_of(model)).text == "Here."


async def test_an_answer_that_is_whole_is_not_cut(make_model: MakeModel, server: WireServer) -> None:
    server.answer(text=("Hi",))
    assert (await answer_of(make_model("openai-chat:gpt-4o"))).cut is None
