"""Forms and styled parameters over HTTP: the request as a server reads it, and files of the thread."""

from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl

import pytest

import toolwright as tw
from tests.executors.rig import Bench, Received, bench
from toolwright.core.env.env import EnvVar
from toolwright.core.state.memory import MemoryState
from toolwright.core.tools.toolset import Toolset

pytestmark = pytest.mark.anyio


async def send(
    on: Bench,
    arguments: dict[str, Any],
    properties: dict[str, Any],
    state: MemoryState | None = None,
    path: str = "/",
    **execution: Any,  # fields of the configuration
) -> tw.ToolResult:
    tool = tw.Tool.from_config(
        {
            "name": "send",
            "description": "Send.",
            "inputSchema": {"type": "object", "properties": properties},
            "executionType": "gateway",
            "execution": {"url": f"http://api.test:{on.server.port}{path}", **execution},
        },
        trusted=False,
    )
    tools = Toolset([tool], executors={"gateway": on.executor})
    return await tools.call("send", arguments, state or MemoryState())


def parts(got: Received) -> list[Message]:
    head = f"Content-Type: {got.headers['Content-Type']}\r\n\r\n".encode()
    message = BytesParser(EmailMessage, policy=HTTP).parsebytes(head + got.body)
    assert message.is_multipart() and not message.defects
    return [*message.iter_parts()]


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MULTIPART = {"content-type": "multipart/form-data"}
FILE = {"type": "string", "format": "binary"}


async def test_a_form_is_urlencoded_where_the_content_type_says_so() -> None:
    async with bench() as on:
        arguments = {"a": "x&y=ü z", "tags": ["p", "q"], "deep": {"k": [1]}, "none": None, "yes": True}
        await send(on, arguments, {key: {} for key in arguments}, headers=FORM)
        [got] = on.server.received
        assert got.headers["Content-Type"] == "application/x-www-form-urlencoded"
        assert parse_qsl(got.body.decode("ascii")) == [
            ("a", "x&y=ü z"), ("tags", "p"), ("tags", "q"), ("deep", '{"k":[1]}'), ("yes", "true"),
        ]  # fmt: skip


async def test_nested_values_of_a_form_are_in_their_styles() -> None:
    async with bench() as on:
        encoding = {
            "card": {"style": "deepObject"},
            "ids": {"style": "pipeDelimited"},
            "rgb": {"style": "form"},
        }
        arguments = {"card": {"exp": {"year": 30}}, "ids": [1, 2], "rgb": {"R": 1, "G": 2}}
        await send(on, arguments, {key: {} for key in arguments}, headers=FORM, encoding=encoding)
        assert parse_qsl(on.server.received[0].body.decode()) == [
            ("card[exp][year]", "30"), ("ids", "1|2"), ("R", "1"), ("G", "2"),
        ]  # fmt: skip


async def test_a_multipart_form_has_files_of_the_thread_with_name_and_type() -> None:
    async with bench() as on:
        state = MemoryState(call_id="call_1")
        await state.write_file("/charts/süß.png", b"\x89PNG\r\n--", "image/png")
        await state.write_file("/b.bin", b"\x00\xff")
        arguments = {
            "title": "/b.bin",
            "meta": {"a": [1]},
            "photo": "/charts/süß.png",
            "more": ["/b.bin", "/charts/süß.png"],
        }
        properties = {"title": {}, "meta": {}, "photo": FILE, "more": {"type": "array", "items": FILE}}
        result = await send(on, arguments, properties, state, headers=MULTIPART)
        assert result.status == "success", result.error
        again = await send(on, arguments, properties, state, headers=MULTIPART)
        assert again.status == "success"
        first, second = on.server.received
        assert first.body == second.body, "a call that is made again sends the same bytes"
        told = [
            (
                each.get_param("name", header="content-disposition"),
                each.get_filename(),
                each["Content-Type"] and each.get_content_type(),
                each.get_payload(decode=True),
            )
            for each in parts(first)
        ]
        assert told == [
            ("title", None, None, b"/b.bin"),
            ("meta", None, "application/json", b'{"a":[1]}'),
            ("photo", "süß.png", "image/png", b"\x89PNG\r\n--"),
            ("more", "b.bin", "application/octet-stream", b"\x00\xff"),
            ("more", "süß.png", "image/png", b"\x89PNG\r\n--"),
        ]


