"""What a delegate is asked (S1 `_delegate`): the call as a fresh request, and of its caller's context what is named."""

from collections.abc import Sequence
from dataclasses import field

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.requests.conversation import heard, text_of
from toolwright.core.requests.request import (
    DataForm,
    MessageForm,
    RequestForm,
    TextForm,
    ToolForm,
    read_request,
)
from toolwright.core.schemas.meta import Call
from toolwright.core.schemas.state_paths import reach
from toolwright.core.threads.message import Message
from toolwright.core.tools.tool import Tool
from toolwright.core.value import value

ANY: JSONObject = {}


@value
class Caller:
    """The context of a call that is delegated: what its `_scopes` may name.

    `messages` is the conversation before the step of the call, `data` and `tools` are what may be shown and called
    there, all as the context of a request has them.
    """

    messages: Sequence[JSONObject] = ()
    data: Sequence[JSONObject] = ()
    tools: Sequence[JSONObject] = ()
    input: JSONObject = field(default_factory=dict[str, JSON])
    state: JSONObject = field(default_factory=dict[str, JSON])


def said_before(
    request: RequestForm | None, messages: Sequence[Message], instance: str | None
) -> list[JSONObject]:
    """A conversation as messages of a context; of a request its texts, and none of its data, input and state.

    Those of other instances are left out.
    """
    said: list[tuple[str, str]] = []
    if request is not None:
        texts = [item for item in request.items_of(instance) if isinstance(item, TextForm | MessageForm)]
        said = [(item.role, text_of(item)) for item in texts if item.role != "system"]
        messages = messages[1:]  # the first is made of the context
    said += [(each.role, each.content) for each in heard(messages)]
    return [{"role": role, "content": text} for role, text in said if text.strip()]


def caller_items(request: RequestForm, instance: str | None) -> tuple[list[JSONObject], list[JSONObject]]:
    """The data and the tools of a request's context, as a delegate's context has them; without other instances'."""
    own = request.items_of(instance)
    data = [item.model_dump(mode="json") for item in own if isinstance(item, DataForm)]
    tools = [item.model_dump(mode="json") for item in own if isinstance(item, ToolForm)]
    return data, tools


def anonymous_request(tool: Tool) -> RequestForm:
    """A request that knows nothing but the tool."""
    return read_request(
        "The request of the delegate",
        {"config": {"name": tool.name}, "schema": output_of(tool) or ANY, "context": [_task(tool)]},
    )


def delegated_request(
    base: RequestForm, tool: Tool, call: Call, caller: Caller, model: str | None
) -> RequestForm:
    """The request with what is to be done: behind what its scopes show, its own context, then the arguments.

    What the tool declares as `_output` is what it must come to. Raises `NotFound` for a reference that leads nowhere,
    `InvalidConfiguration` for more than a request may hold.
    """
    kept = base.kept
    own, config = kept.get("context"), kept.get("config")
    config = {**(config if isinstance(config, dict) else {}), "model": model}
    scopes = _scope_items(call, caller)
    context: list[JSON] = [*scopes, *(own if isinstance(own, list) else []), *_given(call, caller)]
    return read_request(
        "The request of the delegate",
        {**kept, "config": config, "schema": output_of(tool) or base.output, "context": context},
    )


def message_to(tool: Tool, call: Call, caller: Caller) -> str:
    """The same for an agent, as one message."""
    items: list[JSON] = [*_scope_items(call, caller), _task(tool), *_given(call, caller)]
    form = read_request("The message to the delegate", {"schema": ANY, "context": items})
    texts = [_spoken(item) if isinstance(item, MessageForm) else text_of(item) for item in form.context]
    return "\n\n".join([text for text in texts if text.strip()])


def _spoken(message: MessageForm) -> str:
    """A message of the conversation before as a part of another: with the one who said it."""
    return f"Said before by the {message.role}:\n{message.content}"


def output_of(tool: Tool) -> JSONObject | None:
    """The schema of what a delegate must come to, None for anything."""
    meta = tool.meta
    if meta is None or meta.output is None:
        return None
    return {**meta.output, "$defs": meta.definitions} if meta.definitions else meta.output


def _task(tool: Tool) -> JSONObject:
    about = f": {tool.description}" if tool.description else ""
    return {"type": "text", "text": f"Carry out {tool.name!r}{about}\nIts arguments are the input."}


def _given(call: Call, caller: Caller) -> list[JSONObject]:
    """The call's arguments as input, over what its scopes name of the caller's; and the caller's state."""
    given: JSONObject = {**caller.input} if "input" in call.scopes else {}
    state: JSONObject = {**caller.state} if "state" in call.scopes else {}
    for scope in call.scopes:
        root, _, path = scope.partition(".")
        if path:
            names = tuple(path.split("."))
            if root == "†input":
                _put(given, names, reach(caller.input, root, names))
            else:
                _put(state, names, reach(caller.state, root, names))
    given |= call.args
    items: list[JSONObject] = [{"type": "state", "state": state}] if state else []
    return [*items, {"type": "input", "input": given}]


def _scope_items(call: Call, caller: Caller) -> list[JSON]:
    """The parts of the caller's context that the call's scopes name by their kind."""
    items: list[JSON] = []
    if "tools" in call.scopes:
        items += caller.tools
    if "data" in call.scopes:
        items += caller.data
    if "messages" in call.scopes:
        items += caller.messages
    return items


def _put(root: JSONObject, names: Sequence[str], part: JSON) -> None:
    """Put the part at that path, in objects of their own."""
    place = root
    for name in names[:-1]:
        below = place.get(name)
        if isinstance(below, list):  # another scope shows all of it
            return
        below = {**below} if isinstance(below, dict) else {}
        place[name] = below
        place = below
    place[names[-1]] = part
