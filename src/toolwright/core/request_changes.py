"""Changes of a request to a model by hooks: what may be changed, and how it is recorded and rebuilt."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.model import NO_SETTINGS, ModelRequest, ModelSettings
from toolwright.core.threads.compaction import text_digest
from toolwright.core.threads.message import Message, StateReport
from toolwright.core.value import changed

FREE = frozenset({"messages", "system", "tools", "settings", "state"})
"""The fields of a request that a hook may change."""
_NAMED = ", ".join(sorted(FREE))
OF_MESSAGE = frozenset({"content", "calls", "attachments", "native", "reasoning", "state"})
"""The fields of a message that a hook may change."""


def checked(before: ModelRequest, after: ModelRequest) -> ModelRequest:
    """Return the changed request: a changed message loses what its provider would replay of it.

    Raises `DefinitionError` if more is changed than a hook may change.
    """
    for name in ModelRequest.__struct_fields__:
        was, now = getattr(before, name), getattr(after, name)
        if name not in FREE and now is not was and now != was:
            raise DefinitionError(f"it changed {name!r} of the request, where only {_NAMED} may change")
    if not isinstance(after.system, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise DefinitionError(f"the system text must be text, not {brief_value(after.system)}")
    if after.settings is not None and not isinstance(after.settings, ModelSettings):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise DefinitionError(f"the settings must be ModelSettings, not {brief_value(after.settings)}")
    for name in ("messages", "tools"):
        if not isinstance(getattr(after, name), list | tuple):
            raise DefinitionError(f"{name} must be a list, not {brief_value(getattr(after, name))}")
    offered = {id(each) for each in before.tools}
    added = next((each for each in after.tools if id(each) not in offered), None)
    if added is not None:
        raise DefinitionError(
            f"it added the tool {getattr(added, 'name', added)!r}, where tools may only be removed"
        )
    _check_state("the request", before.state, after.state)
    if len({id(each) for each in after.tools}) != len(after.tools):
        raise DefinitionError("it named a tool twice")
    tools = before.tools if len(after.tools) == len(before.tools) else tuple(after.tools)
    return changed(after, messages=_messages(before, after), tools=tools)


def _messages(before: ModelRequest, after: ModelRequest) -> tuple[Message, ...]:
    """Return the messages, each changed one without what only fits the original."""
    originals = {each.id: each for each in before.messages}
    messages: list[Message] = []
    seen: set[str] = set()
    for each in after.messages:
        if not isinstance(each, Message) or each.id in seen:  # pyright: ignore[reportUnnecessaryIsInstance]  # input
            raise DefinitionError(
                f"each message must be a Message with an id of its own, not {brief_value(each)}"
            )
        seen.add(each.id)
        original = originals.get(each.id)
        messages.append(each if original is None or each is original else _changed_message(original, each))
        if original is None and (each.role not in ("user", "assistant") or each.calls):
            raise DefinitionError(
                "a message that a hook adds must have the role user or assistant, and no calls"
            )
    _check_pairs(before.messages, messages)
    return tuple(messages)


def _check_state(whose: str, before: StateReport | None, after: StateReport | None) -> None:
    """Raise `DefinitionError` unless the reported state is the same, has other texts of the same parts, or is None."""
    if after is None or after is before:
        return
    if (
        before is None
        or not isinstance(after, StateReport)  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        or after.agent != before.agent
        or list(after.parts) != list(before.parts)
        or not all(isinstance(each, str) for each in after.parts.values())  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
    ):
        raise DefinitionError(
            f"it changed the state of {whose} in more than the texts of its parts; state=None leaves it out"
        )


def _changed_message(original: Message, message: Message) -> Message:
    for name in Message.__struct_fields__:
        if name not in OF_MESSAGE and getattr(original, name) != getattr(message, name):
            raise DefinitionError(
                f"it changed {name!r} of the message {original.id}, where only its content, the arguments of its "
                "calls, its attachments and the texts of its state may change"
            )
    if not isinstance(message.content, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise DefinitionError(f"the content of a message must be text, not {brief_value(message.content)}")
    was, now = ([(c.id, c.name, c.model_call_id) for c in each.calls] for each in (original, message))
    if was != now:
        raise DefinitionError(
            f"it changed the calls of the message {original.id}, whose arguments alone may change"
        )
    if any(each not in original.attachments for each in message.attachments):
        raise DefinitionError(f"it added an attachment to the message {original.id}")
    _check_state(f"the message {original.id}", original.state, message.state)
    if _part(original, message) == {}:
        return original
    return changed(message, native=None)


def _check_pairs(before: Sequence[Message], after: Sequence[Message]) -> None:
    """Raise `DefinitionError` if a call remains without its result, or a result without its call."""
    answered = {each.call_id for each in before if each.role == "tool"}
    calls = {call.id for each in after for call in each.calls if call.id in answered}
    results = {each.call_id for each in after if each.role == "tool"}
    lone = calls ^ results
    if lone:
        raise DefinitionError(
            f"it removed the call {sorted(map(str, lone))[0]} without its result, or the reverse"
        )


def _part(original: Message, message: Message) -> JSONObject:
    """Return what is changed in a message."""
    part: JSONObject = {}
    if message.content != original.content:
        part["content"] = message.content
    if message.calls != original.calls:
        part["arguments"] = [each.arguments for each in message.calls]
    if message.attachments != original.attachments:
        part["attachments"] = [each.path for each in message.attachments]
    if message.state != original.state:
        part["state"] = _texts(message.state)
    return part


def _texts(state: StateReport | None) -> JSONObject:
    return {} if state is None else {**state.parts}


def with_texts(state: StateReport | None, texts: JSON) -> StateReport | None:
    """Return the report with these texts of its parts, which are recorded; None without texts."""
    if state is None or not isinstance(texts, dict) or not texts:
        return None
    return changed(state, parts={name: str(text) for name, text in texts.items()})


def recorded(before: ModelRequest, after: ModelRequest) -> tuple[JSONObject | None, dict[str, str]]:
    """Return the record of the changed messages, or None, and the texts that it names, by digest.

    `messages` maps the ids of changed and added messages to digests, `order` has the ids of all messages if some were
    added or removed. `state` is the digest of the changed texts of the reported state.
    """
    originals = {each.id: each for each in before.messages}
    texts: dict[str, str] = {}
    messages: JSONObject = {}
    for each in after.messages:
        original = originals.get(each.id)
        if original is each:
            continue
        part = {"role": each.role, "content": each.content} if original is None else _part(original, each)
        text = dumps(cast("JSON", part))
        messages[each.id] = digest = text_digest(text)
        texts[digest] = text
    record: JSONObject = {"messages": messages} if messages else {}
    order: list[JSON] = [each.id for each in after.messages]
    if order != [each.id for each in before.messages]:
        record["order"] = order
    if after.state != before.state:
        text = dumps(_texts(after.state))
        record["state"] = digest = text_digest(text)
        texts[digest] = text
    return record or None, texts


def digests_of(change: JSONObject | None) -> Iterable[str]:
    """Return the digests of the texts that a record names."""
    if change is None:
        return ()
    messages, state = change.get("messages"), change.get("state")
    digests = list(messages.values()) if isinstance(messages, dict) else []
    return map(str, digests if state is None else [*digests, state])


def summary(before: ModelRequest, after: ModelRequest) -> JSONObject:
    """Return the names of what was changed: `messages`, `instructions`, removed `tools`, `settings`, `state`."""
    was, now = {id(each) for each in before.messages}, {each.id for each in after.messages}
    changed_ids = [each.id for each in after.messages if id(each) not in was]
    removed_ids = [each.id for each in before.messages if each.id not in now]
    kept = {each.name for each in after.tools}
    old, new = before.settings or NO_SETTINGS, after.settings or NO_SETTINGS
    settings = [name for name in old.__struct_fields__ if getattr(old, name) != getattr(new, name)]
    parts: dict[str, object] = {
        "messages": [*changed_ids, *removed_ids],
        "instructions": after.system != before.system,
        "tools": [each.name for each in before.tools if each.name not in kept],
        "settings": settings,
        "state": after.state != before.state,
    }
    return cast("JSONObject", {name: each for name, each in parts.items() if each})


def rebuilt(
    messages: Sequence[Message], record: Mapping[str, JSON], texts: Mapping[str, str]
) -> list[Message]:
    """Return the messages of a request with its recorded changes, as far as their texts are known."""
    digests = record.get("messages")
    by_digest = digests if isinstance(digests, dict) else {}
    parts = {
        name: cast("JSONObject", json.loads(texts[str(digest)]))
        for name, digest in by_digest.items()
        if str(digest) in texts
    }
    known = {each.id: _with_part(each, parts.get(each.id)) for each in messages}
    order = record.get("order")
    if not isinstance(order, list):
        return [known[each.id] for each in messages]
    sample = messages[0] if messages else None
    rows: list[Message] = []
    for name in map(str, order):
        part = parts.get(name, {})
        if name in known:
            rows.append(known[name])
        elif sample is not None and "role" in part:
            role = "assistant" if part["role"] == "assistant" else "user"
            rows.append(
                Message(
                    id=name, role=role, content=str(part.get("content", "")), created_at=sample.created_at
                )
            )
    return rows


def rebuilt_state(
    state: StateReport | None, record: Mapping[str, JSON], texts: Mapping[str, str]
) -> StateReport | None:
    """Return the reported state of a request with its recorded change, as far as its texts are known."""
    text = texts.get(str(record.get("state")))
    return state if text is None else with_texts(state, json.loads(text))


def _with_part(message: Message, part: JSONObject | None) -> Message:
    if part is None:
        return message
    arguments, paths = part.get("arguments"), part.get("attachments")
    calls, attachments = message.calls, message.attachments
    if isinstance(arguments, list):
        calls = tuple([changed(c, arguments=str(text)) for c, text in zip(calls, arguments, strict=False)])
    if isinstance(paths, list):
        attachments = tuple([each for each in attachments if each.path in paths])
    content = str(part.get("content", message.content))
    state = with_texts(message.state, part["state"]) if "state" in part else message.state
    return changed(message, content=content, calls=calls, attachments=attachments, state=state, native=None)
