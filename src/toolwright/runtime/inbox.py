"""What waits in a thread's inbox, as the model reads it."""

from toolwright.core.inbox import InboxEvent
from toolwright.core.message import Message
from toolwright.core.run import Run
from toolwright.wire.clean import readable

OWN = "msg_"  # how the ids of the thread's own messages begin; what came otherwise has other ids


def inbox_message(event: InboxEvent, run: Run, step: int, seq: int) -> Message:
    """One inbox event as a user message, at the place `seq`, of the run that reads it.

    A message of the thread keeps its id; the result of a pending call reads as in S3, "Result via Inbox".
    """
    content = event.content
    if event.type == "message":
        message_id, text = str(content["messageId"]), str(content["content"])
    elif event.type == "tool_result":
        message_id = f"evt_{event.event_id.removeprefix('tr:')}"
        text = (
            f"[Tool Result: {content['toolName']}] (callId: {content['toolCallId']}) "
            f"{readable(content['result'])}"
        )
    else:
        message_id, text = f"evt_{event.event_id}", f"[{event.type}] {readable(content)}"
    return Message(
        id=message_id,
        role="user",
        content=text,
        seq=seq,
        run_id=run.id,
        step=step,
        created_at=event.created_at,
    )
