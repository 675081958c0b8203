"""Reports of an agent's state within its conversation: which parts are new, and their text.

A part is reported when it differs from its last report, and its report stays where it was sent: the request of a step
begins with the bytes of the one before.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from toolwright.core.threads.message import Message, StateReport
from toolwright.core.value import changed

RECAP = "conversation"
"""Beginning of the names of parts whose reports add up: the lines that were reported before are not reported again."""
OWN = "msg_"
"""Prefix of the ids of messages that a thread's caller wrote, and of answers."""
NOTICE = "evt_"
"""Prefix of the ids of messages that the inbox wrote: late results, notices, messages of spaces."""

_TITLE = "[Your current state. A later report of a part replaces the earlier one.]"
_ABOVE = "They are in the conversation above."
_SAID_IN_SPACE = re.compile(r"messageId: ([^\s,)]+)\)$", re.MULTILINE)
_SENT_BY_AGENT = re.compile(r'"messageId":"([^"]+)"')
_RECAP_LINE = re.compile(r"\(messageId: ([^\s,)]+)[^\n]*\)$")


_ENVELOPE = re.compile(
    r"^(?=[ \t]*(?:INBOX:|\[(?:Tool Result|Plan|Service|Subagent|Agent|File|The earlier part|The result of this call"
    r"|Your current state)\b|\[[^\n]*\] \((?:in |spaceId:|callId:|planId:|reference:)))",
    re.MULTILINE,
)


def quote_envelopes(text: str) -> str | None:
    """Return a caller's text with a quotation mark before each line that looks like one of ours. None if none does."""
    return _ENVELOPE.sub("> ", text) if _ENVELOPE.search(text) is not None else None


def is_notice(message: Message) -> bool:
    """Return whether the inbox wrote the message. No caller can write one."""
    return message.role == "user" and message.id.startswith(NOTICE)


def reported_parts(messages: Iterable[Message], agent: str) -> dict[str, str]:
    """Return the parts of the agent's state as these messages report them."""
    parts: dict[str, str] = {}
    for message in messages:
        if message.state is None or message.state.agent != agent:
            continue
        for name, text in message.state.parts.items():
            parts[name] = f"{parts[name]}\n{text}" if name.startswith(RECAP) and name in parts else text
    return {name: text for name, text in parts.items() if text}


def new_report(agent: str, parts: Mapping[str, str], messages: Sequence[Message]) -> StateReport:
    """Return the report of the parts that differ from their last report in these messages.

    A part that was reported and is no longer in `parts` is withdrawn. Of a recap, only the lines are new that were not
    reported and whose message is not in the conversation.
    """
    reported = reported_parts(messages, agent)
    held = _messages_held(messages) if any(name.startswith(RECAP) for name in parts) else set[str]()
    new: dict[str, str] = {}
    for name, text in parts.items():
        if name.startswith(RECAP):
            text = _new_lines(text, reported.get(name, ""), held)
            if text:
                new[name] = text
        elif reported.get(name, "") != text:
            new[name] = text
    withdrawn = [name for name in reported if name not in parts and not name.startswith(RECAP)]
    return StateReport(agent=agent, parts={**new, **dict.fromkeys(withdrawn, "")})


def _new_lines(text: str, reported: str, held: set[str]) -> str:
    """Return the title of a recap with those of its lines that are new, or an empty text if nothing is."""
    title, *lines = text.split("\n")
    known = {*reported.split("\n")}
    new = [line for line in lines if line not in known and _message_of(line) not in held]
    if not new and title in known:
        return ""
    return "\n".join([title, *(new or [_ABOVE] * bool(lines))])


def _message_of(line: str) -> str | None:
    read = _RECAP_LINE.search(line)
    return None if read is None else read[1]


def _messages_held(messages: Iterable[Message]) -> set[str]:
    """Return the ids of the messages of spaces that the conversation has: in the inbox, or in the agent's own calls."""
    held = set[str]()
    for message in messages:
        if is_notice(message):
            held.update(_SAID_IN_SPACE.findall(message.content))
        elif message.tool_name == "send_message":
            held.update(_SENT_BY_AGENT.findall(message.content))
    return held


def is_report(message: Message) -> bool:
    """Return whether `as_sent` has added the message: a report of an agent's state, which is for services only."""
    return message.role == "system" and not message.id.startswith(NOTICE)


def as_sent(messages: Iterable[Message], agent: str) -> list[Message]:
    """Return the messages in the roles in which they are sent to the agent's model, with the reports of its state."""
    sent: list[Message] = []
    for message in messages:
        if message.state is not None and message.state.agent == agent:
            text = report_text(message.state)
            sent.append(
                Message(id=f"{message.id}.state", role="system", content=text, created_at=message.created_at)
            )
        sent.append(changed(message, role="system") if is_notice(message) else message)
    return sent


def report_text(report: StateReport) -> str:
    """Return the text of a report as sent to a model."""
    parts = [text or f"No longer part of your state: {name}." for name, text in report.parts.items()]
    return "\n\n".join([_TITLE, *parts])
