"""The memory of an agent: core blocks that stand in its prompt, and archival passages that it searches (S4)."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from toolwright.core.checks import invalid_value
from toolwright.core.errors import InvalidRequest
from toolwright.core.plain import one_line, unwritable
from toolwright.core.text import brief, quantity
from toolwright.core.value import value

MAX_BLOCK, MAX_PASSAGE = 16 * 1024, 64 * 1024
"""Bytes of a block's content and of a passage's, in UTF-8."""
LONGEST_LABEL, LONGEST_TAG = 100, 100
"""Characters of a label and of a tag."""
MOST_BLOCKS, MOST_LINKED, MOST_TAGS = 20, 20, 20
"""Blocks that an agent has, blocks of others that it reads, tags of a passage."""


@value
class Block:
    """A core memory block: a text under a label, which its agent alone changes.

    `is_shared` says whether other agents are linked to it, who read it too.
    """

    agent_id: str
    label: str
    content: str
    updated_at: datetime
    is_shared: bool = False


@value
class Passage:
    """An archival passage of an agent."""

    agent_id: str
    id: str
    content: str
    tags: tuple[str, ...] = ()
    created_at: datetime


@value
class Vector:
    """What an embedder made of a passage's text: a direction of length 1, as float32 in little-endian bytes."""

    embedder: str
    floats: bytes


@value
class PlacedVector:
    """A passage's vector, None if it has none, and its place: those of later passages are higher."""

    place: int
    id: str
    embedder: str | None
    floats: bytes | None


def check_block(blocks: Iterable[Block], agent_id: str, label: str, content: str) -> None:
    """Check that the agent, which sees these blocks, may write this one; raises `InvalidRequest`."""
    check_label(label)
    _check_length("label", label, LONGEST_LABEL)
    _check_size("content", content, MAX_BLOCK)
    seen = list(blocks)
    own = {block.label for block in seen if block.agent_id == agent_id}
    if label in own:
        return
    if any(block.label == label for block in seen):
        raise InvalidRequest(
            f"The block {label!r} is another agent's, who shares it with you: only its owner changes it.",
            [{"path": "label", "message": "is that of another agent's block"}],
        )
    if len(own) >= MOST_BLOCKS:
        raise InvalidRequest(
            f"There are {quantity(len(own), 'block')} already, and {MOST_BLOCKS} are allowed: "
            "put this into one of them.",
            [{"path": "label", "message": f"would make more than {MOST_BLOCKS} blocks"}],
        )


def check_label(label: str) -> None:
    """Check that a block can be called so; raises `InvalidRequest`.

    It may be longer than one that is given: a secret in a label is kept by its name.
    """
    _check_name("label", label)


def check_passage(content: str, tags: Sequence[str]) -> None:
    """Check what is to be a passage; raises `InvalidRequest`."""
    if not content.strip():
        raise invalid_value("content", "is needed")
    _check_size("content", content, MAX_PASSAGE)
    if len(tags) > MOST_TAGS:
        raise invalid_value("tags", f"has {quantity(len(tags), 'tag')}; {MOST_TAGS} are allowed")
    for n, tag in enumerate(tags):
        _check_name(f"tags.{n}", tag)
        _check_length(f"tags.{n}", tag, LONGEST_TAG)


def _check_length(where: str, name: str, most: int) -> None:
    if len(name) > most:
        raise invalid_value(where, f"has {quantity(len(name), 'character')}; {most} are allowed")


def _check_name(where: str, name: str) -> None:
    if not name.strip():
        raise invalid_value(where, "is needed")
    if not one_line(name) or unwritable(name):
        shown = brief(repr(name), 200)
        raise invalid_value(where, f"must not hold line breaks or other control characters, and is {shown}")


def _check_size(where: str, text: str, most: int) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise invalid_value(where, f"has {size} bytes in UTF-8; {most} are allowed")
