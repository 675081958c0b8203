"""The bus of one process in a cluster: exchanges events and wake-ups with the other processes."""

import asyncio
import json
import math
import random
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from typing import Any, Protocol, TypeAlias, cast

from toolwright.adapters.bus.memory import MemoryBus, QueueFollower
from toolwright.adapters.system import new_id
from toolwright.core.concurrency import start_task
from toolwright.core.env.logs import logger
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.ports import NotConnected
from toolwright.core.text import error_text
from toolwright.core.threads.event import GROWN, Event, Topic
from toolwright.core.value import changed

log = logger("toolwright.bus")

# Seconds without a relay after which this is logged: if a reason is known, and if none is known.
PATIENCE, UNEXPLAINED = 5.0, 15.0
RETRY = 1.0  # seconds before the relay reconnects
# seconds between two state messages of this process, and for which a message is valid
REFRESH, EXPIRES = (2.0, 6.0)
PART = 0.1  # seconds between two parts of this process's state
MIN_PART = 500  # messages per part
MAX_WAITING = 10_000  # queued messages, without live events; further messages are dropped
MARK = 500  # approximate bytes of a message that a topic has grown
MAX_TOPICS = 100_000  # topics with subscribers in other processes
MAX_TYPES = 100  # types of events for which a topic is followed; with more, all are sent
MAX_SHARED = 10_000  # keys under which other processes share values
MAX_NODES = 1_000  # other processes
MAX_EXPIRED = 10_000  # topics removed at a time

Key: TypeAlias = tuple[str, str]
Message: TypeAlias = list[Any]
"""A message to other processes, as JSON: its kind, and the fields that `ClusterBus._handle` reads."""
Woken: TypeAlias = Callable[[str, bool], None]
"""Called with a thread woken by another process, and whether this process is asked to execute its run."""


class Relay(Protocol):
    """Sends texts to all other processes of the cluster. It can lose, repeat, delay and reorder them."""

    @property
    def most(self) -> int:
        """Maximum bytes of a text."""
        ...

    @property
    def pause(self) -> float:
        """Seconds between two sends, during which texts are collected."""
        ...

    async def listen(self, receive: Callable[[str], None], connected: Callable[[], None]) -> None:
        """Connect, call `connected`, and receive texts until the connection ends. Raises the errors of the client."""
        ...

    async def send(self, texts: Sequence[str]) -> None:
        """Send texts immediately. After an exception they can be lost; `NotConnected` means that they were not sent."""
        ...


