"""The app that the server side of the official conformance suite requires, built with plain Toolwright."""

import asyncio
import base64
import zlib

from pydantic import BaseModel, Field

import toolwright as tw


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return len(content).to_bytes(4) + checked + zlib.crc32(checked).to_bytes(4)

    head = (1).to_bytes(4) + (1).to_bytes(4) + bytes([8, 2, 0, 0, 0])
    pixels = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """An empty sound."""
    form = b"fmt " + (16).to_bytes(4, "little") + bytes([1, 0, 1, 0]) + (8000).to_bytes(4, "little")
    form += (8000).to_bytes(4, "little") + bytes([1, 0, 8, 0]) + b"data" + (0).to_bytes(4, "little")
    return b"RIFF" + (len(form) + 4).to_bytes(4, "little") + b"WAVE" + form


def _file(name: str, mime_type: str, content: bytes) -> tw.Attachment:
    return tw.Attachment(name=name, mime_type=mime_type, data=base64.b64encode(content).decode())


@tw.tool(description="Returns simple text.")
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@tw.tool(description="Returns an image.")
def test_image_content() -> tw.ImageContent:
    return tw.ImageContent(data=base64.b64encode(_png()).decode(), mime_type="image/png")


@tw.tool(description="Returns a sound.")
def test_audio_content() -> tw.ToolResult:
    return tw.ToolResult.ok(attachments=(_file("sound.wav", "audio/wav", _wav()),))


@tw.tool(description="Returns a document.")
def test_embedded_resource() -> tw.ToolResult:
    document = _file("resource.txt", "text/plain", b"This is an embedded resource content.")
    return tw.ToolResult.ok(attachments=(document,))


@tw.tool(description="Returns text, an image and a document.")
def test_multiple_content_types() -> tw.ToolResult:
    document = _file("mixed.json", "application/json", b'{"test":"data","value":123}')
    return tw.ToolResult.ok(
        "Multiple content types test:", (_file("pixel.png", "image/png", _png()), document)
    )


@tw.tool(description="Logs while it works.")
async def test_tool_with_logging(state: tw.ThreadState) -> str:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        state.emit("log", {"level": "info", "message": said})
        await asyncio.sleep(0.05)
    return "The tool has logged."


@tw.tool(description="Fails.")
def test_error_handling() -> str:
    raise RuntimeError("This tool intentionally returns an error for testing")


@tw.tool(description="Tells how far it is.")
async def test_tool_with_progress(state: tw.ThreadState) -> str:
    for done in (0, 50, 100):
        state.progress(done, 100)
        await asyncio.sleep(0.05)
    return "The tool is done."


@tw.tool(description="Asks the user what it is told to ask.")
async def test_elicitation(state: tw.ThreadState, message: str) -> str:
    text = {"type": "string", "description": "User's response"}
    mail = {"type": "string", "description": "User's email address"}
    schema = {
        "type": "object",
        "properties": {"username": text, "email": mail},
        "required": ["username", "email"],
    }
    answer = await state.elicit(message, schema)
    return f"User response: action={answer.action}, content={answer.content}"


@tw.tool(description="Asks the user with a default for every kind of field.")
async def test_elicitation_sep1034_defaults(state: tw.ThreadState) -> str:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answer = await state.elicit("Please check these.", {"type": "object", "properties": fields})
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@tw.tool(description="Asks the user to choose in every way.")
async def test_elicitation_sep1330_enums(state: tw.ThreadState) -> str:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    names = ["Option One", "Option Two", "Option Three"]
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = await state.elicit("Please choose.", {"type": "object", "properties": fields})
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


class UserName(BaseModel):
    """What the user is called."""

    name: str


class Confirm(BaseModel):
    """Whether the user agrees."""

    ok: bool


class Color(BaseModel):
    """What the user likes."""

    color: str


async def _name_of(state: tw.ThreadState, message: str = "What is your name?") -> str:
    answer = await state.elicit(message, UserName)
    return str((answer.content or {}).get("name", "nobody"))


@tw.tool(description="Asks for a name.")
async def test_input_required_result_elicitation(state: tw.ThreadState) -> str:
    return f"Hello, {await _name_of(state)}!"


@tw.tool(description="Asks for consent, and carries a state.")
async def test_input_required_result_request_state(state: tw.ThreadState) -> str:
    answer = await state.elicit("Please confirm", Confirm)
    return f"state-ok: {answer.action}"


@tw.tool(description="Asks for consent; a state that was changed is refused.")
async def test_input_required_result_tampered_state(state: tw.ThreadState) -> str:
    answer = await state.elicit("Please confirm", Confirm)
    return f"It was {answer.action}."


@tw.tool(description="Asks twice.")
async def test_input_required_result_multi_round(state: tw.ThreadState) -> str:
    name = await _name_of(state, "Step 1: What is your name?")
    answer = await state.elicit("Step 2: What is your favorite color?", Color)
    return f"{name} likes {(answer.content or {}).get('color')}."


