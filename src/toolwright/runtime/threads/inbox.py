"""Inbox events of a thread, as the model reads them."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import cast

from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.files import FileDrafts
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import AttachmentRef
from toolwright.core.spaces import Member
from toolwright.core.text import clean_text
from toolwright.core.threads.inbox import InboxEvent, InboxType
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.state_report import NOTICE, OWN
from toolwright.core.value import changed
from toolwright.runtime.files import FileKeeper
from toolwright.wire.result import attachment_from_json, attachment_to_json
from toolwright.wire.text import comparable_name, is_misleading, readable, readable_result, speaker_name

LONG = 50_000  # length in characters from which a text is cleaned in a thread
MAX_TOGETHER = 20_000  # characters of events that are combined into one message
PREVIEWED = 80  # characters of an event that a preview shows
_BOUNDED: Mapping[InboxType, Sequence[str]] = {
    "space_message": ("content",),
    "tool_result": ("result",),
    "plan": ("instruction",),
    "service": ("payload",),
    "subagent": ("result", "error", "message"),
}
"""The fields of an inbox event, by its type, that others wrote and that have no limit of their own."""


def is_own(message: Message) -> bool:
    """Return whether it is one of the thread's own messages, which later runs read too."""
    return message.role == "user" and message.kept and message.id.startswith(OWN)


async def cleaned_texts(events: Iterable[InboxEvent]) -> dict[str, str]:
    """Return the texts of long messages without characters invisible to people, by event id. Slow for long texts."""
    texts = {each.event_id: str(each.content.get("content", "")) for each in events}
    return {
        event_id: await asyncio.to_thread(clean_text, text)
        for event_id, text in texts.items()
        if len(text) > LONG
    }


def own_message(
    event: InboxEvent, run: Run, step: int, seq: int, cleaned: Mapping[str, str] | None = None
) -> Message:
    """Return a message of the thread as a user message of the run that reads it, at position `seq`, with the same id.

    Characters that are invisible to people but read by a model are removed; `cleaned` has the results for long texts.
    """
    content = event.content
    text = None if cleaned is None else cleaned.get(event.event_id)
    sender = content.get("sender")
    return Message(
        id=str(content["messageId"]),
        role="user",
        content=clean_text(str(content["content"])) if text is None else text,
        seq=seq,
        run_id=run.id,
        step=step,
        attachments=_refs(content.get("attachments")),
        sender=sender if isinstance(sender, dict) else None,
        created_at=event.created_at,
    )


def alike(
    events: Iterable[InboxEvent], members: Mapping[str, Iterable[tuple[Member, str]]]
) -> frozenset[str]:
    """Return the ids of messages whose authors have the name of another author or member of the space.

    `members` are those of each space, with their names.
    """
    bearers: defaultdict[tuple[JSON, str], set[JSON]] = defaultdict(set)
    spoken = [event for event in events if event.type == "space_message"]
    for event in spoken:
        bearers[_place_and_name(event)].add(event.content.get("entityId"))
    for space_id, known in members.items():
        for member, name in known:
            bearers[space_id, comparable_name(name)].add(member.entity_id)
    return frozenset([each.event_id for each in spoken if len(bearers[_place_and_name(each)]) > 1])


def _place_and_name(event: InboxEvent) -> tuple[JSON, str]:
    return event.content.get("spaceId"), comparable_name(_author(event))


def _author(event: InboxEvent) -> str:
    return str(event.content.get("displayName") or event.content.get("entityId"))


def inbox_parts(events: Sequence[InboxEvent]) -> list[Sequence[InboxEvent]]:
    """Return the events grouped into messages: one, or several if their text is long.

    A conversation that is too long for a model loses its first messages first, so the part with people is the last.
    """
    parts, size = [list[InboxEvent]()], 0
    for event in sorted(events, key=_rank, reverse=True):  # events of the same rank keep their order in time
        length = len(line(event))
        if parts[-1] and size + length > MAX_TOGETHER:
            parts.append([])
            size = 0
        parts[-1].append(event)
        size += length
    return [events] if len(parts) == 1 else [*parts]


def inbox_message(
    events: Sequence[InboxEvent], run: Run, step: int, seq: int, ambiguous: Set[str] = frozenset()
) -> Message:
    """Return all other events as one user message: people first, then results, plans and services, agents last.

    A home thread reads it as in S3, "Result via Inbox". `ambiguous` are the events of `alike`.
    """
    lines = [line(event, event.event_id in ambiguous) for event in sorted(events, key=_rank)]
    text = "\n".join(lines)
    if run.thread_id == home_thread_id_of(run.agent):
        text = f"INBOX: {text}" if len(lines) == 1 else f"INBOX:\n{text}"
    first = events[0]
    return Message(
        id=f"{NOTICE}{first.event_id.removeprefix('tr:')}",
        role="user",
        content=text,
        seq=seq,
        run_id=run.id,
        step=step,
        attachments=tuple([ref for event in events for ref in _refs(event.content.get("attachments"))]),
        created_at=max(event.created_at for event in events),
    )


