"""Large bodies: rejected during the upload, validated in a thread, with short error messages."""

import asyncio
import base64
import json
import threading
from typing import Annotated

import httpx2
import pytest
from fastapi import Depends, FastAPI
from pydantic import AfterValidator, JsonValue

from tests.api.rig import read, serving
from toolwright.adapters.system import SystemClock
from toolwright.core.errors import InvalidRequest
from toolwright.core.forms import MAX_TOOLS
from toolwright.core.json_text import ValueCount
from toolwright.core.json_value import JSON, dumps_unescaped
from toolwright.core.limits import CONFIG_VALUES, MAX_ERRORS, MAX_JSON_VALUES, MAX_MESSAGE
from toolwright.web.answers import ApiResponse, answer
from toolwright.web.dependencies import Serving
from toolwright.web.options import MAX_BODY_WITH_FILES, GatewayOptions
from toolwright.web.requests import RequestBody, body_of

pytestmark = pytest.mark.anyio

REAL: dict[str, JSON] = {  # of the size of real tools
    "description": "Does something with the thing of that kind, as the service describes it at some length. "
    * 2,
    "inputSchema": {
        "type": "object",
        "properties": {
            f"field_{number}": {
                "type": "string",
                "description": f"What field {number} is for, in some words.",
            }
            for number in range(10)
        },
        "required": ["field_1"],
    },
    "executionType": "gateway",
    "execution": {
        "url": "https://service.example/v1/things/{field_1}",
        "headers": {"Authorization": "Bearer ${env.KEY}"},
        "parameters": {f"field_{number}": {"in": "query", "explode": False} for number in range(2, 6)},
    },
}
MANY = f"[{','.join(['1'] * 200_000)}]"


async def test_a_body_of_too_many_values_is_refused_while_it_is_still_coming() -> None:
    async with serving() as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(b"POST /api/threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n")
        writer.write(b'{"agentId":"tester","tags":[' + b"1," * 200_000)  # and nothing more
        answer = await asyncio.wait_for(reader.readuntil(b"}"), 30)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert (
            b"The body is too large: it holds more than 100000 JSON values, the most that are taken."
            in answer
        )
        writer.close()
        assert (await api.get("/api/threads"))["threads"] == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/threads", f'{{"agentId":"tester","tags":{MANY}}}'),
        ("/api/threads", f'{{"agentId":"tester","arguments":{{"a":{MANY}}}}}'),
        ("/api/threads/THREAD/messages", f'{{"content":"x","attachments":{MANY}}}'),
        ("/api/runs/x/tool-results", f'{{"callId":"x","result":{MANY}}}'),
    ],
)
async def test_the_values_of_a_body_are_bounded_on_every_route(path: str, body: str) -> None:
    async with serving() as api:
        thread_id = await api.thread()
        response = await api.client.post(path.replace("THREAD", thread_id), content=body)
        assert "holds more than 100000 JSON values" in read(response, 400)["error"]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("as_text", [False, True])
async def test_the_values_of_an_agent_are_bounded_tenfold(method: str, as_text: bool) -> None:
    config = f'{{"tools":[{",".join(["1"] * CONFIG_VALUES * MAX_JSON_VALUES)}]}}'
    named = f'"configJson":{json.dumps(config)}' if as_text else f'"config":{config}'
    async with serving() as api:
        path = "/api/agents" if method == "POST" else "/api/agents/a"
        body = f'{{"name":"a",{named}}}'
        response = await api.client.request(method, path, content=body)
        assert "holds more than 1000000 JSON values" in read(response, 400)["error"]


async def test_as_many_tools_as_an_agent_may_have_fit_into_a_body() -> None:
    tools = [REAL | {"name": f"tool_{number}"} for number in range(1_900)]
    body = json.dumps({"name": "many", "config": {"tools": tools}})
    values = ValueCount(2**31)
    values.add(body.encode())
    assert values.values > MAX_JSON_VALUES, "more than any other body may hold"
    assert values.values / len(tools) * MAX_TOOLS < CONFIG_VALUES * MAX_JSON_VALUES
    assert len(body) / len(tools) * MAX_TOOLS < MAX_BODY_WITH_FILES
    async with serving() as api:
        saved = read(await api.client.post("/api/agents", content=body, timeout=100), 201)
        assert len(saved["agent"]["config"]["tools"]) == len(tools)


