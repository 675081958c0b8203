"""Sources of OpenAPI documents: texts, files and URLs, and the forbidden ones."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import toolwright as tw
from tests.executors.rig import Names, Server, Wires, answer, as_json, serving
from tests.openapi.rig import PETSTORE, service
from toolwright.adapters.openapi.reader import fetch, read, read_api
from toolwright.core.env.env import EnvVar
from toolwright.core.errors import DefinitionError
from toolwright.core.state.memory import MemoryState
from toolwright.core.tools.openapi import ApiForm

pytestmark = pytest.mark.anyio
TEXT = PETSTORE.read_text(encoding="utf-8")
OBJECT = yaml.safe_load(TEXT)
OBJECT["paths"]["/pets/{petId}"]["get"]["responses"] = {}


BOMB = "x0: &x0 [1, 1]\n" + "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 12))


def minimal(**more: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": "get", **more.pop("operation", {})}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Zoo"},
        "servers": [{"url": "http://zoo.test"}],
        "paths": {"/a": {"get": operation}},
    }
    return document | more


async def test_a_path_a_text_and_an_object_are_the_same(tmp_path: Path) -> None:
    as_text = json.dumps(OBJECT)
    (tmp_path / "petstore.json").write_text("\ufeff" + as_text, encoding="utf-8")
    for source in (PETSTORE, str(PETSTORE), TEXT, OBJECT, as_text, tmp_path / "petstore.json"):
        assert [tool.name for tool in tw.openapi(source)] == ["listPets", "createPets", "showPetById"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "swagger: '2.0'\ninfo: {}\n",
            "This is a Swagger 2.0 document: convert it to OpenAPI 3, for example with",
        ),
        ({"swagger": "2.0"}, "npx swagger2openapi"),
        ({"openapi": "3.2.0"}, "The document is of OpenAPI 3.2.0: only OpenAPI 3.0 and 3.1 are supported."),
        ({"info": {}}, "has no field 'openapi'"),
        ("{not json", "The OpenAPI document is not valid JSON"),
        ("a: [\n", "The OpenAPI document is not valid YAML"),
        ("just\ntext", "must be an object"),
        ("no-such-file.yaml", "cannot be read: No such file"),
        ("[" * 100_000 + "\n", "nested deeper than 64 levels"),
        ("a: &a [1]\nb: *b\n", "names no earlier anchor"),
        ("a: &a [*a]\n", "names no earlier anchor"),
        (BOMB, "at most 1000000"),
        ("openapi: 3.1.0\npaths: {/a: {}, /a: {}}\n", "an object has a duplicate key: '/a'"),
        ("a: &a {b: 1}\nc: {<<: *a, <<: *a}\n", "an object has a duplicate key: '<<'"),
        ('{"openapi": "3.1.0", "paths": {"/a": {}, "/a": {}}}', "an object has a duplicate key: '/a'"),
        ("", "must not be empty"),
        (" \n", "must not be empty"),
    ],
)
def test_an_invalid_document_is_reported_in_one_sentence(source: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        tw.openapi(source)
    assert message in caught.value.message
    assert len(caught.value.message) < 500


def test_yaml_is_read_as_json_has_its_types() -> None:
    text = """
    base: &base {a: 1, b: two}
    merged: {<<: *base, b: 2}
    texts: [no, on, 2020-01-01, 0x1f, 010, 1_000, 12:30, "true", .inf, =]
    values: [true, null, ~, 1, -2.5, 1e3]
    200: {no: no}
    block: |
      two
      lines
    """
    assert read(text.encode()) == {
        "base": {"a": 1, "b": "two"},
        "merged": {"a": 1, "b": 2},
        "texts": ["no", "on", "2020-01-01", "0x1f", "010", "1_000", "12:30", "true", ".inf", "="],
        "values": [True, None, None, 1, -2.5, 1000.0],
        "200": {"no": "no"},
        "block": "two\nlines\n",
    }


async def test_a_url_of_the_programs_own_is_taken_as_written() -> None:
    async with serving() as server:
        server.replies["/openapi.yaml"] = answer(body=TEXT)
        document = await fetch(f"http://127.0.0.1:{server.port}/openapi.yaml", trusted=True)
        assert document["openapi"] == "3.0.0"
        server.replies["/gone"] = answer("410 Gone")
        with pytest.raises(DefinitionError, match="was answered with HTTP 410") as caught:
            await fetch(f"http://ada:secret@127.0.0.1:{server.port}/gone?key=secret", trusted=True)
        assert "secret" not in caught.value.message


async def fetched(server: Server, url: str, allow: tuple[str, ...] = ()) -> Any:  # the document
    names = Names({"inside.test": [["10.0.0.1"]], "api.test": [["93.184.216.34"]]})
    address = url.replace("PORT", str(server.port))
    return await fetch(address, trusted=False, allow=allow, resolve=names, network=Wires())


async def test_a_url_from_outside_and_what_it_redirects_to_reach_no_private_address() -> None:
    async with serving() as server:
        server.replies["/openapi.json"] = as_json(minimal())
        server.replies["/hop"] = answer(
            "302 Found", Location=f"http://inside.test:{server.port}/openapi.json"
        )
        assert (await fetched(server, "http://api.test:PORT/openapi.json"))["openapi"] == "3.1.0"
        for url in ("http://inside.test:PORT/openapi.json", "http://api.test:PORT/hop"):
            with pytest.raises(DefinitionError, match="has an address that is not public"):
                await fetched(server, url)
        assert await fetched(server, "http://inside.test:PORT/openapi.json", allow=("inside.test",))


def test_a_server_that_a_fetched_document_names_is_reached_only_if_it_is_public() -> None:
    url = "https://api.zoo.test/v1/openapi.json"

    def execution(server: str, **form: Any) -> Any:  # of the configuration
        api = read_api(minimal(servers=[{"url": server}]), ApiForm(**form), url)
        return api.tools[0]["execution"]

    assert "publicOnly" not in execution("/v2")
    assert execution("/v2")["url"] == "https://api.zoo.test/v2/a"
    assert execution("v2")["url"] == "https://api.zoo.test/v1/v2/a"
    assert execution("http://169.254.169.254/")["publicOnly"] is True
    assert execution("http://api.zoo.test/")["publicOnly"] is True
    assert "publicOnly" not in execution("http://169.254.169.254/", baseUrl="http://localhost:1/")


@pytest.mark.parametrize("path", [".evil.test/a", "@evil.test/a", ":8080/a", "", "{host}/a"])
def test_a_path_cannot_continue_the_host_of_its_server(path: str) -> None:
    document = minimal(
        paths={path: {"get": {"operationId": "get"}}, "/fine": {"get": {"operationId": "fine"}}}
    )
    tools = tw.openapi(document, base_url="https://api.zoo.test/")
    assert [each.execution.url for each in tools if each.execution] == ["https://api.zoo.test/fine"]
    [fault] = tools.faults
    assert fault.message == f"its path {path!r} does not begin with '/'"


KEY: dict[str, Any] = {"security": [{"apiKey": []}]}


def scheme(**fields: str) -> dict[str, Any]:
    made = {"type": "apiKey", "in": "header", "name": "X-Key", **fields}
    return {"components": {"securitySchemes": {"apiKey": made}}}


def test_the_names_of_variables_are_not_chosen_by_a_document_from_elsewhere() -> None:
    hostile = minimal(info={"title": "OpenAI"}, operation=KEY, **scheme())

    def names(**more: Any) -> list[str]:
        form, url = more.pop("form", ApiForm()), more.pop("url", None)
        [tool] = read_api(hostile, form, url).tools
        variables: Any = tool["variables"]
        return [each["name"] for each in variables]

    assert names() == ["OPEN_AI_API_KEY"]
    assert names(url="https://evil.test/openapi.json") == ["EVIL_TEST_API_KEY"]
    assert names(url="https://evil.test/", form=ApiForm(name="zoo")) == ["ZOO_API_KEY"]
    assert names(form=ApiForm(auth={"apiKey": "MINE"})) == ["MINE"]
    assert names(form=ApiForm(auth="MINE")) == ["MINE"]
    assert names(form=ApiForm(auth=False)) == []


@pytest.mark.parametrize(
    "document",
    [
        minimal(servers=[{"url": "http://zoo.test/{a}", "variables": {"a": {"default": "${env.OTHER}"}}}]),
        minimal(paths={"/${env.OTHER}": {"get": {"operationId": "get"}}}),
        minimal(operation=KEY, **scheme(**{"in": "cookie", "name": "${env.OTHER}"})),
        minimal(operation=KEY, **scheme(**{"in": "query", "name": "${env.OTHER}"})),
        minimal(operation=KEY, **scheme(name="${env.OTHER}")),
        minimal(
            paths={"/a": {"post": {"requestBody": {"content": {"a/${env.OTHER}+json": {"schema": {}}}}}}}
        ),
    ],
)
def test_no_text_of_a_document_names_a_variable_of_the_thread(document: Any) -> None:
    document["paths"]["/fine"] = {"get": {"operationId": "fine"}}
    for tool in tw.openapi(document):
        assert "OTHER" not in [each.name for each in tool.variables]


@pytest.mark.parametrize(
    ("answers", "accepted"),
    [
        ({"200": ["application/json"]}, None),
        ({}, None),
        ({"200": ["application/pdf"]}, "application/pdf"),
        ({"200": ["application/pdf", "application/json"]}, None),
        ({"200": ["application/vnd.api+json", "text/csv"]}, "application/vnd.api+json"),
        (
            {"200": ["application/zip"], "206": ["audio/mpeg"], "404": ["text/html"]},
            "application/zip, audio/mpeg",
        ),
        ({"200": ["a/${env.OTHER}"]}, None),
    ],
)
def test_the_declared_types_of_answers_are_accepted(
    answers: dict[str, list[str]], accepted: str | None
) -> None:
    responses: dict[str, Any] = {
        status: {"description": "It.", "content": {media: {} for media in types}}
        for status, types in answers.items()
    }
    [tool] = tw.openapi(minimal(operation={"responses": responses}))
    assert tool.execution is not None
    assert dict(tool.execution.headers).get("Accept") == accepted
    [own] = tw.openapi(minimal(operation={"responses": responses}), headers={"accept": "text/csv"})
    assert own.execution is not None
    assert [each for each in own.execution.headers if each[0].lower() == "accept"] == [("accept", "text/csv")]


def test_basic_authentication_goes_before_a_declared_header_parameter() -> None:
    parameter = {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}}
    basic = {"components": {"securitySchemes": {"basic": {"type": "http", "scheme": "basic"}}}}
    document = minimal(operation={"parameters": [parameter], "security": [{"basic": []}]}, **basic)
    [tool] = tw.openapi(document)
    assert tool.execution is not None and tool.execution.basic is not None
    assert tool.parameters["properties"] == {}


def test_headers_that_are_ours_are_an_error() -> None:
    document = minimal(operation=KEY, **scheme(name="Host"))
    with pytest.raises(DefinitionError, match="is set by Toolwright itself"):
        tw.openapi(document)


async def test_credentials_that_are_missing_are_variables_that_a_run_waits_for() -> None:
    async with service() as api:
        document = minimal(operation=KEY, **scheme(description="From your account."))
        tools = tw.openapi(document)
        [variable] = tools["get"].variables
        assert (variable.name, variable.type, variable.required) == ("ZOO_API_KEY", "secret", True)
        assert variable.description == "The API key of apiKey: From your account."
        missing = await tw.Toolset(tools, executors={"gateway": api.executor}).call("get", {})
        assert missing.error_data == {"missing": ["ZOO_API_KEY"]}
        state = MemoryState(env={"ZOO_API_KEY": EnvVar(value="k")})
        await api.call(tools, "get", {}, state=state)
        assert api.last.headers["X-Key"] == "k"


SCHEMES: dict[str, Any] = {
    "mtls": {"type": "mutualTLS"},
    "digest": {"type": "http", "scheme": "digest"},
    "oauth": {"type": "oauth2", "flows": {}},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://id.test"},
}


ALTERNATIVES: list[tuple[list[dict[str, list[str]]], dict[str, str] | None, list[str]]] = [
    ([{"mtls": []}, {"oauth": ["read"]}], None, ["ZOO_OAUTH"]),
    ([{"oauth": []}, {"oidc": []}], None, ["ZOO_OAUTH"]),
    ([{"oauth": []}, {"oidc": []}], {"oidc": "ID"}, ["ID"]),
    ([{"oidc": []}, {}], None, []),
    ([{"oidc": []}, {}], {"oidc": "ID"}, ["ID"]),
    ([], None, []),
]


@pytest.mark.parametrize(("security", "auth", "variables"), ALTERNATIVES)
def test_the_first_alternative_that_can_be_sent_is(security: Any, auth: Any, variables: list[str]) -> None:
    document = minimal(operation={"security": security}, components={"securitySchemes": SCHEMES})
    tool = tw.openapi(document, auth=auth)["get"]
    assert [each.name for each in tool.variables] == variables
    assert tool.execution is not None
    assert [name for name, _ in tool.execution.headers] == ["Authorization"] * len(variables)


@pytest.mark.parametrize("name", ["mtls", "digest", "other"])
def test_a_scheme_that_cannot_be_sent_is_an_error(name: str) -> None:
    document = minimal(operation={"security": [{name: []}]}, components={"securitySchemes": SCHEMES})
    with pytest.raises(DefinitionError, match=f"its security scheme '{name}'"):
        tw.openapi(document)


ZOO = minimal(
    paths={
        "/pets": {
            "get": {"operationId": "listPets", "tags": ["pets"]},
            "post": {"operationId": "addPet", "tags": ["pets", "write"]},
            "put": {"operationId": "oldPet", "tags": ["pets"], "deprecated": True},
        },
        "/zoo/{id}": {"get": {"tags": ["zoo"]}, "delete": {"operationId": "close zoo!"}},
        "/zoo": {"get": {"operationId": "close_zoo"}},
    }
)


@pytest.mark.parametrize(
    ("only", "names"),
    [
        (None, ["listPets", "addPet", "get_zoo_id", "close_zoo", "close_zoo_2"]),
        ("listPets", ["listPets"]),
        (["listPets", "close*"], ["listPets", "close_zoo", "close_zoo_2"]),
        ({"tags": ["pets"]}, ["listPets", "addPet"]),
        ({"tags": ["pets"], "deprecated": True}, ["listPets", "addPet", "oldPet"]),
        ({"tags": ["pets"], "methods": ["post"]}, ["addPet"]),
        ({"paths": ["/zoo*"]}, ["get_zoo_id", "close_zoo", "close_zoo_2"]),
        ({"paths": ["/zoo/{id}"], "methods": ["GET"]}, ["get_zoo_id"]),
    ],
)
def test_operations_are_chosen_by_id_tag_path_and_method(only: Any, names: list[str]) -> None:
    assert [tool.name for tool in tw.openapi(ZOO, only=only)] == names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": "listPet"}, "none of the document's operations is 'listPet'"),
        ({"only": {"tags": ["pet"]}}, "none of the document's tags is 'pet'"),
        ({"only": {"tag": ["pets"]}}, "tw.openapi: only.tag is not a known field"),
        ({"effects": {"listPets": "harmless"}}, "tw.openapi: effects.listPets must be"),
        ({"effects": {"list": "none"}}, "the document has no operation 'list'"),
        ({"fields": {"list": ["a"]}}, "the document has no operation 'list'"),
        ({"auth": 1}, "tw.openapi: auth must be the name of a variable"),
        ({"fields": {"a": 1}}, "tw.openapi: fields must be true or false, a list of paths"),
        ({"name": "a b"}, "tw.openapi: name must match the pattern"),
        ({"max_description": 1}, "tw.openapi: max_description must be at least 20"),
        ({"base_url": "ftp://x"}, "must begin with http:// or https://"),
    ],
)
def test_options_that_fit_nothing_are_refused(options: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        tw.openapi(ZOO, **options)
    assert message in caught.value.message


def test_names_begin_with_the_apis_and_effects_can_be_said() -> None:
    tools = tw.openapi(
        ZOO, name="zoo", effects={"listPets": "none", "addPet": "read_only"}, base_url="http://x/v1/"
    )
    assert tools["zoo_listPets"].read_only is False
    assert tools["zoo_addPet"].read_only is True
    assert next(tool.execution.url for tool in tools if tool.execution) == "http://x/v1/pets"
    assert len(tools) == 5 and "zoo_addPet" in tools and tools[0] in tools and "addPet" not in tools


def test_a_long_name_is_cut_and_stays_one_of_its_own() -> None:
    paths = {f"/{n}": {"get": {"operationId": "x" * 70 + str(n)}} for n in range(12)}
    names = [tool.name for tool in tw.openapi(minimal(paths=paths))]
    assert len(set(names)) == 12 and max(map(len, names)) == 64


def test_errors_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    document = minimal()
    document["paths"]["/b"] = {"trace": {}, "options": {}}
    with caplog.at_level(logging.WARNING, "toolwright"):
        tools = tw.openapi(document)
    [record] = caplog.records
    assert record.name == "toolwright.openapi"
    assert record.getMessage() == (
        "Of the OpenAPI document 'Zoo', 2 operations became no tool: OPTIONS /b: tools cannot call the method "
        "OPTIONS; TRACE /b: tools cannot call the method TRACE."
    )
    assert len(tools.faults) == 2


def test_a_relative_server_without_an_address_needs_one() -> None:
    with pytest.raises(DefinitionError, match="set base_url"):
        tw.openapi(minimal(servers=[{"url": "/v1"}]))


def test_a_variable_that_a_server_does_not_define_is_named() -> None:
    servers = [{"url": "https://{region}.zoo.test/{version}", "variables": {"region": {"default": "eu"}}}]
    with pytest.raises(DefinitionError, match=r"does not define its variable 'version'; set base_url"):
        tw.openapi(minimal(servers=servers))
    assert tw.openapi(minimal(servers=servers), base_url="https://zoo.test")


@pytest.mark.parametrize("operation", ["x", 1, [], True])
def test_an_operation_that_is_not_an_object_becomes_no_tool(operation: object) -> None:
    tools = tw.openapi(minimal(paths={"/a": {"get": operation}, "/b": {"get": {}}}))
    assert [tool.name for tool in tools] == ["get_b"]
    [fault] = tools.faults
    assert (fault.operation, fault.message) == ("GET /a", "it is not an object")


def test_without_the_libraries_the_extra_is_named() -> None:
    script = """
