"""Routes of agent memory: blocks, sharing of blocks, and archival passages."""

from typing import Annotated, Literal

from fastapi import Depends, Path, Query
from pydantic import Field

from toolwright.core.agents.memory import (
    LONGEST_QUERY,
    LONGEST_TAG,
    MAX_BLOCK,
    MAX_PASSAGE,
    MOST_LINKED,
    MOST_TAGS,
)
from toolwright.core.limits import PageLimit
from toolwright.web.answers import ApiResponse, Deleted, ListShape, answer, answers, listed
from toolwright.web.dependencies import Service
from toolwright.web.requests.body import RequestForm, described, errors_at, reads
from toolwright.web.requests.query import Id, Limit, Offset, Person, Reference, StorableText
from toolwright.web.routes.router import noun
from toolwright.web.serving import AtWork
from toolwright.wire.agent import Block, Passage, block_json, passage_json
from toolwright.wire.shape import Shape

router = noun("/api/agents/{agent_id}", "agents")

Tag = Annotated[StorableText, Field(max_length=LONGEST_TAG)]
Label = Annotated[StorableText, Path(description="The label of the block, percent-encoded.")]


class BlockList(ListShape):
    """Blocks, by label."""

    blocks: list[Block]


class BlockAnswer(Shape):
    """One block."""

    block: Block


class PassageList(ListShape):
    """Passages, newest first, or by rank if they were searched for."""

    passages: list[Passage]


class PassageAnswer(Shape):
    """One passage."""

    passage: Passage


class Linked(Shape):
    """Confirmation that the reader can or can no longer read the block."""

    success: Literal[True]


class NewBlock(RequestForm):
    """The content of a block."""

    content: Annotated[StorableText, Field(max_length=MAX_BLOCK, description="Up to 16 KiB in UTF-8.")]
    readers: Annotated[list[Reference], Field(max_length=MOST_LINKED)] = Field(
        [],
        description="Agents to share the block with, by name or id, in addition to those that already read it.",
    )


class NewPassage(RequestForm):
    """A passage to store."""

    content: Annotated[StorableText, Field(max_length=MAX_PASSAGE, description="Up to 64 KiB in UTF-8.")]
    tags: Annotated[list[Tag], Field(max_length=MOST_TAGS)] = Field([])


@router.get("/memory", responses=answers(BlockList, "The blocks.", errors=(404,)))
async def list_blocks(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    limit: Limit = PageLimit(1_000),
    offset: Offset = 0,
    user_id: Person = None,
) -> ApiResponse:
    """List the blocks that the agent reads, its own and those shared with it, by label."""
    return listed("blocks", await runtime.blocks.list(agent_id, limit, offset, user_id=user_id), block_json)


@router.get("/memory/{label:text}", responses=answers(BlockAnswer, "The block.", errors=(404,)))
async def get_block(
    _: Service, runtime: AtWork, agent_id: Id, label: Label, user_id: Person = None
) -> ApiResponse:
    """Get the agent's own block with that label, or the block shared with it."""
    return answer({"block": block_json(await runtime.blocks.get(agent_id, label, user_id=user_id))})


@router.put(
    "/memory/{label:text}",
    responses=answers(BlockAnswer, "The updated block.", errors=(404, 413)),
    openapi_extra=described(NewBlock),
)
async def write_block(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    label: Label,
    new: Annotated[NewBlock, Depends(reads(NewBlock))],
    user_id: Person = None,
) -> ApiResponse:
    """Create the agent's block with that label, or replace its content."""
    return answer(
        {
            "block": block_json(
                await runtime.blocks.write(agent_id, label, new.content, new.readers, user_id=user_id)
            )
        }
    )


@router.delete("/memory/{label:text}", responses=answers(Deleted, "Deleted.", errors=(404,)))
async def delete_block(
    _: Service, runtime: AtWork, agent_id: Id, label: Label, user_id: Person = None
) -> ApiResponse:
    """Delete a block of the agent, including for the agents it is shared with."""
    await runtime.blocks.drop(agent_id, label, user_id=user_id)
    return answer({"success": True})


@router.put(
    "/readers/{reader_id}/memory/{label:text}",
    responses=answers(Linked, "The agent can read the block.", errors=(404,)),
)
async def link_block(_: Service, runtime: AtWork, agent_id: Id, reader_id: Id, label: Label) -> ApiResponse:
    """Share a block of this agent with another agent."""
    await runtime.blocks.link(agent_id, label, reader_id)
    return answer({"success": True})


@router.delete(
    "/readers/{reader_id}/memory/{label:text}",
    responses=answers(Deleted, "The agent can no longer read the block.", errors=(404,)),
)
async def unlink_block(_: Service, runtime: AtWork, agent_id: Id, reader_id: Id, label: Label) -> ApiResponse:
    """Stop sharing a block of this agent with another agent."""
    await runtime.blocks.unlink(agent_id, label, reader_id)
    return answer({"success": True})


@router.get("/passages", responses=answers(PassageList, "The passages.", errors=(404,)))
async def list_passages(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    q: Annotated[
        StorableText | None,
        Query(max_length=LONGEST_QUERY, description="Words that the passages must contain."),
    ] = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
    user_id: Person = None,
) -> ApiResponse:
    """List the agent's passages, newest first, or search them, best match first."""
    if q is None:
        return listed(
            "passages", await runtime.passages.list(agent_id, limit, offset, user_id=user_id), passage_json
        )
    with errors_at("query", "q"):
        passages = await runtime.passages.search(agent_id, q, limit, offset, user_id=user_id)
    return listed("passages", passages, passage_json)


@router.post(
    "/passages",
    status_code=201,
    responses=answers(PassageAnswer, "The new passage.", 201, (404, 413)),
    openapi_extra=described(NewPassage),
)
async def store_passage(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    new: Annotated[NewPassage, Depends(reads(NewPassage))],
    user_id: Person = None,
) -> ApiResponse:
    """Store a passage in the agent's archive."""
    passage = await runtime.passages.add(agent_id, new.content, new.tags, user_id=user_id)
    return answer({"passage": passage_json(passage)}, 201)


@router.get("/passages/{passage_id}", responses=answers(PassageAnswer, "The passage.", errors=(404,)))
async def get_passage(
    _: Service, runtime: AtWork, agent_id: Id, passage_id: Id, user_id: Person = None
) -> ApiResponse:
    """Get a passage of the agent."""
    return answer(
        {"passage": passage_json(await runtime.passages.get(agent_id, passage_id, user_id=user_id))}
    )


@router.delete("/passages/{passage_id}", responses=answers(Deleted, "Deleted.", errors=(404,)))
async def delete_passage(
    _: Service, runtime: AtWork, agent_id: Id, passage_id: Id, user_id: Person = None
) -> ApiResponse:
    """Delete a passage."""
    await runtime.passages.drop(agent_id, passage_id, user_id=user_id)
    return answer({"success": True})
