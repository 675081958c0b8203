"""A served space with an agent that asks people, and the example page on a separate origin."""

import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, Locator, Page, expect

import toolwright as tw
from tests.client.rig import served
from tests.runtime.rig import Rig, running
from tests.web.signing import SECRET, signed
from toolwright.testing import ManualClock, ScriptedModel
from toolwright.web.auth.person_tokens import ExpectedClaims, SharedSecret

EXAMPLES = Path(__file__).parents[2] / "examples"
HOUR = 3_600


def confirm(*, pending: bool) -> tw.Tool:
    """Return the tool of the guide. A `pending` one lets its agent continue in the meantime."""
    return tw.Tool.from_config(
        {
            "name": "confirmAction",
            "description": "Ask the user to confirm an action",
            "inputSchema": {"type": "object", "properties": {"question": {"type": "string"}}},
            "executionType": "space",
            "isAsync": pending,
        }
    )


def asks(*questions: str) -> dict[str, Any]:  # a turn of a script
    """Return a turn that enters the space and asks those questions there."""
    enter = {"name": "enter_space", "args": {"spaceId": "trip"}}
    asked = [{"name": "confirmAction", "args": {"question": question}} for question in questions]
    return {"when": "Book", "calls": [enter, *asked]}


def says(when: str, text: str) -> dict[str, Any]:  # a turn of a script
    return {"when": when, "calls": [{"name": "send_message", "args": {"text": text}}]}


@dataclass
class Room:
    """The space `trip`, of Ada, Bob and the agent."""

    rig: Rig
    origin: str
    clock: ManualClock = field(default_factory=ManualClock)

    def token(self, name: str) -> str:
        """Return an access token of that person, valid for an hour."""
        return signed({"sub": name, "exp": int(self.clock.now().timestamp()) + HOUR})

    @asynccontextmanager
    async def served(self, port: int = 0) -> AsyncGenerator[int]:
        people = SharedSecret(SECRET, ExpectedClaims(claim="sub"), self.clock)
        options = {"secret_keys": ("sk",), "public_keys": ("pk",), "verify_token": people}
        async with served(self.rig.rt, port, cors_origins=(self.origin,), **options) as opened:
            yield opened

    async def visit(self, context: BrowserContext) -> "Shown":
        """Load the page."""
        page = await context.new_page()
        await page.goto(f"{self.origin}/confirm.html")
        return Shown(page)

    async def open(self, context: BrowserContext, port: int, name: str = "ada") -> "Shown":
        """Load the page and connect as that person."""
        shown = await self.visit(context)
        await shown.connect(server=f"http://127.0.0.1:{port}", key="pk", token=self.token(name))
        await shown.says("connected")
        return shown


@dataclass
class Shown:
    """The page as a user sees it, and the user's actions."""

    page: Page

    async def connect(self, **fields: str) -> None:
        for name, value in fields.items():
            await self.page.fill(f"[name={name}]", value)
        await self.page.click("text=Connect")

    async def say(self, text: str) -> None:
        await self.page.fill("[name=content]", text)
        await self.page.click("text=Send")

    async def says(self, state: str) -> None:
        """Wait until the page shows that connection status."""
        await expect(self.page.locator("#state")).to_have_text(state)

    def message(self, text: str) -> Locator:
        """Return the message that contains the text."""
        return self.page.locator("#messages li", has_text=text)

    def open(self, question: str) -> Locator:
        """Return the message of a question that is still open."""
        return self.message(question).filter(has=self.page.get_by_role("button"))

    async def answer(self, question: str, word: str) -> None:
        await self.open(question).get_by_role("button", name=word, exact=True).click()

    async def answered(self, question: str, result: str) -> None:
        """Check that the question shows its result, and cannot be answered any more."""
        await expect(self.message(question).locator(".outcome")).to_have_text(f"complete {result}")
        await expect(self.open(question)).to_have_count(0)


@asynccontextmanager
async def room(turns: Sequence[object], *, pending: bool = True) -> AsyncGenerator[Room]:
    """Run an agent that answers with those turns in the space."""
    tools = [confirm(pending=pending)]
    model = ScriptedModel([*turns, {"text": "Nothing more to do."}])
    with pages() as origin:
        async with running(model, tools, inline_wait=0.0, options={"toolkits": ["spaces", "mind"]}) as rig:
            people = [
                await rig.rt.entities.create(external_id=name, display_name=name.title())
                for name in ("ada", "bob")
            ]
            agent = rig.rt.agents.declared[0]
            await rig.rt.spaces.create(
                "Trip to Tokyo", id="trip", members=[*(one.id for one in people), agent.id]
            )
            yield Room(rig, origin)


class Silent(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def pages() -> Generator[str]:
    """Serve the examples as `python -m http.server` does. Yields the origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(EXAMPLES))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
