"""Agents as JSON: everything that can be set on a prompt in Python, and each error by its path."""

from dataclasses import fields
from typing import Any, cast

import pytest

import toolwright as tw
from toolwright.core.agents.config import Identity, read_agent
from toolwright.core.errors import InvalidConfiguration
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ERRORS
from toolwright.core.model import ModelSettings

OUTPUT: JSONObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CONFIG: JSONObject = {
    "agent": {"system": "You plan."},
    "model": "openai:gpt-6.1-terra",
    "modelSettings": {
        "temperature": 0.5,
        "topP": 0.9,
        "maxTokens": 100,
        "seed": 7,
        "stopSequences": ["END"],
        "presencePenalty": 1,
        "frequencyPenalty": -1,
        "timeout": 30,
        "openaiTextVerbosity": "low",
        "extraHeaders": {"X-Team": "tea"},
    },
    "reasoning": "low",
    "toolChoice": "required",
    "output": OUTPUT,
    "context": {"maxTokens": 32_000, "keep": 0.2, "summarizeWith": "openai:gpt-6.1-terra"},
    "variables": [
        {"name": "CITY", "type": "text", "required": False, "scoped": True, "description": "Where."}
    ],
    "loop": {"maxSteps": 3, "maxSeconds": 60, "parallel": 8},
    "tools": [
        {"name": "ask", "description": "Ask.", "inputSchema": {"type": "object"}, "executionType": "external"}
    ],
    "env": {"CITY": {"value": "Rome", "type": "text"}},
    "tenvs": {"tenant": "acme"},
}
ELSEWHERE = {"name", "env", "tenvs", "hooks"}  # set on the agent or, as code, on the app
OF_CALLED_PROMPTS = {
    "tool_description",
    "include_chat",
    "include_past_tools",
    "required_schema",
    "expose_as_tool",
}


def test_a_configuration_can_say_everything_that_a_prompt_can() -> None:
    side = read_agent(CONFIG, Identity(name="planner"), {}, trusted=True).sides["side_a"]
    plain, configured = tw.Prompt("planner"), side.prompt
    assert isinstance(configured, tw.Prompt)
    names = {each.name for each in fields(tw.Prompt)} - ELSEWHERE - OF_CALLED_PROMPTS
    assert {name for name in names if getattr(configured, name) == getattr(plain, name)} == set()
    settings = tw.Prompt(
        "p",
        model_settings={
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 100,
            "seed": 7,
            "stop_sequences": ["END"],
            "presence_penalty": 1.0,
            "frequency_penalty": -1.0,
            "timeout": 30,
            "openai_text_verbosity": "low",
            "extra_headers": {"X-Team": "tea"},
        },
    ).model_settings
    assert configured.model_settings == settings
    assert configured.context == tw.Context(
        max_tokens=32_000, keep=0.2, summarize_with="openai:gpt-6.1-terra"
    )
    assert (configured.reasoning, configured.tool_choice) == ("low", "required")
    assert (side.max_steps, side.max_seconds) == (3, 60)


