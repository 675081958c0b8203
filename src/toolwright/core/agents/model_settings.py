"""Settings of a model, as prompts and configured agents declare them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from toolwright.core.checks import brief_value, is_number
from toolwright.core.errors import DefinitionError, InvalidJSON
from toolwright.core.json_value import plain
from toolwright.core.model import ModelSettings
from toolwright.core.text import nearest

MAX_TOKENS = 2**31
MAX_SECONDS = 86_400
MAX_SETTING_NAME = 64  # characters of a value of an agent that is configured over HTTP
_ELSEWHERE = {
    "tool_choice": "It is an option of the prompt: tw.Prompt('name', tool_choice=…).",
    "thinking": "It is an option of the prompt: tw.Prompt('name', reasoning=…).",
    "reasoning": "It is an option of the prompt: tw.Prompt('name', reasoning=…).",
}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
_FRAMING = frozenset({"content-length", "transfer-encoding", "host", "connection"})
_SECRET = frozenset({"extra_headers", "extra_body"})
_OWN_BODY = frozenset({
    "model", "messages", "input", "instructions", "system", "system_instruction", "systemInstruction", "contents",
    "tools", "tool_choice", "tool_config", "toolConfig", "parallel_tool_calls", "stream", "stream_options",
    "response_format", "text", "output_config", "output_format", "reasoning", "reasoning_effort", "thinking",
    "temperature", "top_p", "seed", "stop", "stop_sequences", "presence_penalty", "frequency_penalty",
    "max_tokens", "max_completion_tokens", "max_output_tokens",
    "generation_config", "generationConfig", "inferenceConfig",
})  # fmt: skip
"""Keys of a request's body that are written from the agent's definition, for all providers."""
_PROVIDERS = {
    "anthropic": "metadata thinking cache_tool_definitions service_tier cache_instructions cache_messages cache"
    " cache_diagnostics effort task_budget container code_execution_tool_version web_tools_allowed_callers"
    " eager_input_streaming betas speed context_management",
    "bedrock": "guardrail_config performance_configuration request_metadata additional_model_response_fields_paths"
    " prompt_variables additional_model_requests_fields cache_tool_definitions cache_instructions cache_messages"
    " service_tier inference_profile",
    "cerebras": "disable_reasoning clear_thinking",
    "decision": "boolean_threshold route_threshold",
    "google": "safety_settings thinking_config labels video_resolution cached_content logprobs top_logprobs"
    " cloud_service_tier model_armor_config",
    "groq": "reasoning_format reasoning_effort",
    "mcp": "model_preferences",
    "mistral": "prompt_cache_key",
    "openai": "reasoning_effort logprobs top_logprobs store user moderation text_verbosity service_tier prediction"
    " prompt_cache_key prompt_cache_retention prompt_cache_options cache_instructions continuous_usage_stats"
    " include_raw_annotations include_unmapped_response_data native_tools reasoning_mode reasoning_context"
    " reasoning_summary send_reasoning_ids truncation previous_response_id conversation_id"
    " include_code_execution_outputs include_web_search_sources include_file_search_results context_management"
    " background transport prompt_cache_diagnostics",
    "openrouter": "models provider preset transforms reasoning usage cache_instructions cache_messages"
    " cache_tool_definitions",
    "snowflake": "reasoning",
    "typesafe": "boolean_threshold tool_call_threshold",
    "xai": "logprobs top_logprobs user store_messages previous_response_id include_encrypted_content"
    " include_code_execution_output include_web_search_output include_inline_citations include_mcp_output"
    " include_x_search_output include_collections_search_output include_attachment_search_output reasoning_effort"
    " max_turns agent_count",
    "zai": "clear_thinking",
}
NATIVE = frozenset([f"{provider}_{name}" for provider, names in _PROVIDERS.items() for name in names.split()])
"""Names of the providers' own settings, as pydantic-ai has them; it checks their values."""

OVER_HTTP = frozenset([
    *("top_k", "parallel_tool_calls", "service_tier", "citations", "timeout", "request_timeout", "first_event_timeout"),
    *("anthropic_cache", "anthropic_cache_instructions", "anthropic_cache_messages", "anthropic_effort"),
    *("anthropic_cache_tool_definitions", "anthropic_service_tier", "anthropic_speed"),
    *("bedrock_cache_instructions", "bedrock_cache_messages", "bedrock_cache_tool_definitions"),
    *("cerebras_clear_thinking", "cerebras_disable_reasoning", "zai_clear_thinking"),
    *("google_cloud_service_tier", "google_video_resolution", "groq_reasoning_effort", "groq_reasoning_format"),
    *("openai_cache_instructions", "openai_prompt_cache_retention", "openai_reasoning_effort"),
    *("openai_reasoning_mode", "openai_reasoning_summary", "openai_service_tier", "openai_text_verbosity"),
    *("openai_truncation", "xai_agent_count", "xai_max_turns", "xai_reasoning_effort"),
])  # fmt: skip
"""Settings of agents that are configured over HTTP, besides those with a field: numbers, booleans and names.

All others are for the operator: headers, ids of other conversations, caches and files of the account.
"""


def _number(least: float, most: float) -> Callable[[object], bool]:
    return lambda value: is_number(value) and least <= cast("float", value) <= most