async def test_the_bound_is_a_setting() -> None:
    async with serving(max_json_values=10) as api:
        body = {"agentId": "tester", "arguments": {"a": [1, 2, 3, 4, 5, 6]}}
        read(await api.client.post("/api/threads", json=body), 201)
        body["arguments"] = {"a": [1, 2, 3, 4, 5, 6, 7]}
        assert (
            "more than 10 JSON values" in read(await api.client.post("/api/threads", json=body), 400)["error"]
        )


@pytest.mark.parametrize(
    "body",
    [
        {"agentId": "tester", "tags": [1] * 90_000},
        {"agentId": "tester", "tags": [1] * 900},
        {"agentId": "tester", **{f"field{n}": n for n in range(90_000)}},
        {"agentId": "tester", "env": {f"NAME_{n}": 1 for n in range(90_000)}},
    ],
)
async def test_no_more_than_fifty_errors_are_reported(body: dict[str, object]) -> None:
    async with serving() as api:
        shown = read(await api.client.post("/api/threads", json=body), 400)
        assert 1 <= len(shown["details"]) <= MAX_ERRORS
        assert len(shown["error"]) < 5_000


async def test_a_configuration_of_many_errors_names_the_first_fifty() -> None:
    faulty = {"name": "a", "config": {"tools": [{"name": 1}] * 9_000}}
    wide = {"name": "a", "config": {f"field{n}": n for n in range(90_000)}}
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(6_000)}}
    tool = {"name": "t", "description": "d", "executionType": "internal", "inputSchema": schema}
    async with serving() as api:
        for config in (faulty, wide):
            shown = read(await api.client.post("/api/agents", json=config), 400)
            assert 1 <= len(shown["details"]) <= MAX_ERRORS + 1
        shown = read(
            await api.client.post("/api/agents", json={"name": "a", "config": {"tools": [tool]}}), 400
        )
        assert "config.tools.0.inputSchema must have at most 10000 values" in shown["error"]


def _thread(_: object) -> str:
    return threading.current_thread().name


class Judged(RequestBody):
    """Records the thread in which it was validated."""

    by: Annotated[str, AfterValidator(_thread)]
    rest: JsonValue = None


async def test_small_bodies_are_validated_at_once_and_large_ones_in_a_thread() -> None:
    app = FastAPI()
    app.state.serving = Serving(options=GatewayOptions(clock=SystemClock()), access=None)  # type: ignore[arg-type]  # neither is needed here

    async def told(judged: Annotated[Judged, Depends(body_of(Judged))]) -> str:
        return judged.by

    app.post("/")(told)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://app") as client:
        here = threading.current_thread().name
        assert (await client.post("/", json={"by": "", "rest": [1] * 1_000})).json() == here
        assert (await client.post("/", json={"by": "", "rest": [1] * 50_000})).json() != here
        assert (await client.post("/", json={"by": "", "rest": "x" * 1_000_000})).json() != here


AT_WORK: set[str] = set()
AT_ONCE: list[int] = []


def _counted(value: object) -> object:
    """Record how many bodies are validated in threads at the same time."""
    AT_WORK.add(threading.current_thread().name)
    AT_ONCE.append(len(AT_WORK))
    for _ in range(20):
        threading.Event().wait(0)  # lets other threads run
    AT_WORK.discard(threading.current_thread().name)
    return value


class Counted(RequestBody):
    """Records how many bodies are validated at the same time."""

    rest: Annotated[JsonValue, AfterValidator(_counted)]


async def test_large_bodies_are_validated_one_at_a_time() -> None:
    app = FastAPI()
    app.state.serving = Serving(options=GatewayOptions(clock=SystemClock()), access=None)  # type: ignore[arg-type]  # neither is needed here

    async def told(_: Annotated[Counted, Depends(body_of(Counted))]) -> str:
        return "ok"

    app.post("/")(told)
    AT_ONCE.clear()
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://app") as client:
        answers = await asyncio.gather(
            *[client.post("/", json={"rest": "x" * 1_000_000}, timeout=60) for _ in range(8)]
        )
    assert [answer.status_code for answer in answers] == [200] * 8
    assert AT_ONCE == [1] * 8


EMOJI = "\U0001f600"


