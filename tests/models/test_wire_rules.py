"""What a wire refuses by rule is never sent: blank texts, ids of other providers, too many or too large pictures."""

import json
import re
import struct
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.models.asking import MakeModel, answer_of, ask, assistant, request, tool, user
from tests.models.wire_server import WireCall, WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.adapters.models.providers.shown_files import MAX_PICTURE, MAX_PICTURES
from toolwright.core.files import longer_side
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.message import Message

pytestmark = pytest.mark.anyio

SAFE = re.compile(r"[a-zA-Z0-9_-]{1,40}")


async def sent(model: PydanticAIModel, server: WireServer, asked: ModelRequest) -> JSONObject:
    """Return the body of that request."""
    server.answer(text=("Hi",))
    await ask(model, asked)
    return server.requests[-1].body


def values_of(body: JSON, *names: str) -> list[str]:
    """Return all texts under one of the names, anywhere in a conversation."""
    if isinstance(body, list):
        return [each for one in body for each in values_of(one, *names)]
    if not isinstance(body, dict):
        return []
    found = [each for name, each in body.items() if name in names and isinstance(each, str)]
    return found + [each for one in body.values() for each in values_of(one, *names)]


def conversation(body: JSONObject) -> Any:  # the provider's JSON
    return body["input"] if "input" in body else body["messages"]


def said(text: str, *calls: ModelCall) -> Message:
    return assistant(ModelResponse(text=text, calls=calls))


CALL = ModelCall(id="c1", name="search", arguments="{}")


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_no_blank_text_is_sent(model: PydanticAIModel, server: WireServer, blank: str) -> None:
    messages = [user("Go"), said(blank), user(blank), said(blank, CALL), tool("c1", blank), user("More")]
    body = await sent(model, server, request(*messages))
    texts = values_of(conversation(body), "text", "output")
    texts += [each for each in values_of(conversation(body), "content") if each]
    assert all(text.strip() for text in texts), texts
    assert {text for text in texts if text.startswith("(empty")} == {"(empty message)", "(empty result)"}


