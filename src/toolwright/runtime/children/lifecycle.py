"""The built-in tools for agents that live on (S0 §6): `subagent_create` and `subagent_message`."""

from collections.abc import Sequence

from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.tools.relations import AgentCall, Lifecycle
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolkits import SUBAGENT_CREATE, SUBAGENT_MESSAGE


def lifecycle_tools(relations: Sequence[AgentCall], free: Sequence[AgentCall]) -> Sequence[Tool]:
    """The tools: `relations` are there, of those `free` one more may be created."""
    message = Tool(
        name=SUBAGENT_MESSAGE,
        description="Send a message to an agent that you have created, by its reference. An idle one goes on with it.",
        kind="agent",
        parameters=_object(
            {
                "reference": _text("The reference that subagent_create gave."),
                "message": _text(),
                "attachments": _PATHS,
            },
            ["reference", "message"],
        ),
        relation=Lifecycle(verb="message", relations=tuple(relations)),
    )
    if not free:
        return [message]
    told = "".join(_told(each) for each in free)
    names: list[JSON] = [each.config.name for each in free]
    create = Tool(
        name=SUBAGENT_CREATE,
        description=f"Create an agent that lives on and can be sent further messages. The agents are:{told}",
        kind="agent",
        parameters=_object(
            {
                "agent": {"type": "string", "enum": names},
                "name": {"type": "string", "pattern": "\\S", "description": "A name of your choice for it."},
                "message": _text("Its first message."),
                "attachments": _PATHS,
                "arguments": {"type": "object"},
            },
            ["agent", "name"],
        ),
        relation=Lifecycle(verb="create", relations=tuple(free)),
    )
    return [create, message]


_PATHS: JSONObject = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Paths of files of this thread, which it gets copies of.",
}


def _told(each: AgentCall) -> str:
    """A line about an agent, with what its arguments must be."""
    wanted = "" if each.schema is None else f" Its arguments, by JSON Schema: {dumps(each.schema)}"
    return f"\n- {each.config.name}: {each.about}{wanted}"


def _text(description: str | None = None) -> JSONObject:
    return {"type": "string"} if description is None else {"type": "string", "description": description}


def _object(properties: JSONObject, required: list[JSON]) -> JSONObject:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
