"""Model settings and the context policy, as a prompt declares them: validated name by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from toolwright.core.checks import brief_value, check_kind, is_number, refuse_fields
from toolwright.core.errors import DefinitionError
from toolwright.core.model import Model, ModelSettings, check_model
from toolwright.core.text import hint

_MOST_TOKENS = 2**31


def declared_settings(whose: str, declared: object) -> ModelSettings | None:
    """The settings that a prompt declares; raises `DefinitionError` for a name or a value that is none."""
    if declared is None or isinstance(declared, ModelSettings):
        return declared
    if not isinstance(declared, Mapping):
        raise DefinitionError(f"{whose}: model_settings must be a dict, not {brief_value(declared)}.")
    named = cast("Mapping[object, object]", declared)
    for name, given in named.items():
        rule = _RULES.get(name) if isinstance(name, str) else None
        if rule is None:
            raise DefinitionError(
                f"{whose}: model_settings has no {name!r}; there are {', '.join(_RULES)}.{hint(str(name), _RULES)}"
            )
        wanted, fits = rule
        if given is not None and not fits(given):
            raise DefinitionError(
                f"{whose}: the model setting {name!r} must be {wanted}, not {brief_value(given)}."
            )
    values = {str(name): _kept(each) for name, each in named.items()}
    return ModelSettings(**values)  # type: ignore[arg-type]  # as just validated


def _kept(given: object) -> object:
    return tuple(cast("list[str]", given)) if isinstance(given, list) else given


def _number(least: float, most: float) -> Callable[[object], bool]:
    return lambda given: type(given) in (int, float) and least <= cast("float", given) <= most


def _whole(least: int, most: int) -> Callable[[object], bool]:
    return lambda given: type(given) is int and least <= given < most


def _is_texts(given: object) -> bool:
    if not isinstance(given, list | tuple):
        return False
    return all(isinstance(each, str) and each for each in cast("list[object]", given))


_RULES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "temperature": ("a number from 0", _number(0, 1e9)),
    "top_p": ("a number from 0 to 1", _number(0, 1)),
    "max_tokens": ("a whole number from 1", _whole(1, _MOST_TOKENS)),
    "seed": ("a whole number", _whole(-(2**63), 2**63)),
    "stop_sequences": ("a list of texts", _is_texts),
    "presence_penalty": ("a number", _number(-1e9, 1e9)),
    "frequency_penalty": ("a number", _number(-1e9, 1e9)),
}
"""What each setting must be, in words and as a rule."""


MOST_PARALLEL = 100  # calls of one answer that may run at once


def check_parallel(whose: str, parallel: object) -> None:
    """Raise `DefinitionError` if that is no number of calls that may run at once."""
    if parallel is not None and not _whole(1, MOST_PARALLEL + 1)(parallel):
        raise DefinitionError(
            f"{whose}: parallel must be a number of calls from 1 to {MOST_PARALLEL}, not {brief_value(parallel)}."
        )


LEAST_TOKENS = 1_000
ANSWER_TOKENS = 16_384  # room for an answer where the settings of the model give none
MOST_INSTRUCTIONS = 20_000  # characters

SummaryModel: TypeAlias = str | Model | object | None

_CONTEXT_HINTS = {
    "max_messages": "A context is counted in tokens: give max_tokens=.",
    "tokens": "Give max_tokens=.",
    "model": "The model that summarizes is summarize_with=.",
}


@refuse_fields(_CONTEXT_HINTS)
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """How long the requests to a model may become, and what happens to older parts of a conversation.

    `max_tokens` is the most tokens of a request: system text, tools and messages. By default it is what the model
    takes, less the room for its answer; without a limit where that is not known, until the provider names it. From
    `start_at` of these tokens on, the conversation is made shorter: old results of tools become references that the
    model can open with `read_result`, then older turns become a summary, or are left out with a note where there is
    none. The newest messages, up to the share `keep` of the tokens, stay as they are. Both shares are of the tokens
    that the system text and the tools leave of `max_tokens`.

    `summarize` says whether summaries are written; `summarize_with` is the model that writes them, by default the
    agent's own, and `instructions` tell it what they must keep.

    Raises `DefinitionError`.
    """

    max_tokens: int | None = None
    start_at: float = 0.75
    keep: float = 0.3
    summarize: bool = True
    summarize_with: SummaryModel = None
    instructions: str = ""

    def __post_init__(self) -> None:
        most = self.max_tokens
        if most is not None and not _whole(LEAST_TOKENS, _MOST_TOKENS)(most):
            raise DefinitionError(
                f"Context: max_tokens must be a number of tokens from {LEAST_TOKENS} to {_MOST_TOKENS - 1}, not "
                f"{brief_value(most)}."
            )
        for name in ("start_at", "keep"):
            share = getattr(self, name)
            if not is_number(share) or not 0 < share < 1:
                raise DefinitionError(
                    f"Context: {name} must be a number between 0 and 1, not {brief_value(share)}."
                )
        if self.keep >= self.start_at:
            raise DefinitionError(
                f"Context: keep ({self.keep:g}) must be less than start_at ({self.start_at:g})."
            )
        check_kind("Context: summarize", self.summarize, bool, "true or false")
        check_model("Context: summarize_with", self.summarize_with, "openai:gpt-5-mini")
        check_kind("Context: instructions", self.instructions, str, "text")
        if len(self.instructions) > MOST_INSTRUCTIONS:
            raise DefinitionError(f"Context: instructions must have at most {MOST_INSTRUCTIONS} characters.")

    def budget(self, window: int | None, answer: int | None) -> int | None:
        """Return the most tokens of a request to a model that takes `window` tokens and answers with at most `answer`.

        None without a limit.
        """
        if self.max_tokens is not None or window is None:
            return self.max_tokens
        return max(window - min(answer or ANSWER_TOKENS, window // 2), window // 4)


DEFAULT_CONTEXT = Context()
