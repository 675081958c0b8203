"""Files of messages on the providers' wires: models with vision receive images, and all files are named."""

import base64
import json
from dataclasses import replace

import pytest
from pydantic_ai.models.openai import OpenAIChatModel

from tests.models.asking import MakeModel, ask, assistant, request, tool, user
from tests.models.wire_server import WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.results import AttachmentRef

pytestmark = pytest.mark.anyio

PIXELS = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1 pixels"
SHOWN = base64.b64encode(PIXELS).decode()


def ref(name: str, mime_type: str, digest: str = "d1", size: int = len(PIXELS)) -> AttachmentRef:
    return AttachmentRef(
        id="fil_1", path=f"/attachments/{name}", name=name, mime_type=mime_type, size=size, digest=digest
    )


class Loading:
    """Returns the bytes of known files, and records the loads."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    async def __call__(self, wanted: AttachmentRef) -> bytes | None:
        self.loaded.append(wanted.path)
        return PIXELS if (wanted.digest or "").startswith("d1") else None


def asked(*files: AttachmentRef, load: Loading) -> ModelRequest:
    """Return a conversation in which a person sends the files, and a tool returns them."""
    call = ModelCall(id="c1", name="search", arguments="{}")
    said = replace(user("See"), attachments=files)
    result = replace(tool("c1", "Drawn."), attachments=files)
    return replace(request(said, assistant(ModelResponse(calls=(call,))), result), load=load)


async def test_images_of_messages_and_results_are_shown(model: PydanticAIModel, server: WireServer) -> None:
    load = Loading()
    files = (ref("chart.png", "image/png"), ref("all.zip", "application/zip"))
    for _ in range(2):
        server.answer(text=("Seen.",))
        await ask(model, asked(*files, load=load))
    sent = json.dumps(server.requests[-1].body)
    assert sent.count(SHOWN) == 2
    assert sent.count("[File /attachments/chart.png (image/png, 31 bytes)]") == 2
    assert sent.count("[File /attachments/all.zip (application/zip, 31 bytes)]") == 2
    assert sent.count("[Not shown here, only named: /attachments/all.zip]") == 2
    assert load.loaded == ["/attachments/chart.png"]  # one load for both messages and both requests


@pytest.mark.parametrize(
    "file",
    [
        ref("x.svg", "image/svg+xml"),
        ref("gone.png", "image/png", digest="gone"),
        ref("huge.png", "image/png", size=6 * 1024 * 1024),
        ref("a-png-in-truth.gif", "image/gif"),
        ref("a-png-in-truth.webp", "image/webp"),
    ],
)
async def test_what_cannot_be_shown_is_named(
    model: PydanticAIModel, server: WireServer, file: AttachmentRef
) -> None:
    server.answer(text=("Seen.",))
    await ask(model, asked(file, load=Loading()))
    sent = json.dumps(server.requests[-1].body)
    assert SHOWN not in sent
    assert sent.count(f"[File {file.path} (") == 2


async def test_only_files_that_one_request_can_have_are_loaded(
    make_model: MakeModel, server: WireServer
) -> None:
    model, load = make_model("openai-chat:gpt-4o"), Loading()
    files = [ref(f"{number}.png", "image/png", f"d1 {number}", 1024 * 1024) for number in range(40)]
    server.answer(text=("Seen.",))
    await ask(model, asked(*files, load=load))
    assert load.loaded == [each.path for each in files[-15:]]  # of 15 MiB
    assert json.dumps(server.requests[-1].body).count(SHOWN) == 7  # the newest, of half as many bytes


async def test_a_model_that_cannot_see_is_shown_no_image(make_model: MakeModel, server: WireServer) -> None:
    make_model("openai-chat:gpt-4o")  # sets the provider's environment
    load = Loading()
    server.answer(text=("Read.",))
    async with OpenAIChatModel("gpt-4o", profile={"supports_image_input": False}) as blind:
        await ask(PydanticAIModel(blind), asked(ref("chart.png", "image/png"), load=load))
    sent = json.dumps(server.requests[-1].body)
    assert "[File /attachments/chart.png" in sent
    assert SHOWN not in sent
    assert load.loaded == []
