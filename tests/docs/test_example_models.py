"""Example models: every name of a provider's model in what users read is one of `EXAMPLE_MODELS`."""

import re
import subprocess
import warnings
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from toolwright.adapters.models.shutdowns import SHUTDOWNS, shutdown_of
from toolwright.core.model import EXAMPLE_MODELS

ROOT = Path(__file__).parents[2]
READ_BY_USERS = ("README.md", "docs", "deploy", "examples", "src")
NOT_LISTED = (
    "docs/decisions/",  # records of their time
    "src/toolwright/adapters/models/shutdowns.py",  # the models that end
    "src/toolwright/web/swagger_ui/",
)
TEXTS = (".md", ".py", ".ipynb", ".env", ".yaml", ".yml", ".json")
NAME = re.compile(
    r"\b(?:openai|openai-chat|openai-responses|anthropic):[a-z]+-[\w.-]*\w|\b(?:gpt-[\w.-]*\w|claude-(?:[a-z]+-)?\d[\w.-]*)"
)


def named_models() -> dict[str, set[str]]:
    """Return the names of models, each with the files that contain it."""
    listed = subprocess.run(
        ["git", "ls-files", *READ_BY_USERS], cwd=ROOT, check=True, capture_output=True, text=True
    )
    models: dict[str, set[str]] = {}
    for file in listed.stdout.split():
        if not file.startswith(NOT_LISTED) and file.endswith(TEXTS):
            for name in NAME.findall((ROOT / file).read_text("utf-8")):
                models.setdefault(name, set()).add(file)
    return models


def test_what_users_read_names_only_the_example_models() -> None:
    known = {*EXAMPLE_MODELS, *[each.partition(":")[2] for each in EXAMPLE_MODELS]}
    assert {name: files for name, files in named_models().items() if name not in known} == {}


def test_every_example_model_is_used() -> None:
    assert set(EXAMPLE_MODELS) <= named_models().keys()


def ending(names: Iterable[str], today: date, within: timedelta) -> list[str]:
    """Return those of the models that are shut down until `within` has passed."""
    return [name for name in names if (day := shutdown_of(name)) is not None and day <= today + within]


@pytest.mark.filterwarnings("default")
def test_no_example_model_is_about_to_be_shut_down() -> None:
    today = datetime.now(UTC).date()
    for name in ending(EXAMPLE_MODELS, today, timedelta(days=60)):
        warnings.warn(f"The example model {name} is shut down on {shutdown_of(name)}.", stacklevel=1)
    assert ending(EXAMPLE_MODELS, today, timedelta(days=7)) == []


@pytest.mark.parametrize(
    ("model", "day"),
    [
        ("openai:gpt-5-mini", date(2026, 12, 11)),
        ("openai-chat:gpt-5-mini-2025-08-07", date(2026, 12, 11)),
        ("anthropic:claude-sonnet-4-5-20250929", date(2026, 11, 30)),
        ("openai:gpt-5-mini-of-ours", None),
        ("azure:gpt-5", None),
        ("openai:claude-sonnet-4-5", None),
        ("gpt-5", None),
    ],
)
def test_a_model_ends_with_its_snapshots_at_its_own_provider(model: str, day: date | None) -> None:
    assert shutdown_of(model) == day


def test_a_model_is_about_to_be_shut_down_a_week_before() -> None:
    day, names = min(SHUTDOWNS["openai"].items())
    name = f"openai:{names.split()[0]}"
    week = timedelta(days=7)
    assert ending([name], day - week - timedelta(days=1), week) == []
    assert ending([name], day - week, week) == ending([name], day + week, week) == [name]
