"""View of a space: live messages, people, and the input field."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from nicegui import ui
from nicegui.element import Element

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import PageLimit, ended_early
from toolwright.core.spaces import Entity, Space
from toolwright.core.threads.event import Event, Topic
from toolwright.web.auth.permits import speaker
from toolwright.web.console.dialogs import confirm, message_field
from toolwright.web.console.live import follow
from toolwright.web.console.room.messages import (
    MessageActions,
    MessageListView,
    RoomMessage,
    message_from_json,
    room_message,
)
from toolwright.web.console.room.people import (
    Guest,
    activity_line,
    choose_members,
    draw_guests,
    guests_of,
    name_of,
)
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, heading, icon_action, link, nothing, plain_text
from toolwright.wire.call import call_message_id, shown_call_id

STILL = 3.0  # seconds without a key after which a person counts as not typing
PAGE: Final = 50  # messages read at once


class SpaceComposer:
    """Input field of a space. `say` sends a text, optionally as a reply; `edit` replaces the text of a message."""

    def __init__(
        self,
        visit: Visit,
        say: Callable[[str, RoomMessage | None], Awaitable[bool]],
        edit: Callable[[RoomMessage, str], Awaitable[bool]],
    ) -> None:
        self._visit = visit
        self._say = say
        self._edit = edit
        self._parent: RoomMessage | None = None
        self._edited: RoomMessage | None = None
        self._element = box("div", "compose")
        self._about: Element | None = None
        self._field: ui.textarea | None = None
        self._sending = False
        self._pause: asyncio.TimerHandle | None = None

    async def draw(self) -> None:
        """Render the input field, or the reason why there is none."""
        speaker = await self._visit.speaker()
        with self._element.clear():
            if speaker is None:
                with box("div", "note"):
                    plain_text("A service posts messages as a person: choose one of the ")
                    link("people", "/people")
                    plain_text(".")
                return
            self._about = box("div", "about")
            with box("div", "frame"):
                self._field = self._draw_field(speaker)
                icon_action("send", "Send", self._send)

    def reply(self, message: RoomMessage) -> None:
        """Make the next text a reply to that message."""
        self._parent, self._edited = message, None
        self._draw_about(f"Reply to {message.author}: {message.gist}")

    def change(self, message: RoomMessage) -> None:
        """Make the next text replace the text of that message."""
        self._parent, self._edited = None, message
        self._draw_about("Edit your message")
        if self._field is not None:
            self._field.value = message.content

    def _draw_field(self, speaker: Entity) -> ui.textarea:
        field = message_field(f"Message as {name_of(speaker)}", self._send)
        field.on("keydown.escape", self._forget, args=[])
        field.on("keydown", self._type, throttle=1.0, args=[])
        return field

    async def _send(self, typed: str | None = None) -> None:
        field = self._field
        if field is None:
            return
        text = (field.value if typed is None else typed) or ""
        if self._sending or not text.strip():
            return
        field.value = ""
        self._visit.type(is_typing=False)
        edited, parent = self._edited, self._parent
        self._sending = True
        try:
            done = await (self._say(text, parent) if edited is None else self._edit(edited, text))
        finally:
            self._sending = False
        if done:
            self._forget()
        else:
            field.value = text  # the input is kept

    def _forget(self) -> None:
        self._parent = self._edited = None
        if self._about is not None:
            self._about.clear()

    def _draw_about(self, text: str) -> None:
        if self._about is None or self._field is None:
            return
        with self._about.clear(), box("div", "row quiet small"):
            plain_text(text, "span", "fill")
            icon_action("close", "Cancel", self._forget)
        self._field.run_method("focus")

    def _type(self) -> None:
        """Report that the visitor is typing, until they send or pause."""
        self._visit.type(is_typing=True)
        if self._pause is not None:
            self._pause.cancel()
        self._pause = asyncio.get_running_loop().call_later(STILL, self._rest)

    def _rest(self) -> None:
        self._visit.type(is_typing=False)


_MEMBERS: Final = frozenset({"member_added", "member_removed"})


class Room:
    """A space on the page of a visitor with access."""

    def __init__(self, visit: Visit, space: Space) -> None:
        self._visit = visit
        self._space = space
        self._guests: Sequence[Guest] = ()
        self._at_work: set[str] = set()
        self._drawing = asyncio.Lock()
        """Events wait while a page of messages is drawn, because they could change partially drawn messages."""
        self._view = box("div", "space")
        with self._view:
            self._lost = box("div", "note")
            self._lost.set_visibility(False)
            with self._lost:
                plain_text("The database is unavailable. This page updates when it is available again.")
            self._people = box()
            self._earlier = box()
            self._messages = MessageListView(visit, self._message_actions(), space.id)
            self._later = box("div", "row earlier")
            self._empty = box()
            self._typing = plain_text("", "div", "typing")
            self._typing.props["aria-live"] = "polite"
            self._composer = SpaceComposer(visit, self._post, self._edit)

    async def draw(self) -> None:
        """Render the space, and keep it up to date."""
        await self._composer.draw()
        speaker_id = self._visit.speaker_id
        if speaker_id is not None:
            self._visit.come(self._space.id, speaker_id, self._draw_people)
        topic = Topic(kind="space", id=self._space.id)
        work = follow(
            self._visit, topic, read=self._read, draw=self._draw_events, lost=self._lost.set_visibility
        )
        self._visit.view.run(work)

    # ── display ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        async with self._drawing:
            await self._read_page()

    async def _read_page(self) -> None:
        await self._visit.permits.space(self._visit.caller, self._space.id)
        messages = await self._visit.runtime.spaces.messages(self._space.id, PageLimit(PAGE))
        await self._messages.draw_all([room_message(each) for each in messages])
        self._draw_earlier(has_more=len(messages) == PAGE or ended_early(messages))
        self._later.clear()
        self._empty.clear()
        if not messages:
            with self._empty:
                nothing("No messages yet.", "Write the first message below.")
        self._guests = await guests_of(self._visit, self._space.id)
        self._draw_people()
        await self._mark_read()

    def _draw_earlier(self, *, has_more: bool) -> None:
        self._earlier.clear()
        if has_more:
            with self._earlier, box("div", "row earlier"):
                action("Earlier messages", self._read_earlier, kind="plain")

    async def _read_earlier(self) -> None:
        async with self._drawing:
            await self._draw_page_before()

    async def _draw_page_before(self) -> None:
        first = self._messages.first
        if first is None or first.seq is None:
            return
        await self._visit.permits.space(self._visit.caller, self._space.id)
        messages = await self._visit.runtime.spaces.messages(
            self._space.id, PageLimit(PAGE), before=first.seq
        )
        await self._messages.draw_before([room_message(each) for each in messages])
        self._draw_earlier(has_more=len(messages) == PAGE or ended_early(messages))
        with self._later.clear():
            if self._messages.is_cut:
                action("Newest messages", self._read_newest)

    async def _read_newest(self) -> None:
        await self._read()
        ui.run_javascript("toolwright.toEnd()")

    async def _draw_events(self, events: Sequence[Event]) -> None:
        """Show new events in order, but only the last state of each stream in a batch."""
        streams = {
            str(each.payload.get("streamId")): index
            for index, each in enumerate(events)
            if each.type in ("space.message.streaming", "tool.streaming")
        }
        async with self._drawing:
            for index, event in enumerate(events):
                if (
                    not event.type.endswith("streaming")
                    or streams[str(event.payload.get("streamId"))] == index
                ):
                    await self._handle_event(event)
                    await asyncio.sleep(0)  # yield to other tasks
        await self._mark_read()

    async def _handle_event(self, event: Event) -> None:
        payload: Any = event.payload  # written by the wire's renderers
        match event.type:
            case "space.message" | "message_updated":
                await self._put(payload)
            case "space.message.streaming":
                await self._messages.stream(self._streamed(event, content=payload["text"]))
            case "tool.started" | "tool.streaming":
                await self._stream_call(event)
            case "space.message.aborted":
                self._messages.remove(call_message_id(payload["streamId"]))
            case "message_deleted":
                self._messages.remove(payload["messageId"])
            case "reaction_added" | "reaction_removed":
                self._messages.set_reaction(
                    payload["messageId"],
                    payload["emoji"],
                    payload["entityId"],
                    is_set=event.type == "reaction_added",
                )
            case "agent.active" | "agent.inactive":
                self._work(event)
            case "member_removed" if payload["entityId"] == self._visit.caller.entity_id:
                await self._check_membership()
            case "member_added" | "member_removed":
                self._guests = await guests_of(self._visit, self._space.id)
                self._draw_people()
            case "space.deleted":
                self._end("This space was deleted.")
            case _:
                pass

    async def _check_membership(self) -> None:
        """Check whether the visitor was removed from the space. They can still read a public space."""
        try:
            await self._visit.permits.space(self._visit.caller, self._space.id)
        except NotFound:
            self._end("You are no longer in this space.")

    def _end(self, why: str) -> None:
        """Remove all contents of the space from the page."""
        with self._view.clear():
            nothing(why)
            link("To the spaces", "/")
        self._visit.view.close()

    async def _put(self, payload: Any) -> None:  # as above
        """Show the current state of a message. A message too large for its event is read from the journal."""
        message = payload["message"]
        if payload.get("truncated"):
            try:
                row = await self._visit.runtime.spaces.message(message["id"])
            except NotFound:
                return
            [recent] = await self._visit.runtime.spaces.shown([row])
            shown_row = room_message(recent)
        else:
            shown_row = message_from_json(message)
        stream_id = payload.get("streamId")
        if stream_id is not None and shown_row.id != call_message_id(stream_id):
            self._messages.remove(call_message_id(stream_id))
        self._empty.clear()
        await self._messages.put(shown_row)

    def _streamed(self, event: Event, content: str = "", call: Any = None) -> RoomMessage:  # as above
        """Return the message or the call that an agent is writing."""
        entity_id = entity_id_of(event.agent or "")
        name = next((each.name for each in self._guests if each.entity_id == entity_id), "An agent")
        return RoomMessage(
            id=call_message_id(str(event.payload["streamId"])),
            entity_id=entity_id,
            author=name,
            by_agent=True,
            content=content,
            call=call,
            at=event.at,
        )

    async def _stream_call(self, event: Event) -> None:
        """Show a visible call whose arguments are still streaming, unless it is already on the page."""
        payload: Any = event.payload  # as above
        drawn = self._messages.get(call_message_id(payload["streamId"]))
        if drawn is not None and (drawn.call or {}).get("status") != "streaming":
            return
        call: JSONObject = {**event.payload, "status": "streaming"}
        await self._messages.stream(self._streamed(event, call=call))

    def _work(self, event: Event) -> None:
        entity_id = entity_id_of(event.agent or "")
        if event.type == "agent.active":
            self._at_work.add(entity_id)
        else:
            self._at_work.discard(entity_id)
        self._draw_people()

    def _draw_people(self) -> None:
        presence, me = self._visit.site.presence, self._visit.speaker_id
        with self._people.clear():
            draw_guests(self._guests, presence.present(self._space.id), self._at_work)
        typing = presence.typing(self._space.id)
        self._typing.text = activity_line(self._guests, typing, self._at_work, me)

    async def _mark_read(self) -> None:
        """Mark the drawn messages as read by the member."""
        me, seq = self._visit.speaker_id, self._messages.newest_seq
        if me is None or not seq or all(each.entity_id != me for each in self._guests):
            return
        try:
            await self._visit.runtime.spaces.mark_read(self._space.id, me, seq)
        except NotFound:
            return  # they were just removed from the space

    # ── actions ─────────────────────────────────────────────────────────────────────────────────────────────

    def _message_actions(self) -> MessageActions:
        return MessageActions(
            react=self._react,
            reply=lambda message: self._composer.reply(message),
            edit=lambda message: self._composer.change(message),
            erase=self._ask_to_erase,
            show_run=self._show_run,
            may_change=lambda message: self._visit.is_service or message.entity_id == self._visit.speaker_id,
        )

    async def _post(self, text: str, parent: RoomMessage | None) -> bool:
        async def post() -> None:
            visit = self._visit
            await visit.permits.space(visit.caller, self._space.id)
            author = speaker(visit.caller, visit.speaker_id)
            parent_id = None if parent is None else parent.id
            await visit.runtime.spaces.say(self._space.id, author, text, None, parent_id)
            ui.run_javascript("toolwright.toEnd?.()")

        return await self._visit.act(post())

    async def _edit(self, message: RoomMessage, text: str) -> bool:
        async def edited() -> None:
            await self._visit.permits.own_message(self._visit.caller, message.id)
            await self._visit.runtime.spaces.edit(message.id, text)

        return await self._visit.act(edited())

    async def _react(self, message: RoomMessage, emoji: str) -> None:
        async def reacted() -> None:
            visit = self._visit
            await visit.permits.message(visit.caller, message.id)
            if visit.speaker_id is None:
                raise InvalidRequest("Choose a person to react as.")
            me = speaker(visit.caller, visit.speaker_id)
            now = self._messages.get(message.id) or message
            if (emoji, me) in now.reactions:
                await visit.runtime.spaces.unreact(message.id, me, emoji)
            else:
                await visit.runtime.spaces.react(message.id, me, emoji)

        await self._visit.act(reacted())

    def _ask_to_erase(self, message: RoomMessage) -> None:
        async def erased() -> None:
            await self._visit.permits.own_message(self._visit.caller, message.id)
            await self._visit.runtime.spaces.erase(message.id)

        question = "Delete this message for everyone?"
        confirm(self._visit, question, "Delete", erased, done="The message is deleted.", hint=message.gist)

    async def _show_run(self, message: RoomMessage) -> None:
        """Open the run in which an agent wrote the message."""

        async def shown() -> None:
            run_id = (message.call or {}).get("runId")
            if run_id is None:
                run_id = await self._run_of(message.id)
            await self._visit.permits.visible_run(self._visit.caller, str(run_id))
            ui.navigate.to(f"/runs/{run_id}")

        await self._visit.act(shown())

    async def _run_of(self, message_id: str) -> str:
        try:
            return (await self._visit.runtime.calls.row(shown_call_id(message_id))).run_id
        except NotFound:
            raise NotFound("The run of this message was deleted.") from None


async def draw_room(visit: Visit, space_id: str) -> None:
    """Render the page of a space."""
    space = await visit.permits.space(visit.caller, space_id)
    with box("div", "head"):
        heading(space.name or space.id)
        badge(space.kind)
        if space.description:
            plain_text(space.description, "span", "quiet")
        if visit.is_service:
            box("span", "fill")
            action("Members", partial(choose_members, visit, space.id), icon="group")
    await Room(visit, space).draw()
