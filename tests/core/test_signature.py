"""A function's signature becomes a schema, or is rejected at definition."""

import dataclasses
import enum
import functools
import json
import typing
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

import pytest
import typing_extensions
from pydantic import BaseModel, Field
from tests.behaviour.marks import requirement

from toolwright.core.agents.prompt import Prompt
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSONObject
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.tenvs_needed import Needs
from toolwright.core.tools.tool import Tool, tool
from toolwright.core.tools.toolset import Toolset

pytestmark = pytest.mark.anyio


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Number(enum.IntEnum):
    ONE = 1


class Since(BaseModel):
    since: datetime


class Endless(BaseModel):
    again: "Endless"


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []


class Note(typing.TypedDict, total=False):
    text: typing.Required[str]
    colour: Colour


@dataclasses.dataclass
class Point:
    x: float
    y: int = 0


class Pair(NamedTuple):
    a: int
    b: int


async def call(made: Tool, arguments: JSONObject | str) -> object:
    result = await Toolset([made]).call(made.name, arguments)
    assert result.status == "success", result.error
    return result.result


def taking(annotation: object) -> Callable[..., str]:
    def search(value: str) -> str:
        """Search."""
        return value

    search.__annotations__["value"] = annotation
    return search


@requirement("S2-3.2-14")
@pytest.mark.parametrize(
    ("annotation", "path"),
    [
        (Any, "value"),
        (object, "value"),
        (datetime, "value"),
        (bytes, "value"),
        (tuple[int, ...], "value"),
        (set[str], "value"),
        (frozenset[str], "value"),
        (list, "value"),
        (dict, "value"),
        (typing.List, "value"),  # noqa: UP006 - as users write it
        (dict[int, str], "value"),
        (Number, "value"),
        (Pair, "value"),
        (complex, "value"),
        (Callable[[], None], "value"),
        (list[dict[str, datetime]], "value[].*"),
        (Since, "value.since"),
        (Since | None, "value.since"),
        (Endless, "value"),
        (Literal[b"x"], "value"),
        (type[int], "value"),
    ],
)
def test_a_type_that_json_cannot_say_is_refused_with_tool_and_path(annotation: object, path: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        tool(taking(annotation))
    assert caught.value.message.startswith(f"Tool 'search': parameter {path!r} ")


def test_untyped_star_and_positional_parameters_are_refused() -> None:
    def untyped(a) -> str:  # type: ignore[no-untyped-def]  # the error under test
        """Do."""
        return ""

    def stars(*args: str) -> str:
        """Do."""
        return ""

    def keywords(**kwargs: str) -> str:
        """Do."""
        return ""

    def positional(a: str, /) -> str:
        """Do."""
        return ""

    functions: list[Any] = [
        untyped,
        stars,
        keywords,
        positional,
    ]  # the missing type is the point of the test
    for function in functions:
        with pytest.raises(DefinitionError, match=r"parameter '(a|args|kwargs)'"):
            tool(function)


def test_defaults_that_are_no_json_are_refused() -> None:
    def bad(a: float = float("nan")) -> str:
        """Do."""
        return ""

    with pytest.raises(DefinitionError, match="parameter 'a' has a default"):
        tool(bad)


@requirement("S2-2.2-1")
def test_a_missing_description_is_refused() -> None:
    def nameless(a: int) -> int:
        return a

    for options in ({}, {"description": "  "}):
        with pytest.raises(DefinitionError, match="needs a description"):
            tool(**options)(nameless)  # type: ignore[call-overload]  # options as users pass them


@requirement("S2-3.1-1", "S2-3.1-2")
def test_the_schema_has_descriptions_defaults_and_no_titles() -> None:
    @tool
    def search(
        state: ThreadState,
        query: Annotated[str, Field(description="What to find", min_length=1)],
        limit: int = 10,
    ) -> str:
        """Search the docs.

        All of them.

        Args:
            query: not used, Field wins
            limit (int): How many
                at most.

        Returns:
            text: something
        """
        return query

    assert search.description == "Search the docs."
    assert search.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "What to find"},
            "limit": {"type": "integer", "default": 10, "description": "How many at most."},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


