"""S2 §1, §2, §8 and §10: the definition of a tool, what a model reads of it, and its allowed names."""

import asyncio
import dataclasses
import inspect
import warnings

import pytest
from pydantic import BaseModel, Field

import toolwright as tw
from tests.behaviour.doors import app_of, carried_out, results, turns
from tests.behaviour.marks import requirement
from toolwright.core.errors import DefinitionError
from toolwright.core.tools.tool import ToolNameWarning
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

LONG = """Find the shelf of a book.

Use it whenever somebody asks where a book is; never for authors.
Returns the shelf as a letter and a number, "B4".
  Indented, with "quotes", ümläuts and 📚."""


class ShelfArgs(BaseModel):
    title: str = Field(description="The title as the reader says it")
    floor: int | None = Field(None, description="Only on this floor")


@requirement("S2-1-1", "S2-1-2", "S2-2.2-2", "S2-2.2-3", "S2-3.1-1", "S2-3.1-2")
async def test_a_model_is_told_name_description_and_schema_and_calls_the_tool() -> None:
    @tw.tool(description=LONG, args=ShelfArgs)
    async def find_shelf(state: tw.ThreadState, args: ShelfArgs) -> str:
        return f"B4 for {args.title}"

    async with carried_out([find_shelf], ("find_shelf", {"title": "Dune"})) as seen:
        for request in seen.requests:
            [told] = request.tools
            assert (told.name, told.description) == ("find_shelf", LONG)
            assert told.parameters["type"] == "object"
            assert told.parameters["properties"] == {
                "title": {"type": "string", "description": "The title as the reader says it"},
                "floor": {
                    "anyOf": [{"type": "integer"}, {"type": "null"}],
                    "default": None,
                    "description": "Only on this floor",
                },
            }
        assert [each.content for each in seen.results] == ["B4 for Dune"]
        assert seen.requests[1].messages[-1].content == "B4 for Dune"


@requirement("S2-1.1-1", "S2-2-1")
async def test_a_function_tool_computes_and_reaches_other_systems() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readline())
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]

        @tw.tool(description="Ask the greeter.")
        async def ask_greeter(state: tw.ThreadState, name: str) -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{name}\n".encode())
            said = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return said.decode().strip().upper()

        [result] = await results([ask_greeter], ("ask_greeter", {"name": "ada"}))
        assert result.content == "HELLO ADA"


class Needs(BaseModel):
    place: str


@requirement("S2-2.1-1", "S2-2.1-2", "S2-2.1-3", "S2-2.1-4", "S2-9.5-1", "S2-10-3")
async def test_a_definition_has_description_args_execute_and_tenvs() -> None:
    async def find(state: tw.ThreadState, args: ShelfArgs) -> str:
        return f"{args.title} in {state.tenvs.place}"

    async def tell(state: tw.ThreadState) -> str:
        return "noon"

    whole = tw.tool(description="Find.", args=ShelfArgs, tenvs=Needs)(find)
    least = tw.tool(description="Tell.")(tell)
    assert (whole.description, whole.handler, whole.tenvs) == ("Find.", find, Needs)
    assert whole.parameters["required"] == ["title"]
    assert (least.handler, least.tenvs) == (tell, None)
    assert least.parameters == {"type": "object", "properties": {}}
    found, told = await results(
        [whole, least], ("find", {"title": "x"}), ("tell", {}), tenvs={"place": "Ulm"}
    )
    assert (found.content, told.content) == ("x in Ulm", "noon")
    with pytest.raises(DefinitionError, match="needs a handler"):
        tw.Tool(name="find", description="Find.")


@requirement("S2-2.2-1", "S2-2.1-1")
@pytest.mark.parametrize("description", ["", "   ", "\n\t ", None, 7, ["Find."]])
def test_a_tool_without_words_is_refused(description: object) -> None:
    def find(title: str) -> str:
        return title

    with pytest.raises(DefinitionError, match="'find' needs a description"):
        tw.tool(description=description)(find)  # type: ignore[call-overload]  # of any type on purpose


