"""Documents, sounds and videos on the providers' wires: what a model reads is sent, all else is named in one line."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel

import toolwright as tw
from tests.models.asking import NOW, MakeModel, ask, assistant, request, tool, user
from tests.models.conftest import WIRES
from tests.models.wire_server import WireCall, WireServer
from toolwright import testing
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.adapters.models.providers.shown_files import MAX_BYTES, readable_types
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.compaction import (
    MAX_FILE_TOKENS,
    Compaction,
    bare_reference,
    message_tokens,
    reference,
    shown,
)

pytestmark = pytest.mark.anyio

CONTENTS = {
    "paper.pdf": b"%PDF-1.7 a paper",
    "fake.pdf": b"MZ no paper",
    "locked.pdf": b"%PDF-1.7 /Encrypt a paper",
    "page.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1 a page",
    "voice.wav": b"RIFF a voice",
    "voice.mp3": b"ID3 a voice",
    "film.mp4": b"a film",
    "notes.md": "# Notes: äöü".encode(),
    "latin.txt": b"caf\xe9",
    "all.zip": b"PK",
}
TYPES = {
    "pdf": "application/pdf",
    "png": "image/png",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "md": "text/markdown",
    "txt": "text/plain",
    "zip": "application/zip",
}


class OfGoogle(TestModel):
    """A model of Google, whose library is not needed here."""

    @property
    def system(self) -> str:
        return "google"


def ref(name: str, size: int | None = None) -> AttachmentRef:
    return AttachmentRef(
        id=f"fil_{name}",
        path=f"/attachments/{name}",
        name=name,
        mime_type=TYPES[name.rpartition(".")[2]],
        size=len(CONTENTS[name]) if size is None else size,
        digest=name,
    )


async def load(wanted: AttachmentRef) -> bytes | None:
    return CONTENTS[wanted.name]


def asked(*files: AttachmentRef) -> ModelRequest:
    return replace(request(replace(user("See"), attachments=files)), load=load)


def returned(*files: AttachmentRef) -> ModelRequest:
    call = ModelCall(id="c1", name="search", arguments="{}")
    result = replace(tool("c1", "Found."), attachments=files)
    return replace(request(user("Go"), assistant(ModelResponse(calls=(call,))), result), load=load)


def failed(*files: AttachmentRef) -> ModelRequest:
    conversation = returned(*files)
    *before, result = conversation.messages
    return replace(conversation, messages=(*before, replace(result, status="error")))


def returned_at_once(*files: AttachmentRef) -> ModelRequest:
    calls = tuple([ModelCall(id=f"c{number}", name="search", arguments="{}") for number in (1, 2)])
    results = [replace(tool(call.id, "Found."), attachments=files) for call in calls]
    results[1] = replace(results[1], attachments=(ref("page.png"),))
    return replace(request(user("Go"), assistant(ModelResponse(calls=calls)), *results), load=load)


async def sent(model: PydanticAIModel, server: WireServer, conversation: ModelRequest) -> str:
    server.answer(text=("Read.",))
    await ask(model, conversation)
    return json.dumps(server.requests[-1].body, ensure_ascii=False)


def encoded(name: str) -> str:
    return base64.b64encode(CONTENTS[name]).decode()


@pytest.mark.parametrize("place", [asked, returned])
async def test_a_pdf_is_sent_as_a_document(model: PydanticAIModel, server: WireServer, place: Any) -> None:
    body = await sent(model, server, place(ref("paper.pdf")))
    assert body.count(encoded("paper.pdf")) == 1 and "Not shown" not in body
    assert "[File /attachments/paper.pdf (application/pdf, 16 bytes)]" in body


@pytest.mark.parametrize(
    "file", [ref("fake.pdf"), ref("paper.pdf", size=11 * 1024 * 1024), ref("all.zip"), ref("film.mp4")]
)
async def test_what_the_model_cannot_read_is_named_in_one_line(
    model: PydanticAIModel, server: WireServer, file: AttachmentRef
) -> None:
    body = await sent(model, server, asked(file))
    assert encoded(file.name) not in body
    assert body.count(f"[Not shown here, only named: {file.path}]") == 1


async def test_a_persons_text_document_is_sent_as_text_and_a_tools_is_named(
    model: PydanticAIModel, server: WireServer
) -> None:
    body = await sent(model, server, asked(ref("notes.md"), ref("latin.txt")))
    assert "[Content of /attachments/notes.md]\\n# Notes: äöü" in body
    assert "[Not shown here, only named: /attachments/latin.txt]" in body
    body = await sent(model, server, returned(ref("notes.md")))
    assert "# Notes" not in body and "[Not shown here, only named: /attachments/notes.md]" in body
    body = await sent(model, server, asked(ref("notes.md", size=257 * 1024)))
    assert "# Notes" not in body


async def test_a_sound_is_sent_to_a_model_that_hears(make_model: MakeModel, server: WireServer) -> None:
    hearing, deaf = make_model("openai-chat:gpt-4o-audio-preview"), make_model("openai-chat:gpt-4o")
    body = await sent(hearing, server, asked(ref("voice.mp3")))
    assert encoded("voice.mp3") in body and "input_audio" in body
    body = await sent(deaf, server, asked(ref("voice.mp3")))
    assert encoded("voice.mp3") not in body and "only named: /attachments/voice.mp3]" in body


async def test_a_refused_document_is_named_instead(model: PydanticAIModel, server: WireServer) -> None:
    server.fail(400, "Could not process document")
    body = await sent(model, server, asked(ref("paper.pdf")))
    assert encoded("paper.pdf") not in body and "only named: /attachments/paper.pdf]" in body


@pytest.mark.parametrize("name", [*WIRES, "openai-chat:gpt-4o-audio-preview"])
@pytest.mark.parametrize("place", [asked, returned, failed])
async def test_no_provider_refuses_a_file_that_it_is_sent(
    make_model: MakeModel, server: WireServer, name: str, place: Any
) -> None:
    hears = "audio" in name
    body = await sent(make_model(name), server, place(*map(ref, CONTENTS.keys() - {"locked.pdf"})))
    assert len(server.requests) == 1
    assert [
        each for each in ("paper.pdf", "page.png", "voice.mp3", "voice.wav") if encoded(each) in body
    ] == (["voice.mp3", "voice.wav"] if hears else ["paper.pdf", "page.png"])


async def test_the_largest_files_of_a_request_are_within_the_providers_limit(
    model: PydanticAIModel, server: WireServer
) -> None:
    large = {f"{size}.pdf": b"%PDF-".ljust(size * 1024 * 1024) for size in (10, 5)}
    files = [replace(ref("paper.pdf", len(each)), digest=name) for name, each in large.items()]

    async def load(wanted: AttachmentRef) -> bytes | None:
        return large[wanted.digest or ""]

    server.answer(text=("Read.",))
    await ask(model, replace(asked(*files), load=load))
    [whole] = server.requests
    assert whole.size > MAX_BYTES


@pytest.mark.parametrize("place", [asked, returned, returned_at_once])
async def test_the_document_that_a_provider_refuses_is_named_from_then_on_and_the_others_stay(
    model: PydanticAIModel, server: WireServer, place: Any
) -> None:
    answer = assistant(ModelResponse(text="Yes."), "a0")
    first = (replace(user("First", "m0"), attachments=(ref("paper.pdf"),)), answer)
    conversation = place(ref("locked.pdf"))
    conversation = replace(conversation, messages=(*first, *conversation.messages))
    for _ in range(2):
        body = await sent(model, server, conversation)
        assert encoded("locked.pdf") not in body and encoded("paper.pdf") in body
        assert body.count("only named:") == body.count("only named: /attachments/locked.pdf]") == 1
    refused, *accepted = [encoded("locked.pdf") in json.dumps(each.body) for each in server.requests]
    assert refused and accepted == [False, False]


async def test_the_types_that_a_model_reads_are_those_of_its_profile(make_model: MakeModel) -> None:
    make_model("openai-chat:gpt-4o")  # sets the provider's environment
    google = readable_types(OfGoogle())
    assert {"application/pdf", "audio/ogg", "audio/wav", "video/mp4", "image/png"} <= google
    async with OpenAIChatModel("x", profile={"supports_document_input": False}) as bare:
        assert "application/pdf" not in readable_types(bare)


def test_files_are_counted_by_their_sizes() -> None:
    def tokens(*files: AttachmentRef) -> int:
        return message_tokens(replace(user("See"), attachments=files)) - message_tokens(user("See"))

    assert tokens(ref("paper.pdf")) > 1_500 and tokens(ref("voice.mp3")) > 500
    assert tokens(ref("paper.pdf", size=10**9)) < MAX_FILE_TOKENS + 100
    assert tokens(ref("notes.md", size=40_000)) > 10_000
    assert tokens(ref("all.zip", size=10**9)) < 50


@pytest.mark.parametrize("name", ["page.png", "paper.pdf", "voice.mp3", "film.mp4"])
def test_a_file_of_an_old_result_is_cleared_with_its_path(name: str) -> None:
    short = replace(tool("c1", "Found."), attachments=(ref(name),), seq=1)
    row = Compaction(thread_id="t", number=1, cleared=1, created_at=NOW)
    assert shown([short], row) == [reference(short)]
    assert f"Files: /attachments/{name}. Call read_result" in reference(short).content
    assert not bare_reference(short).attachments


async def test_old_pdfs_of_results_make_room_before_a_turn_is_left_out(
    make_model: MakeModel, server: WireServer
) -> None:
    pages = {f"{number}.pdf": b"%PDF-1.7 page".ljust(100_000) for number in range(8)}

    @tw.tool
    async def fetch(name: str) -> tw.ToolResult:
        """Fetch a page."""
        return tw.ToolResult.ok(
            "Found.", (tw.Attachment(name=name, mime_type="application/pdf", data=pages[name]),)
        )

    policy = tw.Context(max_tokens=14_000, summarize=False)
    agent = tw.Agent("reader", model=make_model("anthropic:claude-sonnet-5-5"), tools=[fetch], context=policy)
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("reader")
        for name in pages:
            server.answer(
                calls=[WireCall(id=f"c{name[0]}", name="fetch", arguments=(json.dumps({"name": name}),))]
            )
            server.answer(text=("Read.",))
            run = await rt.runs.wait((await rt.threads.send(thread.id, f"Read {name}.")).id)
            assert run.status == "completed", run.error
    body = json.dumps(server.requests[-1].body)
    assert all(f"Read {name}." in body for name in pages)
    assert 0 < body.count('"type": "document"') < len(pages)
    assert body.count("The result of this call is not shown any more") == len(pages) - body.count(
        '"type": "document"'
    )
