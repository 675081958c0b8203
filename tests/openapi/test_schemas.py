"""Schemas of OpenAPI documents as the parameters of tools: what is valid is accepted, and nothing else."""

from json import dumps
from typing import Any

import pytest

import toolwright as tw
from toolwright.core.arguments.errors import InvalidArguments

INFO = {"title": "Zoo", "version": "1"}


def document(schema: object, schemas: dict[str, Any] | None = None, version: str = "3.0.3") -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    operation = {"operationId": "send", "requestBody": {"required": True, "content": content}}
    return {
        "openapi": version,
        "info": INFO,
        "servers": [{"url": "http://zoo.test"}],
        "paths": {"/send": {"post": operation}},
        "components": {"schemas": schemas or {}},
    }


def send(schema: object, schemas: dict[str, Any] | None = None, version: str = "3.0.3") -> tw.Tool:
    tools = tw.openapi(document({"type": "object", "properties": {"it": schema}}, schemas, version))
    return tools["send"]


def accepts(tool: tw.Tool, it: object) -> bool:
    assert tool.validator is not None
    try:
        tool.validator.read(dumps({"it": it}))
    except InvalidArguments:
        return False
    return True


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def test_a_recursive_schema_is_one() -> None:
    properties: dict[str, Any] = {
        "name": {"type": "string"},
        "below": {"type": "array", "items": ref("Tree")},
    }
    tool = send(ref("Tree"), {"Tree": {"type": "object", "required": ["name"], "properties": properties}})
    leaf: dict[str, Any] = {"name": "b", "below": []}
    assert accepts(tool, {"name": "a", "below": [leaf]})
    leaf["below"] = [{}]
    assert not accepts(tool, {"name": "a", "below": [leaf]})


@pytest.mark.parametrize(
    ("anchor", "reference"),
    [({"$recursiveAnchor": True}, {"$recursiveRef": "#"}), ({"$dynamicAnchor": "n"}, {"$dynamicRef": "#n"})],
)
def test_a_schema_may_refer_to_what_it_stands_within(
    anchor: dict[str, Any], reference: dict[str, Any]
) -> None:
    node: dict[str, Any] = {"type": "object", "required": ["a"], "properties": {"a": {}, "n": reference}}
    tool = send(ref("Node"), {"Node": anchor | node}, "3.1.0")
    assert accepts(tool, {"a": 1, "n": {"a": 2}})
    assert not accepts(tool, {"a": 1, "n": {}})


def test_what_is_nullable_may_be_null() -> None:
    for schema in (
        {"type": "string", "nullable": True},
        {"type": "string", "enum": ["a"], "nullable": True},
        {"nullable": True, "allOf": [ref("Name")]},
        {"nullable": True, "oneOf": [ref("Name"), {"type": "integer"}]},
    ):
        tool = send(schema, {"Name": {"type": "string"}})
        assert accepts(tool, None) and accepts(tool, "a")
        assert not accepts(tool, [])
    assert not accepts(send({"type": "string"}), None)
    assert accepts(send({"type": ["string", "null"]}, version="3.1.0"), None)


def test_limits_of_3_0_are_those_of_json_schema() -> None:
    tool = send(
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
    )
    assert [accepts(tool, each) for each in (1, 2, 9, 10)] == [False, True, True, False]


def test_what_is_read_only_is_not_asked_for() -> None:
    pet = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "integer", "readOnly": True}, "name": {"type": "string"}},
    }
    tool = send(ref("Pet"), {"Pet": pet})
    assert accepts(tool, {"name": "a"})
    assert "id" not in str(tool.parameters["$defs"])


ZOO: dict[str, Any] = {
    "Pet": {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"type": "string"}, "name": {"type": "string"}},
        "discriminator": {"propertyName": "kind", "mapping": {"kitty": "#/components/schemas/Cat"}},
    },
    "Cat": {
        "allOf": [
            ref("Pet"),
            {"type": "object", "required": ["lives"], "properties": {"lives": {"type": "integer"}}},
        ]
    },
    "Dog": {
        "allOf": [
            ref("Pet"),
            {"type": "object", "required": ["bark"], "properties": {"bark": {"type": "string"}}},
        ]
    },
    "Puppy": {"allOf": [ref("Dog"), {"type": "object", "properties": {"age": {"type": "integer"}}}]},
}


