"""What waits in a thread's inbox, as the model reads it."""

from typing import cast

from toolwright.core.content import AttachmentRef
from toolwright.core.inbox import InboxEvent
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.message import Message
from toolwright.core.run import Run
from toolwright.core.value import changed
from toolwright.wire.clean import readable
from toolwright.wire.result import attachment_from_json, attachment_to_json

OWN = "msg_"  # how the ids of the thread's own messages begin; what came otherwise has other ids


def inbox_message(event: InboxEvent, run: Run, step: int, seq: int) -> Message:
    """One inbox event as a user message, at the place `seq`, of the run that reads it.

    A message of the thread keeps its id; the result of a pending call reads as in S3, "Result via Inbox".
    """
    content = event.content
    attachments: tuple[AttachmentRef, ...] = ()
    if event.type == "message":
        message_id, text = str(content["messageId"]), str(content["content"])
        attachments = _refs(content.get("attachments"))
    elif event.type == "tool_result":
        message_id = f"evt_{event.event_id.removeprefix('tr:')}"
        text = (
            f"[Tool Result: {content['toolName']}] (callId: {content['toolCallId']}) "
            f"{readable(content['result'])}"
        )
    elif event.type == "plan":
        message_id = f"evt_{event.event_id}"
        text = f"[Plan: {content['name']}] (planId: {content['planId']}) {content['instruction']}"
    else:
        message_id, text = f"evt_{event.event_id}", f"[{event.type}] {readable(content)}"
    return Message(
        id=message_id,
        role="user",
        content=text,
        seq=seq,
        run_id=run.id,
        step=step,
        attachments=attachments,
        created_at=event.created_at,
    )


def kept_ref(ref: AttachmentRef) -> JSONObject:
    """A file of a message as its inbox event carries it."""
    return {**attachment_to_json(ref), "digest": ref.digest}


def _refs(kept: JSON) -> tuple[AttachmentRef, ...]:
    refs: list[AttachmentRef] = []
    for each in kept if isinstance(kept, list) else []:
        written = cast("JSONObject", each)  # as made by `kept_ref`
        ref = attachment_from_json(written)
        assert isinstance(ref, AttachmentRef), "a message refers to files that are kept"
        refs.append(changed(ref, digest=written["digest"]))
    return tuple(refs)
