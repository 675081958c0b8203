"""Reads the manifests: the statements of each document, by section."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

FOLDER = Path(__file__).parent
Level = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "table", "type", "text", "example"]


class Requirement(BaseModel):
    """One statement. `elsewhere` gives the reason why no test of ours proves it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^S\d-\d+(\.\d+)*-\d+$")
    level: Level
    says: str = Field(min_length=1)
    elsewhere: str | None = Field(None, min_length=1)


class Section(BaseModel):
    """A numbered section. A section that only introduces others has no statement of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    requirements: tuple[Requirement, ...] = ()


class Document(BaseModel):
    """All sections of a document, by number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    document: str
    title: str
    sections: dict[str, Section]


@dataclass(frozen=True)
class Statement:
    """A requirement with its source, such as `S2 §3.4 Argument validation`."""

    requirement: Requirement
    source: str

    @property
    def id(self) -> str:
        return self.requirement.id


def read_document(path: Path) -> Document:
    """Return the document that a manifest describes. Raises `ValidationError` if the manifest is invalid."""
    return Document.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def documents() -> Sequence[Document]:
    """Return all documents that have a manifest."""
    return [read_document(path) for path in sorted(FOLDER.glob("*.yaml"))]


def statements(document: Document) -> Sequence[Statement]:
    """Return all statements of a document, in its order."""
    return [
        Statement(requirement, f"{document.document} §{number} {section.title}")
        for number, section in document.sections.items()
        for requirement in section.requirements
    ]


def faults(document: Document) -> list[str]:
    """Return the errors within a manifest: ids in the wrong place, duplicate ids, sections without statements."""
    found: list[str] = []
    seen: set[str] = set()
    for number, section in document.sections.items():
        for place, each in enumerate(section.requirements, 1):
            if each.id != f"{document.document}-{number}-{place}":
                found.append(f"{each.id}: its place is {document.document}-{number}-{place}")
            if each.id in seen:
                found.append(f"{each.id}: is there twice")
            seen.add(each.id)
        within = [other for other in document.sections if other.startswith(f"{number}.")]
        if not section.requirements and not within:
            found.append(f"{document.document} §{number}: has no statement")
    return found
