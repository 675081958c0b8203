"""The reference documents the public attributes; guides and examples use public names only."""

import ast
import inspect
import json
import re
import sys
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import InitVar
from pathlib import Path
from typing import cast

import pytest

import toolwright as tw
import toolwright.client
from tests.docs.reference import HIDDEN, REFERENCE, documented, generated
from tests.docs.test_guides import BLOCK, PAGES, ROOT
from toolwright import testing
from toolwright.adapters.telemetry import instruments
from toolwright.core import errors
from toolwright.core.threads.event import BUILT_IN
from toolwright.runtime.runtime import Runtime
from toolwright.wire.shape import Shape

PUBLIC_MODULES = {
    "toolwright": {*tw.__all__, "errors", "model", "ports", "testing"},
    "toolwright.client": set(toolwright.client.__all__),
    "toolwright.testing": set(testing.__all__),
}
PARTS = ("app_calls", "telemetry")
"""Attributes of a runtime that are reserved for our own gateway."""
INTERNAL = {
    "ActiveAgent", "AgentTool", "Bus", "Catalog", "EnvVar", "Subscription", "ArgumentValidator", "MissingTenvs",
    "Decided", "Model", "OperationFault", "OutputPath", "RenamedTool", "Tenvs", "ToolDefinition",
}  # fmt: skip
"""Types of attributes and results that users only pass on, and never read."""


def is_ours(each: object) -> bool:
    return isinstance(each, type) and each.__module__.startswith("toolwright") and each.__name__[0] != "_"


def classes_in(hint: object) -> Iterator[type]:
    """Yield our classes within a type hint."""
    if isinstance(hint, type) and is_ours(hint):
        yield hint
    for each in typing.get_args(hint):
        inner = cast("list[object]", each) if isinstance(each, list) else [each]
        for part in inner:
            yield from classes_in(part)


def hints_of(owner: object) -> dict[str, object]:
    try:
        return typing.get_type_hints(owner)
    except (NameError, TypeError):  # imported for type checking only, or not a function
        return {}


def functions_of(cls: type) -> dict[str, object]:
    """Return the public methods and properties that the class defines, as functions."""
    functions: dict[str, object] = {}
    for name, member in list(vars(cls).items()):  # lazily created shapes must exist first
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isroutine(function):
            functions[name] = inspect.unwrap(function)  # type: ignore[arg-type]  # a routine is callable
    return functions


def assigned(cls: type) -> dict[str, ast.expr]:
    """Return what `__init__` assigns to public attributes of the instance."""
    if "__init__" not in vars(cls):
        return {}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(vars(cls)["__init__"])))
    except (OSError, TypeError):  # created by a decorator
        return {}
    return {
        target.attr: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self" and target.attr[0] != "_"
    }


def attributes(cls: type) -> set[str]:
    hints = inspect.get_annotations(cls)
    fields = {name for name in hints if name[0] != "_" and not isinstance(hints[name], InitVar)}
    names = (fields | functions_of(cls).keys() | assigned(cls).keys()) - HIDDEN
    return names - {"of"} if issubclass(cls, Shape) else names  # which renders the shape, in the server


def reached(cls: type) -> Iterator[type]:
    """Yield our classes that users get from attributes and methods of this one."""
    hints = hints_of(cls)
    for name in inspect.get_annotations(cls):
        if not name.startswith("_"):
            yield from classes_in(hints.get(name))
    for function in functions_of(cls).values():
        yield from classes_in(hints_of(function).get("return"))
    given = hints_of(cls.__init__) if "__init__" in vars(cls) else {}
    for name, value in assigned(cls).items():
        if cls is Runtime and name in PARTS:
            continue
        if isinstance(value, ast.Name):
            yield from classes_in(given.get(value.id))
        elif isinstance(value, ast.Call):
            yield from classes_in(vars(sys.modules[cls.__module__]).get(ast.unparse(value.func)))


