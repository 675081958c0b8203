"""The short form of an agent: its one prompt is built from the agent's own arguments."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from toolwright import testing
from toolwright.core.errors import DefinitionError
from toolwright.core.model import ModelSettings
from toolwright.core.schemas.output import Output
from toolwright.core.value import changed


def count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


class City(BaseModel):
    name: str


class Desk:
    def look(self, name: str) -> str:
        """Look a city up."""
        return name


def prompt_of(agent: tw.Agent) -> tw.Prompt:
    prompt = agent.sides["side_a"].prompt
    assert isinstance(prompt, tw.Prompt)
    return prompt


def test_an_agent_has_a_prompt_of_its_name_made_of_its_own_arguments() -> None:
    settings = {"temperature": 0.5, "max_tokens": 100, "stop_sequences": ["END"]}
    agent = tw.Agent(
        "counter",
        instructions="Count.",
        model="openai:gpt-6.1-terra",
        tools=[count],
        output=City,
        model_settings=settings,
        env={"KEY": "abcdefgh"},
    )
    prompt = prompt_of(agent)
    assert (prompt.name, prompt.prompt, prompt.model) == ("counter", "Count.", "openai:gpt-6.1-terra")
    assert [each.name for each in prompt.tools if isinstance(each, tw.Tool)] == ["count"]
    assert isinstance(prompt.output, Output)
    active = tw.App(agents=[agent]).catalog.active(agent.id)
    assert active.settings == ModelSettings(temperature=0.5, max_tokens=100, stop_sequences=("END",))
    assert active.by_name["count"].parameters["required"] == ["text"]


def test_an_agent_of_a_name_alone_and_one_that_is_changed_keep_their_prompt() -> None:
    agent = tw.Agent("nobody")
    assert prompt_of(agent) == tw.Prompt("nobody")
    short = tw.Agent("counter", instructions="Count.")
    assert prompt_of(changed(short, description="It counts.")) is prompt_of(short)
    assert not hasattr(short, "instructions"), "the prompt has it"


def test_one_function_is_one_tool_in_all_agents_prompts_and_in_the_app() -> None:
    desk = Desk()
    agents = [
        tw.Agent("one", tools=[count, desk.look]),
        tw.Agent("two", tools=[desk.look]),
        tw.Agent("three", tw.Prompt("three", tools=[count])),
    ]
    app = tw.App(agents=agents, tools=[count])
    assert [*app.catalog.tools] == [app.catalog.tools["count"]]

    def other() -> int:
        """Count the words of a text."""
        return 1

    other.__name__ = "count"
    with pytest.raises(DefinitionError, match="two different tools named 'count'"):
        tw.App(agents=[*agents, tw.Agent("four", tools=[other])])


def test_a_toolset_and_functions_with_arguments_of_their_own_are_tools_too() -> None:
    named = partial(count)
    named.__doc__, named.__name__ = "Count.", "count_again"  # type: ignore[attr-defined]  # like a function
    agent = tw.Agent("counter", tools=tw.Toolset([count]))
    assert [each.name for each in prompt_of(agent).tools if isinstance(each, tw.Tool)] == ["count"]
    assert [tool.name for tool in tw.Toolset([count, tw.tool(Desk().look)])] == ["count", "look"]


def undescribed(text: str) -> str:
    return text


def anything(text: Any) -> str:
    """Say it."""
    return str(text)


MISTAKES: Mapping[str, tuple[Callable[[], object], str]] = {
    "no docstring": (
        lambda: tw.Agent("a", tools=[undescribed]),
        "Tool 'undescribed' needs a description: give description= or a docstring.",
    ),
    "no type": (lambda: tw.Agent("a", tools=[anything]), "Tool 'anything': parameter 'text'"),
    "a type": (
        lambda: tw.Agent("a", tools=[City]),
        "Agent 'a': tools must be a list of tools, names of the app's tools, prompts and agents, and how these are "
        "called, not one with",
    ),
    "one tool": (lambda: tw.Agent("a", tools=count), "Agent 'a': tools must be a list of"),  # type: ignore[arg-type]
    "instructions": (lambda: tw.Agent("a", instructions=3), "Agent 'a': instructions must be text, not 3."),  # type: ignore[arg-type]
    "a model": (
        lambda: tw.Agent("a", model=3),
        "Agent 'a': model must be a name such as 'openai:gpt-6.1-terra'",
    ),
    "an output": (
        lambda: tw.Agent("a", output="City"),
        "The output schema of the agent 'a' must be a JSON Schema or",
    ),
    "two prompts": (
        lambda: tw.Agent("a", tw.Prompt("p"), instructions="Go."),
        "Agent 'a' has a side_a: its instructions= belongs to the prompt there.",
    ),
    "two sides": (
        lambda: tw.Agent("a", type="dual_ai", instructions="Go."),
        "Agent 'a' is of the type 'dual_ai': give instructions= to the prompts of its sides.",
    ),
    "a setting": (
        lambda: tw.Agent("a", model_settings={"temprature": 1}),
        "Agent 'a': model_settings has no 'temprature'. Did you mean 'temperature'?",
    ),
    "a value": (
        lambda: tw.Agent("a", model_settings={"max_tokens": "many"}),
        "Agent 'a': the model setting 'max_tokens' must be a whole number from 1, not 'many'.",
    ),
    "no dict": (lambda: tw.Agent("a", model_settings=[1]), "Agent 'a': model_settings must be a dict"),  # type: ignore[arg-type]
    "another library's": (
        lambda: tw.Agent("a", system_prompt="Go."),  # type: ignore[call-arg]
        "An agent has no system_prompt=: give instructions='…'.",
    ),
    "a setting of its model": (
        lambda: tw.Agent("a", temperature=0),  # type: ignore[call-arg]
        "An agent has no temperature=: give model_settings={'temperature': …}.",
    ),
}


TAKING_MODELS: Mapping[str, Callable[[object], object]] = {
    "Agent 'a': model": lambda model: tw.Agent("a", model=model),
    "Context: summarize_with": lambda model: tw.Context(summarize_with=model),
    "with_model: the model": lambda model: tw.App().with_model(model),
}


@pytest.mark.parametrize("window", ["8000", -1, 0, True, 8_000.0])
@pytest.mark.parametrize("place", TAKING_MODELS)
def test_a_window_is_a_number_of_tokens(place: str, window: Any) -> None:
    make = TAKING_MODELS[place]
    make(testing.ScriptedModel([], window=8_000))
    with pytest.raises(DefinitionError) as raised:
        make(testing.ScriptedModel([], window=window))
    assert raised.value.message == (
        f"{place} has a window that must be a number of tokens, at least 1, or None, not {window!r}."
    )


@pytest.mark.parametrize("tokens", [0, 999, "9000", True, 2**31, 10**30])
def test_the_tokens_of_a_context_are_a_number_that_can_be(tokens: Any) -> None:
    assert tw.Context(max_tokens=2**31 - 1).max_tokens == 2**31 - 1
    with pytest.raises(
        DefinitionError, match="max_tokens must be a number of tokens from 1000 to 2147483647, not"
    ):
        tw.Context(max_tokens=tokens)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said_in_one_sentence(name: str) -> None:
    make, words = MISTAKES[name]
    with pytest.raises(DefinitionError) as raised:
        make()
    assert raised.value.message.startswith(words), raised.value.message


@pytest.mark.parametrize(
    ("setting", "faulty"),
    [
        ("temperature", True),
        ("temperature", -1),
        ("temperature", float("nan")),
        ("top_p", 1.1),
        ("max_tokens", 0),
        ("max_tokens", 1.0),
        ("seed", "1"),
        ("stop_sequences", "END"),
        ("stop_sequences", [""]),
        ("presence_penalty", float("inf")),
    ],
)
def test_settings_are_validated_one_by_one(setting: str, faulty: Any) -> None:
    with pytest.raises(DefinitionError, match=f"the model setting '{setting}' must be"):
        tw.Prompt("p", model_settings={setting: faulty})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run", "An agent has no attribute 'run'. Call await tw.run(agent, 'text')."),
        ("run_sync", "An agent has no attribute 'run_sync'. Call tw.run_sync(agent, 'text')."),
        ("instructions_text", "An agent has no attribute 'instructions_text'."),
    ],
)
def test_a_method_of_other_libraries_names_the_function(name: str, words: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(tw.Agent("a"), name)
    assert str(raised.value) == words
