"""Calls of servers with unusual, late or missing answers: one result each, and the run continues."""

import asyncio
from collections.abc import AsyncIterable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from tests.mcp.client_rig import Ran, calling, hosting, meeting
from tests.mcp.peers.bare import Bare, JSONObject, Line, encoded, result
from tests.mcp.peers.results import FLOOD, PNG, RESULTS
from tests.mcp.peers.serving import Served, command, served
from toolwright.adapters.mcp.session import REQUESTS

pytestmark = pytest.mark.anyio

REVISIONS = ("2025-11-25", "2026-07-28")
SOON = {"timeout": 400}
"""Milliseconds for a call that never ends."""
TIMED_OUT = '{"error":"Tool timed out after 400ms","error_code":"timeout"}'
LATER = {"timeout": 5_000}
NAMED = {
    "text": "It is sunny.",
    "structured": '{"sum":3}',
    "structured_with_schema": '{"sum":3}',
    "only_structured": '{"sum":3}',
    "error": "The city is unknown.",
    "embedded_text": "file:///notes.txt:\nTea at four.",
    "link": "https://shop.example/report",
    "structured_against_schema": '{"sum":"three","text":"The result does not match the outputSchema of the tool: sum: ',
    "schema_without_structured": "3\nThe result does not match the outputSchema of the tool: ",
    "unknown_kind": "[Content of the kind 'hologram' is left out: it cannot be read.]\nbeside",
    "structured_alone": '{"sum":3}',
    "content_has_null": "[Content of an unknown kind is left out: it cannot be read.]",
    "text_is_number": "[Content of the kind 'text' is left out: it cannot be read.]",
    "image_bad_base64": "[The file image.png is left out: it is not base64.]",
    "embedded_bad_base64": "[The file a.pdf is left out: it is not base64.]",
    "error_with_picture": '{"error":"No seat.","error_code":"mcp_tool_failed","structuredContent":{"free":0}}',
}
"""Part of the results of some of them, as the model reads them."""
FAILING = {
    "error",
    "structured_error",
    "empty_error",
    "error_with_picture",
    "content_is_text",
    "no_result",
}


def status_of(ran: Ran, name: str) -> str | None:
    """Return whether that tool's message is an error."""
    return next(each.status for each in ran.messages if each.tool_name == name)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_results_of_all_kinds_are_one_result_each_and_the_run_goes_on(revision: str) -> None:
    names = list(RESULTS)
    async with meeting("results", calling(*names, "own"), revision=revision) as host:
        ran = await host.run()
    assert ran.run.status == "completed"
    assert list(ran.results) == [*names, "own"]
    assert {name: ran.results[name] for name, words in NAMED.items() if words not in ran.results[name]} == {}
    assert {name for name in names if status_of(ran, name) == "error"} == FAILING


async def test_images_sound_and_files_become_attachments_and_bad_ones_are_said() -> None:
    names = (
        "image",
        "audio",
        "embedded_blob",
        "error_with_picture",
        "image_bad_base64",
        "embedded_bad_base64",
    )
    async with meeting("results", calling(*names)) as host:
        ran = await host.run()
    kinds = {str(each.tool_name): [file.mime_type for file in each.attachments] for each in ran.messages}
    assert (kinds["image"], kinds["audio"], kinds["embedded_blob"]) == (
        ["image/png"],
        ["audio/wav"],
        ["application/pdf"],
    )
    assert kinds["error_with_picture"] == ["image/png"]
    assert (kinds["image_bad_base64"], kinds["embedded_bad_base64"]) == ([], [])
    assert PNG not in ran.results["image"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["http", "json", "stdio"])
async def test_huge_results_end_the_call_and_not_the_run(way: str) -> None:
    async with meeting(
        "huge_results", calling("text", "structured", "images", "many_parts", "own"), way, LATER
    ) as host:
        ran = await host.run()
    assert ran.run.status == "completed"
    assert ran.results["own"] == "own result"
    assert max(len(each) for each in ran.results.values()) < 1_000_000


