"""An app served with its console on a port of this machine, and somebody at a page of it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from playwright.async_api import BrowserContext, Page, expect

import toolwright as tw
from tests.client.rig import served
from tests.web.signing import SECRET, signed
from toolwright import testing
from toolwright.core.spaces.tool_ui import ToolUI
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualClock
from toolwright.web.auth.jwt_rules import Wanted
from toolwright.web.auth.persons import SharedSecret
from toolwright.web.console.console import Console

HOUR = 3_600
KEY = "sk-of-the-tests"


@dataclass
class House:
    """A served app with its console; `clock` is that of its sessions and tokens."""

    rt: Runtime
    port: int
    clock: ManualClock = field(default_factory=ManualClock)

    @property
    def url(self) -> str:
        """Where the console is."""
        return f"http://127.0.0.1:{self.port}/console"

    def token(self, name: str) -> str:
        """A token of theirs, good for an hour."""
        return signed({"sub": name, "exp": int(self.clock.now().timestamp()) + HOUR})

    async def person(self, name: str) -> str:
        """A person of that external id; the entity's id."""
        return (await self.rt.entities.create(external_id=name, display_name=name.title())).id

    async def enter(self, context: BrowserContext, path: str = "/", *, person: str | None = None) -> Page:
        """A page at that path, signed in with the secret key, or as that person."""
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


@asynccontextmanager
async def house(
    app: tw.App, *, model: object = None, keyed: bool = True, tool_uis: Sequence[ToolUI] = (), **options: Any
) -> AsyncGenerator[House]:
    """The app at work in memory, with its console; without keys everybody on this machine is a service."""
    clock = ManualClock()
    if keyed:
        people = SharedSecret(SECRET, Wanted(claim="sub"), clock)
        options |= {"secret_keys": (KEY,), "public_keys": ("pk",), "verify_token": people}
    console = partial(Console, tool_uis=tool_uis)
    async with (
        testing.runtime(app, model=model) as rt,
        served(rt, clock=clock, console=console, **options) as port,
    ):
        yield House(rt, port, clock)
