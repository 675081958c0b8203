"""Parameters that no object can fit are rejected at declaration, for every framework."""

from typing import Any

import pytest
from agents import FunctionTool
from langchain_core.tools import StructuredTool
from pydantic_ai import Tool as PydanticAITool

import toolwright as tw
from toolwright.core.errors import DefinitionError

NO_OBJECT: dict[str, Any] = {"type": "string"}


async def invoked(*_: object) -> str:
    return ""


def of_pydantic_ai() -> tw.Tool:
    return tw.Tool.from_pydantic_ai(PydanticAITool.from_schema(invoked, "odd", "Odd.", NO_OBJECT))


def of_openai_agents() -> tw.Tool:
    return tw.Tool.from_openai_agents(
        FunctionTool("odd", "Odd.", NO_OBJECT, invoked, strict_json_schema=False)
    )


def of_langchain() -> tw.Tool:
    native = StructuredTool(name="odd", description="Odd.", args_schema=NO_OBJECT, coroutine=invoked)
    return tw.Tool.from_langchain(native)


@pytest.mark.parametrize("declare", [of_pydantic_ai, of_openai_agents, of_langchain])
def test_what_no_object_fits_is_refused(declare: Any) -> None:
    with pytest.raises(DefinitionError, match="'odd'"):
        declare()
