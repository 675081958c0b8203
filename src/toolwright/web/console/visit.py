"""Visit: one open page of the console, with access checked at each action, and presence in spaces."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from nicegui import Client, ui

from toolwright.core.errors import StoreError, ToolwrightError, Unauthorized
from toolwright.core.json_value import JSON
from toolwright.core.ports import Bus
from toolwright.core.spaces import Entity
from toolwright.core.text import brief
from toolwright.core.tools.tool_ui import ToolUI
from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import Caller
from toolwright.web.auth.permits import Permits
from toolwright.web.console.sign_in import LIFE, Session, Sessions
from toolwright.web.dependencies import Serving

KEY = "presence "
MAX_SHOWN = 100  # people per space shared with other processes
log = logging.getLogger("toolwright.web")
SCOPE: Final = "toolwright.console"
"""Key in a request's scope with the console and the session for its page."""
POLL_INTERVAL: Final = 15.0  # seconds between two checks of the visitor's access
OVER: Final = "Your session has expired. Sign in again."


@dataclass(frozen=True, slots=True)
class _Place:
    space_id: str
    entity_id: str
    changed: Callable[[], None]


class Presence:
    """People present in spaces.

    Presence is not stored. People who leave are removed immediately, and people of a dead process after seconds.
    """

    def __init__(self, bus: Callable[[], Bus]) -> None:
        self._open_bus = bus
        self._bus: Bus | None = None
        self._places: dict[object, _Place] = {}
        self._typing: dict[object, bool] = {}

    def close(self) -> None:
        """Unsubscribe from the presence of other processes."""
        if self._bus is not None:
            self._bus.on_shared.remove(self._changed_elsewhere)
            self._bus = None

    def come(self, visitor: object, space_id: str, entity_id: str, changed: Callable[[], None]) -> None:
        """Register a page that shows the space. `changed` is called when others arrive, leave or type there."""
        self.leave(visitor)
        bus = self._open_bus()
        if bus is not self._bus:
            self.close()
            self._bus = bus
            bus.on_shared.append(self._changed_elsewhere)
        self._places[visitor] = _Place(space_id, entity_id, changed)
        self._changed(space_id, visitor)

    def leave(self, visitor: object) -> None:
        """Remove the page from the space."""
        place = self._places.pop(visitor, None)
        self._typing.pop(visitor, None)
        if place is not None:
            self._changed(place.space_id, visitor)

    def type(self, visitor: object, *, is_typing: bool) -> None:
        """Record that the visitor at the page is typing, or has stopped."""
        place = self._places.get(visitor)
        if place is not None and self._typing.get(visitor, False) != is_typing:
            self._typing[visitor] = is_typing
            self._changed(place.space_id, visitor)

    def present(self, space_id: str) -> set[str]:
        """Return the entities present in the space."""
        return self._local_people(space_id).keys() | {entity_id for entity_id, _ in self._elsewhere(space_id)}

    def typing(self, space_id: str) -> set[str]:
        """Return the entities typing in the space."""
        active = {entity_id for entity_id, types in self._local_people(space_id).items() if types}
        return active | {entity_id for entity_id, types in self._elsewhere(space_id) if types}

    def _local_people(self, space_id: str) -> dict[str, JSON]:
        """Return the people with pages in this process, and whether they are typing on one of them."""
        people = dict[str, JSON]()
        for visitor, place in self._places.items():
            if place.space_id == space_id:
                types = self._typing.get(visitor, False)
                people[place.entity_id] = types or bool(people.get(place.entity_id))
        return people

    def _elsewhere(self, space_id: str) -> Iterator[tuple[str, JSON]]:
        for people in () if self._bus is None else self._bus.shared(KEY + space_id):
            if isinstance(people, dict):
                yield from people.items()

    def _changed(self, space_id: str, but: object) -> None:
        if self._bus is not None:
            visible = dict([*self._local_people(space_id).items()][:MAX_SHOWN])
            self._bus.share(KEY + space_id, visible or None)
        self._redraw(space_id, but)

    def _changed_elsewhere(self, key: str) -> None:
        if key.startswith(KEY):
            self._redraw(key.removeprefix(KEY), None)

    def _redraw(self, space_id: str, but: object) -> None:
        for visitor, place in [*self._places.items()]:
            if visitor is not but and place.space_id == space_id:
                place.changed()