@pytest.mark.parametrize(
    ("name", "way", "tool"),
    [
        ("wrong_json_result", "http", "plain"),
        ("no_utf8", "http", "plain"),
        ("deep_result", "http", "plain"),
        ("refuses_calls", "http", "plain"),
        ("refuses_calls", "stdio", "plain"),
        ("dies_in_call", "http", "plain"),
        ("dies_in_call", "stdio", "plain"),
        ("dies_in_answer", "http", "plain"),
        ("dies_in_answer", "stdio", "plain"),
        ("closes_stdout", "stdio", "plain"),
        ("long_line", "stdio", "plain"),
        ("protocol_errors", "http", "invalid_params"),
        ("protocol_errors", "http", "internal"),
        ("protocol_errors", "http", "unknown_code"),
        ("protocol_errors", "http", "raises"),
        ("no_messages", "http", "plain"),
    ],
)
async def test_a_call_that_the_server_spoils_is_an_error_result_at_once(
    name: str, way: str, tool: str
) -> None:
    async with meeting(name, calling(tool), way, {"timeout": 60_000}) as host:
        async with asyncio.timeout(40):
            ran = await host.run()
    assert (ran.run.status, status_of(ran, tool)) == ("completed", "error")
    assert "timed out" not in ran.results[tool]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("drips", "http"),
        ("drips", "stdio"),
        ("endless_answer", "http"),
        ("endless_answer", "stdio"),
        ("wrong_id", "http"),
        ("wrong_id", "stdio"),
        ("text_id", "stdio"),
        ("wrong_json_result", "stdio"),
        ("deep_result", "stdio"),
        ("closes_stdin", "stdio"),
    ],
)
async def test_a_call_that_is_never_answered_ends_with_its_timeout_at_the_latest(name: str, way: str) -> None:
    async with meeting(name, calling("plain", "own"), way, SOON) as host:
        ran = await host.run()
    assert ran.run.status == "completed"
    assert status_of(ran, "plain") == "error" or name in ("text_id", "closes_stdin")
    assert ran.results["own"] == "own result"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_call_that_hangs_times_out_and_the_server_is_notified(revision: str) -> None:
    async with meeting("hangs_at_call", calling("wait", "plain"), "http", SOON, revision) as host:
        ran = await host.run()
        assert ran.results == {"wait": TIMED_OUT, "plain": "{}"}
        await asyncio.to_thread(host.hearing.wait_for, "(cancelled)")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_run_that_is_cancelled_cancels_its_call(revision: str) -> None:
    async with meeting("hangs_at_call", calling("wait"), "http", None, revision) as host:
        thread = await host.rt.threads.create("host")
        run = await host.rt.threads.send(thread.id, "Go")
        await asyncio.to_thread(host.hearing.wait_for, "tools/call")
        await host.rt.runs.cancel(run.id)
        assert (await host.end_of(run.id)).run.status == "cancelled"
        await asyncio.to_thread(host.hearing.wait_for, "(cancelled)")


@pytest.mark.parametrize("way", ["http", "stdio"])
@pytest.mark.parametrize("name", ["progress_flood", "log_flood"])
async def test_a_flood_of_notifications_does_not_keep_a_call_from_its_result(name: str, way: str) -> None:
    async with meeting(name, calling("flood", "own"), way) as host:
        ran, events = await host.watched()
    assert ran.results == {"flood": "done", "own": "own result"}
    assert events.count("tool.progress") < FLOOD / 10


async def test_a_flood_of_ends_is_no_more_than_a_flood_of_steps() -> None:
    async with meeting("progress_flood", calling("ends", "own")) as host:
        ran, events = await host.watched()
    assert ran.results == {"ends": "done", "own": "own result"}
    assert events.count("tool.progress") < FLOOD / 10


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_list_that_changes_without_an_end_is_read_with_growing_pauses(revision: str) -> None:
    many: dict[str, object] = {"calls": [{"name": "plain", "args": {}}] * 100}
    async with meeting("restless", [many, many, {"text": "done"}], revision=revision) as host:
        assert (await host.run()).results == {"plain": "fine"}
        assert 1 < len(await asyncio.to_thread(host.hearing.wait_for, "tools/list", 2)) < 10


@pytest.mark.parametrize(
    "name", ["bare_flood", "unknown_methods", "answers_twice", "junk_on_stdout", "junk_on_stderr"]
)
async def test_noise_beside_an_answer_changes_nothing(name: str) -> None:
    async with meeting(name, calling("plain", "own")) as host:
        assert (await host.run()).results == {"plain": "fine", "own": "own result"}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_progress_of_a_server_is_progress_of_the_call(revision: str) -> None:
    names = ("with_total", "without_total", "with_message", "backwards", "beyond", "silent")
    async with meeting("progress", calling(*names), revision=revision) as host:
        ran, events = await host.watched()
    assert set(ran.results.values()) == {"done"}
    assert events.count("tool.progress")


async def test_a_server_that_dies_and_comes_back_is_called_again() -> None:
    with served("plain") as peer:
        async with hosting({"url": peer.url}, calling("echo", args={"message": "hi"})) as host:
            assert (await host.run()).results["echo"] == '{"message": "hi"}'
            peer.stop()
            ran = await host.run()
            assert status_of(ran, "echo") == "error"
            peer.start()
            assert (await host.run()).results["echo"] == '{"message": "hi"}'


