"""Conversation of a composed request or of a delegate: the context as messages, calls and results."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, cast

from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.requests.request import (
    DataForm,
    InputForm,
    Item,
    MessageForm,
    RequestForm,
    StateForm,
    TextForm,
    ToolForm,
    read_request,
)
from toolwright.core.schemas.meta import Call
from toolwright.core.schemas.state_paths import reach
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Value, changed, field

GO_ON = "Go on."
_WRITTEN = ("{", "```")
"""Prefixes of an answer's text that is itself JSON."""
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
ANY: JSONObject = {}


def system_of(request: RequestForm, tools: Sequence[Tool]) -> str:
    """Return the system prompt: the config's, then the context's, then the instructions for the answer."""
    texts = [item for item in request.context if isinstance(item, TextForm | MessageForm)]
    parts = [request.config.system, *[text_of(item) for item in texts if item.role == "system"], _RULES]
    if any(tool.latent and tool.meta is not None and tool.meta.output is not None for tool in tools):
        parts.append(_LATENT)
    if any(isinstance(item, InputForm | StateForm) for item in request.context) or any(map(_writes, tools)):
        parts.append(_REFERENCES)
    if request.instances:
        parts.append(_INSTANCES.format(names=", ".join(map(repr, request.instances))))
    return "\n\n".join([part for part in parts if part.strip()])


def _writes(tool: Tool) -> bool:
    """Return whether calls of the tool can write to the state."""
    meta = tool.meta
    return meta is not None and (meta.output_path is not None or "_outputPath" in meta.choices)


def opening_of(request: RequestForm, at: datetime) -> tuple[Message, ...]:
    """Return the context's messages up to its last assistant message, which precede the message that starts the run."""
    return tuple(
        [
            Message(id=f"ctx_{number}", role=role, content=text, created_at=at)
            for number, (role, text) in enumerate(_context_messages(request)[:-1])
        ]
    )


def message_of(request: RequestForm) -> str:
    """Return the message that starts the run: all parts of the context after its last assistant message."""
    return _context_messages(request)[-1][1]


def _context_messages(request: RequestForm) -> list[tuple[Literal["user", "assistant"], str]]:
    """Return the context as messages, of which the last is the user's."""
    messages: list[tuple[Literal["user", "assistant"], str]] = []
    for item in request.context:
        role = item.role if isinstance(item, TextForm | MessageForm) else "user"
        text = text_of(item)
        if role == "system" or not text.strip():
            continue
        if messages and role == "user" and messages[-1][0] == "user":
            messages[-1] = ("user", f"{messages[-1][1]}\n\n{text}")
        else:
            messages.append((role, text))
    return messages if messages and messages[-1][0] == "user" else [*messages, ("user", GO_ON)]


def text_of(item: Item) -> str:
    """Return one context part as text."""
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


def as_sent(messages: Sequence[Message]) -> list[Message]:
    """Return the messages as sent to the model: its answers as JSON text, the results of its calls as user messages."""
    sent: list[Message] = []
    results: list[Message] = []
    for message in messages:
        if message.role == "tool":
            results.append(message)
            continue
        if results:
            sent.append(_results(results))
            results = []
        sent.append(_answer(message) if message.calls else message)
    return [*sent, _results(results)] if results else sent


def _answer(message: Message) -> Message:
    """Return a message with its calls as JSON in its text. Omits calls that the text already contains."""
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
    """Return the results of the calls of one answer, in their order."""
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


class CallContext(Value):
    """The context of a delegated call: the parts that its `_scopes` can name.

    `messages` is the conversation before the step of the call. `data` and `tools` are what can be shown and called
    there. All have the form of a request's context.
    """

    messages: Sequence[JSONObject] = ()
    data: Sequence[JSONObject] = ()
    tools: Sequence[JSONObject] = ()
    input: JSONObject = field(default_factory=dict[str, JSON])
    state: JSONObject = field(default_factory=dict[str, JSON])


def earlier_conversation(
    request: RequestForm | None, messages: Sequence[Message], instance: str | None
) -> list[JSONObject]:
    """Return a conversation as context messages.

    For a request only the texts are included, not its data, input and state. Messages of other instances are omitted.
    """
    spoken: list[tuple[str, str]] = []
    if request is not None:
        texts = [item for item in request.items_of(instance) if isinstance(item, TextForm | MessageForm)]
        spoken = [(item.role, text_of(item)) for item in texts if item.role != "system"]
        messages = messages[1:]  # the first message is built from the context
    spoken += [(each.role, each.content) for each in as_sent(messages)]
    return [{"role": role, "content": text} for role, text in spoken if text.strip()]