@requirement("S2-3.2-6", "S2-3.2-11")
async def test_models_enums_typed_dicts_and_dataclasses_arrive_built() -> None:
    @tool
    async def make(
        tree: Tree, colour: Colour, note: Note, point: Point, either: int | str | None = None
    ) -> list[object]:
        """Make."""
        assert isinstance(tree.children[0], Tree)
        assert colour is Colour.BLUE
        assert note.get("colour") is Colour.RED
        assert isinstance(point.x, float)
        return [tree, colour, note, point, either]

    given: JSONObject = {
        "tree": {"name": "a", "children": [{"name": "b"}]},
        "colour": "blue",
        "note": {"text": "t", "colour": "red"},
        "point": {"x": 1},
        "either": "7",
    }
    assert await call(make, given) == [
        {"name": "a", "children": [{"name": "b", "children": []}]},
        "blue",
        {"text": "t", "colour": "red"},
        {"x": 1.0, "y": 0},
        "7",
    ]


class Bounds(typing.TypedDict, total=False):
    least: float
    most: float | None
    steps: list[float]
    count: int


async def test_whole_numbers_within_typed_dicts_arrive_as_the_floats_that_their_types_name() -> None:
    handed_over: list[object] = []

    @tool
    async def find(bounds: Bounds, weights: dict[str, float], pair: list[int | float] | None = None) -> None:
        """Find."""
        handed_over.extend([bounds, weights, pair])

    bounds: JSONObject = {"most": None, "steps": [1, 2.5], "least": 80, "count": 3.0}
    await call(find, {"bounds": bounds, "weights": {"a": 1}, "pair": [1, 1.5]})
    assert repr(handed_over) == (
        "[{'least': 80.0, 'most': None, 'steps': [1.0, 2.5], 'count': 3}, {'a': 1.0}, [1, 1.5]]"
    )


@requirement("S2-3.3-1")
async def test_arguments_nest_at_least_ten_levels() -> None:
    annotation: object = int
    value: object = 3
    for _ in range(5):
        annotation, value = dict[str, list[annotation]], {"a": [value]}  # type: ignore[valid-type]  # built step by step
    function = taking(annotation)
    made = tool(function)
    assert await call(made, {"value": value}) == value  # type: ignore[dict-item]  # JSON by construction


async def test_args_takes_a_model_for_the_one_parameter() -> None:
    class Query(BaseModel):
        query: str = Field(description="Search query")
        limit: int = 10

    @tool(description="Search", args=Query)
    async def search(args: Query, state: ThreadState) -> str:
        return f"{args.query} {args.limit} {state.user_id}"

    assert await call(search, '{"query": "x"}') == "x 10 None"
    assert search.parameters["required"] == ["query"]

    def two(first: Query, second: Query) -> str:
        return first.query + second.query

    with pytest.raises(DefinitionError, match="must take one parameter"):
        tool(description="Search", args=Query)(two)


@requirement("S2-3.5-1")
async def test_a_tool_without_arguments_takes_whatever_comes() -> None:
    @tool
    def now(state: ThreadState) -> str:
        """Tell the time."""
        return "noon"

    assert now.parameters == {"type": "object", "properties": {}}
    for arguments in ("{}", "", '{"extra": 1}', "  "):
        assert await call(now, arguments) == "noon"