async def test_a_part_has_the_type_that_its_encoding_names() -> None:
    async with bench() as on:
        state = MemoryState()
        await state.write_file("/a.bin", b"1")
        encoding = {"photo": {"contentType": "image/webp"}, "rgb": {"style": "form", "explode": False}}
        properties = {"photo": FILE, "rgb": {}}
        arguments = {"photo": "/a.bin", "rgb": [1, 2]}
        await send(on, arguments, properties, state, headers=MULTIPART, encoding=encoding)
        photo, rgb = parts(on.server.received[0])
        assert (photo.get_content_type(), rgb.get_payload()) == ("image/webp", "1,2")


async def test_a_form_without_fields_is_one_all_the_same() -> None:
    async with bench() as on:
        await send(on, {}, {}, headers=MULTIPART)
        assert on.server.received[0].headers["Content-Type"].startswith("multipart/form-data; boundary=")
        assert on.server.received[0].body.endswith(b"--\r\n")


@pytest.mark.parametrize("path", ["/nothing.png", "../x", "", "/a/../b"])
async def test_a_file_that_is_not_there_is_an_error_and_nothing_is_sent(path: str) -> None:
    async with bench() as on:
        result = await send(on, {"photo": path}, {"photo": FILE}, headers=MULTIPART)
        assert result.status == "error"
        assert result.error_code in ("file_not_found", "invalid_arguments")
        assert on.server.received == []


async def test_a_body_can_be_one_argument_a_file_or_a_text() -> None:
    async with bench() as on:
        state = MemoryState()
        await state.write_file("/a.webp", b"\x01", "image/webp")
        await send(
            on, {"body": "/a.webp"}, {"body": FILE}, state, body="body", headers={"Content-Type": "image/*"}
        )
        headers = {"Content-Type": "text/plain"}
        await send(on, {"body": "/a.webp"}, {"body": {}}, state, body="body", headers=headers)
        await send(on, {"items": [1, 2]}, {"items": {}}, body="items")
        await send(on, {}, {"items": {}}, body="items")
        await send(on, {"q": [1], "a": 2}, {"q": {}, "a": {}}, method="DELETE", body=True)
        await send(on, {"q": [1, 2]}, {"q": {}}, body=False)
        assert [got.body for got in on.server.received] == [
            b"\x01", b"/a.webp", b"[1,2]", b"", b'{"q":[1],"a":2}', b"",
        ]  # fmt: skip
        assert on.server.received[-1].target == "/?q=1&q=2"
        assert "Content-Type" not in on.server.received[-1].headers


async def test_parameters_are_sent_where_and_as_they_are_configured() -> None:
    async with bench() as on:
        parameters = {
            "id": {"in": "path", "style": "matrix"},
            "filter": {"in": "query", "style": "deepObject"},
            "fields": {"in": "query", "name": "fields[]", "explode": False},
            "trace": {"in": "header", "name": "X-Trace"},
            "session": {"in": "cookie"},
        }
        arguments = {
            "id": [3, "../4"],
            "filter": {"a": {"b": 1}},
            "fields": ["x", "y,z"],
            "trace": ["t", 1],
            "session": "s; t",
            "note": "n",
        }
        headers = {"Cookie": "lang=en"}
        result = await send(
            on,
            arguments,
            {key: {} for key in arguments},
            path="/v1/{id}",
            parameters=parameters,
            headers=headers,
        )
        assert result.status == "success", result.error
        [got] = on.server.received
        assert got.target == "/v1/;id=3,..%2F4?filter%5Ba%5D%5Bb%5D=1&fields%5B%5D=x,y%2Cz"
        assert got.headers["X-Trace"] == "t,1"
        assert got.headers["Cookie"] == "lang=en; session=s%3B%20t"
        assert got.body == b'{"note":"n"}'
        evil = await send(
            on, {"trace": "a\r\nHost: b"}, {"trace": {}}, parameters={"trace": parameters["trace"]}
        )
        assert evil.error == "The header 'X-Trace' would hold a line break or another control character."