async def within_limit(
    event: InboxEvent, thread_id: str, files: FileKeeper, drafts: FileDrafts
) -> InboxEvent:
    """Return the event with each of its texts cut to the limit of a result, and the full text in a file."""
    content, refs = event.content, list[JSON]()
    for field in _BOUNDED.get(event.type, ()):
        if field in content:
            limited, file = await files.value_within_limit(
                thread_id, drafts, content[field], f"{event.type}-{field}"
            )
            if file:
                content = {**content, field: limited}
                refs += [kept_ref(ref) for ref in file]
    if not refs:
        return event
    attached = content.get("attachments")
    return changed(
        event, content={**content, "attachments": [*(attached if isinstance(attached, list) else []), *refs]}
    )


def line(event: InboxEvent, is_ambiguous: bool = False) -> str:
    """Return an event as one line. Texts of others are quoted, so that no text can imitate another line.

    An author whose name is ambiguous or misleading is followed by the entity's id.
    """
    content = event.content
    match event.type:
        case "space_message":
            author = _author(event)
            place = f"spaceId: {content.get('spaceId')}, messageId: {content.get('messageId')}"
            if content.get("spaceName"):
                place = f"in {readable([content.get('spaceName')])[1:-1]}, {place}"
            kind = "Agent " if content.get("entityType") == "agent" else ""
            named = (
                f"{speaker_name(author)} ({content.get('entityId')})"
                if is_ambiguous or is_misleading(author)
                else speaker_name(author)
            )
            return f"[{kind}{named}: {_quoted(content.get('content'))}] ({place})"
        case "tool_result":
            return (
                f"[Tool Result: {content['toolName']}] (callId: {content['toolCallId']}) "
                f"{readable_result(content['result'])}"
            )
        case "plan":
            instruction = _quoted(content.get("instruction"))
            return f"[Plan: {speaker_name(str(content.get('name')))}] (planId: {content.get('planId')}) {instruction}"
        case "service":
            return f"[Service: {speaker_name(str(content.get('serviceName')))}] {readable(content.get('payload'))}"
        case "subagent":
            return _of_subagent(content)
        case _:
            return f"[{event.type}] {readable(content)}"


def _of_subagent(content: JSONObject) -> str:
    """Return the text of a child's message or result."""
    name = content.get("name")
    title = "Subagent" if name is None else f"Subagent: {speaker_name(str(name))}"
    at = f"reference: {content.get('reference')}, status: {content.get('status')}"
    if "error" in content:
        return f"[{title}] ({at}) failed: {_quoted(content['error'])}"
    return f"[{title}] ({at}) {_quoted(content.get('message', content.get('result')))}"


def preview(events: Sequence[InboxEvent], members: Mapping[str, Iterable[tuple[Member, str]]]) -> str | None:
    """Return one line about the events that wait for the next run, or None. `members` are those of each space."""
    if not events:
        return None
    earliest = sorted(events, key=_rank)[0]
    first = line(earliest, earliest.event_id in alike(events, members))
    short = first if len(first) <= PREVIEWED else f"{first[:PREVIEWED]}…"
    count = "1 new event waits" if len(events) == 1 else f"{len(events)} new events wait"
    return f"{count} in your inbox for your next run, the first: {short}"


def depth_of(events: Sequence[InboxEvent], run: Run) -> int:
    """Return the depth of the run in a chain of agents that wake each other: the maximum of the read events (D15)."""
    return max([run.chain_depth, *[event.depth for event in events]])


def _rank(event: InboxEvent) -> int:
    if event.type == "space_message":
        return 3 if event.content.get("entityType") == "agent" else 0
    return {"tool_result": 1, "subagent": 1, "plan": 2, "service": 2}.get(event.type, 2)


def _quoted(text: JSON) -> str:
    return readable([text])[1:-1]  # as JSON: quoted, on one line


def kept_ref(ref: AttachmentRef) -> JSONObject:
    """Return a file of a message as stored in its inbox event."""
    return {**attachment_to_json(ref), "digest": ref.digest}


def _refs(stored: JSON) -> tuple[AttachmentRef, ...]:
    refs: list[AttachmentRef] = []
    for each in stored if isinstance(stored, list) else []:
        written = cast("JSONObject", each)  # built by `kept_ref`
        ref = attachment_from_json(written)
        assert isinstance(ref, AttachmentRef), "a message refers to files that are kept"
        refs.append(changed(ref, digest=written["digest"]))
    return tuple(refs)