async def test_partials_methods_callable_objects_and_wrapped_functions_work() -> None:
    class Counter:
        def add(self, amount: int) -> int:
            """Add."""
            return amount + 1

        def __call__(self, amount: int) -> int:
            """Count."""
            return amount + 2

    def scaled(amount: int, factor: int) -> int:
        """Scale."""
        return amount * factor

    def logged(function: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(function)
        def wrapper(*args: object, **kwargs: object) -> object:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    async def awaited(amount: int) -> int:
        """Await."""
        return amount + 3

    assert await call(tool(Counter().add), {"amount": 1}) == 2
    assert await call(tool(name="count", description="Count")(Counter()), {"amount": 1}) == 3
    assert await call(tool(functools.partial(scaled, factor=5)), {"amount": 2}) == 10
    assert await call(awaited, {"amount": 1}) == 4


async def test_annotations_as_text_see_the_place_of_definition() -> None:
    class Local(BaseModel):
        n: int

    @tool
    async def read(local: "Local", state: "ThreadState") -> int:
        """Read."""
        return local.n

    assert await call(read, {"local": {"n": 2}}) == 2


def test_a_tool_is_still_its_function() -> None:
    assert tool(taking(str))("x") == "x"


def test_a_property_called_title_stays() -> None:
    class Book(BaseModel):
        title: str

    @tool
    def keep(book: Book, title: str) -> str:
        """Keep."""
        return title

    assert "title" in str(keep.parameters["$defs"])
    assert keep.parameters["required"] == ["book", "title"]


def test_a_function_that_yields_is_refused() -> None:
    def count(n: int) -> Iterator[int]:
        """Count."""
        yield n

    with pytest.raises(DefinitionError, match="is a generator"):
        tool(count)


async def test_an_alias_names_the_parameter_in_json() -> None:
    @tool
    async def move(
        start: Annotated[int, Field(alias="from", ge=1)], steps: int = Field(3, le=5)
    ) -> list[int]:
        """Move."""
        return [start, steps]

    assert await call(move, {"from": 2}) == [2, 3]


def test_a_tree_may_be_the_whole_of_the_arguments() -> None:
    made = tool(name="plant", description="Plant", args=Tree)(taking(str))
    assert made.parameters["type"] == "object"
    assert made.parameters["required"] == ["name"]


class Leaf(BaseModel):
    size: int = 1


class Stem(BaseModel):
    leaves: list[Leaf] = []


class Root(BaseModel):
    stem: Stem | None = None
    roots: list["Root"] = []


def taking_one(given: object) -> str:
    """Do."""
    return ""


PUBLISHED_BY: dict[str, Callable[[type[BaseModel]], JSONObject]] = {
    "args": lambda model: tool(args=model)(taking_one).parameters,
    "parameter": lambda model: tool(taking(model)).parameters,
    "tenvs": lambda model: Needs(model, "t").schema,
    "required_schema": lambda model: Prompt("p", required_schema=model).parameters(),
}


@pytest.mark.parametrize("way", PUBLISHED_BY)
@pytest.mark.parametrize(
    ("model", "names"), [(Leaf, set[str]()), (Stem, {"Leaf"}), (Root, {"Leaf", "Stem", "Root"})]
)
def test_a_published_schema_defines_what_it_refers_to_and_nothing_else(
    way: str, model: type[BaseModel], names: set[str]
) -> None:
    schema = PUBLISHED_BY[way](model)
    wanted = names | {model.__name__} if way == "parameter" else names
    defined = schema.get("$defs", {})
    assert isinstance(defined, dict)
    assert set(defined) == wanted
    assert ("$defs" in schema) == bool(wanted)
    assert all(f"#/$defs/{name}" in json.dumps(schema) for name in wanted)


def test_literals_that_pydantic_takes_for_other_members_are_refused_within_a_model() -> None:
    class Mixed(BaseModel):
        flag: Literal[True] | int = 2

    class Apart(BaseModel):
        level: Literal[1, 2] | None = None
        on: Literal[True] | str = True
        more: Literal[5] | bool = 5

    with pytest.raises(
        DefinitionError, match=r"parameter 'value.flag' has a union whose literals .* use texts"
    ):
        tool(taking(Mixed))
    tool(taking(Apart))


def test_a_note_of_annotated_describes_a_parameter() -> None:
    @tool(name="find", description="Find.")
    async def find(
        text: Annotated[str, "What to look for."],
        many: Annotated[int, typing_extensions.Doc("How many.")] = 3,
        tags: list[Annotated[str, "A tag."]] | None = None,
        own: Annotated[str, "a note", Field(description="The field's own.")] = "",
    ) -> str:
        """Find.

        Args:
            text: The docstring's words.
        """
        return text

    properties: Any = find.parameters["properties"]
    assert properties["text"] == {"type": "string", "description": "What to look for."}
    assert properties["many"]["description"] == "How many."
    assert properties["tags"]["anyOf"][0]["items"]["description"] == "A tag."
    assert properties["own"]["description"] == "The field's own."
