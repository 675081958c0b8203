"""The toolkits `spaces` and `channels`: enter, leave, post, read, react, and stay silent (S3, S4)."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.space_effects import Announce, Enter, React
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.spaces import Reaction, Space, SpaceMessage
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief
from toolwright.core.threads.event import EventDraft, EventType
from toolwright.core.tools.tool import Tool
from toolwright.runtime.spaces.fields import emoji_of
from toolwright.runtime.spaces.messages import MAX_PAGE, MessageView, Speech, message_content
from toolwright.runtime.spaces.spaces import Spaces
from toolwright.runtime.toolkits.builtins import BuiltinState, builtin, within_run
from toolwright.wire.call import call_message_id
from toolwright.wire.space import space_event

NO_LONGER_HERE = "You are no longer in this space. Call enter_space first."
Page = Annotated[int, Field(ge=1, le=MAX_PAGE)]


class SpacesToolkit:
    """The five tools."""

    def __init__(self, spaces: Spaces, speech: Speech) -> None:
        self._spaces = spaces
        self._speech = speech
        self.tools: tuple[Tool, ...] = tuple(
            builtin(each)
            for each in (
                self.enter_space,
                self.leave_space,
                self.send_message,
                self.read_messages,
                self.skip,
            )
        )

    # ── the tools ───────────────────────────────────────────────────────────────────────────────────────────

    async def enter_space(self, state: ThreadState, spaceId: str, limit: Page = 50) -> ToolResult:  # noqa: N803 - as S3 spells it
        """Enter a space, in which your messages and visible tool calls then appear. Returns its members and latest
        messages.
        """
        return await within_run(state, lambda run: self._enter(run, spaceId, limit))

    async def leave_space(self, state: ThreadState) -> ToolResult:
        """Leave the space that you are in."""
        return await within_run(state, self._leave)

    async def send_message(self, state: ThreadState, text: str) -> ToolResult:
        """Send a message to the space that you are in. Its other members read it."""
        return await within_run(state, lambda run: self._send(run, text))

    async def read_messages(
        self,
        state: ThreadState,
        spaceId: str,  # noqa: N803 - as S3 spells it
        offset: Annotated[int, Field(ge=0, description="Number of newest messages to skip.")] = 0,
        limit: Page = 50,
    ) -> ToolResult:
        """Read the messages of a space, newest page first."""
        return await within_run(state, lambda run: self._read(run, spaceId, offset, limit))

    async def skip(self, state: ThreadState, reason: str | None = None) -> ToolResult:
        """End the turn without a message, because nothing needs to be done or said."""
        return await within_run(state, lambda run: self._skip(run, reason))

    # ── their implementations ───────────────────────────────────────────────────────────────────────────────

    async def _enter(self, run: BuiltinState, space_id: str, limit: int) -> JSON:
        space = await run.retry_until_available(
            lambda: self._accessible_space(run, space_id, _not_yours(space_id))
        )
        members = await run.retry_until_available(lambda: self._spaces.members(space.id))
        messages = await run.retry_until_available(lambda: self._spaces.history(space.id, limit))
        people: list[JSON] = []
        for member in members:
            entity = await run.retry_until_available(lambda one=member: self._spaces.entity(one.entity_id))
            name = None if entity is None else entity.display_name
            people.append({"entityId": member.entity_id, "displayName": name, "type": member.type})
        if run.space_id != space.id:
            if run.space_id is not None:
                run.effect(_presence(run, run.space_id, "agent.inactive"))
            run.effect(Enter(thread_id=run.thread.id, space_id=space.id))
            run.effect(_presence(run, space.id, "agent.active"))
        return {"space": _space(space), "members": people, "messages": _messages(messages)}

    async def _leave(self, run: BuiltinState) -> JSON:
        if run.space_id is None:
            raise InvalidRequest("You are not in a space.")
        run.effect(_presence(run, run.space_id, "agent.inactive"))
        run.effect(Enter(thread_id=run.thread.id, space_id=None))
        return {"success": True}

    async def _send(self, run: BuiltinState, text: str) -> JSON:
        space_id = run.space_id
        if space_id is None:
            raise InvalidRequest("You are not in a space. Call enter_space first.")
        content = message_content(text, "text")
        author = run.author
        assert author is not None, "an agent that runs is an entity"
        await run.retry_until_available(lambda: self._accessible_space(run, space_id, NO_LONGER_HERE))
        message = SpaceMessage(
            id=call_message_id(run.call_id),
            space_id=space_id,
            entity_id=author.id,
            role="assistant",
            content=content,
            metadata=_origin(run, space_id),
            created_at=run.clock.now(),
        )
        run.speak(lambda: self._speech.posting(message, author, run.chain_depth, run.call_id, run.source))
        return {"messageId": message.id}

    async def _read(self, run: BuiltinState, space_id: str, offset: int, limit: int) -> JSON:
        space = await run.retry_until_available(
            lambda: self._accessible_space(run, space_id, _not_yours(space_id))
        )
        messages = await run.retry_until_available(lambda: self._spaces.history(space.id, limit, offset))
        return {"messages": _messages(messages)}

    async def _skip(self, run: BuiltinState, reason: str | None) -> JSON:
        run.skip(reason)
        return {"skipped": True}

    async def _accessible_space(self, run: BuiltinState, space_id: str, otherwise: str) -> Space:
        """Return the space if the agent, and the person whose thread it is, may read and write there."""
        me = "" if run.author is None else run.author.id
        person = (await run.reach()).person
        try:
            if person is not None:
                await self._spaces.get(space_id, seen_by=person)
            return await self._spaces.get(space_id, seen_by=me)
        except NotFound:
            raise InvalidRequest(otherwise) from None


def _not_yours(space_id: str) -> str:
    return f"There is no space {brief(repr(space_id), 200)} that you are a member of."


def _origin(run: BuiltinState, space_id: str) -> JSONObject:
    """Return the origin of the message that the agent answers if it is in another space."""
    trigger = run.trigger
    if trigger is None or trigger.get("spaceId") in (None, space_id):
        return {}
    origin: JSONObject = {name: trigger.get(name) for name in ("spaceId", "messageId", "entityId")}
    return {"origin": origin}


def _presence(run: BuiltinState, space_id: str, type_: EventType) -> Announce:
    entity_id = None if run.author is None else run.author.id
    event: EventDraft = space_event(type_, agentEntityId=entity_id, runId=run.source.run_id)
    return Announce(space_id=space_id, source=run.source, events=(event,))


def _space(space: Space) -> JSONObject:
    return {
        "spaceId": space.id,
        "name": space.name,
        "kind": space.kind,
        "description": space.description,
    }


def _messages(messages: Sequence[MessageView]) -> list[JSON]:
    return [
        {
            "messageId": each.message.id,
            "seq": each.message.seq,
            "entityId": each.message.entity_id,
            "from": None if each.author is None else each.author.display_name,
            "content": each.message.content,
            "parentMessageId": each.message.parent_id,
            "createdAt": each.message.created_at.isoformat(),
            **({"metadata": each.message.metadata} if each.message.metadata else {}),
        }
        for each in messages
    ]


class ChannelsToolkit:
    """The three tools."""

    def __init__(self, spaces: Spaces, speech: Speech) -> None:
        self._spaces = spaces
        self._speech = speech
        self.tools: tuple[Tool, ...] = tuple(
            builtin(each) for each in (self.send_message, self.react_to_message, self.do_nothing)
        )

    async def send_message(self, state: ThreadState, channelId: str, text: str) -> ToolResult:  # noqa: N803 - as S4 spells it
        """Send a message to a channel or to a direct message channel."""
        return await within_run(state, lambda run: self._send(run, channelId, text))

    async def react_to_message(self, state: ThreadState, messageId: str, emoji: str) -> ToolResult:  # noqa: N803 - the same
        """React to a message with an emoji."""
        return await within_run(state, lambda run: self._react(run, messageId, emoji))

    async def do_nothing(self, state: ThreadState) -> ToolResult:
        """Send no message, because nothing needs to be said or done."""
        return ToolResult.ok({"action": "none"})

    async def _send(self, run: BuiltinState, channel_id: str, text: str) -> JSON:
        content = message_content(text, "text")
        author = run.author
        assert author is not None, "an agent that runs is an entity"
        otherwise = f"There is no channel {brief(repr(channel_id), 200)} that you may write to."
        await self._check_open(run, channel_id, otherwise)
        message = SpaceMessage(
            id=call_message_id(run.call_id),
            space_id=channel_id,
            entity_id=author.id,
            role="assistant",
            content=content,
            metadata={},
            parent_id=_answered_in(run, channel_id),
            created_at=run.clock.now(),
        )
        run.speak(
            lambda: self._speech.posting(
                message, author, run.chain_depth, run.call_id, run.source, audience="dm"
            )
        )
        return {"messageId": message.id}

    async def _react(self, run: BuiltinState, message_id: str, emoji: str) -> JSON:
        emoji_of(emoji)
        otherwise = f"There is no message {brief(repr(message_id), 200)} that you can react to."
        author = run.author
        assert author is not None, "an agent that runs is an entity"

        async def reaction() -> React:
            message = await self._message(message_id, otherwise)
            event = space_event("reaction_added", messageId=message.id, entityId=author.id, emoji=emoji)
            return React(
                space_id=message.space_id,
                source=run.source,
                reaction=Reaction(
                    message_id=message.id, entity_id=author.id, emoji=emoji, created_at=run.clock.now()
                ),
                events=(event,),
            )

        message = await run.retry_until_available(lambda: self._message(message_id, otherwise))
        await self._check_open(run, message.space_id, otherwise)
        if message.shows_call:
            raise InvalidRequest("This message shows a tool call and cannot be reacted to.")
        run.speak(reaction)
        return {"success": True}

    async def _message(self, message_id: str, otherwise: str) -> SpaceMessage:
        try:
            return await self._spaces.message(message_id)
        except NotFound:
            raise InvalidRequest(otherwise) from None

    async def _check_open(self, run: BuiltinState, space_id: str, otherwise: str) -> None:
        """Raise `InvalidRequest` with the message `otherwise` unless the agent may read and write there.

        In a person's thread, the person must have access too.
        """
        me = "" if run.author is None else run.author.id
        person = (await run.reach()).person
        try:
            for each in (me,) if person is None else (me, person):
                await run.retry_until_available(lambda one=each: self._spaces.get(space_id, seen_by=one))
        except NotFound:
            raise InvalidRequest(otherwise) from None


def _answered_in(run: BuiltinState, channel_id: str) -> str | None:
    """Return the message to which the agent replies in that channel, as in its prompt, or None."""
    trigger = run.trigger
    if trigger is None or trigger.get("spaceId") != channel_id:
        return None
    parent_id = trigger.get("parentMessageId")
    return parent_id if isinstance(parent_id, str) else None
