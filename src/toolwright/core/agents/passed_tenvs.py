"""Tenvs that an agent passes on to children: the secrets among them, which are secrets in its own threads too."""

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.prompt import Callee, Prompt
from toolwright.core.tools.relations import AgentCall, SubagentToolConfig, SubpromptConfig
from toolwright.core.tools.tool import Tool

Callees = Mapping[str, Tool | Prompt | Agent]
"""What prompts can name."""


def passed_secrets(
    relations: Iterable[AgentCall], callees: Callees, prompts: Mapping[str, Prompt]
) -> Iterator[str]:
    """The names that these relations pass on, and that tools of their children, or of those below them, keep secret."""
    for relation in relations:
        child = callees.get(relation.config.name)
        if relation.config.pass_tenvs and isinstance(child, Agent):
            secrets = _secrets_of(child, callees, prompts)
            yield from (name for name in relation.config.pass_tenvs if name in secrets)


def _secrets_of(agent: Agent, callees: Callees, prompts: Mapping[str, Prompt]) -> frozenset[str]:
    """The secret tenvs of all tools that the agent, and whatever it calls, may come to."""
    secrets: set[str] = set()
    seen: set[int] = set()
    left: list[object] = [agent]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        match each:
            case Tool(needs=needs):
                secrets |= set() if needs is None else needs.secrets
            case Agent():
                left += [
                    prompts.get(s.prompt) if isinstance(s.prompt, str) else s.prompt
                    for s in each.sides.values()
                ]
            case Prompt():
                left += [
                    callee if isinstance(callee, Tool) else callees.get(_name(callee))
                    for callee in each.tools
                ]
            case _:
                pass
    return frozenset(secrets)


def _name(callee: Callee) -> str:
    if isinstance(callee, str):
        return callee
    if isinstance(callee, SubpromptConfig | SubagentToolConfig):
        return callee.name
    return str(cast("Mapping[str, object]", callee).get("name"))  # a function is a tool by now
