"""Prompts and agents that call each other in an invalid way are rejected at declaration, with one sentence."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from toolwright.core.errors import DefinitionError

SHOWN: dict[str, Any] = {"expose_as_tool": True, "tool_description": "Does it."}
LIVES_ON = {"receives_messages": "side_a"}
WRONG: Any = 5


class Numbers(BaseModel):
    first: int


@tw.tool(description="Add.")
async def add(a: int) -> int:
    return a


def calling(*tools: Any, **more: Any) -> tw.App:
    """Return an app whose agent `a` calls these; it has a prompt `q` and an agent `b` to call."""
    fields: dict[str, Any] = {"agents": [], "prompts": [tw.Prompt("q", **SHOWN)], **more}
    fields["agents"] = [
        tw.Agent("a", tw.Prompt("p", tools=tools)), tw.Agent("b", tw.Prompt("bb"), **SHOWN), *fields["agents"],
    ]  # fmt: skip
    return tw.App(**fields)


def below(*tools: Any) -> tw.App:
    """Return the same app, with the calls made by the prompt `q`."""
    return calling("q", prompts=[tw.Prompt("q", tools=tools, **SHOWN)])


def stopping(**side: Any) -> tw.App:
    return tw.App(agents=[tw.Agent("a", tw.Side(tw.Prompt("p", tools=[add]), **side))])


DECLARED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: calling("nope"),
        "Prompt 'p' names the tool 'nope', which the app does not have. It has: b, q.",
    ),
    (
        lambda: tw.App(agents=[tw.Agent("a", tw.Prompt("p", tools=["writer"]))]),
        "Prompt 'p' names the tool 'writer', which the app does not have. Put the function itself there, or into "
        "App(tools=…).",
    ),
    (
        lambda: calling("hidden", prompts=[tw.Prompt("hidden")]),
        "Prompt 'p' calls the prompt 'hidden', which is not exposed as a tool.",
    ),
    (
        lambda: calling("hidden", agents=[tw.Agent("hidden", tw.Prompt("x"))]),
        "Prompt 'p' names the agent 'hidden', which is not exposed as a tool. To have it answer a call, put "
        "agent.as_tool('…') in tools=; to let it take the conversation over, give it expose_as_tool=True and a "
        "tool_description.",
    ),
    (
        lambda: tw.Agent("dumb").as_tool(),
        "Agent 'dumb': as_tool needs a description, which tells the model what to call it for.",
    ),
    (
        lambda: tw.App(agents=[tw.Agent("a", tools=[tw.Agent("b").as_tool("One.")]), tw.Agent("b")]),
        "The app has two agents named 'b'.",
    ),
    (
        lambda: tw.Prompt("q", expose_as_tool=True),
        "Prompt 'q' is exposed as a tool and needs a tool_description.",
    ),
    (
        lambda: tw.Agent("b", "p", expose_as_tool=True),
        "Agent 'b' is exposed as a tool and needs a tool_description.",
    ),
    (lambda: below("q"), "The prompt 'q' calls itself: p → q → q."),
    (
        lambda: calling(
            "q", prompts=[tw.Prompt("q", tools=["r"], **SHOWN), tw.Prompt("r", tools=["q"], **SHOWN)]
        ),
        "The prompt 'q' calls itself: p → q → r → q.",
    ),
    (
        lambda: calling("q", agents=[tw.Agent("q", "p", **SHOWN)]),
        "The app has two tools, agents or prompts named 'q' that are called as tools. Rename one.",
    ),
    (
        lambda: tw.App(tools=[add], prompts=[tw.Prompt("add", **SHOWN)]),
        "The app has two tools, agents or prompts named 'add' that are called as tools. Rename one.",
    ),
    (lambda: calling("q", "q"), "Two tools are called 'q'; rename one or use .prefixed()."),
    (
        lambda: calling({"name": "b", "resumable": LIVES_ON}, {"name": "b", "resumable": LIVES_ON}),
        "Prompt 'p' calls the agent 'b' in two ways: keep one.",
    ),
    (lambda: calling({"name": "q", "foo": 1}), "SubpromptConfig is invalid: there is no field 'foo'."),
    (lambda: calling({"name": "b", "foo": 1}), "SubagentToolConfig is invalid: there is no field 'foo'."),
    (lambda: calling({"blocking": False}), "Prompt 'p': a called agent or prompt needs a name."),
    (lambda: calling({"name": WRONG}), "Prompt 'p': a called agent or prompt needs a name."),
    (lambda: tw.SubpromptConfig(name=""), "SubpromptConfig is invalid: name must not be empty."),
    (
        lambda: calling({"name": "q", "includeErrors": "yes"}),
        "SubpromptConfig is invalid: includeErrors must be true or false.",
    ),
    (
        lambda: calling({"name": "b", "resumable": 5}),
        "Resumable is invalid: it must be false or an object, not 5.",
    ),
    (
        lambda: calling({"name": "b", "immediate": "yes"}),
        "Immediate is invalid: it must be true, false or an object, not 'yes'.",
    ),
    (
        lambda: tw.SubpromptConfig.model_validate(["q"]),
        "SubpromptConfig is invalid: it must be an object, not a value of the type list.",
    ),
    (
        lambda: calling({"name": "b", "resumable": {"receives_messages": "side_c"}}),
        "Resumable is invalid: receives_messages must be 'side_a' or 'side_b'.",
    ),
    (
        lambda: calling({"name": "b", "resumable": {"receives_messages": "side_a", "maxInstances": 0}}),
        "Resumable is invalid: maxInstances must be at least 1.",
    ),
    (
        lambda: calling({"name": "b", "resumable": {"receives_messages": "side_b"}}),
        "The agent 'b' has no side_b: its side_a receives its messages.",
    ),
    (
        lambda: calling(tw.SubpromptConfig(name="b")),
        "'b' is called with a SubagentToolConfig, not with a SubpromptConfig.",
    ),
    (
        lambda: calling(tw.SubagentToolConfig(name="q")),
        "'q' is called with a SubpromptConfig, not with a SubagentToolConfig.",
    ),
    (lambda: calling({"name": "add"}, tools=[add]), "Prompt 'p': 'add' is a tool and is called directly."),
    (
        lambda: calling(
            {"name": "q", "initUserMessageProperty": "said"},
            prompts=[tw.Prompt("q", required_schema=Numbers, **SHOWN)],
        ),
        "'q' is called with the property 'said', which its schema does not have.",
    ),
    (
        lambda: below({"name": "b", "resumable": LIVES_ON}),
        "Prompt 'q' is called as a tool: the agent 'b' cannot be resumable, immediate or optional there.",
    ),
    (
        lambda: below({"name": "b", "immediate": True}),
        "Prompt 'q' is called as a tool: the agent 'b' cannot be resumable, immediate or optional there.",
    ),
    (lambda: tw.Agent("a", "p", "q"), "Agent 'a' is of the type 'ai_human': a side_b needs type='dual_ai'."),
    (
        lambda: tw.Agent("a", "p", type="dual_ai"),
        "Agent 'a': side_b must be a side, a prompt or the name of one, not None.",
    ),
    (
        lambda: tw.Agent("a", "p", max_session_turns=2),
        "Agent 'a' is of the type 'ai_human': max_session_turns needs type='dual_ai'.",
    ),
    (
        lambda: tw.Agent("a", "p", "q", type="dual_ai", max_session_turns=0),
        "Agent 'a': max_session_turns must be 1 or more, not 0.",
    ),
    (
        lambda: stopping(stop_tool="ad"),
        "Agent 'a': side_a ends with the tool 'ad', which its prompt does not have. Did you mean 'add'?",
    ),
    (
        lambda: stopping(session_fail="sub"),
        "Agent 'a': side_a ends with the tool 'sub', which its prompt does not have. It has: add.",
    ),
    (
        lambda: tw.Side("p", stop_tool_response_property="x"),
        "A side with a stop_tool_response_property needs a stop_tool.",
    ),
    (
        lambda: stopping(stop_tool="add", stop_tool_response_property="nope"),
        "Agent 'a': side_a answers with the property 'nope', which its tool 'add' does not take.",
    ),
    (
        lambda: tw.App(agents=[tw.Agent("a", tw.Prompt("p"), "nope", type="dual_ai")]),
        "Agent 'a' names the prompt 'nope', which the app does not have. To write the prompt here, give instructions=.",
    ),
    (
        lambda: calling("b2", agents=[tw.Agent("b2", "nope", **SHOWN)]),
        "Agent 'b2' names the prompt 'nope', which the app does not have. It has: q. To write the prompt here, give "
        "instructions=.",
    ),
    (
        lambda: tw.Prompt("p", include_chat=WRONG),
        "Prompt 'p': include_chat must be true or false, not 5.",
    ),
]


@pytest.mark.parametrize(("declare", "sentence"), DECLARED, ids=[sentence[:60] for _, sentence in DECLARED])
def test_a_wrong_relation_is_refused_in_one_sentence(declare: Callable[[], object], sentence: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        declare()
    assert refused.value.message == sentence


def test_entries_may_be_spelt_as_the_document_spells_them() -> None:
    tw.App(
        prompts=[tw.Prompt("q", **SHOWN)],
        agents=[
            tw.Agent("b", tw.Prompt("bb"), **SHOWN),
            tw.Agent(
                "a",
                tw.Prompt(
                    "p",
                    tools=[
                        {"name": "q", "includeToolCalls": False, "initUserMessageProperty": "said"},
                        {"name": "b", "blocking": False, "initAgentNameProperty": "called"},
                    ],
                ),
            ),
        ],
    )
