"""Questions of handlers: the tools that only handlers call, the models of open questions, and the answers."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError

from toolwright.core.arguments.errors import FieldError, built_errors, details_of, join_errors, within
from toolwright.core.arguments.signature import Handler
from toolwright.core.arguments.validator import ResultValidator
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.forms import exception_text
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.results import ToolResult
from toolwright.core.state.state import ELICIT, ELICIT_TIMEOUT, SAMPLE, Action, Elicited, form_of
from toolwright.core.text import error_text, sentence
from toolwright.core.threads.call import Call
from toolwright.core.tools.tool import Tool

_QUESTION = Tool(
    name=ELICIT,
    description="Ask a person.",
    kind="space",
    parameters={
        "type": "object",
        "properties": {
            "message": {"type": "string"},
            "requestedSchema": {"type": "object"},
            "url": {"type": "string"},
            "source": {"type": "string"},
        },
        "required": ["message"],
        "additionalProperties": False,
    },
    timeout=ELICIT_TIMEOUT + 60,  # the question expires first
    expires_in=ELICIT_TIMEOUT,
)


HOST_TOOLS: Mapping[str, Tool] = {
    ELICIT: _QUESTION,
    SAMPLE: Tool(
        name=SAMPLE,
        description="Ask the host's model.",
        kind="space",
        parameters={"type": "object"},
        timeout=ELICIT_TIMEOUT + 60,
        expires_in=ELICIT_TIMEOUT,
    ),
}
"""The same tools in a call made by an MCP host: the host's user and model answer from outside."""


def handler_tools(sample: Handler) -> Mapping[str, Tool]:
    """Return the tools by name; `sample` executes those that query the agent's model."""
    sampling = Tool(
        name=SAMPLE,
        description="Ask the model.",
        kind="function",
        parameters={"type": "object"},
        handler=sample,
        timeout=None,  # limited by the timeout of the calling call
        read_only=True,
    )
    return {each.name: each for each in (_QUESTION, sampling)}


def check_question(asked: Mapping[str, JSON]) -> None:
    """Raise `InvalidRequest` for a question with an unusable schema, or whose URL is not a web page."""
    url = asked.get("url")
    if isinstance(url, str) and not url.lower().startswith(("https://", "http://")):
        raise InvalidRequest("The URL of a question must begin with https:// or http://.")
    schema = asked.get("requestedSchema")
    if not isinstance(schema, dict):
        return
    try:
        ResultValidator(schema, ELICIT).errors({})
    except DefinitionError as error:
        raise InvalidRequest(sentence(f"The schema of a question is not valid: {error}")) from error


class OpenForms:
    """The pydantic models of the questions that handlers ask in this process, by the handlers' calls.

    A question's row has only the model's schema, which does not have the model's own validators.
    """

    def __init__(self) -> None:
        self._models: dict[str, list[tuple[JSONObject, type[BaseModel]]]] = {}

    @contextmanager
    def open(self, call_id: str, model: type[BaseModel] | None) -> Generator[None]:
        """Hold the model of a question of that call, if it has one, as long as the question is open."""
        if model is None:
            yield
            return
        models, form = self._models.setdefault(call_id, []), (form_of(model), model)
        models.append(form)
        try:
            yield
        finally:
            models.remove(form)
            if not models:
                del self._models[call_id]

    def model(self, question: Call, asked: Mapping[str, JSON]) -> type[BaseModel] | None:
        """Return the model of the question, or None if that is not certain.

        Its handler can run in another process, have given a schema, or ask by two models of one schema at once.
        """
        forms = self._models.get(question.parent_id or "", ())
        models = {model for schema, model in forms if schema == asked.get("requestedSchema")}
        return models.pop() if len(models) == 1 else None


def read_answer(asked: Mapping[str, JSON], answer: JSON, model: type[BaseModel] | None = None) -> Elicited:
    """Validate the answer to a question and return it, with the defaults of omitted fields. Raises `InvalidRequest`.

    Content that the schema accepts is validated by the `model` too, if there is one.
    """
    if not isinstance(answer, dict) or answer.get("action") not in get_args(Action):
        raise InvalidRequest(
            "The answer to a question must be an object with an action: 'accept', 'decline' or 'cancel'.",
            [{"path": "result.action", "message": "must be 'accept', 'decline' or 'cancel'"}],
        )
    action = cast("Action", answer["action"])
    schema = asked.get("requestedSchema")
    if action != "accept" or not isinstance(schema, dict):
        return Elicited(action=action)
    content = answer.get("content")
    entered = _with_defaults({} if content is None else content, schema)
    errors = ResultValidator(schema, ELICIT).errors(entered)
    if model is not None and not errors:
        errors = _model_errors(model, cast("JSONObject", entered))
    if errors:
        raise InvalidRequest(
            sentence(f"The content of the answer is not what was asked for: {join_errors(errors)}"),
            details_of(within(errors, "result", "content")),
        )
    return Elicited(action="accept", content=cast("JSONObject", entered))


def _model_errors(model: type[BaseModel], content: JSONObject) -> list[FieldError]:
    try:
        model.model_validate_json(dumps(content))
    except ValidationError as error:
        return built_errors(error, content)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a validator of the user's model can raise anything
        return [FieldError((), error_text(error, exception_text))]
    return []


def elicited(asked: Mapping[str, JSON], result: ToolResult, model: type[BaseModel] | None = None) -> Elicited:
    """Return the answer in a call's result. A failed call has no answer. Raises `InvalidRequest`, as `read_answer`."""
    if result.status == "error":
        return Elicited(action="cancel", reason=result.error)
    return read_answer(asked, result.result, model)


def _with_defaults(content: JSON, schema: JSONObject) -> Any:  # the person's input
    properties = schema.get("properties")
    if not isinstance(content, dict) or not isinstance(properties, dict):
        return content
    defaults = {
        name: each["default"]
        for name, each in properties.items()
        if isinstance(each, dict) and "default" in each and name not in content
    }
    return {**defaults, **content}
