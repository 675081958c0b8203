"""The OpenAPI document: it is consistent, and client code can be generated from it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Body, FastAPI, Form, UploadFile
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel, JsonValue, create_model

from tests.api.documented import document
from tests.api.rig import serving
from toolwright.adapters.system import SystemClock
from toolwright.web.gateway import open_gateway
from toolwright.web.options import GatewayOptions
from toolwright.web.routes.docs import correct_document
from toolwright.wire.message import Message

pytestmark = pytest.mark.anyio

CLIENT = Path(__file__).with_name("typescript")
PATIENCE = 300  # seconds, for a busy machine


def test_the_document_is_valid_openapi() -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(document().whole).iter_errors()] == []


def test_every_reference_leads_somewhere() -> None:
    whole = document().whole
    references = set(_references(whole))
    assert "#/components/schemas/NewMessage" in references
    assert [each for each in sorted(references) if not _leads_somewhere(each, whole)] == []


def test_every_body_is_a_schema_of_the_document_by_its_name() -> None:
    bodies = [
        operation["requestBody"]["content"]["application/json"]["schema"]
        for item in document().whole["paths"].values()
        for operation in item.values()
        if "requestBody" in operation
    ]
    assert len(bodies) >= 20
    assert [set(body) for body in bodies] == [{"$ref"}] * len(bodies)


def test_a_shape_describes_what_a_client_reads() -> None:
    schemas = document().whole["components"]["schemas"]
    message = schemas[Message.model_config.get("title", "")]
    assert (message["required"], message["description"]) == (
        ["id", "role", "content", "createdAt"],
        "A message of a thread. `seq` is its position, absent until a run has read it.",
    )
    assert set(message["properties"]) == {
        field.serialization_alias for field in Message.model_fields.values()
    }
    member = schemas["MemberShape"]
    assert member["properties"]["smartSpaceId"] == {"type": "string", "title": "Smartspaceid"}
    assert member["required"][:3] == ["spaceId", "smartSpaceId", "entityId"]


def test_an_event_needs_no_thread() -> None:
    event = document().whole["components"]["schemas"]["EventShape"]
    assert event["required"] == ["type", "ts", "data"]
    assert event["properties"]["threadId"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_two_shapes_of_one_title_are_refused() -> None:
    gateway = FastAPI()
    for path, shape in (("/a", create_model("A", __config__={"title": "C"})), ("/b", create_model("C"))):
        gateway.get(path, responses={200: {"model": shape}})(lambda: None)
    correct_document(gateway)
    with pytest.raises(ValueError, match="the same title"):
        gateway.openapi()


class Question(BaseModel):
    text: str
    tags: list[str] = []


def test_routes_that_are_added_later_are_described_as_fastapi_describes_them() -> None:
    """Also with bodies, forms, files, and models that are named like one of ours or like each other."""
    gateway = open_gateway(lambda: nullcontext(), GatewayOptions(clock=SystemClock()))  # type: ignore[arg-type, return-value]  # not opened
    ours = create_model("Theirs", __config__={"title": "EventShape"}, number=(int, 1))

    def texts(items: Annotated[list[str], Body()]) -> None: ...
    def numbers(items: Annotated[list[int], Body()], name: Annotated[str, Body()]) -> None: ...
    def ask(question: Question) -> None: ...
    def upload(file: UploadFile, note: Annotated[str, Form()]) -> None: ...

    before = document().whole
    for endpoint in (texts, numbers, ask, upload):
        gateway.post(f"/own/{endpoint.__name__}")(endpoint)
    gateway.get("/own/event", response_model=create_model("EventShape", number=(int, 1)))(lambda: None)
    gateway.get("/own/other", response_model=ours)(lambda: None)
    whole = json.loads(json.dumps(gateway.openapi()))
    OpenAPIV31SpecValidator(whole).validate()
    assert {path for path in whole["paths"] if path not in before["paths"]} == {
        f"/own/{name}" for name in ("texts", "numbers", "ask", "upload", "event", "other")
    }
    assert whole["components"]["schemas"]["EventShape"] == before["components"]["schemas"]["EventShape"]
    assert whole["components"]["schemas"]["EventShape_"]["properties"]["number"]["type"] == "integer"
    assert whole["components"]["schemas"]["Question"]["required"] == ["text"]
    for path, operations in before["paths"].items():
        assert whole["paths"][path] == operations


LONG_TEXTS = {
    "NewAgent.configJson": "a whole configuration, whose own texts have limits",
    "AgentChange.configJson": "a whole configuration, whose own texts have limits",
    "NewFile.data": "a file in base64: bounded by MAX_ATTACHMENT",
    "Submission.error": "the text of a failure: a model is shown MAX_RESULT_TEXT of it",
}
"""Text fields of bodies without `maxLength`, each with the reason."""


def test_every_text_of_a_body_says_how_long_it_may_be() -> None:
    whole = document().whole
    forms = [
        operation["requestBody"]["content"]["application/json"]["schema"]
        for item in whole["paths"].values()
        for operation in item.values()
        if "requestBody" in operation
    ]
    texts = {where: text for form in forms for where, text in _texts("", form, whole)}
    assert len(texts) >= 30
    assert {where for where, text in texts.items() if "maxLength" not in text} == set(LONG_TEXTS)


@pytest.mark.parametrize(
    ("form", "field", "bounds"),
    [
        ("NewReaction", "emoji", {"minLength": 1, "maxLength": 64, "pattern": r"^\S+$"}),
        ("NewSpace", "id", {"minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9_.~-]+$"}),
        ("NewEntity", "externalId", {"minLength": 1, "maxLength": 512}),
        ("EntityChange", "externalId", {"minLength": 1, "maxLength": 512}),
    ],
)
async def test_the_document_says_the_bounds_that_hold(form: str, field: str, bounds: dict[str, Any]) -> None:
    whole = document().whole
    texts = dict(_texts(form, whole["components"]["schemas"][form], whole))
    said = {name: given for name, given in texts[f"{form}.{field}"].items() if name in {*bounds, "pattern"}}
    assert said == bounds
    longest = "x" * bounds["maxLength"]
    async with serving() as api:
        ada = (await api.post("/api/entities", {"type": "human"}, 201))["entity"]["id"]
        space = (await api.post("/api/spaces", {"name": "tea", "kind": "public"}, 201))["space"]["id"]
        said_id = (await api.post(f"/api/spaces/{space}/messages", {"content": "Hi", "entityId": ada}, 201))[
            "message"
        ]["id"]
        path, method, body = {
            "NewReaction": (f"messages/{said_id}/reactions", "POST", {"entityId": ada}),
            "NewSpace": ("spaces", "POST", {"name": "tea"}),
            "NewEntity": ("entities", "POST", {"type": "human"}),
            "EntityChange": (f"entities/{ada}", "PATCH", {}),
        }[form]
        for text, fits in ((longest, True), (longest + "x", False), ("", False)):
            answer = await api.client.request(method, f"/api/{path}", json={**body, field: text})
            assert answer.is_success == fits, answer.text


@pytest.mark.slow
def test_a_typescript_client_made_from_the_document_type_checks(tmp_path: Path) -> None:
    npm = _npm()
    shutil.copytree(CLIENT, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    (tmp_path / "openapi.json").write_text(json.dumps(document().whole))
    _run(tmp_path, npm, "ci", "--prefer-offline")
    _run(tmp_path, npm, "exec", "--offline", "--", "openapi-typescript", "openapi.json", "-o", "api.d.ts")
    _run(tmp_path, npm, "exec", "--offline", "--", "tsc", "--project", ".")


def test_without_npm_the_client_is_skipped_but_fails_under_ci() -> None:
    with pytest.raises(pytest.skip.Exception):
        _found(None, ci=False)
    with pytest.raises(pytest.fail.Exception, match="no npm on the PATH"):
        _found(None, ci=True)


def _npm() -> str:
    return _found(shutil.which("npm"), ci=os.environ.get("CI") == "true")


def _found(npm: str | None, *, ci: bool) -> str:
    if npm is not None:
        return npm
    why = "There is no npm on the PATH: install Node 20 or later, which brings it."
    if ci:
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def _run(folder: Path, *command: str) -> None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, f"{' '.join(command)}:\n{ended.stdout}\n{ended.stderr}"


def _texts(where: str, part: dict[str, Any], whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the unrestricted texts within a schema, each by its form and field."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        if name != "JsonValue":
            yield from _texts(name, whole["components"]["schemas"][name], whole)
        return
    if part.get("type") == "string" and not {"enum", "const"} & set(part):
        yield where, part
    for field, each in part.get("properties", {}).items():
        yield from _texts(f"{where}.{field}", each, whole)
    for each in part.get("anyOf", []):
        yield from _texts(where, each, whole)
    for keyword in ("items", "additionalProperties"):
        if isinstance(part.get(keyword), dict):
            yield from _texts(where, part[keyword], whole)


def _references(part: JsonValue) -> Iterator[str]:
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield reference
        for each in part.values():
            yield from _references(each)
    elif isinstance(part, list):
        for each in part:
            yield from _references(each)


def _leads_somewhere(reference: str, whole: dict[str, Any]) -> bool:  # the whole document
    place, _, name = reference.rpartition("/")
    return place == "#/components/schemas" and name in whole["components"]["schemas"]