class ClusterBus(MemoryBus):
    """The `Bus` port of a process in a cluster.

    Each process sends the others the topics with subscribers in it. After a commit it sends them the topics with new
    events, and they read the events from the journal. Live events, which are not in the journal, are sent in full. Any
    message can be lost: subscribers also poll the journal four times a second. `works` is true if this process executes
    runs.
    """

    def __init__(self, relay: Relay, *, works: bool) -> None:
        super().__init__()
        self.woken: Woken = _ignore
        self._relay, self._works = relay, works
        self._node = new_id("bus")
        self._elsewhere: dict[
            Key, dict[str | None, float]
        ] = {}  # types followed in other processes, until when; those first that were not sent again for the longest
        self._workers: dict[
            str, float
        ] = {}  # other processes that execute runs, with the expiry of this information
        self._own: dict[str, JSON] = {}  # values that this process shares
        self._shared: dict[
            str, dict[str, tuple[JSON, float]]
        ] = {}  # values of other processes, with their expiry
        self._messages: deque[Message] = deque()
        # Queued live events, with messages about grown topics between them.
        self._events = QueueFollower()
        self._grown: set[Key] = set()  # topics with a queued message that they have grown
        self._has_messages = asyncio.Event()
        self._failing_since, self._is_logged = 0.0, False  # set while nothing can be sent
        # Why nothing can be received.
        self._unheard: str | None = None
        self._refresh_at = 0.0  # next time at which the whole state of this process is sent, in parts
        self._rest: deque[Key | str] = deque()  # topics and names of shared values still to be sent
        # the size of the next part, and the time at which it is sent
        self._part, self._part_at = (MIN_PART, 0.0)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start sending and receiving."""
        self._tasks = [
            start_task(self._listen(), "toolwright-relay"),
            start_task(self._send(), "toolwright-bus"),
        ]

    async def close(self) -> None:
        """Stop sending and receiving."""
        pending = {*self._tasks}
        while pending:
            for task in pending:
                task.cancel()
            # The client of a broker can swallow a cancellation, as `asyncio.wait_for` does in Python 3.11.
            _, pending = await asyncio.wait(pending, timeout=RETRY)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ── this process ────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, events: Sequence[Event]) -> None:
        super().publish(events)
        if self._elsewhere:
            for event in events:
                self._forward(event)

    def wanted(self, thread_id: str, run_id: str) -> bool:
        return super().wanted(thread_id, run_id) or self._are_followed(("thread", thread_id), ("run", run_id))

    def wanted_in(self, space_id: str) -> bool:
        return super().wanted_in(space_id) or self._are_followed(("space", space_id), ("spaces", ""))

    @contextmanager
    def subscribe(self, topic: Topic, types: Collection[str] | None = None) -> Generator[QueueFollower]:
        key = topic.kind, topic.id
        # Before the subscriber reads the journal, so that the window without notifications is as short as possible.
        if not _includes(_types_of(self._followers.get(key, ())), types):
            self._queue(_interest(key, types))
        with super().subscribe(topic, types) as follower:
            yield follower

    def announce(self, topic: Topic) -> None:
        self._grew(((topic.kind, topic.id),), None)

    def share(self, key: str, value: JSON) -> None:
        if self._own.get(key) != value:
            if value is None:
                del self._own[key]
            else:
                self._own[key] = value
            self._queue(["share", key, value])

    def shared(self, key: str) -> Sequence[JSON]:
        now = _now()
        return [value for value, until in self._shared.get(key, {}).values() if until > now]

    def wake(self, thread_id: str) -> None:
        """Wake a thread whose run this process does not execute: in the process that has leased it, or in any."""
        workers = [each for each, until in self._workers.items() if until > _now()]
        self._queue(["wake", thread_id, random.choice(workers) if workers else ""])

    def _forward(self, event: Event) -> None:
        """Queue what other processes need to know of the event."""
        if event.space_id is not None:
            keys: tuple[Key, ...] = (("space", event.space_id), ("spaces", ""))
        else:
            keys = (("thread", event.thread_id or ""), ("run", event.run_id or ""))
        if event.n is not None:
            self._grew(keys, event.type)
        elif self._are_followed(*keys):
            self._events.put(event, len(dumps(event.payload)))
            self._has_messages.set()

    def _grew(self, keys: Iterable[Key], type_: str | None) -> None:
        for key in keys:
            if key not in self._grown and self._is_followed(key, type_):
                self._grown.add(key)
                self._events.put(changed(GROWN, n=0, payload={"topic": [*key]}), MARK)
                self._has_messages.set()

    def _is_followed(self, key: Key, type_: str | None) -> bool:
        """Return whether another process has subscribers to the topic, for all events or this type."""
        types = self._elsewhere.get(key)
        if types is None:
            return False
        now = _now()
        return types.get(None, 0.0) > now or (type_ is not None and types.get(type_, 0.0) > now)

    def _are_followed(self, *keys: Key) -> bool:
        return bool(self._elsewhere) and any(self._is_followed(key, None) for key in keys)

    def _queue(self, message: Message) -> None:
        # Beyond the limit messages are dropped: the next refresh sends the state again, and followers poll.
        if len(self._messages) < MAX_WAITING:
            self._messages.append(message)
            self._has_messages.set()

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _send(self) -> None:
        """Send queued messages, in batches, and the whole state of this process every `REFRESH` seconds."""
        sent = 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(self._next_part() - _now(), 0.0)):
                    await self._has_messages.wait()
                    # Messages that arrive during the pause go into the same batch.
                    await asyncio.sleep(max(sent + self._relay.pause - _now(), 0.0))
            if self._next_part() <= _now():
                self._queue_part()
            sent = _now()
            try:
                await self._relay.send([*self._texts(self._pop_messages())])
            except Exception as error:  # noqa: BLE001 - the client of a broker can raise anything; all of it is lost
                self._on_failure(error)
            else:
                self._on_success()

    def _next_part(self) -> float:
        return self._part_at if self._rest else self._refresh_at

    def _queue_part(self) -> None:
        """Queue the next part of this process's state. Sending many topics at once would block the event loop."""
        now = _now()
        self._part_at = now + PART
        if not self._rest:
            self._refresh_at = now + REFRESH
            self._expire()
            self._queue(["node", self._works])
            self._rest.extend((*self._followers, *self._own))
            self._part = max(MIN_PART, math.ceil(len(self._rest) * PART / REFRESH))
        for _ in range(min(self._part, len(self._rest))):
            each = self._rest.popleft()
            if isinstance(each, tuple):
                if followers := self._followers.get(each):
                    self._queue(_interest(each, _types_of(followers)))
            elif each in self._own:
                self._queue(["share", each, self._own[each]])

    def _pop_messages(self) -> list[Message]:
        """Return the queued messages and clear the queues."""
        self._has_messages.clear()
        messages = [*self._messages, *map(_message, self._events.pop_events())]
        self._messages.clear()
        self._grown.clear()
        return messages

    def _texts(self, messages: Sequence[Message]) -> Iterator[str]:
        """Yield the messages as texts, each within the relay's limit. A message that is too long is left out."""
        begin = f'["{self._node}"'
        parts, size = [begin], len(begin) + 1
        room = self._relay.most - len(begin) - 2
        for message in messages:
            part = dumps(message)  # ASCII: as many bytes as characters
            if len(part) > room:
                part = dumps(_shortened(message))
            if len(part) > room:
                continue
            if size + len(part) + 1 > self._relay.most:
                yield ",".join(parts) + "]"
                parts, size = [begin], len(begin) + 1
            parts.append(part)
            size += len(part) + 1
        yield ",".join(parts) + "]"

    def _on_failure(self, error: Exception) -> None:
        self._failing_since = self._failing_since or _now()
        is_explained = self._unheard is not None or not isinstance(error, NotConnected)
        patience = PATIENCE if is_explained else UNEXPLAINED
        if not self._is_logged and _now() - self._failing_since > patience:
            self._is_logged = True
            log.warning(
                "Messages to other processes cannot be sent. They see changes with a delay of up to 0.25 s: %s",
                self._unheard or error_text(error),
            )

    def _on_success(self) -> None:
        if self._is_logged:
            # Logged at the level of the failure, so that a log of warnings also shows the recovery.
            log.warning("Messages to other processes are sent again.")
        self._failing_since, self._is_logged = 0.0, False

    def _expire(self) -> None:
        """Remove state of other processes that they have not refreshed in time."""
        now = _now()
        for key, types in [*islice(self._elsewhere.items(), MAX_EXPIRED)]:
            if max(types.values(), default=0.0) > now:
                break  # the following entries are newer
            del self._elsewhere[key]
        self._workers = {node: until for node, until in self._workers.items() if until > now}
        for name, values in [*self._shared.items()]:
            for node in [node for node, (_, until) in values.items() if until <= now]:
                self._set_shared(node, name, None)

    # ── receiving ───────────────────────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> None:
        while True:
            try:
                await self._relay.listen(self._receive, self._connected)
            except Exception as error:  # noqa: BLE001 - of sockets, of TLS, of the client of a broker
                self._unheard = error_text(error)
                log.debug("Messages from other processes cannot be received: %s", self._unheard)
            await asyncio.sleep(RETRY)

    def _connected(self) -> None:
        """Send the whole state of this process, request that of the others, and have subscribers read the journal."""
        self._rest.clear()
        self._refresh_at, self._unheard = 0.0, None
        self._queue(["hello"])
        for kind, id_ in [*self._followers]:
            self.grown(kind, id_)

    def _receive(self, text: str) -> None:
        try:
            node, *messages = json.loads(text)
            if node == self._node:
                return
            for message in messages:
                self._handle(node, message)
        except (ValueError, TypeError, RecursionError) as error:  # from another version or another sender
            log.debug("A message from another process cannot be read: %s", error)

    def _handle(self, node: str, message: Any) -> None:  # JSON created by `_queue`
        match message:
            case ["live", [*fields]]:
                MemoryBus.publish(self, [_event(fields)])
            case ["grown", str(kind), str(id_)]:
                self.grown(kind, id_)
            case ["want", str(kind), str(id_), types]:
                self._note_interest((kind, id_), types)
            case ["share", str(name), value]:
                self._set_shared(node, name, value)
            case ["wake", str(thread_id), target]:
                self.woken(thread_id, target == self._node)
            case ["hello"]:
                just_sent = REFRESH - self._relay.pause
                if self._refresh_at - _now() < just_sent:
                    self._refresh_at = 0.0
                    self._has_messages.set()
            case ["node", works]:
                if works and _has_room(self._workers, node, MAX_NODES):
                    self._workers[node] = _now() + EXPIRES
            case _:
                pass  # from a later version

    def _note_interest(self, key: Key, types: list[str] | None) -> None:
        known_types = self._elsewhere.pop(key, None)
        if known_types is None and len(self._elsewhere) >= MAX_TOPICS:
            return
        # moved to the end: `_expire` starts with the entries that were not refreshed
        self._elsewhere[key] = known_types = known_types or {}
        until = _now() + EXPIRES
        known_types.update(dict.fromkeys([None] if types is None else types, until))
        if len(known_types) > MAX_TYPES:
            self._elsewhere[key] = {None: until}

    def _set_shared(self, node: str, name: str, value: JSON) -> None:
        values = self._shared.get(name, {})
        before = values.get(node, (None, 0.0))[0]
        if value is None:
            values.pop(node, None)
            if not values:
                self._shared.pop(name, None)
        elif _has_room(self._shared, name, MAX_SHARED) and _has_room(values, node, MAX_NODES):
            self._shared.setdefault(name, values)[node] = value, _now() + EXPIRES
        if value != before:
            for call in [*self.on_shared]:
                call(name)


