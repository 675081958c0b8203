"""The manifests and the tests agree, in both directions."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.behaviour.cover import gaps
from tests.behaviour.manifest import FOLDER, Document, Requirement, documents, read_document, statements
from tests.behaviour.proofs import Proofs, collect

PARTS = {
    "s0": {str(section): 0 for section in range(1, 9)},
    "s1": {str(section): 0 for section in range(1, 8)},
    "s2": {"1": 1, "2": 2, "3": 5, "4": 3, "5": 4, "6": 3, "7": 2, "8": 3, "9": 6, "10": 0, "11": 5},
    "s3": {"1": 0, "2": 2, "3": 0, "4": 5, "5": 1, "6": 0, "7": 5, "8": 1, "9": 1, "10": 0},
    "s4": {"1": 0, "2": 6, "3": 0, "4": 0},
}
"""The number of subsections of each section of a document."""


def document(*ids: str, elsewhere: str | None = None) -> Document:
    listed = [Requirement(id=each, level="MUST", says="It works", elsewhere=elsewhere) for each in ids]
    return Document.model_validate(
        {"document": "S9", "title": "Test", "sections": {"1": {"title": "One", "requirements": listed}}}
    )


def test_every_statement_has_a_test_and_every_mark_a_statement() -> None:
    assert gaps(documents(), collect()) == []


def test_every_document_has_a_manifest_of_its_name() -> None:
    assert [path.stem for path in sorted(FOLDER.glob("*.yaml"))] == list(PARTS)
    assert [each.document.lower() for each in documents()] == list(PARTS)


@pytest.mark.parametrize("document", PARTS)
def test_every_section_of_a_document_is_in_its_manifest(document: str) -> None:
    sections = [number for part, count in PARTS[document].items()
                for number in (part, *(f"{part}.{below}" for below in range(1, count + 1)))]  # fmt: skip
    assert list(read_document(FOLDER / f"{document}.yaml").sections) == sections


def test_a_document_has_one_manifest() -> None:
    proofs = Proofs(tests={"S9-1-1": ["tests/behaviour/test_manifest.py::test_x"]})
    assert gaps([document("S9-1-1"), document("S9-1-1")], proofs) == ["S9: has two manifests"]


def test_a_statement_says_where_it_stands() -> None:
    [each] = statements(document("S9-1-1"))
    assert each.source == "S9 §1 One"


def test_a_statement_without_a_test_is_a_gap() -> None:
    assert gaps([document("S9-1-1")], Proofs()) == ["S9-1-1: no test carries it"]
    assert gaps([document("S9-1-1", elsewhere="Later")], Proofs()) == []


def test_a_mark_without_a_statement_is_a_gap() -> None:
    here = "tests/behaviour/test_manifest.py::test_x"
    proofs = Proofs(tests={"S9-1-1": [here], "S9-1-2": [here]})
    assert gaps([document("S9-1-1")], proofs) == [f"S9-1-2: {here} carries it, but no manifest has it"]
    [fault] = gaps([document("S9-1-1", elsewhere="Later")], Proofs(tests={"S9-1-1": [here]}))
    assert "is said to be proven elsewhere" in fault


def test_an_id_that_is_out_of_place_and_a_section_without_statements_are_gaps() -> None:
    proofs = Proofs(tests={"S9-1-2": ["tests/behaviour/test_manifest.py::test_x"]})
    assert gaps([document("S9-1-2")], proofs) == ["S9-1-2: its place is S9-1-1"]
    assert gaps([document()], Proofs()) == ["S9 §1: has no statement"]


@pytest.mark.parametrize(
    "fault", [{"id": "S9.1"}, {"level": "WILL"}, {"says": ""}, {"elsewhere": ""}, {"x": 1}]
)
def test_an_invalid_statement_cannot_be_read(fault: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Requirement.model_validate({"id": "S9-1-1", "level": "MUST", "says": "It works"} | fault)


MARKS = """
import pytest
MARKED = requirement("S9-1-1")

@requirement("S9-1-2", "S9-1-3")
async def test_one() -> None: ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=requirement("S9-1-4")), 2])
def test_two(x) -> None: ...

@requirement(NAME)
def test_three() -> None: ...

@requirement("S9-1-5")
def helper() -> None: ...
"""


def test_marks_count_on_tests_alone_and_name_their_ids(tmp_path: Path) -> None:
    (tmp_path / "test_marks.py").write_text(MARKS, encoding="utf-8")
    (tmp_path / "others.py").write_text(
        '@requirement("S9-1-6")\ndef test_four() -> None: ...\n', encoding="utf-8"
    )
    proofs = collect(tmp_path, tmp_path)
    assert proofs.tests == {
        "S9-1-2": ["test_marks.py::test_one"],
        "S9-1-3": ["test_marks.py::test_one"],
        "S9-1-4": ["test_marks.py::test_two"],
    }
    assert proofs.faults == [
        "others.py:1: a requirement that is not on a test proves nothing",
        "test_marks.py::test_three: a requirement names its ids, as texts",
        "test_marks.py:3: a requirement that is not on a test proves nothing",
        "test_marks.py:14: a requirement that is not on a test proves nothing",
    ]