@dataclass(slots=True, kw_only=True)
class ConsoleApp:
    """The console of one gateway: state shared by its open pages."""

    serving: Serving
    sessions: Sessions
    tool_uis: Mapping[str, ToolUI] = field(default_factory=dict[str, ToolUI])
    presence: Presence
    speakers: dict[str, str] = field(default_factory=dict[str, str])
    """The entity that a service speaks as, by session."""
    visits: "set[Visit]" = field(default_factory=lambda: set[Visit]())

    async def knows(self, session: Session) -> bool:
        """Return whether the session is not signed out and its person still exists under the token's name."""
        caller = session.caller
        try:
            if session.until is not None and await self._was_signed_out(session):
                return False
            if caller.entity_id is None:
                return True
            entity = await self.serving.runtime.entities.get_human(caller.entity_id)
        except StoreError:
            return True  # which has no information about them
        return entity is not None and entity.external_id == caller.external_id

    async def renewed(self, session: Session) -> Session:
        """Return a new session unaffected by earlier sign-outs of its caller, even if the clock was ahead then."""
        ended = await self.serving.runtime.clients.signed_out(session.id, session.caller_key)
        everywhere = ended.get(session.caller_key)
        if everywhere is None or everywhere.timestamp() < session.begun:
            return session
        return replace(session, begun=everywhere.timestamp() + 0.001)

    async def _was_signed_out(self, session: Session) -> bool:
        ended = await self.serving.runtime.clients.signed_out(session.id, session.caller_key)
        everywhere = ended.get(session.caller_key)
        return session.id in ended or (everywhere is not None and everywhere.timestamp() >= session.begun)

    async def sign_out(self, session: Session, *, everywhere: bool = False) -> None:
        """End the session, or all sessions of its caller, in every process and permanently."""
        if session.until is None:
            return
        self.sessions.end(session)
        for visit in self.visits if everywhere else ():
            if visit.session.caller_key == session.caller_key:
                self.sessions.end(visit.session)
        now = self.serving.options.clock.now()
        key = session.caller_key if everywhere else session.id
        await self.serving.runtime.clients.sign_out(key, now, now + LIFE)

    def close(self) -> None:
        """Stop all subscriptions when the server stops. Browsers that reconnect reload their pages."""
        for visit in [*self.visits]:
            visit.end()
        self.presence.close()