def _ignore(_: str, __: bool) -> None:
    pass


def _has_room(existing: Collection[str], name: str, most: int) -> bool:
    return name in existing or len(existing) < most


def _now() -> float:
    return asyncio.get_running_loop().time()


def _types_of(followers: Iterable[QueueFollower]) -> Collection[str] | None:
    """Return the union of the types wanted by the subscribers, or None if one of them wants all types."""
    types = set[str]()
    for follower in followers:
        if follower.types is None:
            return None
        types.update(follower.types)
    return types


def _includes(sent: Collection[str] | None, types: Collection[str] | None) -> bool:
    return sent is None or (types is not None and set(types) <= set(sent))


def _interest(key: Key, types: Collection[str] | None) -> Message:
    return ["want", *key, None if types is None else sorted(types)]


def _message(event: Event) -> Message:
    """Return the message for a live event, or for a topic that has grown."""
    if event.n is not None:
        return ["grown", *cast("list[str]", event.payload["topic"])]
    ids: list[Any] = [event.thread_id, event.run_id, event.agent, event.space_id]
    return ["live", [*ids, event.type, event.at.isoformat(), event.payload]]


def _shortened(message: Message) -> Message:
    """Return a live event with only its new part, without the text so far. Other messages are unchanged."""
    match message:
        case ["live", [*fields, {"delta": _} as payload]]:
            new = {name: each for name, each in payload.items() if name not in ("text", "partialArgs")}
            return ["live", [*fields, {**new, "truncated": True}]]
        case _:
            return message


def _event(fields: list[Any]) -> Event:
    """Return the live event with these fields. Raises `TypeError` or `ValueError` if they are invalid."""
    thread_id, run_id, agent, space_id, type_, at, payload = fields
    if not isinstance(payload, dict):
        raise TypeError("The payload of an event must be an object.")
    return Event(
        thread_id=thread_id,
        run_id=run_id,
        agent=agent,
        type=type_,
        payload=cast("JSONObject", payload),
        at=datetime.fromisoformat(at),
        space_id=space_id,
    )
