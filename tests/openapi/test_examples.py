"""OAI's example documents and one with every style, as tools that are called against a server."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

import toolwright as tw
from tests.executors.rig import answer, as_json
from tests.executors.test_forms import parts
from tests.openapi.rig import CALLBACK, LINKS, PETSTORE, PETSTORE_EXPANDED, STYLES, USPTO, service
from toolwright.core.state.memory import MemoryState

pytestmark = pytest.mark.anyio


async def test_the_petstore() -> None:
    tools = tw.openapi(PETSTORE, fields=True)
    assert [(tool.name, tool.read_only) for tool in tools] == [
        ("listPets", True), ("createPets", False), ("showPetById", True),
    ]  # fmt: skip
    assert tools.faults == ()
    assert tools["listPets"].description == "List all pets"
    async with service() as api:
        api.server.replies["/v1/pets"] = as_json([{"id": 1, "name": "Rex", "secret": "x"}])
        assert await api.call(tools, "listPets", {"limit": 3}) == [{"id": 1, "name": "Rex"}]
        assert api.last.target == "/v1/pets?limit=3"
        api.server.replies["/v1/pets"] = answer("201 Created")
        assert await api.call(tools, "createPets", {"id": 2, "name": "Tom"}) is None
        assert (api.last.method, api.last.body) == ("POST", b'{"id":2,"name":"Tom"}')
        await api.call(tools, "showPetById", {"petId": "a/b"})
        assert api.last.target == "/v1/pets/a%2Fb"
        faulty = await tw.Toolset(tools).call("createPets", {"id": 2})
        assert faulty.error_code == "invalid_arguments"


async def test_the_petstore_with_inheritance() -> None:
    tools = tw.openapi(PETSTORE_EXPANDED, fields={"findPets": ["name"]})
    assert [tool.name for tool in tools] == ["findPets", "addPet", "find_pet_by_id", "deletePet"]
    assert tools["deletePet"].idempotent and not tools["addPet"].idempotent
    async with service() as api:
        api.server.replies["/v2/pets"] = as_json([{"id": 1, "name": "Rex"}])
        assert await api.call(tools, "findPets", {"tags": ["a b", "c"]}) == [{"name": "Rex"}]
        assert api.last.target == "/v2/pets?tags=a%20b&tags=c"
        api.server.replies["/v2/pets/7"] = answer("204 No Content")
        assert await api.call(tools, "deletePet", {"id": 7}) is None
        assert (api.last.method, api.last.target, api.last.body) == ("DELETE", "/v2/pets/7", b"")


async def test_the_data_sets_of_the_patent_office() -> None:
    tools = tw.openapi(USPTO)
    assert [tool.name for tool in tools] == ["list-data-sets", "list-searchable-fields", "perform-search"]
    async with service() as api:
        await api.call(tools, "list-data-sets", {})
        assert (api.last.target, api.last.headers["Host"]) == ("/ds-api/", "developer.uspto.test")
        arguments = {"dataset": "oa", "version": "v1", "criteria": "a:b c", "rows": 2}
        await api.call(tools, "perform-search", arguments)
        assert api.last.headers["Content-Type"] == "application/x-www-form-urlencoded"
        assert parse_qsl(api.last.body.decode()) == [("criteria", "a:b c"), ("rows", "2")]


async def test_callbacks_and_links_are_passed_over() -> None:
    async with service() as api:
        [subscribe] = tools = tw.openapi(CALLBACK)
        assert subscribe.name == "post_streams"
        await api.call(tools, subscribe.name, {"callbackUrl": "https://a.test/?b=c"})
        assert parse_qsl(urlsplit(api.last.target).query) == [("callbackUrl", "https://a.test/?b=c")]
        assert (api.last.method, api.last.body) == ("POST", b"")
        links = tw.openapi(LINKS, fields=["title", "repository.owner.username"])
        path = "/2.0/repositories/ada/kit/pullrequests"
        pull = {
            "id": 1,
            "title": "T",
            "repository": {"slug": "kit", "owner": {"username": "ada", "uuid": "u"}},
        }
        api.server.replies[path] = as_json([pull])
        result = await api.call(
            links, "getPullRequestsByRepository", {"username": "ada", "slug": "kit", "state": "open"}
        )
        assert result == [{"title": "T", "repository": {"owner": {"username": "ada"}}}]


LIST, MAP = ["a", "b c"], {"R": 1, "G": "x,y"}
ENV: Mapping[str, str] = {
    "EVERY_STYLE_KEY": "k1",
    "EVERY_STYLE_BEARER": "t1",
    "EVERY_STYLE_IN_QUERY": "q&1",
    "EVERY_STYLE_IN_COOKIE": "c1",
}


async def test_every_style_of_a_path() -> None:
    tools = tw.openapi(STYLES)
    names = ("simple", "simpleX", "label", "labelX", "matrix", "matrixX")
    async with service() as api:
        await api.call(tools, "paths", dict.fromkeys(names, LIST), ENV)
        assert api.last.target == (
            "/api/paths/a,b%20c/a,b%20c/.a,b%20c/.a.b%20c/;matrix=a,b%20c/;matrixX=a;matrixX=b%20c"
        )
        await api.call(tools, "paths", dict.fromkeys(names, MAP), ENV)
        assert api.last.target == (
            "/api/paths/R,1,G,x%2Cy/R=1,G=x%2Cy/.R,1,G,x%2Cy/.R=1.G=x%2Cy/;matrix=R,1,G,x%2Cy/;R=1;G=x%2Cy"
        )
        assert api.last.headers["Authorization"] == "Bearer t1"


async def test_every_style_of_a_query_of_headers_and_of_cookies() -> None:
    tools = tw.openapi(STYLES)
    properties: Any = tools["queries"].parameters["properties"]
    assert not {"Accept", "old"} & set(properties)
    arguments = {
        "shared": "s", "form": LIST, "formX": LIST, "space": LIST, "pipe": LIST, "deep": {"a": {"b": LIST}},
        "raw[]": "/a?b&c", "json": {"a": [1]}, "X-List": LIST, "X-Object": MAP, "theme": "dark; x",
    }  # fmt: skip
    async with service() as api:
        await api.call(tools, "queries", arguments, ENV)
        assert api.last.target.partition("?")[2].split("&") == [
            "api%20key=q%261", "shared=s", "form=a,b%20c", "formX=a", "formX=b%20c", "space=a%20b%20c",
            "pipe=a%7Cb%20c", "deep%5Ba%5D%5Bb%5D%5B%5D=a", "deep%5Ba%5D%5Bb%5D%5B%5D=b%20c",
            "raw%5B%5D=/a?b%26c", "json=%7B%22a%22%3A%5B1%5D%7D",
        ]  # fmt: skip
        assert (api.last.headers["X-List"], api.last.headers["X-Object"]) == ("a,b c", "R=1,G=x,y")
        assert api.last.headers["Cookie"] == "sid=c1; theme=dark%3B%20x"


async def test_every_style_of_a_form() -> None:
    tools = tw.openapi(STYLES)
    arguments = {"id": "1", "card": {"exp": 30}, "ids": [1, 2], "expand": ["a", "b"], "meta": {"a": 1}}
    async with service() as api:
        await api.call(tools, "form", arguments)
        assert "Authorization" not in api.last.headers, "credentials that are optional are not asked for"
        assert parse_qsl(api.last.body.decode()) == [
            ("card[exp]", "30"), ("ids", "1|2"), ("expand", "a,b"), ("meta", '{"a":1}'),
        ]  # fmt: skip
        basic = tw.openapi(STYLES, auth={"basic": "SHOP"}, only="form")
        assert [(each.name, each.type) for each in basic["form"].variables] == [
            ("SHOP_USERNAME", "text"), ("SHOP_PASSWORD", "secret"),
        ]  # fmt: skip
        await api.call(basic, "form", {"id": "1"}, {"SHOP_USERNAME": "ada", "SHOP_PASSWORD": "p"})
        assert api.last.headers["Authorization"] == "Basic YWRhOnA="


async def test_files_of_the_thread_are_uploaded() -> None:
    tools = tw.openapi(STYLES, auth=False)
    assert tools["upload"].variables == () and tools["upload"].idempotent
    photo: Any = tools["upload"].parameters["properties"]
    assert photo["photo"] == {
        "type": "string",
        "format": "binary",
        "description": "A photo. The path of a file of this thread.",
    }
    state = MemoryState()
    await state.write_file("/a.png", b"\x89", "image/png")
    await state.write_file("/b.pdf", b"%PDF", "application/pdf")
    async with service() as api:
        arguments = {"photo": "/a.png", "more": ["/b.pdf"], "note": "/a.png", "meta": {"a": 1}}
        await api.call(tools, "upload", arguments, state=state)
        told = [
            (each.get_filename(), each.get_content_type(), each.get_payload(decode=True))
            for each in parts(api.last)
        ]
        assert told == [
            ("a.png", "image/png", b"\x89"), ("b.pdf", "application/pdf", b"%PDF"),
            (None, "text/markdown", b"/a.png"), (None, "application/json", b'{"a":1}'),
        ]  # fmt: skip
        await api.call(tools, "raw", {"id": "1", "id_query": 2, "body": "/b.pdf"}, state=state)
        assert (api.last.target, api.last.body) == ("/api/raw/1?id=2", b"%PDF")
        assert api.last.headers["Content-Type"] == "application/pdf"


async def test_bodies_that_cannot_be_spread_are_one_argument() -> None:
    tools = tw.openapi(STYLES)
    async with service() as api:
        await api.call(tools, "remove", {"id": "1", "body": {"id": "2"}}, ENV)
        assert (api.last.target, api.last.body) == ("/api/raw/1", b'{"id":"2"}')
        assert api.last.headers["Content-Type"] == "application/merge-patch+json"
        assert api.last.headers["X-Key"] == "k1"
        await api.call(tools, "list", {"body": [1, 2]})
        assert api.last.body == b"[1,2]"
        head = await api.call(tools, "exists", {"id": "1"}, ENV)
        assert head["status"] == 200


async def test_an_error_affects_one_operation() -> None:
    tools = tw.openapi(STYLES)
    assert [(each.operation, each.message) for each in tools.faults] == [
        ("OPTIONS /raw/{id}", "tools cannot call the method OPTIONS"),
        ("POST /odd", "the parameter 'q' has the style 'matrix', which is not allowed in query"),
        ("TRACE /odd", "tools cannot call the method TRACE"),
    ]
