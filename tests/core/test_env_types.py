"""The type of plain values: as declared, text for designated names and flags, otherwise secret (D5, D6)."""

from collections.abc import Mapping
from typing import Any

import pytest

import toolwright as tw
from toolwright.core.agents.catalog import Catalog
from toolwright.core.env.env import SECRETS, EnvTypes
from toolwright.core.errors import DefinitionError, InvalidRequest

IMMEDIATE: dict[str, Any] = {
    "nameEnv": "COMPANY",
    "descriptionEnv": "TASK",
    "scopedEnv": ["COMPANY", "TASK", "LOGIN"],
}


def types(env: Mapping[str, Any] | None = None, app: Mapping[str, Any] | None = None) -> EnvTypes:
    child = tw.Agent("child", tw.Prompt("child_prompt", "x"), expose_as_tool=True, tool_description="Help.")
    called: dict[str, Any] = {"name": "child", "immediate": IMMEDIATE, "optional": "WITH_CHILD"}
    prompt = tw.Prompt(
        "prompt",
        "x",
        tools=[called],
        variables=[tw.Variable("REGION"), tw.Variable("TOKEN", type="secret")],
    )
    agent = tw.Agent("agent", prompt, env=env or {})
    catalog = Catalog(agents=[agent, child], env=app)
    found = catalog.find(agent.id)
    assert found is not None
    return found.types


@pytest.mark.parametrize(
    ("name", "beside", "type_"),
    [
        ("REGION", (), "text"),
        ("TOKEN", (), "secret"),
        ("OTHER", (), "secret"),
        ("WITH_CHILD", (), "text"),
        ("COMPANY", (), "text"),
        ("TASK", (), "text"),
        ("LOGIN", ("COMPANY",), "secret"),
        ("COMPANY_A", ("TASK_A", "LOGIN_A", "COMPANY_A"), "text"),
        ("LOGIN_A", ("TASK_A", "LOGIN_A", "COMPANY_A"), "secret"),
        ("COMPANY_API_KEY", ("COMPANY_API_KEY", "TASK", "LOGIN"), "secret"),  # in no group: not designated
        ("COMPANY_", ("COMPANY_", "TASK_", "LOGIN_"), "secret"),
        ("COMPANYA", ("COMPANYA", "TASKA", "LOGINA"), "secret"),
    ],
)
def test_plain_text_is_of_the_declared_type(name: str, beside: tuple[str, ...], type_: str) -> None:
    assert types().type_of(name, beside) == type_
    given = dict.fromkeys((name, *beside), "x")
    read = types().stored(given)
    assert read[name].type == type_


def test_what_is_said_counts_but_for_what_models_are_shown() -> None:
    read = types().stored(
        {"REGION": {"value": "x", "type": "secret"}, "OTHER": {"value": "x", "type": "text"}}
    )
    assert (read["REGION"].type, read["OTHER"].type) == ("secret", "text")
    assert types().stored({"REGION": {"value": "x"}})["REGION"].type == "text"
    with pytest.raises(
        InvalidRequest, match=r"env\.COMPANY is shown to models: store it as text, not as a secret"
    ):
        types().read({"COMPANY": {"value": "x", "type": "secret"}})
    assert types().read({"COMPANY": None}) == {"COMPANY": None}
    assert SECRETS.stored({"REGION": "x"})["REGION"].type == "secret"


@pytest.mark.parametrize("layer", ["env", "app"])
def test_a_definition_with_a_secret_that_models_would_be_shown_is_refused(layer: str) -> None:
    with pytest.raises(DefinitionError, match=r"Agent 'agent': env\.COMPANY is shown to models"):
        types(**{layer: {"COMPANY": {"value": "x", "type": "secret"}}})
