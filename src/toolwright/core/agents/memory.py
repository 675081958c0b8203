"""The memory of an agent: core blocks that stand in its prompt, and archival passages that it searches (S4)."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from toolwright.core.errors import InvalidRequest
from toolwright.core.plain import one_line
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


def check_block(blocks: Iterable[Block], agent_id: str, label: str, content: str) -> None:
    """Check that the agent, which sees these blocks, may write this one; raises `InvalidRequest`."""
    _check_name("label", label, LONGEST_LABEL)
    _check_size("content", content, MAX_BLOCK)
    seen = list(blocks)
    own = {block.label for block in seen if block.agent_id == agent_id}
    if label in own:
        return
    if any(block.label == label for block in seen):
        raise InvalidRequest(
            f"The block {label!r} is another agent's, who shares it with you: only its owner changes it."
        )
    if len(own) >= MOST_BLOCKS:
        raise InvalidRequest(
            f"There are {quantity(len(own), 'block')} already, and {MOST_BLOCKS} are allowed: "
            "put this into one of them."
        )


def check_passage(content: str, tags: Sequence[str]) -> None:
    """Check what is to be a passage; raises `InvalidRequest`."""
    if not content.strip():
        raise InvalidRequest("content is needed.")
    _check_size("content", content, MAX_PASSAGE)
    if len(tags) > MOST_TAGS:
        raise InvalidRequest(f"tags has {quantity(len(tags), 'tag')}; {MOST_TAGS} are allowed.")
    for n, tag in enumerate(tags):
        _check_name(f"tags.{n}", tag, LONGEST_TAG)


def _check_name(where: str, name: str, most: int) -> None:
    if not name.strip():
        raise InvalidRequest(f"{where} is needed.")
    if len(name) > most:
        raise InvalidRequest(f"{where} has {quantity(len(name), 'character')}; {most} are allowed.")
    if not one_line(name):
        raise InvalidRequest(
            f"{where} must not hold line breaks or other control characters, and is {brief(repr(name), 200)}."
        )


def _check_size(where: str, text: str, most: int) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise InvalidRequest(f"{where} has {size} bytes in UTF-8; {most} are allowed.")
