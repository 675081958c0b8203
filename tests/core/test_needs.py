"""Tenvs: declared on a tool, checked by name and type, read as attributes (S2 §9)."""

from enum import Enum
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, field_validator
from tests.behaviour.marks import requirement

import toolwright as tw
from toolwright.core.env.env import Tenvs
from toolwright.core.errors import DefinitionError
from toolwright.core.state.memory import MemoryState
from toolwright.core.tools.tenvs_needed import MissingTenvs, Needs, merged_errors


class Region(Enum):
    EU = "eu"
    US = "us"


class Place(BaseModel):
    city: str


class Everything(BaseModel):
    store_id: str = Field(description="Where to search")
    limit: int
    ratio: float = 0.5
    region: Region = Region.EU
    place: Place | None = None
    key: Annotated[str, tw.Secret] = "unset"
    aliased: str | None = Field(None, alias="userLocation")


NEEDS = Needs(Everything, "search")


def test_values_are_built_as_the_model_says_under_both_names() -> None:
    read = NEEDS.read(
        {"store_id": "vs", "limit": 3, "region": "us", "place": {"city": "Ulm"}, "userLocation": "x"}
    )
    assert isinstance(read, dict)
    assert (read["store_id"], read["limit"], read["ratio"], read["region"]) == ("vs", 3, 0.5, Region.US)
    assert read["place"] == Place(city="Ulm")
    assert read["aliased"] == read["userLocation"] == "x"


def test_a_whole_number_may_be_written_as_a_fraction_and_nothing_else_is_coerced() -> None:
    read = NEEDS.read({"store_id": "vs", "limit": 3.0})
    assert isinstance(read, dict)
    assert read["limit"] == 3
    for wrong in ("3", True, 3.5, None):
        assert isinstance(NEEDS.read({"store_id": "vs", "limit": wrong}), MissingTenvs)


@requirement("S2-9.2-1")
def test_all_errors_are_reported_at_once_and_contain_no_value() -> None:
    read = NEEDS.read({"limit": "topsecret", "region": "mars-topsecret", "place": {"city": 7}})
    assert isinstance(read, MissingTenvs)
    assert read.missing == ("store_id",)
    assert {name for name, _ in read.invalid} == {"limit", "region", "place"}
    assert "topsecret" not in str(read)
    assert dict(read.invalid)["limit"] == "must be an integer, not a string"
    assert dict(read.invalid)["place"] == "city: must be a string, not a number"


def test_a_validator_of_ones_own_does_not_echo_the_value() -> None:
    class Own(BaseModel):
        code: str

        @field_validator("code")
        @classmethod
        def known(cls, value: str) -> str:
            raise ValueError(f"no such code {value}")

    read = Needs(Own, "t").read({"code": "hunter2hunter2"})
    assert isinstance(read, MissingTenvs)
    assert read.invalid == (("code", "is not accepted"),)


def test_two_tools_needs_are_reported_together_and_once() -> None:
    class Other(BaseModel):
        store_id: str
        more: int

    found = merged_errors([NEEDS, Needs(Other, "other")], {})
    assert found.missing == ("store_id", "limit", "more")


def test_an_empty_text_is_a_value() -> None:
    read = NEEDS.read({"store_id": "", "limit": 0})
    assert isinstance(read, dict)
    assert read["store_id"] == ""


def test_secrets_are_known_by_their_mark() -> None:
    class Marked(BaseModel):
        a: Annotated[str, tw.Secret]
        b: Annotated[str, tw.Secret()] | None = None
        c: Annotated[str | None, tw.Secret] = None
        d: str = ""

    assert NEEDS.secrets == {"key"}
    with pytest.raises(DefinitionError, match="'b' contains a secret"):
        Needs(Marked, "t")


class OptionalSecret(BaseModel):
    key: Annotated[str | None, tw.Secret] = None


class SecretOrNone(BaseModel):
    key: Annotated[str, tw.Secret] | None = None


class SecretOrNumber(BaseModel):
    key: Annotated[str, tw.Secret()] | int | None = None


class OptionalNumber(BaseModel):
    key: Annotated[int | None, tw.Secret] = None


@pytest.mark.parametrize("model", [SecretOrNone, SecretOrNumber, OptionalNumber])
def test_an_optional_secret_that_is_refused_is_told_the_form_that_works(model: type[BaseModel]) -> None:
    with pytest.raises(DefinitionError) as caught:
        Needs(model, "t")
    assert caught.value.message.endswith("annotate it Annotated[str | None, tw.Secret].")
    assert Needs(OptionalSecret, "t").secrets == {"key"}
    read = Needs(OptionalSecret, "t").read({"key": None})
    assert read == {"key": None}


class SecretNumber(BaseModel):
    pin: Annotated[int, tw.Secret]


class Inner(BaseModel):
    token: Annotated[str, tw.Secret]


class HiddenSecret(BaseModel):
    inner: list[Inner]


class NotAllowed(BaseModel):
    when: bytes


@requirement("S2-9.2-1")
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (SecretNumber, "A secret must be text"),
        (HiddenSecret, "contains a secret"),
        (NotAllowed, "'when'"),
        (dict, "pydantic model"),
    ],
)
def test_an_invalid_model_is_refused_with_the_tool_and_the_name(model: type[BaseModel], words: str) -> None:
    with pytest.raises(DefinitionError, match=words) as caught:

        @tw.tool(description="x", tenvs=model)
        async def search() -> str:
            return ""

    assert "'search'" in caught.value.message


def test_tenvs_are_attributes_and_show_no_values() -> None:
    tenvs = Tenvs({"a": "value", "items": [1]})
    assert (tenvs.a, tenvs["a"], tenvs.items, "a" in tenvs, sorted(tenvs), len(tenvs)) == (
        "value", "value", [1], True, ["a", "items"], 2,
    )  # fmt: skip
    assert repr(tenvs) == "Tenvs(a, items)"
    with pytest.raises(AttributeError, match="no tenv 'b'; it has: a, items"):
        _ = tenvs.b


@requirement("S2-9.6-1")
@pytest.mark.anyio
async def test_a_handler_sees_its_tenvs_and_is_not_called_without_them() -> None:
    seen: list[object] = []

    @tw.tool(description="Search.", tenvs=Everything)
    async def search(state: tw.ThreadState, query: str) -> str:
        seen.append((state.tenvs.store_id, state.tenvs.limit, state.tenvs.place, state.tenvs.aliased))
        return query

    tools = tw.Toolset([search])
    lacks = await tools.call("search", {"query": "q"})
    assert (lacks.status, lacks.error_code) == ("error", "tenvs_required")
    assert (
        lacks.error == "Tool 'search' needs tenvs that this thread does not have: missing: store_id, limit."
    )
    assert lacks.error_data == {"missing": ["store_id", "limit"], "invalid": []}
    state = MemoryState(tenvs={"store_id": "vs", "limit": 2, "other": 1})
    assert (await tools.call("search", {"query": "q"}, state)).result == "q"
    assert seen == [("vs", 2, None, None)]
    assert state.tenvs.other == 1


def test_an_error_within_a_tenv_is_reported_with_its_whole_path() -> None:
    class Tagged(BaseModel):
        tags: list[str]
        limit: int

    lacks = Needs(Tagged, "t").read({"tags": ["a", 1], "limit": "x"})
    assert str(lacks) == "tags.1 must be a string, not a number; limit must be an integer, not a string"
