"""Finds the tests that carry a requirement by parsing their source: nothing is imported or executed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARK = "requirement"


@dataclass
class Proofs:
    """The tests of each id, and marks in places where they prove nothing."""

    tests: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    faults: list[str] = field(default_factory=list[str])


def collect(folder: Path = ROOT / "tests", root: Path = ROOT) -> Proofs:
    """Collect all marks below a folder."""
    proofs = Proofs()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if f"{MARK}(" in text:
            _read(ast.parse(text), path.relative_to(root).as_posix(), proofs, path.name)
    return proofs


def _read(tree: ast.Module, name: str, proofs: Proofs, file: str) -> None:
    proving: set[ast.Call] = set()
    if file.startswith("test_"):
        for test in tree.body:
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test_"):
                for decorator in test.decorator_list:
                    for mark in _marks(decorator):
                        proving.add(mark)
                        _note(mark, f"{name}::{test.name}", proofs)
    for mark in _marks(tree):
        if mark not in proving:
            proofs.faults.append(f"{name}:{mark.lineno}: a requirement that is not on a test proves nothing")


def _note(mark: ast.Call, test: str, proofs: Proofs) -> None:
    ids = [each.value for each in mark.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if not ids or len(ids) != len(mark.args) or mark.keywords:
        proofs.faults.append(f"{test}: a requirement names its ids, as texts")
    for each in ids:
        known = proofs.tests.setdefault(each, [])
        if test not in known:
            known.append(test)


def _marks(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) == MARK:
            yield node


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