class Visit:
    """A visitor on an open page. Actions are executed with `act`, background work with `run`."""

    def __init__(self, site: ConsoleApp, session: Session, client: Client) -> None:
        self.site = site
        self.session = session
        self._client = client
        self._view = PageView(client)
        self._page = PageView(client)
        self._return: Callable[[], None] | None = None
        self.query: dict[str, str] = {}  # the view of the current path
        site.visits.add(self)

    @property
    def caller(self) -> Caller:
        """The caller of the session. Raises `Unauthorized` if the session has ended."""
        if not self.site.sessions.is_open(self.session):
            raise Unauthorized(OVER)
        return self.session.caller

    @property
    def is_service(self) -> bool:
        """Return whether the visitor has all rights."""
        return self.session.caller.kind == "service"

    @property
    def runtime(self) -> Runtime:
        """The runtime. Raises `StoreError` if it is unavailable."""
        return self.site.serving.runtime

    @property
    def permits(self) -> Permits:
        """Permission checks of the runtime. Use them before reading or changing anything for the caller."""
        return self.site.serving.permits

    @property
    def view(self) -> "PageView":
        """The current view."""
        return self._view

    def begin_view(self) -> "PageView":
        """Start another view and end the tasks of the previous one."""
        self._view.close()
        self._view = PageView(self._client)
        return self._view

    @property
    def speaker_id(self) -> str | None:
        """Id of the current speaker, or None. It is the person, or the entity that a service has chosen."""
        return self.session.caller.entity_id or self.site.speakers.get(self.session.id)

    def speak_for(self, entity_id: str | None) -> None:
        """Set the entity for which a service writes."""
        if self.is_service and entity_id is not None:
            self.site.speakers[self.session.id] = entity_id
        else:
            self.site.speakers.pop(self.session.id, None)

    async def speaker(self) -> Entity | None:
        """Return the current speaker, or None if it does not exist."""
        speaker_id = self.speaker_id
        return None if speaker_id is None else await self.runtime.entities.get_human(speaker_id)

    async def act(self, action: Awaitable[object], done: str | None = None) -> bool:
        """Execute an action and show its outcome. Returns whether it succeeded."""
        try:
            self.caller  # noqa: B018 - `Unauthorized`
        except Unauthorized:
            if isinstance(action, Coroutine):
                action.close()
            self.sign_in()
            return False
        try:
            self.site.serving.count_change(self.caller)
        except ToolwrightError as error:
            if isinstance(action, Coroutine):
                action.close()
            self._complain(error.message)
            return False
        try:
            await action
        except Unauthorized:
            self.sign_in()
            return False
        except ToolwrightError as error:
            self._complain(error.message)
            return False
        if done is not None:
            with self._client:
                ui.notify(done, type="positive", timeout=2_500)
        return True

    def sign_in(self) -> None:
        """Redirect to the sign-in, which leads back here."""
        path = self._client.sub_pages_router.current_path
        self._client.open(f"/sign-in?next={quote(f'/console{path}', safe='')}")

    def come(self, space_id: str, entity_id: str, changed: Callable[[], None]) -> None:
        """Register the view of a space for the entity. `changed` is called when others arrive, leave or type there."""
        presence = self.site.presence

        def come() -> None:
            presence.come(self, space_id, entity_id, changed)

        def end() -> None:
            self._return = None
            presence.leave(self)

        self._return = come
        self._view.at_end(end)
        come()

    def connected(self) -> None:
        """Record that the browser has connected, or reconnected."""
        if self._return is not None:
            self._return()

    def disconnected(self) -> None:
        """Record that the browser has disconnected. It can reconnect."""
        self.site.presence.leave(self)

    def type(self, *, is_typing: bool) -> None:
        """Record that the visitor is typing in the current space, or has stopped."""
        self.site.presence.type(self, is_typing=is_typing)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run background work as long as the page is open, in any view."""
        self._page.run(work)

    def keep(self) -> None:
        """Start watching the session. A visitor who loses access is redirected to the sign-in."""
        self._page.run(self._stay())

    async def _stay(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            if not self.site.sessions.is_open(self.session) or not await self.site.knows(self.session):
                self.site.sessions.end(self.session)
                self._view.close()  # a browser that does not leave gets no more updates
                self.sign_in()
                return

    def fail(self, error: Exception) -> None:
        """Report an error of a button handler, either unexpected or of the kind that `act` reports."""
        match error:
            case Unauthorized():
                self.sign_in()
            case ToolwrightError():
                self._complain(error.message)
            case _:  # NiceGUI has logged it
                self._complain("Something went wrong. The action failed or is incomplete.")

    def _complain(self, message: str) -> None:
        # the pressed element, which determines the place on the page, can have been removed
        with self._client:
            complain(message)

    def end(self) -> None:
        """Detach the page, which no longer belongs to this process."""
        self.close()
        self._client.delete()

    def close(self) -> None:
        """Release all resources of the closed page."""
        self.site.visits.discard(self)
        self.site.presence.leave(self)
        self._view.close()
        self._page.close()


class PageView:
    """View of one path, with the tasks that update it. They end when another view is shown."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_end: list[Callable[[], object]] = []
        self.closed = False

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work as long as the view is shown. Its errors are logged and shown on the page."""
        if self.closed:
            work.close()
            return
        task = asyncio.create_task(self._told(work), name="toolwright-console")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def at_end(self, end: Callable[[], object]) -> None:
        """Register a function to call when another view is shown or the page has closed."""
        self._at_end.append(end)

    def close(self) -> None:
        """End the view's tasks."""
        self.closed = True
        for task in self._tasks:
            task.cancel()
        for end in self._at_end:
            end()
        self._at_end.clear()

    async def _told(self, work: Coroutine[Any, Any, None]) -> None:
        with self._client:  # a new task has no place on the page
            try:
                await work
            except ToolwrightError as error:
                complain(error.message)
            except Exception:
                log.exception("A page of the console failed.")
                complain("This page failed. Reload it.")


def complain(message: str) -> None:
    """Show an error message until it is dismissed."""
    ui.notify(brief(message, 600), type="negative", timeout=10_000, close_button="Dismiss", multi_line=True)
