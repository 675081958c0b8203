"""Values of a model or a row that are not JSON: the model reads the error, the run and its thread continue."""

import json
from dataclasses import replace
from typing import Any, NoReturn

import pytest

import toolwright as tw
from tests.models.asking import answer_of, assistant, request, tool, user
from tests.models.conftest import WIRES
from tests.models.wire_server import WireCall, WireServer
from toolwright import testing
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.model import ModelCall, ModelResponse

pytestmark = pytest.mark.anyio

WRITTEN = {
    '{"n": 1e400}': {"n": "1e400"},
    '{"n": NaN}': {"n": "NaN"},
    '{"n": [-Infinity, 1.5]}': {"n": ["-Infinity", 1.5]},
    '{"n": ' + "9" * 400 + "}": {"n": "9" * 400},
    '{"n": ' + "9" * 5_000 + "}": {"n": "9" * 5_000},
    '{"n": 1, "s": "\\ud800!"}': {"n": 1, "s": "\ufffd!"},
}


@tw.tool(description="Add one.")
def add_one(n: float, s: str = "") -> float:
    return n + 1


def strictly(text: str) -> Any:  # any JSON
    """Return the text as parsed by a strict JSON reader."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    text.encode()
    value = json.loads(text, parse_constant=refuse)
    assert "\\ud8" not in json.dumps(value)
    return value


def arguments_sent(body: Any) -> list[Any]:  # a provider's JSON
    """Return the arguments of all calls in a request, for any wire format."""
    found: list[Any] = []
    for item in body.get("messages") or body["input"]:
        found += [strictly(call["function"]["arguments"]) for call in item.get("tool_calls") or ()]
        if item.get("type") == "function_call":
            found.append(strictly(item["arguments"]))
        blocks: list[Any] = item["content"] if isinstance(item.get("content"), list) else []
        found += [block["input"] for block in blocks if block["type"] == "tool_use"]
    return found


@pytest.mark.parametrize("written", WRITTEN, ids=lambda text: text[:24])
async def test_the_model_reads_the_error_of_an_odd_number_and_the_thread_goes_on(
    model: PydanticAIModel, server: WireServer, written: str
) -> None:
    app = tw.App(agents=[tw.Agent("counter", tw.Prompt("counter", "Count.", model=model, tools=[add_one]))])
    server.answer(calls=[WireCall(name="add_one", arguments=(written,))])
    server.answer(text=["I see."])
    server.answer(text=["Hello."])
    async with testing.runtime(app) as rt:
        thread = await rt.threads.create("counter")
        for content in ("Add", "Hi"):
            run = await rt.runs.wait((await rt.threads.send(thread.id, content)).id)
            assert (run.status, run.error) == ("completed", None)
        calls = await rt.calls.list(status=None)
        assert [call.status for call in calls] == ["error"]
    for sent in server.requests[1:]:
        strictly(json.dumps(sent.body, allow_nan=False))
        assert arguments_sent(sent.body) == [WRITTEN[written]]


async def test_rows_with_half_characters_are_sent_with_whole_ones(
    model: PydanticAIModel, server: WireServer
) -> None:
    called = ModelResponse(
        text="a\ud800", calls=(ModelCall(id="call_a", name="search", arguments='{"q": "\ud800"}'),)
    )
    server.answer(text=["ok"])
    asked = request(user("b\udfff"), assistant(called), tool("call_a", "c\ud800"))
    await answer_of(model, replace(asked, system="d\ud800"))
    [sent] = server.requests
    written = json.dumps(sent.body, ensure_ascii=False)
    written.encode()
    assert [written.count(f"{letter}\ufffd") for letter in "abcd"] == [1, 1, 1, 1]


@pytest.mark.parametrize("wire", WIRES[2:])
async def test_what_only_the_provider_understands_is_kept_without_the_arguments(
    wire: str, make_model: Any, server: WireServer
) -> None:
    server.answer(thinking=["Hm."], calls=[WireCall(name="search", arguments=('{"q": 1e400}',))])
    answer = await answer_of(make_model(wire))
    assert answer.native is not None
    assert "1e400" not in json.dumps(answer.native, allow_nan=False)
    server.answer(text=["ok"])
    await answer_of(
        make_model(wire), request(user("x"), assistant(answer, native=answer.native), tool("call_1", "r"))
    )
    assert arguments_sent(server.requests[-1].body) == [{"q": "1e400"}]
