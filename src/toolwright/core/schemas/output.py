"""Structured output: a JSON Schema or a type, validation of answers, and error messages for the model."""

from collections.abc import Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Protocol, cast

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from toolwright.core.arguments.errors import FieldError, built_errors, join_errors
from toolwright.core.arguments.types import adapter_of
from toolwright.core.arguments.validator import ResultValidator
from toolwright.core.checks import brief_value
from toolwright.core.env.logs import internal_errors
from toolwright.core.errors import DefinitionError, InvalidJSON
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, dumps, plain
from toolwright.core.model import AnswerSchema, ModelResponse
from toolwright.core.schemas.schema_tool import read_schema
from toolwright.core.text import error_text, pydantic_reason
from toolwright.core.threads.message import Message
from toolwright.core.value import Value

_NO_TYPES = (str, bytes, list, tuple, int, float, FunctionType, BuiltinFunctionType, MethodType)
OUTPUT_FAULT = "output"
"""The error code of a run whose answer did not match the declared output."""
MAX_CORRECTIONS = 2
"""Maximum number of consecutive corrections of an invalid answer."""
_FENCE = "```"
MAX_ANSWER = 10 * 1024 * 1024
"""Maximum number of characters of an answer in JSON."""


class ValidatorFailed(Exception):
    """A validator of the user's output type raised another error than a `ValidationError`; see `__cause__`."""


class Output:
    """A declared output: a JSON Schema, or a type such as a pydantic model, a dataclass or a union.

    Its error messages begin with `what`. Raises `InvalidConfiguration` with the path of every error of a schema,
    `DefinitionError` for a type without a schema.
    """

    def __init__(self, declared: object, what: str = "The output schema") -> None:
        self._adapter: TypeAdapter[Any] | None = None
        schema = declared
        if not isinstance(declared, Mapping):
            if declared is None or isinstance(declared, _NO_TYPES):
                raise DefinitionError(
                    f"{what} must be a JSON Schema or a type, not {brief_value(cast('object', declared))}."
                )
            self._adapter = adapter_of(declared, what)
            try:
                schema = plain(self._adapter.json_schema())
            except PydanticUserError as error:
                raise DefinitionError(f"{what} cannot be used: {pydantic_reason(error)}") from error
            # A method of the user's type can raise these.
            except (InvalidJSON, ValueError, TypeError) as error:
                raise DefinitionError(f"{what} is a type that JSON Schema cannot describe.") from error
        self.schema = read_schema(what, cast("object", schema))
        self._validator = ResultValidator(self.schema, "output")

    def errors(self, output: JSON) -> list[FieldError]:
        """Return the validation errors of an output: by the schema, then by the type's validators."""
        errors = self._validator.errors(output)
        if errors or self._adapter is None:
            return errors
        try:
            self.load(output)
        except ValidationError as error:
            return built_errors(error, output)
        except (Exception, SystemExit) as error:  # a user-defined validator can raise anything
            raise ValidatorFailed(error_text(error)) from error
        return []

    def load(self, output: JSON) -> Any:  # an instance of the declared type
        """Return the output as an instance of the declared type, or unchanged for a schema.

        Raises pydantic's `ValidationError`.
        """
        return output if self._adapter is None else self._adapter.validate_json(dumps(output))


class FormedAnswer(Value):
    """A valid answer: the response with its calls, and its output, or None if it has none yet.

    `over` is true if no other answer is requested after its calls are answered.
    """

    response: ModelResponse
    output: JSON = None
    over: bool = False


class InvalidAnswer(Exception):
    """An invalid answer, with its errors."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__(join_errors(errors))


class AnswerForm(Protocol):
    """The required form of all answers in a conversation."""

    @property
    def schema(self) -> AnswerSchema:
        """The schema sent to a provider; always the same object."""
        ...

    def read(self, response: ModelResponse) -> FormedAnswer:
        """Read an answer in this form. Raises `InvalidAnswer`."""
        ...

    def as_sent(self, messages: list[Message]) -> list[Message]:
        """Return the conversation as sent to the model."""
        ...


def validate_answer(form: AnswerForm, response: ModelResponse) -> FormedAnswer:
    """Read the answer by its form.

    Raises `InvalidAnswer`, `ValidatorFailed`, or `ServerFailed` for a bug of our own.
    """
    with internal_errors("reading the model's answer", InvalidAnswer, ValidatorFailed):
        return form.read(response)


class OutputForm:
    """Answers of an agent with an output schema: tool calls, or the output as JSON text."""

    def __init__(self, output: Output) -> None:
        self._schema = AnswerSchema(schema=output.schema, name="output")
        self._output = output

    @property
    def schema(self) -> AnswerSchema:
        """The schema of the output."""
        return self._schema

    def read(self, response: ModelResponse) -> FormedAnswer:
        """Parse an answer: its calls if it has any, otherwise its output. Raises `InvalidAnswer`."""
        if response.calls:
            return FormedAnswer(response=response)
        output = read_answer(response.text)
        errors = self._output.errors(output)
        if errors:
            raise InvalidAnswer(errors)
        return FormedAnswer(response=response, output=output, over=True)

    def as_sent(self, messages: list[Message]) -> list[Message]:
        """Return the conversation unchanged."""
        return messages


def read_answer(text: str) -> JSON:
    """Return the JSON of an answer, also within a Markdown fence. Raises `InvalidAnswer`."""
    if len(text) > MAX_ANSWER:
        raise InvalidAnswer([FieldError((), f"the text is longer than {MAX_ANSWER} characters")])
    try:
        return parse_json(_unfenced(text))
    except NotJson as error:
        why = "is empty" if not text.strip() else f"is not valid JSON, {error}"
        raise InvalidAnswer([FieldError((), f"the text {why}")]) from error


def _unfenced(text: str) -> str:
    """Return the text inside a Markdown fence around it, or the text itself without a fence."""
    stripped = text.strip()
    first, line_break, body = stripped.partition("\n")
    if not line_break or first.rstrip().lower() not in (_FENCE, f"{_FENCE}json"):
        return text
    within = body.removesuffix(_FENCE)
    return text if within == body else within


def correction(error: InvalidAnswer) -> str:
    """Return the user message that reports the errors to a model."""
    return f"This answer does not fit the schema: {error}. Give the whole answer again, as JSON that fits."
