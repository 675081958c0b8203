"""Questions of handlers to the host's user (elicitation) and to its model (sampling): found by rows, answered once."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequest,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, ValidationError

from toolwright.core.errors import AlreadyOver, CallCancelled, CallExpired, CallResolved, InvalidRequest
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.result import ToolResult
from toolwright.core.state.elicitation import question_of
from toolwright.core.state.sampling import SAMPLE, sampling_of
from toolwright.core.text import sentence
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.value import value
from toolwright.runtime.pending.app_calls import AppCall
from toolwright.runtime.runtime import Runtime
from toolwright.web.mcp.tools import Context, capabilities_of

MANY = 200  # questions of one call
MAX_TOKENS = 1_000  # of a model's answer, where the handler names no other number
CANNOT_ASK = "The host cannot ask its user."
NO_MODEL = "The host offers no model."
NO_TEXT = "The answer of a model is a message of text."


@value
class Question:
    """An open question. `key` names it towards the host: it is never that of another one of the same call."""

    key: str
    call: Call
    asked: JSONObject

    @property
    def is_sampling(self) -> bool:
        """Return whether a model is asked, and no person."""
        return self.call.name == SAMPLE

    @property
    def lacking(self) -> JSONObject:
        """The capability that a host needs to be asked."""
        return {"sampling": {}} if self.is_sampling else {"elicitation": {}}


async def open_questions(runtime: Runtime, call: AppCall | Call) -> Sequence[Question]:
    """The open questions of the call, the oldest first."""
    seen: dict[str, int] = {}
    found: list[Question] = []
    for each in await runtime.app_calls.below(call, MANY):
        asked = question_of(each) or sampling_of(each)
        if asked is None:
            continue
        name = _name(asked) or each.id
        seen[name] = number = seen.get(name, 0) + 1
        if each.status in OPEN:
            found.append(Question(key=name if number == 1 else f"{name}_{number}", call=each, asked=asked))
    return found


def _name(asked: JSONObject) -> str:
    """The title of what is asked for, as a name: `user_name` of `UserName`."""
    schema = asked.get("requestedSchema")
    title = schema.get("title") if isinstance(schema, dict) else None
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", title) if isinstance(title, str) else []
    return "_".join(words).lower()[:100]


def request_of(question: Question, context: Context) -> InputRequest | None:
    """The question as the protocol asks it; None if the host cannot ask its user, or its model, so."""
    if question.is_sampling:
        return None if capabilities_of(context).sampling is None else _sampling(question.asked)
    able = capabilities_of(context).elicitation
    message, url = str(question.asked["message"]), question.asked.get("url")
    if able is None:
        return None
    if isinstance(url, str):
        if able.url is None:
            return None
        params = ElicitRequestURLParams(message=message, url=url, elicitation_id=question.call.id)
        return ElicitRequest(params=params)
    if able.form is None and able.url is not None:
        return None
    schema: Any = question.asked["requestedSchema"]
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sampling(asked: JSONObject) -> CreateMessageRequest:
    written: Any = asked
    messages = [
        SamplingMessage(role=each["role"], content=TextContent(text=each["content"]))
        for each in written["messages"]
    ]
    return CreateMessageRequest(
        params=CreateMessageRequestParams(
            messages=messages,
            system_prompt=written.get("system"),
            max_tokens=written.get("maxTokens", MAX_TOKENS),
            temperature=written.get("temperature"),
        )
    )


async def ask(runtime: Runtime, question: Question, context: Context) -> None:
    """Ask the user of a host with a session, and hand in the answer; one that does not fit is no answer."""
    request = request_of(question, context)
    if request is None or not context.session.can_send_request:
        await refuse(runtime, question)
        return
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    try:
        form = CreateMessageResult if question.is_sampling else ElicitResult
        given = await context.session.send_request(request, form, metadata=metadata)
        await answer(runtime, question, given)
    except (MCPError, ValidationError, InvalidRequest) as error:
        why = error.message if isinstance(error, MCPError | InvalidRequest) else "it is none"
        await refuse(runtime, question, sentence(f"The host's answer could not be taken: {why}"))


async def refuse(runtime: Runtime, question: Question, why: str | None = None) -> None:
    """Let the handler read why there is no answer: unless said otherwise, since the host cannot be asked."""
    if why is None:
        why = NO_MODEL if question.is_sampling else CANNOT_ASK
    await _submit(runtime, question, ToolResult.fail(why, error_code="not_asked"))


async def answer(runtime: Runtime, question: Question, given: object) -> None:
    """Hand in the host's answer. Raises `InvalidRequest` for one that is not what was asked for."""
    await _submit(runtime, question, _sampled(given) if question.is_sampling else _elicited(given))


async def answer_all(runtime: Runtime, questions: Sequence[Question], given: Mapping[str, Any]) -> bool:
    """Hand in those answers that fit, and say whether there are any; the other questions stay open."""
    taken = False
    for question in questions:
        if question.key in given:
            try:
                await answer(runtime, question, given[question.key])
                taken = True
            except InvalidRequest:
                continue  # it is asked again
    return taken


def _elicited(given: object) -> JSON:
    if not isinstance(given, ElicitResult):
        return cast("JSON", given)  # as a task's update brought it: it is validated with the question
    content: Any = given.content
    return {"action": given.action, **({} if content is None else {"content": content})}


def _sampled(given: object) -> JSON:
    written = given.model_dump(by_alias=True) if isinstance(given, BaseModel) else given
    try:
        read = CreateMessageResult.model_validate(written, by_name=False)
    except ValidationError:
        raise InvalidRequest(NO_TEXT) from None
    if not isinstance(read.content, TextContent):
        raise InvalidRequest(NO_TEXT)
    return {"text": read.content.text, "model": read.model}


async def _submit(runtime: Runtime, question: Question, given: JSON | ToolResult) -> None:
    try:
        await runtime.calls.submit(question.call.run_id, question.call.id, given)
    except (CallResolved, CallExpired, CallCancelled, AlreadyOver):
        return  # somebody else was faster