@pytest.mark.parametrize("name", ["dies_in_call", "dies_in_answer"])
async def test_a_process_that_dies_is_started_again_for_the_next_run(name: str) -> None:
    async with meeting(name, calling("plain"), "stdio") as host:
        for _ in range(2):
            ran = await host.run()
            assert "closed the connection" in ran.results["plain"]


async def test_variables_fill_headers_and_the_environment_of_a_process() -> None:
    env: dict[str, Any] = {"TOKEN": {"value": "a-secret-value", "type": "secret"}}
    with served("headers") as peer:
        server = {"url": peer.url, "headers": {"x-token": "Bearer ${env.TOKEN}"}}
        async with hosting(server, calling("headers"), env) as host:
            shown = (await host.run()).results["headers"]
        assert peer.hearing.of("tools/call")[0].headers["x-token"] == "Bearer a-secret-value"
    assert '"x-token":"Bearer [redacted:TOKEN]"' in shown
    program, *arguments = command("headers")
    process = {"command": program, "args": arguments, "env": {"PEER_TOKEN": "${env.TOKEN}"}}
    async with hosting(process, calling("environment"), env) as host:
        shown = (await host.run()).results["environment"]
    assert '"PEER_TOKEN":"[redacted:TOKEN]"' in shown
    assert "TOOLWRIGHT_" not in shown


async def test_arguments_are_validated_before_they_are_sent() -> None:
    async with meeting("plain", calling("add", args={"a": "1"})) as host:
        ran = await host.run()
    assert status_of(ran, "add") == "error"
    assert "a" in ran.results["add"]
    assert "b" in ran.results["add"]
    assert host.hearing.of("tools/call") == []


def list_changed(_: JSONObject) -> JSONObject:
    return {"method": "notifications/tools/list_changed"}


def progress(call: JSONObject) -> JSONObject:
    token = call["params"]["_meta"]["progressToken"]
    return {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}


def ping(_: JSONObject) -> JSONObject:
    return {"id": "ping", "method": "ping"}


def sampling(_: JSONObject) -> JSONObject:
    message = {"role": "user", "content": {"type": "text", "text": "Hi"}}
    params = {"messages": [message], "maxTokens": 5}
    return {"id": "sample", "method": "sampling/createMessage", "params": params}


def flooding(each: Callable[[JSONObject], JSONObject], most: int | None) -> Bare:
    """Return a server that answers a call with that message, repeated without end or `most` times."""

    async def flood(message: JSONObject, line: Line) -> None:
        sent = each(message)

        async def many() -> AsyncIterable[bytes]:
            for n in count():
                if n == most:
                    yield result(message, {"content": []})
                    return
                numbered = {"id": f"{sent['id']}{n}"} if "id" in sent else {}
                yield encoded({"jsonrpc": "2.0", **sent, **numbered})
                if n % 1_000 == 0:
                    await asyncio.sleep(0)

        with suppress(OSError):
            await line.stream(many())

    return Bare(answers={"tools/call": flood})


@pytest.mark.parametrize("each", [list_changed, progress, ping])
async def test_a_server_that_does_not_stop_sending_is_disconnected_and_the_reason_is_shown(
    each: Callable[[JSONObject], JSONObject], caplog: pytest.LogCaptureFixture
) -> None:
    peer = Served(flooding(each, None))
    peer.start()
    try:
        server = {
            "url": peer.url,
            "revision": "2025-11-25",
            "timeout": 100_000,
        }  # a busy machine reads slowly
        async with hosting(server, calling("plain")) as host:
            assert "the effect of the call is unknown" in (await host.run()).results["plain"]
    finally:
        peer.stop()
    why = "it sends more than 500 messages or 30 requests a second"
    assert [line for line in caplog.messages if why in line]


@pytest.mark.parametrize(
    ("allowed", "times", "reason"),
    [
        (True, 200, "asked more than 20 questions in one call"),
        (True, 3_000, ""),  # whichever limit is reached first
        (False, 3_000, "the effect of the call is unknown"),
    ],
)
async def test_a_call_that_samples_without_end_is_ended(allowed: bool, times: int, reason: str) -> None:
    peer = Served(flooding(sampling, times))
    peer.start()
    try:
        server = {"url": peer.url, "revision": "2025-11-25", "sampling": allowed}
        turns = [*calling("plain")[:1], *[{"text": "Sampled."}] * 40]
        async with hosting(server, turns) as host:
            ran = await host.run()
            assert '"error_code":"mcp_' in ran.results["plain"]
            assert reason in ran.results["plain"]
            sampled = [call for call in await host.rt.calls.list(run_id=ran.run.id) if call.name == "sample"]
            assert len(sampled) <= 20
    finally:
        peer.stop()
    answers = [heard for heard in peer.hearing.heard if not heard.method]
    assert len(answers) <= REQUESTS