async def test_basic_authentication_is_made_of_two_variables() -> None:
    async with bench() as on:
        basic = {"username": "${env.USER}", "password": "${env.PASSWORD}"}
        missing = await send(on, {}, {}, basicAuth=basic)
        assert missing.error_data == {"missing": ["USER", "PASSWORD"]}
        env = {"USER": EnvVar(value="ada"), "PASSWORD": EnvVar(value="p:ü")}
        await send(on, {}, {}, MemoryState(env=env), basicAuth=basic)
        assert on.server.received[0].headers["Authorization"] == "Basic YWRhOnA6w7w="


async def test_an_answer_is_trimmed_and_that_of_head_is_its_status() -> None:
    async with bench() as on:
        trimmed = await send(on, {}, {}, fields=["path"])
        assert trimmed.result == {"path": "/"}
        assert (await send(on, {}, {}, fields=["other"])).result == {}
        head = await send(on, {}, {}, method="HEAD")
        assert head.result == {
            "status": 200,
            "headers": {"content-type": "application/json", "content-length": "13"},
        }


@pytest.mark.parametrize(
    ("execution", "path"),
    [
        ({"parameters": {"a": {"in": "body"}}}, "execution.parameters.a.in"),
        ({"parameters": {"a": {"in": "query", "style": "matrix"}}}, "execution.parameters.a.style"),
        ({"parameters": {"a": {"in": "query", "stile": "form"}}}, "execution.parameters.a.stile"),
        ({"parameters": {"a": 1}}, "execution.parameters.a"),
        ({"parameters": {"a": {"in": "path"}}}, "execution"),
        ({"parameters": {"a": {"in": "header", "name": "Host"}}}, "execution"),
        ({"parameters": {"b": {"in": "query"}}}, "execution.url"),
        ({"body": "b"}, "execution.url"),
        ({"body": 1}, "execution.body"),
        ({"encoding": {"a": {"style": "simple"}}}, "execution.encoding.a.style"),
        ({"encoding": {"a": {"contentType": "x\r\ny"}}}, "execution.encoding.a.contentType"),
        ({"basicAuth": {"username": "a"}}, "execution.basicAuth.password"),
        ({"fields": [1]}, "execution.fields"),
        ({"publicOnly": 1}, "execution.publicOnly"),
    ],
)
def test_each_error_of_a_configuration_is_named(execution: dict[str, Any], path: str) -> None:
    with pytest.raises(tw.errors.InvalidConfiguration) as caught:
        tw.Tool.from_config(
            {
                "name": "send",
                "description": "Send.",
                "inputSchema": {"type": "object", "properties": {"a": {}}},
                "executionType": "gateway",
                "execution": {"url": "http://api.test/", **execution},
            }
        )
    assert path in [each["path"] for each in caught.value.details]


async def test_public_addresses_alone_are_reached_where_a_configuration_says_so() -> None:
    async with bench({"inside.test": [["10.0.0.1"]]}) as on:
        config = {
            "name": "peek",
            "description": "Peek.",
            "inputSchema": {},
            "executionType": "gateway",
            "execution": {"url": f"http://inside.test:{on.server.port}/", "publicOnly": True},
        }
        tools = Toolset([tw.Tool.from_config(config)], executors={"gateway": on.executor})
        assert (await tools.call("peek", {})).error_code == "address_refused"