def test_a_parent_with_a_discriminator_stands_for_those_that_extend_it() -> None:
    tool = send(ref("Pet"), ZOO)
    assert accepts(tool, {"kind": "kitty", "lives": 9})
    assert accepts(tool, {"kind": "Dog", "bark": "loud"})
    assert accepts(tool, {"kind": "Puppy", "bark": "loud", "age": 1})
    assert not accepts(tool, {"kind": "kitty", "bark": "loud"})
    assert not accepts(tool, {"kind": "Cow"})
    assert not accepts(tool, {"kind": "Dog"})


def test_a_child_itself_is_no_other_child() -> None:
    tool = send(ref("Dog"), ZOO)
    assert accepts(tool, {"kind": "Dog", "bark": "loud", "name": "Rex"})
    assert not accepts(tool, {"kind": "Dog", "name": "Rex"})


def test_alternatives_with_a_discriminator_are_told_apart_by_it() -> None:
    schemas: dict[str, Any] = {
        "Circle": {"type": "object", "required": ["r"], "properties": {"shape": {"type": "string"}, "r": {}}},
        "Square": {"type": "object", "properties": {"shape": {"type": "string", "enum": ["box"]}, "a": {}}},
    }
    either = {"oneOf": [ref("Circle"), ref("Square")], "discriminator": {"propertyName": "shape"}}
    tool = send(either, schemas)
    assert accepts(tool, {"shape": "Circle", "r": 1})
    assert accepts(tool, {"shape": "box", "a": 1}), "what the schema says itself is believed"
    assert not accepts(tool, {"shape": "Square", "a": 1})
    assert not accepts(tool, {"shape": "Circle"})


def test_alternatives_that_extend_their_parent_do_not_go_on_for_ever() -> None:
    schemas: dict[str, Any] = {
        "Base": {
            "type": "object",
            "properties": {"t": {"type": "string"}},
            "oneOf": [ref("A"), ref("B")],
            "discriminator": {"propertyName": "t"},
        },
        "A": {"allOf": [ref("Base"), {"required": ["a"], "properties": {"a": {}}}]},
        "B": {"allOf": [ref("Base"), {"required": ["b"], "properties": {"b": {}}}]},
    }
    tool = send(ref("Base"), schemas)
    assert accepts(tool, {"t": "A", "a": 1})
    assert not accepts(tool, {"t": "A", "b": 1})


def test_3_1_says_more_beside_a_reference() -> None:
    tool = send({**ref("Name"), "maxLength": 3}, {"Name": {"type": "string"}}, "3.1.0")
    assert accepts(tool, "abc") and not accepts(tool, "abcd") and not accepts(tool, 1)
    old = send({**ref("Name"), "maxLength": 3}, {"Name": {"type": "string"}})
    assert accepts(old, "abcd")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (ref("Nothing"), "the reference '#/components/schemas/Nothing' does not resolve"),
        ({"$ref": "other.yaml#/Pet"}, "'other.yaml' is another document: bundle them first"),
        ({"$ref": "http://169.254.169.254/x"}, "'http://169.254.169.254/x' is another document"),
        (ref("Loop"), "form a cycle"),
        ({"$dynamicRef": "#x"}, "the dynamic reference '#x' is not inside a schema with that anchor"),
        ({"type": "strange"}, "inputSchema is not a valid JSON Schema"),
        (7, "a schema is neither an object nor true or false"),
    ],
)
def test_a_schema_that_cannot_be_read_costs_its_operation_alone(schema: Any, message: str) -> None:
    loops = {"Loop": ref("Loop2"), "Loop2": ref("Loop")}
    whole = document({"type": "object", "properties": {"it": schema}}, loops, "3.1.0")
    whole["paths"]["/fine"] = {"get": {"operationId": "fine"}}
    tools = tw.openapi(whole)
    assert [tool.name for tool in tools] == ["fine"]
    [fault] = tools.faults
    assert fault.operation == "POST /send"
    assert message in fault.message


def test_descriptions_are_cut() -> None:
    whole = document({"type": "object", "properties": {"it": {"description": "x" * 5_000}}})
    whole["paths"]["/send"]["post"]["description"] = "y" * 5_000
    tool = tw.openapi(whole, max_description=200)["send"]
    assert len(tool.description) <= 200 and tool.description.endswith("(5000 characters)")
    assert len(str(tool.parameters)) < 500