def caller_items(request: RequestForm, instance: str | None) -> tuple[list[JSONObject], list[JSONObject]]:
    """Return the data and the tools of a request's context for a delegate, excluding other instances."""
    own = request.items_of(instance)
    data = [item.model_dump(mode="json") for item in own if isinstance(item, DataForm)]
    tools = [item.model_dump(mode="json") for item in own if isinstance(item, ToolForm)]
    return data, tools


def anonymous_request(tool: Tool) -> RequestForm:
    """Return a request that contains only the tool."""
    return read_request(
        "The request of the delegate",
        {"config": {"name": tool.name}, "schema": output_of(tool) or ANY, "context": [_task(tool)]},
    )


def delegated_request(
    base: RequestForm, tool: Tool, call: Call, caller: CallContext, model: str | None
) -> RequestForm:
    """Return the request for a delegate: the shared scopes, then its own context, then the arguments.

    The tool's `_output` is its output schema. Raises `NotFound` for an unknown reference, `InvalidConfiguration` if the
    request exceeds the limits.
    """
    as_json = base.as_json
    own, config = as_json.get("context"), as_json.get("config")
    config = {**(config if isinstance(config, dict) else {}), "model": model}
    scopes = _scope_items(call, caller)
    context: list[JSON] = [*scopes, *(own if isinstance(own, list) else []), *_input_and_state(call, caller)]
    return read_request(
        "The request of the delegate",
        {**as_json, "config": config, "schema": output_of(tool) or base.output, "context": context},
    )


def message_to(tool: Tool, call: Call, caller: CallContext) -> str:
    """Return the delegated request as one message for an agent."""
    items: list[JSON] = [*_scope_items(call, caller), _task(tool), *_input_and_state(call, caller)]
    form = read_request("The message to the delegate", {"schema": ANY, "context": items})
    texts = [_spoken(item) if isinstance(item, MessageForm) else text_of(item) for item in form.context]
    return "\n\n".join([text for text in texts if text.strip()])


def _spoken(message: MessageForm) -> str:
    """Return an earlier message with its author, as part of another message."""
    return f"Said before by the {message.role}:\n{message.content}"


def output_of(tool: Tool) -> JSONObject | None:
    """Return the output schema of a delegate's tool, or None for any output."""
    meta = tool.meta
    if meta is None or meta.output is None:
        return None
    return {**meta.output, "$defs": meta.definitions} if meta.definitions else meta.output


def _task(tool: Tool) -> JSONObject:
    about = f": {tool.description}" if tool.description else ""
    return {"type": "text", "text": f"Carry out {tool.name!r}{about}\nIts arguments are the input."}


def _input_and_state(call: Call, caller: CallContext) -> list[JSONObject]:
    """Return the call's arguments as input, merged over the caller's input in its scopes; and the caller's state."""
    input_: JSONObject = {**caller.input} if "input" in call.scopes else {}
    state: JSONObject = {**caller.state} if "state" in call.scopes else {}
    for scope in call.scopes:
        root, _, path = scope.partition(".")
        if path:
            names = tuple(path.split("."))
            if root == "†input":
                _put(input_, names, reach(caller.input, root, names))
            else:
                _put(state, names, reach(caller.state, root, names))
    input_ |= call.args
    items: list[JSONObject] = [{"type": "state", "state": state}] if state else []
    return [*items, {"type": "input", "input": input_}]


def _scope_items(call: Call, caller: CallContext) -> list[JSON]:
    """Return the parts of the caller's context that the call's scopes select by kind."""
    items: list[JSON] = []
    if "tools" in call.scopes:
        items += caller.tools
    if "data" in call.scopes:
        items += caller.data
    if "messages" in call.scopes:
        items += caller.messages
    return items


def _put(root: JSONObject, names: Sequence[str], part: JSON) -> None:
    """Set the part at that path, creating objects as needed."""
    place = root
    for name in names[:-1]:
        below = place.get(name)
        if isinstance(below, list):  # another scope includes all of it
            return
        below = {**below} if isinstance(below, dict) else {}
        place[name] = below
        place = below
    place[names[-1]] = part