def whole_number(least: int, most: int) -> Callable[[object], bool]:
    """Return the predicate of whole numbers from `least` to less than `most`."""
    return lambda value: type(value) is int and least <= value < most


def _is_texts(value: object) -> bool:
    if not isinstance(value, list | tuple):
        return False
    return all(isinstance(each, str) and each for each in cast("list[object]", value))


def _is_seconds(value: object) -> bool:
    return is_number(value) and 0 < cast("float", value) <= MAX_SECONDS


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value) > 0


def _is_any(_: object) -> bool:
    return True


def _are_headers(value: object) -> bool:
    headers = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {0: 0}
    return all(
        isinstance(name, str)
        and isinstance(text, str)
        and _HEADER_NAME.fullmatch(name) is not None
        and name.lower() not in _FRAMING
        and _HEADER_VALUE.fullmatch(text) is not None
        for name, text in headers.items()
    )


def _is_body(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    try:
        plain(cast("Mapping[object, object]", value))
    except InvalidJSON:
        return False
    return True


def _are_biases(value: object) -> bool:
    biases = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {0: 0}
    return all(isinstance(token, str) and is_number(bias) for token, bias in biases.items())


_SECONDS = (f"a number of seconds above 0, at most {MAX_SECONDS}", _is_seconds)
_BOOLEAN = ("true or false", _is_boolean)
_WORD = ("text", _is_word)
_OBJECT = ("", _is_any)

COMMON: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "temperature": ("a number from 0", _number(0, 1e9)),
    "top_p": ("a number from 0 to 1", _number(0, 1)),
    "max_tokens": ("a whole number from 1", whole_number(1, MAX_TOKENS)),
    "seed": ("a whole number", whole_number(-(2**63), 2**63)),
    "stop_sequences": ("a list of texts", _is_texts),
    "presence_penalty": ("a number", _number(-1e9, 1e9)),
    "frequency_penalty": ("a number", _number(-1e9, 1e9)),
    "top_k": ("a whole number from 1", whole_number(1, MAX_TOKENS)),
    "timeout": _SECONDS,
    "request_timeout": _SECONDS,
    "first_event_timeout": _SECONDS,
    "max_retries": ("a whole number from 0", whole_number(0, 100)),
    "parallel_tool_calls": _BOOLEAN,
    "service_tier": _WORD,
    "citations": _BOOLEAN,
    "cache": _OBJECT,
    "framing_announcement": _WORD,
    "logit_bias": ("a dict of numbers by token", _are_biases),
    "extra_headers": (
        "a dict of names and values that HTTP can send, without Content-Length and Host",
        _are_headers,
    ),
    "extra_body": ("a dict of JSON values", _is_body),
}
"""The condition of each setting that several providers have, as a message and as a predicate."""


def declared_settings(subject: str, declared: object) -> ModelSettings | None:
    """Return the settings of a prompt. Raises `DefinitionError` for an unknown name or an invalid value."""
    if declared is None or isinstance(declared, ModelSettings):
        return declared
    if not isinstance(declared, Mapping):
        raise DefinitionError(f"{subject}: model_settings must be a dict, not {brief_value(declared)}.")
    settings = cast("Mapping[object, object]", declared)
    for name, value in settings.items():
        if name not in COMMON and name not in NATIVE:
            raise DefinitionError(f"{subject}: model_settings has no {name!r}.{_advice(str(name))}")
        error = setting_error(str(name), value)
        if error is not None:
            raise DefinitionError(f"{subject}: the model setting {name!r} {error}.")
    given = {str(name): each for name, each in settings.items() if each is not None}
    if "stop_sequences" in given:
        given["stop_sequences"] = tuple(cast("Sequence[str]", given["stop_sequences"]))
    own = {name: given.pop(name) for name in ModelSettings.__struct_fields__ if name in given}
    return ModelSettings(**own, others=given)  # type: ignore[arg-type]  # as just validated


def _advice(name: str) -> str:
    if name in _ELSEWHERE:
        return f" {_ELSEWHERE[name]}"
    names = f"{', '.join(COMMON)}, and those of one provider, such as openai_text_verbosity"
    return nearest(name, [*COMMON, *NATIVE]) or f" Its names are {names}."


def setting_error(name: str, value: object) -> str | None:
    """Return what is wrong with the value of a setting, as the end of a sentence, or None."""
    expected, fits = COMMON.get(name, _OBJECT)
    if value is None:
        return None
    if not fits(value):
        return f"must be {expected}" if name in _SECRET else f"must be {expected}, not {brief_value(value)}"
    taken = _OWN_BODY.intersection(cast("Mapping[str, object]", value)) if name == "extra_body" else ()
    return f"cannot have {min(taken)!r}, which is written from the agent's definition" if taken else None


def open_setting_error(name: str, value: object) -> str | None:
    """Return what is wrong with a setting of an agent that is configured over HTTP, besides the fields, or None."""
    is_name = (
        isinstance(value, str) and 0 < len(value) <= MAX_SETTING_NAME and value.replace("_", "").isalnum()
    )
    if not is_name and not isinstance(value, bool | None) and not is_number(value):
        return f"must be a number, true, false or a name of at most {MAX_SETTING_NAME} letters and digits"
    return setting_error(name, value)