@requirement("S2-8.1-1")
async def test_two_tools_of_one_name_are_refused_wherever_they_meet() -> None:
    def named(answer: str) -> tw.Tool:
        return tw.tool(name="find_shelf", description="Find.")(lambda: answer)

    one, other = named("one"), named("other")
    model = ScriptedModel(turns())
    with pytest.raises(DefinitionError, match="Two tools are called 'find_shelf'"):
        app_of(model, [one, other])
    with pytest.raises(DefinitionError, match="Two tools are called 'find_shelf'"):
        tw.App(tools=[one, other])
    with pytest.raises(DefinitionError, match="Two tools are called 'find_shelf'"):
        _ = tw.Toolset([one]) | tw.Toolset([other])
    for nameless in ("", "  ", 7):
        with pytest.raises(DefinitionError, match="needs a name"):
            tw.tool(name=nameless, description="Find.")(lambda: 1)  # type: ignore[call-overload]  # of any type on purpose


@requirement("S2-8.2-1", "S2-8.1-2", "S2-8.1-4")
@pytest.mark.parametrize(
    "name",
    ["search_knowledge_base", "create_ticket", "send_email", "calculate_total", "a", "v2", "x" * 64],
)
async def test_a_good_name_is_taken_without_a_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = tw.tool(name=name, description="Do.")(lambda: "done")
    [result] = await results([made], (name, {}))
    assert (result.tool_name, result.content) == (name, "done")


@requirement("S2-8.3-1", "S2-8.1-2", "S2-8.1-4")
@pytest.mark.parametrize(
    "name", ["CamelCase", "kebab-case", "with space", "9_lives", "_hidden", "dot.ted", "größe", "y" * 65]
)
async def test_another_name_is_warned_of_and_works(name: str) -> None:
    with pytest.warns(ToolNameWarning, match=name):
        made = tw.tool(name=name, description="Do.")(lambda: "done")
    async with carried_out([made], (name, {})) as seen:
        assert [told.name for told in seen.requests[0].tools] == [name]
        assert [(each.tool_name, each.content) for each in seen.results] == [(name, "done")]


@requirement("S2-10-1", "S2-10-2")
async def test_a_function_is_called_with_state_and_arguments_or_with_state_alone() -> None:
    called: list[tuple[object, ...]] = []

    @tw.tool(description="Both.", args=ShelfArgs)
    async def both(*, state: tw.ThreadState, args: ShelfArgs) -> str:
        called.append((state.thread_id, args))
        return "both"

    @tw.tool(description="Alone.")
    async def alone(state: tw.ThreadState) -> str:
        called.append((state.thread_id,))
        return "alone"

    assert all(inspect.iscoroutinefunction(each.handler) for each in (both, alone))
    async with carried_out([both, alone], ("both", {"title": "x"}), ("alone", {})) as seen:
        thread = seen.run.thread_id
        assert called == [(thread, ShelfArgs(title="x", floor=None)), (thread,)]


@requirement("S2-4.1-1", "S2-5.1-1", "S2-5.3-2", "S2-6.1-1", "S2-6.2-1", "S2-6.3-1")
def test_the_values_have_the_fields_of_the_document_and_the_same_are_required() -> None:
    def fields(kind: type) -> dict[str, bool]:
        missing = dataclasses.MISSING
        return {each.name: each.default is missing for each in dataclasses.fields(kind)}

    assert fields(tw.TextContent) == {"text": True, "type": False}
    assert fields(tw.ImageContent) == {"data": True, "mime_type": True, "type": False}
    assert tw.ToolContent == tw.TextContent | tw.ImageContent
    assert fields(tw.Attachment) == {
        "name": True, "mime_type": True, "data": True, "width": False, "height": False,
    }  # fmt: skip
    assert fields(tw.AttachmentRef) == {
        "id": True, "path": True, "name": True, "mime_type": True, "size": True,
        "type": False, "width": False, "height": False, "description": False, "digest": False,
    }  # fmt: skip
    result = fields(tw.ToolResult)
    assert [name for name, required in result.items() if required] == ["status"]
    assert set(result) >= {"status", "result", "error", "stack", "attachments"}
