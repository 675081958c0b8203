"""Documents, sounds and videos on the providers' wires: what a model reads is sent, all else is named in one line."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel

from tests.models.asking import MakeModel, ask, assistant, request, tool, user
from tests.models.wire_server import WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.adapters.models.providers.shown_files import readable_types
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.compaction import MOST_FILE_TOKENS, message_tokens

pytestmark = pytest.mark.anyio

CONTENTS = {
    "paper.pdf": b"%PDF-1.7 a paper",
    "fake.pdf": b"MZ no paper",
    "voice.mp3": b"ID3 a voice",
    "film.mp4": b"a film",
    "notes.md": "# Notes: äöü".encode(),
    "latin.txt": b"caf\xe9",
    "all.zip": b"PK",
}
TYPES = {
    "pdf": "application/pdf",
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
    assert tokens(ref("paper.pdf", size=10**9)) < MOST_FILE_TOKENS + 100
    assert tokens(ref("notes.md", size=40_000)) > 10_000
    assert tokens(ref("all.zip", size=10**9)) < 50