import sys
sys.modules["jsonref"] = None  # as if it were not installed
import toolwright as tw
try:
    tw.openapi({"openapi": "3.1.0"})
except tw.errors.MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "An OpenAPI document needs jsonref, which is not installed: pip install 'toolwright-agents[openapi]'."
    )


def operation_at(path: str, operation: Any = None, **more: Any) -> dict[str, Any]:
    return minimal(**more) | {"paths": {path: {"get": {"operationId": "get", **(operation or {})}}}}


async def test_a_fragment_of_a_path_is_not_sent_and_its_query_is() -> None:
    query = {"parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}]}
    async with service() as api:
        tools = tw.openapi(operation_at("/pets?beta=true#{kind}", query))
        await api.call(tools, "get", {"q": "a b"})
        assert api.last.target.startswith("/pets?")
        assert sorted(api.last.target.partition("?")[2].split("&")) == ["beta=true", "q=a%20b"]
        await api.call(tw.openapi(operation_at("/pets#1")), "get", {})
        assert api.last.target == "/pets"


async def test_auth_is_a_bearer_token_where_the_document_declares_no_scheme() -> None:
    async with service() as api:
        tools = tw.openapi(minimal(), auth="TOKEN", headers={"X-Team": "${env.TEAM}", "X-From": "us"})
        assert sorted(each.name for each in tools["get"].variables) == ["TEAM", "TOKEN"]
        await api.call(tools, "get", {}, {"TOKEN": "t", "TEAM": "red"})
        assert api.last.headers["Authorization"] == "Bearer t"
        assert (api.last.headers["X-Team"], api.last.headers["X-From"]) == ("red", "us")
        open_to_all = tw.openapi(minimal(operation={"security": []}), auth="TOKEN")
        assert open_to_all["get"].variables == ()


def test_auth_is_sent_by_a_scheme_that_no_operation_names_or_is_refused() -> None:
    one = tw.openapi(minimal(**scheme()), auth="MINE")["get"]
    assert [each.name for each in one.variables] == ["MINE"]
    components = {"components": {"securitySchemes": {"oauth": SCHEMES["oauth"], "oidc": SCHEMES["oidc"]}}}
    chosen = tw.openapi(minimal(**components), auth={"oidc": "ID"})["get"]
    assert [each.name for each in chosen.variables] == ["ID"]
    with pytest.raises(DefinitionError, match="names none of the security schemes oauth, oidc"):
        tw.openapi(minimal(**components), auth="MINE")
    with pytest.raises(DefinitionError, match="its security scheme 'other' is not declared"):
        tw.openapi(minimal(), auth={"other": "ID"})
    assert tw.openapi(minimal(**components))["get"].variables == ()


def test_details_that_the_sender_decides_do_not_lose_the_operation(caplog: pytest.LogCaptureFixture) -> None:
    names = ["Idempotency-Key", "Accept-Encoding", "Content-Length", "X-Own"]
    headers = [
        {"name": name, "in": "header", "required": True, "schema": {"type": "string"}} for name in names
    ]
    repeated = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "a"]}
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"in": repeated}}}}}
    document = minimal(servers=[{"url": "//zoo.test/v1"}])
    post = {"operationId": "get", "parameters": headers, "requestBody": body}
    document["paths"] = {"/a": {"post": post}, "/b": {"post": {**post, "operationId": "other"}}}
    tool = tw.openapi(document)["get"]
    [warning] = [each.getMessage() for each in caplog.records]
    assert warning.endswith("are no arguments: Accept-Encoding, Content-Length, Idempotency-Key.")
    assert tool.execution is not None
    assert tool.execution.url == "https://zoo.test/v1/a"
    assert sorted(tool.parameters["properties"]) == ["X-Own", "in"]  # type: ignore[arg-type]  # an object