FAULTY: list[tuple[dict[str, Any], str, str]] = [
    ({"modelSettings": {"temperature": "hot"}}, "modelSettings.temperature", "must be a number"),
    ({"modelSettings": {"topP": 2}}, "modelSettings.topP", "must be at most 1"),
    ({"modelSettings": {"heat": 1}}, "modelSettings.heat", "is not a known field"),
    (
        {"modelSettings": {"max_tokens": 1}},
        "modelSettings.max_tokens",
        "is not a known field",
    ),
    (
        {"modelSettings": {"timeout": 0}},
        "modelSettings.timeout",
        "must be a number of seconds above 0",
    ),
    (
        {"modelSettings": {"extraBody": {"tools": []}}},
        "modelSettings.extraBody",
        "cannot have 'tools'",
    ),
    (
        {"reasoning": "much"},
        "reasoning",
        "must be 'minimal', 'low', 'medium', 'high', 'xhigh', 'max', true or false",
    ),
    (
        {"modelSettings": {"thinking": True}},
        "modelSettings.thinking",
        "is no setting of the model: set reasoning beside modelSettings",
    ),
    ({"toolChoice": "any"}, "toolChoice", "must be 'auto', 'required' or 'none'"),
    ({"output": "text"}, "output", "must be an object"),
    ({"output": {"type": "objekt"}}, "output.type", "is not valid JSON Schema"),
    ({"variables": [{"type": "text"}]}, "variables.0.name", "is missing"),
    ({"variables": [{"name": "A"}, {"name": "A"}]}, "variables.1.name", "'A' is declared twice"),
    ({"context": {"keep": 0.8}}, "context.keep", "is 0.8 and must be less than startAt (0.75)"),
    ({"context": {"startAt": 0.2}}, "context.keep", "is 0.3 and must be less than startAt (0.2)"),
    ({"context": {"keep": 0.8, "startAt": 2}}, "context.startAt", "must be less than 1"),
    ({"loop": {"maxSeconds": 0}}, "loop.maxSeconds", "must be more than 0"),
]


@pytest.mark.parametrize(("config", "path", "words"), FAULTY, ids=[path for _, path, _ in FAULTY])
def test_an_error_is_named_by_its_path(config: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        read_agent(config, Identity(name="planner"), {}, trusted=True)
    [fault, *_] = refused.value.details
    assert fault["path"] == path
    assert fault["message"].startswith(words)


OPEN_FAULTS: dict[str, tuple[object, str]] = {
    "openaiPreviousResponseId": (
        "resp_of_another",
        "is not a setting of configured agents; these are anthropicCache, ",
    ),
    "extraHeaders": ({"Authorization": "Bearer x"}, "is not a setting of configured agents"),
    "extraBody": ({"user": "x"}, "is not a setting of configured agents"),
    "openaiTextVerbosity": (
        {"low": True},
        "must be a number, true, false or a name of at most 64 letters and digits",
    ),
    "openaiServiceTier": ("auto\n", "must be a number, true, false or a name"),
    "timeout": (0, "must be a number of seconds above 0, at most 86400"),
    "serviceTier": (1, "must be text"),
    "parallelToolCalls": ("yes", "must be true or false"),
}


@pytest.mark.parametrize("name", [*OPEN_FAULTS])
def test_what_is_configured_over_http_can_set_numbers_switches_and_words_of_a_list_alone(name: str) -> None:
    value, words = OPEN_FAULTS[name]
    with pytest.raises(InvalidConfiguration) as refused:
        read_agent(
            {"modelSettings": {name: cast("JSON", value)}}, Identity(name="planner"), {}, trusted=False
        )
    [fault] = refused.value.details
    assert fault["path"] == f"modelSettings.{name}"
    assert fault["message"].startswith(words)


def test_what_is_configured_over_http_can_set_what_costs_nobody_else_anything() -> None:
    settings: JSONObject = {
        "timeout": 30,
        "serviceTier": "flex",
        "openaiReasoningSummary": "auto",
        "anthropicCache": True,
    }
    agent = read_agent({"modelSettings": settings}, Identity(name="planner"), {}, trusted=False)
    prompt = agent.sides["side_a"].prompt
    assert isinstance(prompt, tw.Prompt)
    assert isinstance(prompt.model_settings, ModelSettings) and prompt.model_settings.timeout == 30
    others = {"service_tier": "flex", "openai_reasoning_summary": "auto", "anthropic_cache": True}
    assert prompt.model_settings.others == others


def test_only_the_first_of_many_unknown_settings_are_named() -> None:
    settings: JSONObject = {f"heat{number}": 1 for number in range(50_000)}
    with pytest.raises(InvalidConfiguration) as refused:
        read_agent({"modelSettings": settings}, Identity(name="planner"), {}, trusted=False)
    assert len(refused.value.details) == MAX_ERRORS


def test_a_setting_that_is_null_is_left_to_the_provider() -> None:
    for trusted in (True, False):
        read_agent({"modelSettings": {"topK": None}}, Identity(name="planner"), {}, trusted=trusted)
