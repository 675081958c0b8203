"""The reference of the documentation's site has every public name."""

import re

import toolwright as tw
from tests.docs.test_guides import GUIDES, ROOT
from toolwright.cli.serve.serve import GRACE

SHOWN = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
ALIASES = {"RunEvent", "ToolContent"}
"""Unions of what is shown."""


def test_every_public_name_is_in_the_reference() -> None:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    shown = {name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    wanted = {f"toolwright.{name}" for name in tw.__all__ if name not in ALIASES | {"ToolwrightError"}}
    assert wanted - shown == set()
    assert {"toolwright.testing", "toolwright.core.errors", "toolwright.client.Client"} <= shown


def test_the_site_begins_with_the_shortest_program() -> None:
    first = (ROOT / "examples" / "first" / "tool.py").read_text(encoding="utf-8")
    assert first in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_every_guide_is_in_the_sites_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [guide.name for guide in GUIDES if f"- guides/{guide.name}\n" not in contents] == []


def test_the_guide_says_how_long_calls_go_on_in_a_node_that_is_stopped() -> None:
    guide = (ROOT / "docs" / "guides" / "scale-out.md").read_text(encoding="utf-8")
    assert f"Calls in progress have {GRACE:.0f} seconds to end" in guide