async def test_an_answer_of_reasoning_alone_is_not_replayed(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.answer(thinking=("Hm",))
    response = await answer_of(model)
    answer = assistant(response, native=response.native)
    body = await sent(model, server, request(user("Go"), answer, user("Your answer?")))
    assert "Hm" not in json.dumps(conversation(body))
    assert "assistant" not in values_of(conversation(body), "role")


async def test_blank_text_of_a_provider_before_a_call_is_not_replayed(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.answer(thinking=("Hm",), text=("\n",), calls=[WireCall(name="search", id="c1")])
    response = await answer_of(model)
    answer = assistant(response, native=response.native)
    body = await sent(model, server, request(user("Go"), answer, tool("c1", "Found")))
    assert all(text.strip() for text in values_of(conversation(body), "text"))
    assert "c1" in values_of(conversation(body), "id", "call_id")


@pytest.mark.parametrize("id_", ["functions.echo:0", "x" * 65, "call_0", "", "c|d"])
async def test_call_ids_are_sent_such_that_every_provider_accepts_them_and_each_once(
    model: PydanticAIModel, server: WireServer, id_: str
) -> None:
    messages: list[Message] = []
    for number in range(2):
        call = ModelCall(id=id_, name="search", arguments="{}")
        answer = said("", call)
        answer = replace(answer, calls=(replace(answer.calls[0], id=f"call-{number}"),))
        messages += [user("Go"), answer, replace(tool(id_, "Found"), call_id=f"call-{number}")]
    first, second = [await sent(model, server, request(*messages[:count])) for count in (3, 6)]
    ids = Counter(values_of(conversation(second), "id", "call_id", "tool_call_id", "tool_use_id"))
    assert set(ids.values()) == {2}
    assert all(SAFE.fullmatch(each) for each in ids)
    assert conversation(second)[: len(conversation(first)) - 1] == conversation(first)[:-1]


async def test_a_call_of_one_provider_is_answered_by_another(
    make_model: MakeModel, server: WireServer
) -> None:
    server.answer(calls=[WireCall(name="search", id="functions.search:0")])
    response = await answer_of(make_model("openai-chat:gpt-4o"))
    answer = assistant(response, native=response.native)
    history = request(user("Go"), answer, tool("functions.search:0", "Found"))
    for name in ("anthropic:claude-sonnet-5", "openai:gpt-4o"):
        body = await sent(make_model(name), server, history)
        ids = set(values_of(conversation(body), "id", "call_id", "tool_use_id"))
        assert all(map(SAFE.fullmatch, ids))


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────


def png(width: int, height: int, number: int = 0) -> bytes:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return head + struct.pack(">I", number) + b"\x08\x06\0\0\0"


def shots(*pictures: bytes) -> ModelRequest:
    """Return a conversation with these pictures, one a message."""
    contents = {f"d{number}": picture for number, picture in enumerate(pictures)}

    async def load(ref: AttachmentRef) -> bytes | None:
        return contents[ref.digest or ""]

    messages: list[Message] = []
    for number, picture in enumerate(pictures):
        file = AttachmentRef(
            id=f"f{number}",
            path=f"/attachments/{number}.png",
            name=f"{number}.png",
            mime_type="image/png",
            size=len(picture),
            digest=f"d{number}",
        )
        messages.append(replace(user("See", f"m{number}"), attachments=(file,)))
    return replace(request(*messages), load=load)


def shown(body: JSONObject) -> int:
    return len(re.findall(r'"type": "(?:image|image_url|input_image)"', json.dumps(body)))


@pytest.mark.parametrize(
    ("pictures", "count"),
    [
        ([png(100, 100, n) for n in range(30)], 30),
        ([png(2_500, 100, n) for n in range(20)], 20),
        ([png(2_500, 100, n) for n in range(21)], 11),
        ([png(2_500, 100), *[png(100, 100, n) for n in range(30)]], 11),
        ([png(1, 1, n) for n in range(MAX_PICTURES + 1)], MAX_PICTURES // 2 + 1),
        ([png(100, 8_001), png(0, 10), png(8_000, 100)], 1),
        ([png(1, 1).ljust(MAX_PICTURE), png(1, 1).ljust(MAX_PICTURE + 1)], 1),
        ([png(1, 1, n).ljust(MAX_PICTURE) for n in range(5)], 2),
        ([b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"", b"\xff\xd8\xff\xe0 jpeg"], 0),
    ],
)
async def test_pictures_over_the_limits_of_providers_are_named_instead(
    model: PydanticAIModel, server: WireServer, pictures: list[bytes], count: int
) -> None:
    body = await sent(model, server, shots(*pictures))
    assert shown(body) == count
    assert json.dumps(body).count("[File /attachments/") == len(pictures)
    if count and len(pictures[-1]) <= MAX_PICTURE:
        assert json.dumps(body).rindex("[File ") < json.dumps(body).rindex("image")  # the newest is shown


async def test_the_pictures_of_earlier_messages_stay_the_same_for_many_requests(
    model: PydanticAIModel, server: WireServer
) -> None:
    pictures = [png(2_500, 100, n) for n in range(31)]
    counts = [shown(await sent(model, server, shots(*pictures[:n]))) for n in range(20, 32)]
    assert counts == [20, *range(11, 21), 11]


@pytest.mark.parametrize(
    ("content", "mime_type"),
    [
        (png(640, 480), "image/png"),
        (b"GIF89a" + struct.pack("<HH", 640, 480), "image/gif"),
        (
            b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x02\xff\xc2\0\x0b\x08" + struct.pack(">HH", 480, 640),
            "image/jpeg",
        ),
        (b"RIFF....WEBPVP8X........" + b"\x7f\x02\0\xdf\x01\0", "image/webp"),
        (b"RIFF....WEBPVP8L....\x2f" + struct.pack("<I", 639 | 479 << 14), "image/webp"),
        (b"RIFF....WEBPVP8 ....______" + struct.pack("<HH", 640, 480), "image/webp"),
    ],
)
def test_the_size_of_a_picture_is_read_from_its_header(content: bytes, mime_type: str) -> None:
    assert longer_side(content, mime_type) == 640
    assert longer_side(content[:-3], mime_type) in (0, 640)
    assert longer_side(content[4:], mime_type) == 0
