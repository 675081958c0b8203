"""Model port: a request in, a stream of events out, with the response as the last event."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError, ModelError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import AttachmentRef, ToolResult
from toolwright.core.text import brief
from toolwright.core.threads.message import Message, StateReport
from toolwright.core.threads.run import CutReason, Usage
from toolwright.core.value import Value, changed, field

EXAMPLE_MODEL = "openai:gpt-6.1-terra"
SMALL_MODEL = "openai:gpt-6-luna"  # cheaper, for summaries
EXAMPLE_MODELS = (
    EXAMPLE_MODEL,
    SMALL_MODEL,
    "openai-chat:gpt-6.1-terra",
    "anthropic:claude-sonnet-5-5",
    "openai:text-embedding-3-small",
)
"""The models that messages, docstrings, guides and examples name. A test holds them to these names."""

ToolChoice: TypeAlias = Literal["auto", "required", "none"]
Reasoning: TypeAlias = Literal["minimal", "low", "medium", "high", "xhigh", "max"] | bool | None
"""Effort of a model's reasoning: a level, True (the model decides), False (as little as possible), None (not sent)."""
MAX_WORDS = 200  # maximum characters of the model name and finish reason in an answer
Load: TypeAlias = Callable[[AttachmentRef], Awaitable[bytes | None]]
_CUTS: Mapping[str, CutReason] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "content_filter",
    "refusal": "refusal",
    "empty": "empty",
}
_CUT_ANSWERS: Mapping[CutReason, str] = {
    "max_tokens": "The answer was cut at the model's output limit (max_tokens)",
    "refusal": "The model refused to answer",
    "content_filter": "The answer was stopped by the provider's content filter",
    "empty": "The model gave an empty answer",
}


class ToolDefinition(Value):
    """A tool as sent to a model; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: JSONObject


class AnswerSchema(Value):
    """The required schema of an answer, whose text is JSON. `name` is for providers that require one."""

    schema: JSONObject
    name: str = "answer"


class ModelSettings(Value, gc=True):
    """Settings of a model; None uses the provider's default, or for the timeouts that of the app.

    `temperature`, `top_p` and the penalties are passed to the provider. `max_tokens` limits the answer, in tokens.
    `timeout` is the longest silence of the model within its answer, `request_timeout` the time of the whole answer with
    its retries, both in seconds. `others` are further settings of pydantic-ai by name, as of one provider.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    timeout: float | None = None
    request_timeout: float | None = None
    others: Mapping[str, Any] = field(default_factory=dict[str, Any])  # any value that pydantic-ai takes

    def __repr__(self) -> str:
        """Return the names of what is set: headers can be secrets."""
        return f"ModelSettings({', '.join([name for name, _ in self.__rich_repr__()])})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return the same names, for `rich`."""
        names = [name for name in self.__struct_fields__[:-1] if getattr(self, name) is not None]
        return [(name, "…") for name in (*names, *self.others)]


class ModelRequest(Value, gc=True):
    """One request. `tools` is the same tuple object from step to step, so adapters may cache by identity.

    `step` is the number (1, 2, …) of this request within its run, or among the requests to this model. `who` names the
    agent and prompt. `load` returns the bytes of a message's attachment, for models that can read it, or None if they
    no longer exist. `reasoning` is the reasoning effort. `turn` is the number of this request among the requests of its
    prompt; it differs from `step` if several prompts are active in the run. With an `answer` the text of the response
    is JSON that matches its schema, as far as the provider enforces it; it is the same object from step to step.

    `state` is what the agent is shown of its state; None if it has none. It has the parts that differ from those in the
    `state` of earlier answers. Adapters send it after the messages, and the reports of earlier answers before these
    answers, in a role that users do not have. So the request of a step begins with the bytes of the one before.
    """

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    step: int = 1
    who: tuple[str, ...] = ()
    load: Load | None = None
    reasoning: Reasoning = None
    turn: int = 1
    answer: AnswerSchema | None = None
    settings: ModelSettings | None = None
    state: StateReport | None = None


NO_SETTINGS = ModelSettings()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next part of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The next part of the model's reasoning, if the provider shows it."""

    text: str


class CallDelta(Value):
    """Start of a tool call (`arguments` is empty), or more of its arguments; `index` counts the answer's calls."""

    index: int
    name: str
    arguments: str


