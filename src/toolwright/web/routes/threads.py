"""Threads and their messages."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field, JsonValue

from toolwright.web.answer import Answer, answer, listed
from toolwright.web.body import Form, described, reads
from toolwright.web.callers import Service
from toolwright.web.fields import Id, Limit, Offset, Words
from toolwright.web.serving import AtWork
from toolwright.web.shapes import MessageList, MessageSent, ThreadAnswer, ThreadCreated, ThreadList, answers
from toolwright.wire.message import message_json
from toolwright.wire.run import thread_json

router = APIRouter(prefix="/api/threads", tags=["threads"])


class NewThread(Form):
    """A thread to create."""

    agent_id: Words = Field(description="The agent, by its name or id.")
    user_id: Words | None = None
    tags: list[Words] | None = None
    arguments: dict[str, JsonValue] | None = None


class NewMessage(Form):
    """A message to send."""

    content: Words


@router.post(
    "",
    status_code=201,
    responses=answers(ThreadCreated, "The new thread.", 201, (404, 413)),
    openapi_extra=described(NewThread),
)
async def create_thread(
    _: Service, runtime: AtWork, new: Annotated[NewThread, Depends(reads(NewThread))]
) -> Answer:
    """A new thread of an agent."""
    thread = await runtime.threads.create(new.agent_id, new.user_id, tags=new.tags, arguments=new.arguments)
    return answer({"thread": thread_json(thread), "threadId": thread.id}, 201)


@router.get("", responses=answers(ThreadList, "The threads."))
async def list_threads(
    _: Service,
    runtime: AtWork,
    user_id: Annotated[Words | None, Query(alias="userId")] = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Answer:
    """Threads, the oldest first."""
    return listed("threads", [thread_json(one) for one in await runtime.threads.list(user_id, limit, offset)])


@router.get("/{thread_id}", responses=answers(ThreadAnswer, "The thread.", errors=(404,)))
async def get_thread(_: Service, runtime: AtWork, thread_id: Id) -> Answer:
    """One thread."""
    return answer({"thread": thread_json(await runtime.threads.get(thread_id))})


@router.post(
    "/{thread_id}/messages",
    status_code=202,
    responses=answers(MessageSent, "The message, and the run that reads it.", 202, (404, 413)),
    openapi_extra=described(NewMessage),
)
async def send_message(
    _: Service, runtime: AtWork, thread_id: Id, new: Annotated[NewMessage, Depends(reads(NewMessage))]
) -> Answer:
    """Send a message: it joins the running run, or starts one."""
    sent = await runtime.threads.post(thread_id, new.content)
    return answer({"message": message_json(sent.message), "runId": sent.run_id}, 202)


@router.get("/{thread_id}/messages", responses=answers(MessageList, "The messages.", errors=(404,)))
async def list_messages(
    _: Service, runtime: AtWork, thread_id: Id, limit: Limit = 100, offset: Offset = 0
) -> Answer:
    """The thread's messages, the oldest first; one that no run has read yet is not among them."""
    said = await runtime.threads.messages(thread_id, limit, offset)
    return listed("messages", [message_json(message) for message in said])
