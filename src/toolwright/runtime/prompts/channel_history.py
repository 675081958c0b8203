"""Channels in an agent's system prompt: their list, and the last messages where the agent was addressed (S4)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from toolwright.core.agents.agent import agent_id_of
from toolwright.core.broken_rows import all_rows
from toolwright.core.errors import NotFound
from toolwright.core.journal.store import Store
from toolwright.core.spaces import Reaction, Space, SpaceMessage, open_to
from toolwright.core.text import brief
from toolwright.core.threads.compaction import text_tokens
from toolwright.core.value import value
from toolwright.runtime.agents.agents import Agents
from toolwright.wire.text import comparable_name, is_misleading, plain_line, readable, speaker_name

MOST_MESSAGES = 20
MOST_PLACES = 5  # maximum number of channels of addressed messages that a prompt shows
LONGEST_MESSAGE = 4_000  # characters of a message in a prompt


@value
class Place:
    """A channel in which an agent was addressed; `parent_id` is the message of the thread of replies, if any."""

    space_id: str
    parent_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentMessages:
    """The last messages in a place, in order, with the names of their authors by id."""

    space: Space
    parent_id: str | None
    messages: Sequence[SpaceMessage]
    reactions: Sequence[Reaction]
    names: dict[str, str]


class ChannelHistory:
    """Reads the recent messages of places."""

    def __init__(self, store: Store, agents: Agents) -> None:
        self._store = store
        self._agents = agents

    async def last(self, entity_id: str, places: Sequence[Place]) -> list[RecentMessages]:
        """Return the last messages of the places that the entity can read, in the order of the places."""
        histories = [await self._last(entity_id, place) for place in places[-MOST_PLACES:]]
        return [each for each in histories if each is not None]

    async def _last(self, entity_id: str, place: Place) -> RecentMessages | None:
        spaces = self._store.spaces
        space = await spaces.space(place.space_id)
        if space is None:
            return None
        if not open_to(space, is_member=await spaces.member(space.id, entity_id) is not None):
            return None
        if place.parent_id is None:
            messages = all_rows(await spaces.newest(space.id, MOST_MESSAGES, 0))
        else:
            messages = await self._under(place.parent_id)
        reactions = all_rows(await spaces.reactions([each.id for each in messages]))
        entities = {entity_id, *[each.entity_id for each in (*messages, *reactions)]}
        names = {each: await self.name(each) for each in entities}
        return RecentMessages(
            space=space,
            parent_id=place.parent_id,
            messages=messages,
            reactions=reactions,
            names=names,
        )

    async def _under(self, message_id: str) -> Sequence[SpaceMessage]:
        """Return the message, if it still exists, and the last replies to it."""
        messages = all_rows(await self._store.spaces.answers(message_id, MOST_MESSAGES))
        if any(each.id == message_id for each in messages):
            return messages
        message = await self._store.spaces.message(message_id)
        return messages if message is None else [message, *messages[1:]]

    async def name(self, entity_id: str) -> str:
        """Return the name of an agent or a person, or their id if they were deleted."""
        try:
            return (await self._agents.get(agent_id_of(entity_id))).name
        except NotFound:
            entity = await self._store.entity(entity_id)
            return entity_id if entity is None else entity.display_name or entity_id


def distinct_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return the names by entity, each followed by its id if it is ambiguous."""
    counts = Counter(map(comparable_name, names.values()))
    return {
        entity_id: f"{speaker_name(name)} ({entity_id})"
        if counts[comparable_name(name)] > 1 or is_misleading(name)
        else speaker_name(name)
        for entity_id, name in names.items()
    }


def conversation(
    recent: RecentMessages, me: str, member_names: Mapping[str, str], room: int | None = None
) -> str:
    """Return the messages of a place as lines. Text of others is quoted, so that it cannot imitate a line.

    No author is shown under the name of another, or of a member who has not written. The lines have at most `room`
    tokens: older messages are left out, and each message is cut.
    """
    names = distinct_names({**member_names, **recent.names})
    name = plain_line(recent.space.name or recent.space.id)
    where = f"in {name} (channelId: {recent.space.id})"
    if recent.parent_id is not None:
        where += f", under the message {recent.parent_id}"
    if not recent.messages:
        return f"Nothing was said yet {where}."
    most = LONGEST_MESSAGE if room is None else min(LONGEST_MESSAGE, room)
    lines = [_line(message, recent, names, me, most) for message in recent.messages]
    if room is not None:
        ends = [*accumulate(map(text_tokens, reversed(lines)))]
        lines = lines[-max(sum(end <= room for end in ends), 1) :]
    return "\n".join([f"The last messages {where}:", *lines])


def _line(message: SpaceMessage, recent: RecentMessages, names: Mapping[str, str], me: str, most: int) -> str:
    author = "You" if message.entity_id == me else names[message.entity_id]
    if message.shows_call:
        tool = plain_line(str(message.metadata.get("toolName")))
        return f"- [{author} called the tool {tool}: {message.metadata.get('status')}]"
    quoted = readable([brief(message.content, most)])[1:-1]
    reactions = [
        f"{speaker_name(each.emoji)} by {'you' if each.entity_id == me else names[each.entity_id]}"
        for each in recent.reactions
        if each.message_id == message.id
    ]
    more = f", reactions: {', '.join(reactions)}" if reactions else ""
    return f"- [{author}: {quoted}] (messageId: {message.id}{more})"
