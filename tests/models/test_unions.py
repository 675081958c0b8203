"""Answers in OpenAI's strict mode to schemas with alternatives: nulls of omitted fields, in any order of branches."""

import json

import pytest

import toolwright as tw
from tests.models.asking import MakeModel, answer_of, user
from tests.models.wire_server import WireServer
from toolwright.core.errors import ServerFailed
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import AnswerSchema, ModelRequest

pytestmark = pytest.mark.anyio

PLAIN: JSONObject = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
NOTED: JSONObject = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["x"],
}
OUTPUT: JSONObject = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
WIRES = ("openai-chat:gpt-4o", "openai:gpt-4o")


async def answered(
    make_model: MakeModel, server: WireServer, name: str, schema: JSONObject, said: JSON
) -> JSON:
    server.answer(text=(json.dumps(said),))
    request = ModelRequest(messages=(user("Go"),), answer=AnswerSchema(schema=schema, name="answer"))
    return json.loads((await answer_of(make_model(name), request)).text)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("order", [("plain", "noted"), ("noted", "plain")])
@pytest.mark.parametrize("note", [None, "hello"])
async def test_calls_of_two_tools_are_read_whatever_their_order(
    make_model: MakeModel, server: WireServer, wire: str, order: tuple[str, str], note: str | None
) -> None:
    tools = {"plain": PLAIN, "noted": NOTED}
    schema = tw.compose(OUTPUT, {name: tools[name] for name in order})
    call: JSONObject = {"_tool": "noted", "x": 1, "note": note}
    read = await answered(make_model, server, wire, schema, {"output": None, "calls": [call]})
    meant = {"_tool": "noted", "x": 1} if note is None else call
    assert read == {"output": None, "calls": [meant]}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("order", [("Plain", "Noted"), ("Noted", "Plain")])
@pytest.mark.parametrize("closed", [True, False])
async def test_an_output_of_several_forms_is_read_whatever_their_order(
    make_model: MakeModel, server: WireServer, wire: str, order: tuple[str, str], closed: bool
) -> None:
    ends: JSONObject = {"additionalProperties": False} if closed else {}
    definitions: JSONObject = {"Plain": {**PLAIN, **ends}, "Noted": {**NOTED, **ends}}
    branches: list[JSON] = [{"$ref": f"#/$defs/{name}"} for name in order]
    schema: JSONObject = {
        "type": "object",
        "properties": {"made": {"anyOf": branches}},
        "required": ["made"],
        "$defs": definitions,
    }
    said: JSONObject = {"made": {"x": 1, "note": None}}
    assert await answered(make_model, server, wire, schema, said) == {"made": {"x": 1}}


async def test_an_answer_that_our_own_code_cannot_read_is_an_internal_error(
    make_model: MakeModel, server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    schema: JSONObject = {
        "type": "object",
        "properties": {"made": {"anyOf": [{"$ref": "#/$defs/Gone"}]}},
        "required": ["made"],
    }
    for wire in WIRES:
        with pytest.raises(ServerFailed, match="Internal error while reading the model's answer"):
            await answered(make_model, server, wire, schema, {"made": {"x": 1}})
        assert caplog.records[-1].exc_info
