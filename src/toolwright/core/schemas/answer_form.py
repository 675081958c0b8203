"""Structured output: validate a model's answer against a schema, and describe the errors for the model."""

from collections.abc import Sequence
from typing import Protocol

from toolwright.core.arguments.faults import Fault, list_faults
from toolwright.core.env.logs import internal_errors
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON
from toolwright.core.model import AnswerSchema, ModelResponse
from toolwright.core.schemas.output import Output, ValidatorFailed
from toolwright.core.threads.message import Message
from toolwright.core.value import value

OUTPUT_FAULT = "output"
"""The error code of a run whose answer did not fit."""
MOST_CORRECTIONS = 2
"""How often in a row an answer that breaks its schema is sent back."""
MAX_ANSWER = 10 * 1024 * 1024
"""Characters of an answer that is to be JSON."""
_FENCE = "```"


@value
class FormedAnswer:
    """An answer that fits: the response with the calls that it makes, and its output, None while it has none.

    `over` tells that no other answer is asked for once its calls are answered.
    """

    response: ModelResponse
    output: JSON = None
    over: bool = False


class AnswerFault(Exception):
    """An answer that breaks its schema, with its faults."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(list_faults(faults))


class AnswerForm(Protocol):
    """The form that all answers in a conversation must have."""

    @property
    def schema(self) -> AnswerSchema:
        """The schema that a provider is told; always the same object."""
        ...

    def read(self, response: ModelResponse) -> FormedAnswer:
        """The answer as it is meant. Raises `AnswerFault`."""
        ...

    def heard(self, messages: list[Message]) -> list[Message]:
        """The conversation as the model is to read it."""
        ...


def judge_answer(form: AnswerForm, response: ModelResponse) -> FormedAnswer:
    """Read the answer by its form.

    Raises `AnswerFault`, `ValidatorFailed`, or `ServerFailed` for a bug of our own.
    """
    with internal_errors("reading the model's answer", AnswerFault, ValidatorFailed):
        return form.read(response)


class OutputForm:
    """Answers of an agent with an output schema: calls of tools as usual, or the output as JSON text."""

    def __init__(self, output: Output) -> None:
        self._schema = AnswerSchema(schema=output.schema, name="output")
        self._output = output

    @property
    def schema(self) -> AnswerSchema:
        """The schema of the output."""
        return self._schema

    def read(self, response: ModelResponse) -> FormedAnswer:
        """The output, unless the answer makes calls. Raises `AnswerFault`."""
        if response.calls:
            return FormedAnswer(response=response)
        output = read_answer(response.text)
        faults = self._output.faults(output)
        if faults:
            raise AnswerFault(faults)
        return FormedAnswer(response=response, output=output, over=True)

    def heard(self, messages: list[Message]) -> list[Message]:
        """The conversation as it is."""
        return messages


def read_answer(text: str) -> JSON:
    """The JSON of an answer, also within a fence of Markdown. Raises `AnswerFault`."""
    if len(text) > MAX_ANSWER:
        raise AnswerFault([Fault((), f"the text is longer than {MAX_ANSWER} characters")])
    try:
        return parse_json(_unfenced(text))
    except NotJson as error:
        why = "is empty" if not text.strip() else f"is not valid JSON, {error}"
        raise AnswerFault([Fault((), f"the text {why}")]) from error


def _unfenced(text: str) -> str:
    """The text within a fence of Markdown that is all around it, else the text as it is."""
    whole = text.strip()
    first, line_break, rest = whole.partition("\n")
    if not line_break or first.rstrip().lower() not in (_FENCE, f"{_FENCE}json"):
        return text
    within = rest.removesuffix(_FENCE)
    return text if within == rest else within


def correction(fault: AnswerFault) -> str:
    """The user message by which a model is told of the faults."""
    return f"This answer does not fit the schema: {fault}. Give the whole answer again, as JSON that fits."
