"""Any schema with any arguments: a call has a result, and our own errors are never reported as the model's."""

import json
from typing import Any

import anyio
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.core.schemas import ARGUMENTS, OBJECTS, SCHEMAS, VALUES

import toolwright as tw
from toolwright.core.arguments.schema import InvalidSchema, compile_promise
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ToolDefinition
from toolwright.core.schemas.provider_forms import ToolError, provider_form
from toolwright.core.schemas.provider_rules import Provider, broken_rule
from toolwright.core.value import changed

ONCE = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def called(schema: JSONObject, arguments: str | bytes | JSONObject) -> tw.ToolResult | None:
    """Return the equal results of two calls of a tool with that schema, or None if it cannot be declared."""
    try:
        tool = tw.Tool(name="t", description="T.", kind="internal", parameters=schema)
    except DefinitionError:
        return None
    tools = tw.Toolset([tool])

    async def calls() -> tuple[tw.ToolResult, tw.ToolResult]:
        return await tools.call("t", arguments), await tools.call("t", arguments)

    first, second = anyio.run(calls)
    assert (first.status, first.error) == (second.status, second.error)
    return first


@ONCE
@given(OBJECTS | SCHEMAS, ARGUMENTS)
@example(
    {"type": "object", "$id": "a.json", "anyOf": [{"properties": {"a": {"type": "integer"}}}]}, '{"a":3.0}'
)
def test_a_call_has_a_result_and_a_bug_of_ours_is_none_of_the_model(
    schema: JSONObject, arguments: str
) -> None:
    for written in (arguments, arguments.encode("utf-8", "surrogatepass")):
        result = called(schema, written)
        if result is not None:
            assert result.error_code in (None, "invalid_arguments", DefinitionError.code), result


@ONCE
@given(OBJECTS, VALUES)
def test_arguments_are_accepted_if_the_schema_accepts_them_and_only_then(
    schema: JSONObject, arguments: JSONObject
) -> None:
    result = called(schema, arguments)
    if result is None:
        return
    try:
        compile_promise(schema)
    except InvalidSchema:
        assert (result.status, result.error_code) == ("error", DefinitionError.code)
        return
    validator = jsonschema_rs.validator_for(schema, offline=True, validate_formats=True)
    if validator.is_valid(arguments) and result.status == "error":
        assert result.error is not None
        assert any(each in result.error for each in ("out of the range", "not valid JSON")), result
    if result.status == "success":
        assert validator.is_valid(arguments)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "other"])
@ONCE
@given(OBJECTS | SCHEMAS, VALUES, st.sampled_from(["", "Does it.", "half \ud800"]))
@example({"type": "object", "properties": {"ä b": {}, "b.": {}}}, {"ä b": 1, "b": 2, "b.": 3, "b..": 4}, "")
def test_each_provider_is_sent_what_it_accepts_and_names_come_back_as_they_went(
    provider: Provider, schema: JSONObject, arguments: JSONObject, description: str
) -> None:
    try:
        compile_promise(schema)
    except InvalidSchema:
        return  # such a tool cannot exist
    form = provider_form(ToolDefinition(name="t", description=description, parameters=schema), provider)
    if isinstance(form, ToolError):
        assert len(form.message) < 1_000
        return
    assert broken_rule(changed(form.definition, name="named"), provider) is None
    if form.names is not None:
        written = json.dumps(arguments)
        assert json.loads(form.names.real(form.names.wire(written))) == json.loads(written)


@pytest.mark.anyio
async def test_what_is_no_json_is_refused_also_by_a_tool_with_aliases() -> None:
    schema: JSONObject = {"type": "object", "properties": {"filter[name]": {"type": "number"}}}
    tools = tw.Toolset([tw.Tool(name="t", description="T.", kind="internal", parameters=schema)])
    [told] = tools.definitions("anthropic", provider="anthropic")
    odd: list[Any] = [object(), float("nan"), "\ud800", [], None, 10**400]
    for each in [*({"filter_name": one} for one in odd), *odd]:
        result = await tools.call(str(told["name"]), each)
        assert (result.status, result.error_code) == ("error", "invalid_arguments")
