"""The parts of configurations that are sent as JSON: strict, each fault by its path."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    Tag,
    model_validator,
)
from pydantic.alias_generators import to_camel

from toolwright.core.env.env import MOST_NAMES
from toolwright.core.form_faults import known_and_few

Words: TypeAlias = Annotated[str, Field(min_length=1)]
MOST_TOOLS = 10_000  # of one agent
TEXT, OBJECT = "(text)", "(object)"  # what pydantic puts into the paths of faults, and we take out again


def kind_of(value: object) -> str:
    return OBJECT if isinstance(value, dict | BaseModel) else TEXT


class Form(BaseModel):
    """A part of a configuration: strict, in camelCase, without unknown fields."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        frozen=True,
        defer_build=True,  # most apps are written in Python
    )

    @model_validator(mode="wrap")
    @classmethod
    def _few_unknown(cls, value: Any, judge: ModelWrapValidatorHandler[Self]) -> Self:  # whatever was sent
        return judge(known_and_few(value, cls))


class EnvVarForm(Form):
    """A value with its type."""

    value: str
    type: Literal["text", "secret"] = "secret"


def _few_names(value: object) -> object:
    if isinstance(value, dict) and len(value) > MOST_NAMES:  # pyright: ignore[reportUnknownArgumentType]  # user input
        raise ValueError(f"must have at most {MOST_NAMES} names")
    return value  # pyright: ignore[reportUnknownVariableType]  # user input


EnvForm: TypeAlias = Annotated[
    dict[
        str, Annotated[Annotated[str, Tag(TEXT)] | Annotated[EnvVarForm, Tag(OBJECT)], Discriminator(kind_of)]
    ],
    BeforeValidator(_few_names),
]
Names: TypeAlias = Annotated[list[str], Field(max_length=MOST_NAMES)]
