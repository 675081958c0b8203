"""Example models: every name of a provider's model in what users read is one of `EXAMPLE_MODELS`."""

import re
import subprocess
from pathlib import Path

from toolwright.core.model import EXAMPLE_MODELS

ROOT = Path(__file__).parents[2]
READ_BY_USERS = ("README.md", "docs", "deploy", "examples", "src")
NOT_LISTED = ("docs/decisions/", "src/toolwright/web/swagger_ui/")  # decisions are records of their time
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
        if not file.startswith(NOT_LISTED) and file.endswith(
            (".md", ".py", ".ipynb", ".env", ".yaml", ".yml", ".json")
        ):
            for name in NAME.findall((ROOT / file).read_text("utf-8")):
                models.setdefault(name, set()).add(file)
    return models


def test_what_users_read_names_only_the_example_models() -> None:
    known = {*EXAMPLE_MODELS, *[each.partition(":")[2] for each in EXAMPLE_MODELS]}
    assert {name: files for name, files in named_models().items() if name not in known} == {}


def test_every_example_model_is_used() -> None:
    assert set(EXAMPLE_MODELS) <= named_models().keys()