def documented_types() -> set[type]:
    """Return the public types and all types that users get from them, without internal ones."""
    roots = [Runtime, *[each for each in vars(errors).values() if is_ours(each)]]
    roots += [getattr(tw, name) for name in tw.__all__]
    roots += [getattr(toolwright.client, name) for name in toolwright.client.__all__]
    found: set[type] = set()
    todo = [each for each in roots if is_ours(each)]
    while todo:
        cls = todo.pop()
        if cls not in found and cls.__name__ not in INTERNAL:
            found.add(cls)
            todo += reached(cls)
    return found


@pytest.mark.parametrize("page", sorted(REFERENCE.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_of_the_reference_is_as_generated(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == generated(text), "run `make reference`"


def test_each_public_attribute_of_what_users_get_is_in_the_reference() -> None:
    types = documented_types()
    assert {Runtime, tw.App, tw.Settings, tw.ThreadState, toolwright.client.Client} <= types
    assert len(types) > 150
    shown = set[str]().union(
        *(documented(page.read_text(encoding="utf-8")) for page in REFERENCE.glob("*.md"))
    )
    missing: set[str] = set()
    for cls in types:
        name = f"{cls.__module__}.{cls.__qualname__}"
        missing |= {name, *(f"{name}.{each}" for each in attributes(cls))} - shown
    assert missing == set()


def test_each_internal_type_is_reached() -> None:
    seen = {cls.__name__ for each in documented_types() for cls in reached(each)}
    assert INTERNAL - seen == set()


def test_each_type_of_event_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([\w.]+)`", row)} - {"type"} == BUILT_IN


def test_each_metric_is_in_the_guide_to_telemetry() -> None:
    guide = (ROOT / "docs" / "guides" / "telemetry.md").read_text(encoding="utf-8")
    source = Path(inspect.getfile(instruments)).read_text(encoding="utf-8")
    made = set(re.findall(r"create_\w+\(\s*\"([\w.]+)\"", source))
    made |= {f"toolwright.{name}" for name in re.findall(r"^    (?:    |\()\"(\w+)\",", source, re.MULTILINE)}
    assert len(made) > 15
    assert {name for name in made if f"`{name}`" not in guide} == set()


EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").rglob("*")
    if path.suffix in (".py", ".ipynb", ".md") and ".ipynb_checkpoints" not in path.parts
)


def programs(page: Path) -> Iterator[str]:
    """Yield the Python of a page, a notebook or a module."""
    text = page.read_text(encoding="utf-8")
    match page.suffix:
        case ".py":
            yield text
        case ".ipynb":
            for cell in json.loads(text)["cells"]:
                if cell["cell_type"] == "code":
                    yield "".join(line for line in cell["source"] if not line.startswith(("%", "!")))
        case _:
            yield from (match["code"] for match in BLOCK.finditer(text))


def documented_in(module: str) -> set[str]:
    """Return the names of the module that have an entry in the reference."""
    pages = [page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md")]
    marker = re.compile(rf"^<!-- {re.escape(module)}\.(\w+) -->$", re.MULTILINE)
    return {name for page in pages for name in marker.findall(page)}


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "README.md", ROOT / "docs" / "index.md", *EXAMPLES],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_guide_or_an_example_uses_nothing_but_public_names(page: Path) -> None:
    parts = {
        "ports": documented_in("toolwright.core.ports"),
        "model": documented_in("toolwright.core.model") | {"ModelEvent"},
    }
    private: list[str] = []
    for code in programs(page):
        for node in ast.walk(ast.parse(code, mode="exec")):
            match node:
                case ast.Attribute(value=ast.Attribute(value=ast.Name("tw"), attr=part), attr=name) if (
                    part in parts and name not in parts[part]
                ):
                    private.append(f"tw.{part}.{name}")
                case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "toolwright":
                    public = PUBLIC_MODULES.get(module, set[str]())
                    private += [f"{module}.{each.name}" for each in names if each.name not in public]
                case ast.Import(names=names):
                    private += [
                        each.name
                        for each in names
                        if each.name.split(".")[0] == "toolwright" and each.name not in PUBLIC_MODULES
                    ]
                case _:
                    pass
    assert private == []
