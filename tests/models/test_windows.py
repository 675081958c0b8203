"""The maximum number of tokens that a model accepts in one request, if known."""

import pytest
from pydantic_ai.models.test import TestModel

from tests.models.asking import MakeModel
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.model import window_of
from toolwright.testing import FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("openai-chat:gpt-4o", 128_000),
        ("openai:gpt-4o", 128_000),
        ("anthropic:claude-sonnet-5-5", 1_000_000),
        ("openai-chat:no-such-model-anywhere", None),
    ],
)
async def test_a_providers_model_is_looked_up_by_its_name(
    make_model: MakeModel, name: str, window: int | None
) -> None:
    assert window_of(make_model(name)) == window


def test_a_model_object_tells_what_its_profile_has() -> None:
    assert PydanticAIModel(TestModel(profile={"context_window": 5_000})).window == 5_000
    assert PydanticAIModel(TestModel()).window is None


def test_a_model_that_cannot_tell_has_none() -> None:
    class Faulty(TestModel):
        @property
        def context_window(self) -> int | None:
            raise RuntimeError("no idea")

    assert PydanticAIModel(Faulty()).window is None


def test_a_script_and_a_function_have_the_window_that_they_are_given() -> None:
    assert window_of(ScriptedModel([{"text": "Hi"}], window=900)) == 900
    assert window_of(FunctionModel(lambda _: {"text": "Hi"}, window=800)) == 800
    assert window_of(ScriptedModel([{"text": "Hi"}])) is None
    assert window_of(FunctionModel(lambda _: {"text": "Hi"})) is None


@pytest.mark.parametrize(
    ("window", "read"), [(7, 7), (0, None), (-1, None), (True, None), ("9", None), (None, None)]
)
def test_of_a_users_own_model_any_window_that_is_one_is_read(window: object, read: int | None) -> None:
    class Own(ScriptedModel):
        window = property(lambda _: window)  # type: ignore[assignment]  # any value of a user

    assert window_of(Own([{"text": "Hi"}])) == read
