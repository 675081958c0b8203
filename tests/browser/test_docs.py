"""The page at /docs, in a browser that can reach only the server."""

import pytest
from playwright.async_api import BrowserContext, Request, expect

from tests.client.rig import served
from tests.runtime.rig import running
from toolwright.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def test_the_page_shows_every_route_and_a_body_without_an_error(context: BrowserContext) -> None:
    async with running(ScriptedModel([{"text": "Hi."}])) as rig, served(rig.rt) as port:
        page = await context.new_page()
        asked: list[str] = []
        said: list[str] = []

        def note(request: Request) -> None:
            asked.append(request.url)

        page.on("request", note)
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        await page.goto(f"http://127.0.0.1:{port}/")
        send = page.locator("#operations-threads-send_message")
        await send.locator(".opblock-summary").first.click()
        await expect(send.locator(".opblock-section-request-body")).to_contain_text("attachments")
        await expect(page.locator(".errors-wrapper")).to_have_count(0)
        assert said == []
        assert [url for url in asked if not url.startswith((f"http://127.0.0.1:{port}/", "data:"))] == []
