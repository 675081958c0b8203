"""An app served with its console on a port of this machine, and signed-in pages of it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from playwright.async_api import BrowserContext, Page, expect

import toolwright as tw
from tests.browser.conftest import PATIENCE
from tests.client.rig import served
from tests.web.signing import SECRET, signed
from toolwright import testing
from toolwright.core.model import CallDelta, ModelEvent, ModelRequest, TextDelta
from toolwright.core.tools.tool_ui import ToolUI
from toolwright.core.value import changed
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualClock, ScriptedModel
from toolwright.web.auth.person_tokens import ExpectedClaims, SharedSecret
from toolwright.web.console.console import Console

HOUR = 3_600
KEY = "sk-of-the-tests"


class HeldModel(ScriptedModel):
    """A scripted model that streams its arguments and text in pieces; the last piece waits for `release`."""

    def __init__(self, turns: Sequence[object]) -> None:
        super().__init__(turns)
        self.release = asyncio.Event()

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Yield the turn, in pieces."""
        async for event in super().respond(request):
            match event:
                case CallDelta(name="send_message" | "confirmAction" | "showChart") | TextDelta():
                    name = "arguments" if isinstance(event, CallDelta) else "text"
                    text = getattr(event, name)
                    yield changed(event, **{name: text[: len(text) // 2]})
                    if text:
                        await self.release.wait()
                        yield changed(event, **{name: text[len(text) // 2 :]})
                case _:
                    yield event


@dataclass
class House:
    """A served app with its console; `clock` is used for its sessions and tokens."""

    rt: Runtime
    port: int
    clock: ManualClock = field(default_factory=ManualClock)
    people: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of the people's entities, by their external ids."""
    _contexts: dict[str | None, BrowserContext] = field(default_factory=dict[str | None, BrowserContext])

    @property
    def origin(self) -> str:
        """Return the URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Return the URL of the console."""
        return f"http://127.0.0.1:{self.port}/console"

    def token(self, name: str) -> str:
        """Return an access token of that person, valid for an hour."""
        return signed({"sub": name, "exp": int(self.clock.now().timestamp()) + HOUR})

    async def person(self, name: str) -> str:
        """Create a person with that external id. Return the entity's id."""
        entity = await self.rt.entities.create(external_id=name, display_name=name.title())
        self.people[name] = entity.id
        return entity.id

    async def enter(self, context: BrowserContext, path: str = "/", *, person: str | None = None) -> Page:
        """Open a page at that path, with the secret key or as that person, each in a separate browser context."""
        if person in self._contexts:
            page = await self._contexts[person].new_page()
            await page.goto(f"{self.url}{path}")
            await expect(page.locator("main#view h1")).to_be_visible()
            return page
        if self._contexts:
            assert context.browser is not None
            context = await context.browser.new_context(viewport={"width": 800, "height": 700})
            context.set_default_timeout(PATIENCE)
        self._contexts[person] = context
        page = await context.new_page()
        await page.goto(f"{self.url}{path}")
        if person is None:
            await page.fill("[name=secret_key]", KEY)
            await page.click("form:has([name=secret_key]) button")
        else:
            await page.fill("[name=public_key]", "pk")
            await page.fill("[name=token]", self.token(person))
            await page.click("form:has([name=token]) button")
        await expect(page.locator("main#view h1")).to_be_visible()
        return page

    async def leave(self) -> None:
        """Close all browser contexts."""
        for context in self._contexts.values():
            await context.close()


@asynccontextmanager
async def house(
    app: tw.App, *, model: object = None, keyed: bool = True, tool_uis: Sequence[ToolUI] = (), **options: Any
) -> AsyncGenerator[House]:
    """Run the app in memory with its console. Without keys every client on this machine is a service."""
    clock = ManualClock()
    if keyed:
        people = SharedSecret(SECRET, ExpectedClaims(claim="sub"), clock)
        options |= {"secret_keys": (KEY,), "public_keys": ("pk",), "verify_token": people}
    console = partial(Console, tool_uis=tool_uis)
    async with (
        testing.runtime(app, model=model) as rt,
        served(rt, clock=clock, console=console, **options) as port,
    ):
        made = House(rt, port, clock)
        try:
            yield made
        finally:
            await made.leave()