@tw.tool(description="Asks the host's model.")
async def test_sampling(state: tw.ThreadState, prompt: str) -> str:
    answer = await state.sample(prompt, max_tokens=100)
    return f"LLM response: {answer.text}"


@tw.tool(description="Asks the host's model for a capital.")
async def test_input_required_result_sampling(state: tw.ThreadState) -> str:
    return (await state.sample("What is the capital of France?", max_tokens=100)).text


@tw.tool(description="Asks whoever the host lets it ask.")
async def test_input_required_result_capabilities(state: tw.ThreadState) -> str:
    answer = await state.elicit("What is your name?", UserName)
    if answer.action == "accept":
        return str(answer.content)
    return (await state.sample("Make up a name.", max_tokens=20)).text


@tw.tool(description="Needs the host's model.")
async def test_missing_capability(state: tw.ThreadState) -> str:
    return (await state.sample("Are you there?", max_tokens=10)).text


@tw.tool(description="Tells how far it is, then asks.")
async def test_streaming_elicitation(state: tw.ThreadState) -> str:
    state.progress(1, 2)
    return f"Hello, {await _name_of(state)}!"


@tw.tool(description="Logs to hosts that want it.")
async def test_logging_tool(state: tw.ThreadState) -> str:
    state.emit("log", {"level": "info", "message": "It was called."})
    return "It has logged."


@tw.tool(description="Greets.")
def greet(name: str) -> str:
    return f"Hello, {name}!"


@tw.tool(description="Takes its time.", idempotent=True)
async def slow_compute(seconds: float, label: str = "") -> str:
    await asyncio.sleep(seconds)
    return f"Computed {label or 'it'} for {seconds:g} seconds."


@tw.tool(description="Fails after a second.")
async def failing_job() -> str:
    await asyncio.sleep(1)
    raise RuntimeError("The job has failed.")


protocol_error_job = tw.Tool.from_config(
    {
        "name": "protocol_error_job",
        "description": "Is carried out by nobody, so that its call expires.",
        "executionType": "external",
        "isAsync": True,
        "expiresIn": 500,
        "inputSchema": {"type": "object", "properties": {}},
    }
)


@tw.tool(description="Asks before it deletes.")
async def confirm_delete(state: tw.ThreadState, filename: str) -> str:
    await asyncio.sleep(1)  # it has become a task by now
    schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
    answer = await state.elicit(f"Delete {filename}?", schema)
    return f"Deleted {filename}." if (answer.content or {}).get("confirm") else "Nothing was deleted."


@tw.tool(description="Asks two things at once.")
async def multi_input(state: tw.ThreadState) -> str:
    await asyncio.sleep(1)  # it has become a task by now
    answers = await asyncio.gather(_name_of(state, "Who are you?"), _name_of(state, "And who else?"))
    return " and ".join(answers)


@tw.tool(description="Asks for a name, then takes its time.")
async def test_tool_with_task(state: tw.ThreadState) -> str:
    name = await _name_of(state)
    await asyncio.sleep(1.5)
    return f"Done for {name}."


json_schema_2020_12_tool = tw.Tool.from_config(
    {
        "name": "json_schema_2020_12_tool",
        "description": "Tool with JSON Schema 2020-12 features",
        "executionType": "internal",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                }
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        },
    }
)

test_headers = tw.Tool.from_config(
    {
        "name": "test_headers",
        "description": "Takes an argument that is in a header too.",
        "executionType": "internal",
        "inputSchema": {
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            "required": ["region"],
        },
    }
)


@tw.tool(description="Reads the data of an id.", read_only=True)
def template_data(id: str) -> dict[str, object]:
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


class Arguments(BaseModel):
    arg1: str = Field(description="First test argument")
    arg2: str = Field(description="Second test argument")


simple_prompt = tw.Prompt(
    "test_simple_prompt", "This is a simple prompt for testing.", tool_description="A simple prompt"
)
prompt_with_arguments = tw.Prompt(
    "test_prompt_with_arguments",
    "Prompt with arguments:",
    tool_description="A prompt with arguments",
    required_schema=Arguments,
)

app = tw.App(
    tools=[
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_tool_with_logging,
        test_error_handling,
        test_tool_with_progress,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        test_input_required_result_elicitation,
        test_input_required_result_request_state,
        test_input_required_result_tampered_state,
        test_input_required_result_multi_round,
        test_sampling,
        test_input_required_result_sampling,
        test_input_required_result_capabilities,
        test_missing_capability,
        test_streaming_elicitation,
        test_logging_tool,
        greet,
        slow_compute,
        failing_job,
        protocol_error_job,
        confirm_delete,
        multi_input,
        test_tool_with_task,
        json_schema_2020_12_tool,
        test_headers,
        template_data,
    ],
    prompts=[simple_prompt, prompt_with_arguments],
    mcp_server={
        "prompts": True,
        "resources": {
            "test://template/{id}/data": {"tool": "template_data"},
            "test://watched-resource": "It can be subscribed to.",
            "test://static-text": "This is the content of the static text resource.",
            "test://static-binary": {"content": b"\x89PNG\r\n\x1a\n", "mime_type": "image/png"},
        },
    },
)
