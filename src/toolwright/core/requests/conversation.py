"""The conversation of a composed request: the context as messages, calls and their results as the model reads them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, cast

from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, dumps_unescaped
from toolwright.core.requests.request import (
    DataForm,
    InputForm,
    Item,
    MessageForm,
    RequestForm,
    StateForm,
    TextForm,
)
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed

GO_ON = "Go on."
_WRITTEN = ("{", "```")
"""How the text of an answer begins that is JSON itself."""
_RULES = """\
Answer with one JSON object that has `output` and `calls`.
`calls` are the tools to call now, in their order; each names its tool in `_tool`. Their results come with the next \
message. An empty list calls none.
`output` is null as long as results are needed, else the final answer."""
_LATENT = (
    "A tool whose calls have an `_output` is carried out by you: give its result there, with the arguments."
)
_REFERENCES = (
    'An argument that is nothing but a reference, as in "†state.name" or "†input.name.field", stands for the value '
    "that is there."
)
_INSTANCES = "The instances are {names}; a call names the one that it is for in `_instance`."


def system_of(request: RequestForm, tools: Sequence[Tool]) -> str:
    """The system prompt: that of the config, those of the context, and how to answer."""
    said = [item for item in request.context if isinstance(item, TextForm | MessageForm)]
    parts = [request.config.system, *[text_of(item) for item in said if item.role == "system"], _RULES]
    if any(tool.latent and tool.meta is not None and tool.meta.output is not None for tool in tools):
        parts.append(_LATENT)
    if any(isinstance(item, InputForm | StateForm) for item in request.context) or any(map(_writes, tools)):
        parts.append(_REFERENCES)
    if request.instances:
        parts.append(_INSTANCES.format(names=", ".join(map(repr, request.instances))))
    return "\n\n".join([part for part in parts if part.strip()])


def _writes(tool: Tool) -> bool:
    """Return whether calls of the tool may write to the state."""
    meta = tool.meta
    return meta is not None and (meta.output_path is not None or "_outputPath" in meta.choices)


def opening_of(request: RequestForm, at: datetime) -> tuple[Message, ...]:
    """The messages before the one with which the run begins: up to the last that an assistant has said."""
    return tuple(
        [
            Message(id=f"ctx_{number}", role=role, content=text, created_at=at)
            for number, (role, text) in enumerate(_said(request)[:-1])
        ]
    )


def message_of(request: RequestForm) -> str:
    """The message with which the run begins: all that the context says last, as the user."""
    return _said(request)[-1][1]


def _said(request: RequestForm) -> list[tuple[Literal["user", "assistant"], str]]:
    """The context as messages, of which the last is the user's."""
    said: list[tuple[Literal["user", "assistant"], str]] = []
    for item in request.context:
        role = item.role if isinstance(item, TextForm | MessageForm) else "user"
        text = text_of(item)
        if role == "system" or not text.strip():
            continue
        if said and role == "user" and said[-1][0] == "user":
            said[-1] = ("user", f"{said[-1][1]}\n\n{text}")
        else:
            said.append((role, text))
    return said if said and said[-1][0] == "user" else [*said, ("user", GO_ON)]


def text_of(item: Item) -> str:
    """One part of the context as text."""
    match item:
        case TextForm(text=text, instance=None):
            return text
        case TextForm(text=text, instance=instance):
            return f"Of the instance {instance!r}: {text}"
        case MessageForm(content=content):
            return content
        case DataForm(data=data, name=name):
            return _block("Data" if name is None else f"Data {name!r}", item.instance, data)
        case InputForm():
            return _block("Input (†input)", item.instance, cast("JSON", item.input))
        case StateForm():
            return _block("State (†state)", item.instance, cast("JSON", item.state))
        case _:
            return ""


def _block(title: str, instance: str | None, value: JSON) -> str:
    owner = "" if instance is None else f" of the instance {instance!r}"
    return f"{title}{owner}:\n{dumps_unescaped(value)}"


def heard(messages: Sequence[Message]) -> list[Message]:
    """Messages as the model reads them: what it answered as JSON text, the results of its calls as the user's word."""
    heard: list[Message] = []
    results: list[Message] = []
    for message in messages:
        if message.role == "tool":
            results.append(message)
            continue
        if results:
            heard.append(_results(results))
            results = []
        heard.append(_answer(message) if message.calls else message)
    return [*heard, _results(results)] if results else heard


def _answer(message: Message) -> Message:
    """A message with calls as JSON text: it is that already, unless they were made in another way."""
    if message.content.lstrip().startswith(_WRITTEN):
        return changed(message, calls=())
    calls: list[JSON] = [_call(call) for call in message.calls]
    written = dumps_unescaped({"output": None, "calls": calls})
    return changed(message, content=f"{message.content}\n{written}".strip(), calls=(), native=None)


def _call(call: MessageCall) -> JSON:
    try:
        arguments = parse_json(call.arguments or "{}")
    except NotJson:
        arguments = call.arguments
    return {"_tool": call.name, **(arguments if isinstance(arguments, dict) else {"arguments": arguments})}


def _results(results: Sequence[Message]) -> Message:
    """The results of the calls of one answer, in their order."""
    lines = [
        f"{number}. {message.tool_name}{'' if message.status == 'success' else ' failed'}: {message.content}"
        for number, message in enumerate(results, 1)
    ]
    files = tuple([each for message in results for each in message.attachments])
    first = results[0]
    return Message(
        id=first.id,
        role="user",
        content="\n".join(["Results of the calls:", *lines]),
        seq=results[-1].seq,
        run_id=first.run_id,
        step=first.step,
        attachments=files,
        created_at=first.created_at,
    )
