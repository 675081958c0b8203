"""Our own bugs while an answer or arguments are read: reported as internal errors, with a traceback in the log."""

import logging

import pytest

import toolwright as tw
from tests.kit import Watched
from tests.runtime.rig import running
from toolwright.core.arguments.errors import FieldError
from toolwright.core.errors import ServerFailed
from toolwright.core.json_value import JSONObject
from toolwright.core.model import AnswerSchema, ModelResponse
from toolwright.core.results import ToolResult
from toolwright.core.schemas.output import FormedAnswer, InvalidAnswer, validate_answer
from toolwright.core.threads.message import Message
from toolwright.core.tools.pipeline import prepare
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio


class Broken(Exception):
    """One of our bugs."""


def is_logged(caplog: pytest.LogCaptureFixture) -> bool:
    """Return whether a traceback of the bug is in the log."""
    return any(
        record.levelno >= logging.ERROR and record.exc_info and isinstance(record.exc_info[1], Broken)
        for record in caplog.records
    )


class BrokenBus(MemoryBus):
    """A bus that fails when it is asked for the followers of a run, as it is while a model streams."""

    def wanted(self, thread_id: str, run_id: str) -> bool:
        raise Broken("no followers")


class BrokenForm:
    """A form of answers that raises an error when it parses one."""

    schema = AnswerSchema(schema={}, name="answer")

    def __init__(self, error: Exception) -> None:
        self._error = error

    def read(self, response: ModelResponse) -> FormedAnswer:
        raise self._error

    def as_sent(self, messages: list[Message]) -> list[Message]:
        return messages


async def test_a_run_is_not_failed_in_the_name_of_its_model(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Watched(), bus=BrokenBus()) as rig:
        run = await rig.run()
    assert (run.status, run.error_code) == ("failed", "internal")
    assert run.error == "Internal error while showing the model's answer: no followers."
    assert is_logged(caplog)


def test_an_answer_whose_form_breaks_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ServerFailed, match="Internal error while reading the model's answer: no form"):
        validate_answer(BrokenForm(Broken("no form")), ModelResponse(text="{}"))
    assert is_logged(caplog)
    with pytest.raises(InvalidAnswer):
        validate_answer(BrokenForm(InvalidAnswer([FieldError((), "is empty")])), ModelResponse(text=""))


def test_arguments_that_we_cannot_validate_are_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    def resolve(tool: tw.Tool, arguments: JSONObject) -> JSONObject:
        raise Broken("no references")

    tool = tw.Tool.from_schema("look", {"type": "object", "properties": {"x": {"type": "string"}}})
    result = prepare({"look": tool}, "look", '{"x": "y"}', "call_1", resolve)
    assert isinstance(result, ToolResult)
    assert (result.status, result.error_code) == ("error", "internal")
    assert result.error == "Internal error while validating the arguments of the tool 'look': no references."
    assert is_logged(caplog)
