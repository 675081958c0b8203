"""What a prompt may call, and with what: refused where it cannot work."""

from collections.abc import Sequence

from toolwright.core.agents.prompt import Prompt
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSONObject
from toolwright.core.tools.relations import AgentCall
from toolwright.core.tools.tool import Tool


def check_below(prompt: Prompt, callees: Sequence[Tool | AgentCall]) -> None:
    """What is offered from step to step, or runs before the first one, has no place in a prompt that is a tool."""
    for each in callees:
        relation = each.relation if isinstance(each, Tool) else each
        config = relation.config if isinstance(relation, AgentCall) else None
        if config is not None and (config.resumable or config.immediate or config.optional is not None):
            raise DefinitionError(
                f"Prompt {prompt.name!r} is called as a tool: there the agent {config.name!r} can be neither "
                "resumable, nor immediate, nor optional."
            )


def check_once(prompt: Prompt, children: Sequence[AgentCall]) -> None:
    """Refuse an agent that is called in two ways."""
    names = [each.config.name for each in children]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DefinitionError(f"Prompt {prompt.name!r} calls the agent {twice!r} in two ways: keep one.")


def check_properties(name: str, parameters: JSONObject, *properties: str | None) -> JSONObject:
    """The parameters, if what is to be found in the arguments may be in them."""
    for each in properties:
        if each is not None and not takes(parameters, each):
            raise DefinitionError(
                f"{name!r} is called with the property {each!r}, which its schema does not have."
            )
    return parameters


def takes(parameters: JSONObject, name: str) -> bool:
    """Whether arguments of that schema may have a property of that name."""
    properties = parameters.get("properties")
    known = not isinstance(properties, dict) or name in properties
    return known or parameters.get("additionalProperties") is not False