@pytest.mark.parametrize("text", [EMOJI.encode(), b"\\ud83d\\ude00", b"\\n", "ü".encode()])
@pytest.mark.parametrize(
    ("line", "slow"),
    [
        ("POST /api/threads/{}/messages", b"4194304 bytes of text in addition to its files"),
        ("POST /api/agents", b"6291456 bytes of escapes and characters beyond ASCII"),
        ("PATCH /api/agents/x", b"6291456 bytes of escapes and characters beyond ASCII"),
    ],
)
async def test_a_body_of_text_that_is_slow_to_parse_is_refused_before_it_is_complete(
    line: str, slow: bytes, text: bytes
) -> None:
    async with serving() as api:
        thread_id = await api.thread()
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        head = f"{line.format(thread_id)} HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(head.encode() + b"Content-Length: 36000000\r\n\r\n")
        writer.write(b'{"content":"' + text * (30_000_000 // len(text)))  # and nothing more
        answer = await asyncio.wait_for(reader.readuntil(b"}"), 60)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"more than " + slow in answer
        writer.close()


async def test_the_text_of_a_message_has_a_length_and_its_files_do_not_count() -> None:
    async with serving() as api:
        thread_id = await api.thread()
        path = f"/api/threads/{thread_id}/messages"
        longest = EMOJI * (MAX_MESSAGE // 4)
        for content in (longest + "x", "x" * (MAX_MESSAGE + 1)):
            shown = read(await api.client.post(path, json={"content": content}), 400)
            assert shown["details"][0]["path"] == "content"
            with pytest.raises(InvalidRequest, match="at most 4194304 bytes"):
                await api.rig.rt.threads.send(thread_id, content)
        file = {
            "name": "a.bin",
            "mimeType": "x/x",
            "data": base64.b64encode(bytes(range(256)) * 80_000).decode(),
        }
        body = json.dumps({"content": longest, "attachments": [file]}, ensure_ascii=False)
        posted = read(await api.client.post(path, content=body.replace("/", "\\/").encode()), 202)
        assert posted["message"]["content"] == longest
        await api.until(posted["runId"], "run.waiting")


async def test_names_without_a_similar_one_are_refused_without_a_guess() -> None:
    async with serving() as api:
        body = {"agentId": "c" * 1_000}
        assert "Did you mean" not in read(await api.client.post("/api/threads", json=body), 404)["error"]
        many = {"agentId": "tester", "tenvs": {f"name{n}": 1 for n in range(1_001)}}
        assert read(await api.client.post("/api/threads", json=many), 400)["error"] == (
            "tenvs must have at most 1000 names."
        )
        for url in ("{a}" * 3_000, "${env.A}" * 2_000):
            tool = {
                "name": "t",
                "description": "d",
                "executionType": "gateway",
                "inputSchema": {"type": "object"},
            }
            tool["execution"] = {"url": f"https://example.com/{url}"}
            shown = read(
                await api.client.post("/api/agents", json={"name": "a", "config": {"tools": [tool]}}), 400
            )
            assert "config.tools.0.execution.url must have at most 8192 characters" in shown["error"]


@pytest.mark.parametrize(
    "model", ["openai:", "openai: ", "anthropic:gpt 4\n", " openai:gpt-6.1-terra", "openai:gpt-6.1-terra "]
)
async def test_a_model_without_a_name_is_refused(model: str) -> None:
    async with serving() as api:
        config = {"agent": {"system": "s"}, "model": model}
        shown = read(await api.client.post("/api/agents", json={"name": "a", "config": config}), 400)
        assert "config.model must be a model as provider:model" in shown["error"]


async def test_a_large_answer_is_written_in_a_thread_and_a_small_one_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrote: list[str] = []

    def dump(value: JSON) -> str:
        wrote.append(threading.current_thread().name)
        return dumps_unescaped(value)

    monkeypatch.setattr("toolwright.web.answers.dumps_unescaped", dump)
    app = FastAPI()

    async def told(text: str, times: int) -> ApiResponse:
        return answer({"text": text * times})

    app.get("/")(told)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://app") as client:
        for times in (1, 500_000):
            response = await client.get("/", params={"text": "é", "times": times})
            assert response.json() == {"text": "é" * times}
            assert response.headers["content-length"] == str(len(response.content))
    here = threading.current_thread().name
    assert [name == here for name in wrote] == [True, False]


async def test_a_long_text_comes_back_whole_over_a_real_connection() -> None:
    async with serving() as api:
        text = 'é\\"' * 500_000
        thread_id = await api.thread()
        posted = read(
            await api.client.post(f"/api/threads/{thread_id}/messages", json={"content": text}), 202
        )
        assert posted["message"]["content"] == text
        await api.until(posted["runId"], "run.waiting")
        shown = await api.get(f"/api/threads/{thread_id}/messages")
        assert shown["messages"][0]["content"] == text
