"""The reference of the documentation site has every public name."""

import ast
import re

import toolwright as tw
from tests.docs.sample import sample
from tests.docs.test_guides import GUIDES, ROOT
from toolwright.cli.serve import GRACE
from toolwright.core import errors
from toolwright.web.answers import status_of

SHOWN = re.compile(r"^<!-- (toolwright[\w.]*) -->$", re.MULTILINE)
ALIASES = {"RunEvent", "ToolContent"}
"""Unions of documented types."""


def test_every_public_name_is_in_the_reference() -> None:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    shown = {name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    wanted = {f"toolwright.{name}" for name in tw.__all__ if name not in ALIASES | {"ToolwrightError"}}
    assert wanted - shown == set()
    assert {"toolwright.testing.ScriptedModel", "toolwright.core.errors", "toolwright.client.Client"} <= shown


def codes() -> set[str]:
    """Return the codes of errors and results used in the source."""
    found = set[str]()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.keyword(arg="error_code", value=ast.Constant(value=str(code))):
                    found.add(code)
                case ast.Call(func=ast.Name(id="HttpFailure"), args=[ast.Constant(value=str(code)), *_]):
                    found.add(code)
                case ast.Call(func=ast.Name(id="CodeError"), keywords=keywords):
                    found |= {
                        str(each.value.value)
                        for each in keywords
                        if each.arg == "code" and isinstance(each.value, ast.Constant)
                    }
                case ast.ClassDef(body=body):
                    for each in body:
                        match each:
                            case ast.Assign(
                                targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))
                            ):
                                found.add(code)
                            case ast.AnnAssign(
                                target=ast.Name(id="code"), value=ast.Constant(value=str(code))
                            ):
                                found.add(code)
                            case _:
                                pass
                case _:
                    pass
    return found


def test_every_code_of_an_error_is_in_the_reference_with_its_cause_and_a_remedy() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", page, re.MULTILINE)
    assert codes() - {code for code, _ in rows} == set()
    assert [code for code, row in rows if not all(cell.strip() for cell in row.split("|"))] == []
    assert len({code for code, _ in rows}) == len(rows)


def test_the_reference_says_with_which_class_and_status_an_error_is_answered() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (\d+) \|", page, re.MULTILINE)
    classes = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.ToolwrightError)
    ]
    assert {(each.code, each.__name__, str(status_of(each))) for each in classes} == set(rows)


def test_the_site_begins_with_the_shortest_program() -> None:
    first = (ROOT / "examples" / "first" / "tool.py").read_text(encoding="utf-8")
    assert first in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_the_index_answers_the_questions_of_a_newcomer() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    table = index[index.index("## Find an answer") : index.index("## Reference")]
    rows = re.findall(r"^\| [A-Z][^|]*\? \| [^|]+ \| \[.*\) \|$", table, re.MULTILINE)
    assert len(rows) >= 27


def test_every_guide_is_in_the_sites_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [guide.name for guide in GUIDES if f"- guides/{guide.name}\n" not in contents] == []


def test_the_guide_says_how_long_calls_go_on_in_a_node_that_is_stopped() -> None:
    guide = (ROOT / "docs" / "guides" / "scale-out.md").read_text(encoding="utf-8")
    assert f"Calls in progress have {GRACE:.0f} seconds to end" in guide


def test_a_sample_of_sentences_is_the_same_for_the_same_seed() -> None:
    assert sample(49) == sample(49) != sample(50)
    assert len(sample(49)) == 150