class ModelCall(Value):
    """A tool call requested by the model; `arguments` is JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


class ModelResponse(Value):
    """The complete answer, always the last item of the stream. `cost` is in US dollars, or None if unknown.

    `finish_reason` is `length`, `content_filter` or `refusal` if the answer is not whole; its calls are not executed.
    The text of a refusal is the provider's explanation. `reasoning` is what the provider shows of the model's
    reasoning, mostly a summary.
    """

    text: str = ""
    calls: tuple[ModelCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    finish_reason: str | None = None
    model: str = ""
    native: JSON = None
    reasoning: str = ""

    @property
    def cut(self) -> CutReason | None:
        """Why the answer is not whole, or None. An answer of white space or of reasoning alone is empty."""
        cut = _CUTS.get(self.finish_reason or "")
        return "empty" if cut is None and not self.calls and not self.text.strip() else cut


def cut_answer(cut: CutReason, text: str = "") -> ToolResult:
    """Return the error result of a caller that needs the whole answer; `text` is the part that arrived."""
    error = f"{_CUT_ANSWERS[cut]}: {text}" if text.strip() else f"{_CUT_ANSWERS[cut]}."
    return ToolResult.fail(error, error_code=cut)


def call_not_executed(cut: CutReason) -> ToolResult:
    """Return the error result of a call in an answer that is not whole."""
    advice = " Make fewer calls at once, or calls with shorter arguments." if cut == "max_tokens" else ""
    return ToolResult.fail(f"{_CUT_ANSWERS[cut]}, so this call was not executed.{advice}", error_code=cut)


class AttemptStarted(Value):
    """The request has failed and is sent again after a pause: the parts of the answer streamed so far are void.

    `number` is 2, 3, …; `pause` is in seconds, during which the model is not expected to send anything.
    """

    number: int
    pause: float = 0.0


ModelEvent: TypeAlias = AttemptStarted | TextDelta | ReasoningDelta | CallDelta | ModelResponse


class Model(Protocol):
    """A model that answers requests.

    Errors are raised as `ModelUnavailable` or `ModelRefused`, and as `ContextTooLong` if the request exceeds the
    model's context window. A model can have an attribute `window`, an `int` or None: the maximum number of tokens of
    one request. It is read by `window_of`.
    """

    @property
    def name(self) -> str:
        """The model's name, such as `openai:gpt-6.1-terra`."""
        ...

    def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the answer; the last item is the `ModelResponse`. Closing the iterator cancels the request."""
        ...


def window_of(model: Model) -> int | None:
    """Return the maximum number of tokens of a request to the model, or None if it is unknown."""
    window: object = getattr(model, "window", None)
    return window if isinstance(window, int) and is_window(window) else None


def is_window(window: object) -> bool:
    """Return whether the value is a number of tokens, or None for an unknown window."""
    return window is None or (isinstance(window, int) and not isinstance(window, bool) and window > 0)


def is_model(model: object) -> bool:
    """Return whether the value is the name of a model, a model object, or None for the model of the settings."""
    if model is None or isinstance(model, str):
        return True
    speaks = hasattr(model, "respond") or hasattr(model, "request_stream")  # ours, or pydantic-ai's
    return speaks and not isinstance(model, type)


def check_model(whose: str, model: object, example: str = EXAMPLE_MODEL) -> None:
    """Raise `DefinitionError` if the value is not a model, or its `window` is not a number of tokens."""
    if not is_model(model):
        raise DefinitionError(f"{whose} must be a name such as {example!r} or a model object, not {model!r}.")
    if model is None or isinstance(model, str):
        return
    window: object = getattr(model, "window", None)
    if not is_window(window):
        raise DefinitionError(
            f"{whose} has a window that must be a number of tokens, at least 1, or None, not {brief_value(window)}."
        )


def checked_response(response: ModelResponse, name: str) -> ModelResponse:
    """Return the answer of the model `name`, with its model name and finish reason cut to a maximum length.

    Raises `ModelError` if a user-defined model has put values of other types into it.
    """
    model, reason = response.model, response.finish_reason
    texts: list[object] = [response.text, response.reasoning, model, reason or ""]
    try:
        usage = response.usage
        counts: list[object] = [usage.input_tokens, usage.output_tokens]
        counts += (usage.cache_read_tokens, usage.cache_write_tokens)
        for call in response.calls:
            texts += (call.id, call.name, call.arguments)
    except (AttributeError, TypeError) as error:
        raise ModelError(f"{name} returned usage or calls of an invalid type: {error}.") from error
    cost: list[object] = [response.cost or 0]
    for values, kinds, expected in (
        (texts, str, "a text"),
        (counts, int, "a number"),
        (cost, (int, float), "a cost"),
    ):
        for each in values:
            if not isinstance(each, kinds):
                raise ModelError(f"{name} returned {brief_value(each)} instead of {expected}.")
    if len(model) > MAX_WORDS or (reason is not None and len(reason) > MAX_WORDS):
        reason = None if reason is None else brief(reason, MAX_WORDS)
        return changed(response, model=brief(model, MAX_WORDS), finish_reason=reason)
    return response
