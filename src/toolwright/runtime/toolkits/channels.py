"""The toolkit `channels`: post in any channel, react, and stay silent (S4)."""

from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.journal.effects import React
from toolwright.core.json_value import JSON
from toolwright.core.results import ToolResult
from toolwright.core.spaces import Reaction, SpaceMessage
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief
from toolwright.core.tools.tool import Tool
from toolwright.runtime.spaces.fields import emoji_of
from toolwright.runtime.spaces.spaces import Spaces
from toolwright.runtime.spaces.speech import Speech, message_content
from toolwright.runtime.toolkits.builtins import BuiltinState, builtin, within_run
from toolwright.wire.call import call_message_id
from toolwright.wire.space import space_event


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
        content = run.clean(message_content(text, "text"))
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
