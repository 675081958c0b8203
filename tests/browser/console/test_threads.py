"""Threads in the console: conversation, history, and safe rendering of hostile messages."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from playwright.async_api import BrowserContext, Locator, Page, expect

import toolwright as tw
from tests.browser.console.rig import House, house
from tests.kit import ran, send_to
from toolwright.testing import ScriptedModel
from toolwright.web.dependencies import MAX_CHANGES

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

HOSTILE = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>{{7*7}} javascript:alert(1)'
AT_END = "document.scrollingElement.scrollHeight - scrollY - innerHeight < 5"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Gate:
    """The pauses of a model, which the test ends one by one. A pause that was opened too early counts."""

    def __init__(self) -> None:
        self._passes = asyncio.Semaphore(0)

    async def sleep(self, _: float) -> None:
        await self._passes.acquire()

    def open(self, times: int = 1) -> None:
        for _ in range(times):
            self._passes.release()


@tw.tool(description="Repeats.")
async def echo(text: str) -> str:
    return text


@tw.tool(description="Draws.")
async def draw() -> tw.ToolResult:
    files = (
        tw.Attachment(name="dot.png", mime_type="image/png", data=PIXEL),
        tw.Attachment(name="a.svg", mime_type="image/svg+xml", data=_base64("<svg onload='window.hurt=1'/>")),
    )
    return tw.ToolResult.ok(HOSTILE, attachments=files)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@asynccontextmanager
async def talking(
    turns: list[dict[str, Any]], gate: Gate | None = None, **options: Any
) -> AsyncGenerator[House]:
    """Serve an app with the agent `guide`, which answers with those turns."""
    model = ScriptedModel(turns) if gate is None else ScriptedModel(turns, sleep=gate.sleep)
    guide = tw.Agent("guide", tw.Prompt("guide", "You guide.", tools=[echo, draw]), **options)
    async with house(tw.App(agents=[guide]), model=model) as made:
        yield made


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.get_by_label("Message", exact=True).press("Enter")


def said(page: Page, text: str) -> Locator:
    return page.locator(".messages .message", has_text=text)


async def unharmed(page: Page) -> None:
    assert await page.evaluate("window.hurt") is None


async def no_overflow(page: Page) -> None:
    root = "document.documentElement"
    assert await page.evaluate(f"{root}.scrollWidth - {root}.clientWidth") == 0


async def test_an_answer_is_seen_while_it_is_written_and_whole_at_last(context: BrowserContext) -> None:
    gate = Gate()
    async with talking([{"text": "Turn left at the old oak.", "delay": 1}], gate) as made:
        thread = await made.rt.threads.create("guide")
        page = await made.enter(context, f"/threads/{thread.id}")
        await say(page, "Which way?")
        await expect(said(page, "Which way?")).to_be_visible()
        gate.open()
        await expect(page.locator(".streaming")).to_contain_text("Turn")
        await expect(page.get_by_role("button", name="Cancel the run")).to_be_visible()
        gate.open(100)
        await expect(said(page, "Turn left at the old oak.")).to_have_count(1)
        await expect(page.locator(".streaming")).to_have_count(0)
        await expect(page.get_by_role("button", name="Cancel the run")).to_have_count(0)
        await said(page, "Turn left").locator(".run-link").click()
        await expect(page.get_by_role("heading", name="Run", exact=True)).to_be_visible()
        await expect(page.locator(".step")).to_contain_text(["Turn left at the old oak."])


async def test_a_page_that_is_loaded_again_in_the_middle_of_an_answer_loses_nothing(
    context: BrowserContext,
) -> None:
    gate = Gate()
    answer = "Turn left at the old oak. " * 10
    async with talking([{"text": answer, "delay": 1}], gate) as made:
        thread = await made.rt.threads.create("guide")
        page = await made.enter(context, f"/threads/{thread.id}")
        await say(page, "Which way?")
        gate.open()
        await expect(page.locator(".streaming")).to_contain_text("Turn")
        await page.reload()
        await expect(said(page, "Which way?")).to_have_count(1)
        gate.open()
        await expect(page.locator(".streaming")).to_contain_text("Turn")
        gate.open(100)
        await expect(said(page, answer.strip())).to_have_count(1)
        await expect(said(page, "Which way?")).to_have_count(1)


async def test_shift_and_enter_begins_a_line_and_nothing_is_sent_twice(context: BrowserContext) -> None:
    async with talking([{"text": "Yes."}]) as made:
        thread = await made.rt.threads.create("guide")
        page = await made.enter(context, f"/threads/{thread.id}")
        field = page.get_by_label("Message", exact=True)
        await field.fill("One")
        await field.press("Shift+Enter")
        await field.press_sequentially("two")
        await field.press("Enter")
        await field.press("Enter")
        await expect(said(page, "Yes.")).to_have_count(1)
        messages = await made.rt.threads.messages(thread.id)
        assert [each.content for each in messages] == ["One\ntwo", "Yes."]


async def test_a_message_that_is_not_taken_stays_in_the_field(context: BrowserContext) -> None:
    async with talking([{"text": "Yes."}]) as made:
        thread = await made.rt.threads.create("guide")
        page = await made.enter(context, f"/threads/{thread.id}")
        await expect(page.get_by_text("No messages yet.")).to_be_visible()
        await made.rt.threads.delete(thread.id)
        await say(page, "Are you there?")
        await expect(page.get_by_text("There is no thread")).to_be_visible()
        await expect(page.get_by_label("Message", exact=True)).to_have_value("Are you there?")


async def test_files_are_sent_with_a_message_and_an_image_is_shown(context: BrowserContext) -> None:
    async with talking([{"text": "I see."}]) as made:
        thread = await made.rt.threads.create("guide")
        page = await made.enter(context, f"/threads/{thread.id}")
        files: list[Any] = [
            {"name": "dot.png", "mimeType": "image/png", "buffer": base64.b64decode(PIXEL)},
            {"name": "a <b>b</b>.txt", "mimeType": "text/plain", "buffer": HOSTILE.encode()},
        ]
        await page.locator("input[type=file]").set_input_files(files)
        await expect(page.locator(".compose .badge")).to_have_count(2)
        await say(page, "Look")
        await expect(said(page, "I see.")).to_be_visible()
        image = said(page, "Look").locator("img.thumbnail")
        await expect(image).to_have_count(1)
        assert (
            await image.evaluate("async (image) => { await image.decode(); return image.naturalWidth; }") == 1
        )
        await expect(page.locator(".compose .badge")).to_have_count(0)
        await page.get_by_role("link", name="Files").click()
        text = page.locator(".item.file", has_text=".txt")
        await text.locator("summary").click()
        await expect(text.locator(".code")).to_have_text(HOSTILE)
        async with page.expect_download() as download:
            await text.get_by_label("Download").click()
        assert (await (await download.value).path()).read_text() == HOSTILE
        await unharmed(page)


async def test_a_file_may_be_as_large_as_one_sent_over_http_and_one_that_is_larger_is_refused(
    context: BrowserContext,
) -> None:
    async with (
        house(tw.App(), keyed=False) as made,
        httpx2.AsyncClient(base_url=made.origin, trust_env=False, timeout=20) as client,
    ):
        path = "/console/_nicegui/client/nobody/upload/1"
        for size, status in (
            (12_000_000, 405),
            (40_000_000, 413),
        ):  # no call is pending there, or the body is too large
            assert (await client.post(path, content=b"x" * size)).status_code == status
    guide = tw.Agent("guide", tw.Prompt("guide", "You guide.", model=ScriptedModel([])))
    async with house(tw.App(agents=[guide]), max_body=1_000_000) as made:
        thread = await made.rt.threads.create("guide")
        page = await made.enter(context, f"/threads/{thread.id}")
        choose = page.locator("input[type=file]").set_input_files
        kind = "application/octet-stream"
        await choose([{"name": "large.bin", "mimeType": kind, "buffer": b"x" * 500_000}])
        await expect(page.locator(".compose .badge")).to_have_text("large.bin · 500 KB")
        await page.get_by_label("Remove large.bin").click()
        await expect(page.locator(".compose .badge")).to_have_count(0)
        await choose([{"name": "larger.bin", "mimeType": kind, "buffer": b"x" * 1_200_000}])
        await expect(page.get_by_text("A file may have at most")).to_be_visible()


async def test_nothing_that_is_said_or_returned_runs_as_script_or_markup(context: BrowserContext) -> None:
    turns: list[dict[str, Any]] = [
        {
            "text": HOSTILE,
            "calls": [{"name": "echo", "args": {"text": HOSTILE}}, {"name": "draw", "args": {}}],
        },
        {"text": f'```\n{HOSTILE}\n```\nhttps://example.org/"><script>window.hurt=1</script>'},
    ]
    async with talking(turns) as made:
        dialogs: list[str] = []
        thread = await made.rt.threads.create("guide", tags=[HOSTILE])
        page = await made.enter(context, f"/threads/{thread.id}")
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        await say(page, HOSTILE)
        await expect(page.locator(".fold.complete")).to_have_count(2)
        for summary in await page.locator(".fold > summary").all():
            await summary.click()
        await expect(page.locator(".fold .inside .code", has_text="window.hurt")).to_have_count(3)
        await expect(page.locator(".fold img.thumbnail")).to_have_count(1)  # the SVG is a link
        assert await page.locator("main script").count() == 0
        for tab in ("Files", "Values", "Prompt"):
            await page.get_by_role("link", name=tab, exact=True).click()
            await expect(page.locator(".tab[aria-current=page]")).to_have_text(tab)
        await unharmed(page)
        assert dialogs == []


async def test_a_long_thread_is_read_by_pages_and_never_drawn_whole(context: BrowserContext) -> None:
    async with talking([{"text": "Yes."}]) as made:
        thread = await made.rt.threads.create("guide")
        for number in range(1, 1_001):
            run = await made.rt.threads.send(thread.id, f"Number {number}.")
            await made.rt.runs.wait(run.id)
        assert (await made.rt.threads.get(thread.id)).seq == 2_000
        page = await made.enter(context, f"/threads/{thread.id}")
        await expect(said(page, "Number 1000.")).to_be_visible()
        rows = page.locator(".messages .message")
        await expect(rows).to_have_count(50)
        earlier = page.get_by_role("button", name="Earlier messages")
        for first in (951, 926, 901, 876, 851):
            await earlier.click()
            await expect(said(page, f"Number {first}.")).to_have_count(1)
        await expect(rows).to_have_count(200)
        await expect(said(page, "Number 1000.")).to_have_count(0)
        await say(page, "One more.")
        await page.get_by_role("button", name="Show new messages").click()
        await expect(said(page, "One more.")).to_have_count(1)
        await expect(said(page, "Number 1000.")).to_be_visible()
        await expect(rows).to_have_count(50)


async def test_a_call_and_its_answer_are_one_also_where_a_page_ends_between_them(
    context: BrowserContext,
) -> None:
    calls = [{"name": "echo", "args": {"text": f"call {number}"}} for number in range(60)]
    async with talking([{"calls": calls}, {"text": "Done."}]) as made:
        run = await ran(made.rt, "guide")
        page = await made.enter(context, f"/threads/{run.thread_id}")
        await expect(said(page, "Done.")).to_be_visible()
        await page.get_by_role("button", name="Earlier messages").click()
        await expect(said(page, "Go")).to_have_count(1)
        await expect(page.locator(".fold.complete")).to_have_count(50)
        await expect(page.get_by_text("and 10 more calls, see the run")).to_be_visible()
        await expect(page.locator(".fold.running")).to_have_count(0)


async def test_people_see_only_their_own_threads(context: BrowserContext) -> None:
    async with talking([{"text": "Yes."}]) as made:
        ada, bob = await made.person("ada"), await made.person("bob")
        theirs = await made.rt.threads.create("guide", user_id=bob)
        own = await made.rt.threads.create("guide", user_id=ada)
        page = await made.enter(context, "/threads", person="ada")
        await expect(page.locator("[data-thread]")).to_have_count(1)
        await expect(page.locator(f"[data-thread={own.id}]")).to_be_visible()
        for path in (f"/threads/{theirs.id}", f"/threads/{theirs.id}?tab=files", "/threads/thr_none"):
            await page.goto(f"{made.url}{path}")
            await expect(page.get_by_text("There is no thread")).to_be_visible()
        await page.goto(f"{made.url}/threads/{own.id}?tab=prompt")
        await expect(page.locator(".tab[aria-current=page]")).to_have_text("Messages")
        await expect(page.get_by_role("link", name="Prompt")).to_have_count(0)


async def test_a_person_begins_a_thread_of_their_own(context: BrowserContext) -> None:
    async with talking([{"text": "Welcome."}]) as made:
        ada = await made.person("ada")
        page = await made.enter(context, "/threads", person="ada")
        await page.get_by_role("button", name="New thread").click()
        await page.get_by_role("dialog").get_by_label("Agent").fill("nobody")
        await page.get_by_role("button", name="Start").click()
        await expect(page.get_by_text("There is no agent 'nobody'.")).to_be_visible()
        await page.get_by_role("dialog").get_by_label("Agent").fill("guide")
        await page.get_by_label("First message").fill("Hello")
        await page.get_by_role("button", name="Start").click()
        await expect(said(page, "Welcome.")).to_be_visible()
        [thread] = await made.rt.threads.list()
        assert thread.user_id == ada


async def test_actions_of_a_person_count_for_their_rate_of_changes(context: BrowserContext) -> None:
    async with talking([{"text": "Welcome."}]) as made:
        await made.person("ada")
        page = await made.enter(context, "/threads", person="ada")
        key = {"x-public-key": "pk", "authorization": f"Bearer {made.token('ada')}"}
        async with httpx2.AsyncClient(base_url=made.origin, headers=key, timeout=60) as client:
            answers = [await client.post("/api/stream-tokens") for _ in range(MAX_CHANGES[0] + 1)]
        assert answers[-1].status_code == 429
        await page.get_by_role("button", name="New thread").click()
        await page.get_by_role("dialog").get_by_label("Agent").fill("guide")
        await page.get_by_label("First message").fill("Hello")
        await page.get_by_role("button", name="Start").click()
        await expect(
            page.get_by_text("You have sent too many requests. Try again in 1 second.")
        ).to_be_visible()
        assert not await made.rt.threads.list()
        made.clock.advance(1)
        await page.get_by_role("button", name="Start").click()
        await expect(said(page, "Welcome.")).to_be_visible()


async def test_a_value_is_set_and_never_shown(context: BrowserContext) -> None:
    async with talking([{"text": "Yes."}]) as made:
        thread = await made.rt.threads.create("guide")
        page = await made.enter(context, f"/threads/{thread.id}?tab=values")
        frames: list[str] = []
        page.on("websocket", lambda ws: ws.on("framereceived", lambda frame: frames.append(str(frame))))
        await page.reload()
        await page.get_by_label("Name").fill("API_KEY")
        await page.get_by_label("Value").fill("a-very-secret-value")
        await page.get_by_role("button", name="Set value").click()
        await expect(page.locator(".item", has_text="API_KEY")).to_contain_text("secret")
        assert await made.rt.threads.env(thread.id) == {"API_KEY": "secret"}
        assert frames
        assert "a-very-secret-value" not in "".join(frames) + await page.content()
        await page.get_by_role("button", name="Delete value").click()
        await expect(page.get_by_text("No values in this thread.")).to_be_visible()


async def test_a_person_may_not_set_what_the_agent_does_not_take_from_them(context: BrowserContext) -> None:
    async with talking([{"text": "Yes."}], user_env=["CITY"]) as made:
        thread = await made.rt.threads.create("guide", user_id=await made.person("ada"))
        page = await made.enter(context, f"/threads/{thread.id}?tab=values", person="ada")
        await page.get_by_label("Name").fill("API_KEY")
        await page.get_by_label("Value").fill("x")
        await page.get_by_role("button", name="Set value").click()
        await expect(page.get_by_text("You may not set 'API_KEY'")).to_be_visible()
        await page.get_by_label("Name").fill("CITY")
        await page.get_by_label("Value").fill("Tokyo")
        await page.get_by_role("button", name="Set value").click()
        await expect(page.locator(".item", has_text="CITY")).to_be_visible()
        assert [*await made.rt.threads.env(thread.id)] == ["CITY"]


async def test_a_running_thread_is_deleted_only_with_its_work_in_progress(context: BrowserContext) -> None:
    async with talking([{"text": "Turn left.", "delay": 1}], Gate()) as made:
        thread = await made.rt.threads.create("guide")
        await made.rt.threads.send(thread.id, "Which way?")
        page = await made.enter(context, f"/threads/{thread.id}")
        await page.get_by_role("button", name="Delete", exact=True).click()
        await page.get_by_role("button", name="Delete thread").click()
        await expect(page.locator(".q-notification.bg-negative")).to_be_visible()
        await page.get_by_text("Cancel its runs in progress first").click()
        await page.get_by_role("button", name="Delete thread").click()
        await expect(page.get_by_role("heading", name="Threads", exact=True)).to_be_visible()
        await expect(page.get_by_text("No threads yet.")).to_be_visible()
        assert await made.rt.threads.list() == []


async def test_threads_are_listed_newest_first_by_pages_and_by_agent(context: BrowserContext) -> None:
    other = tw.Agent("other", tw.Prompt("other", "You are another."))
    guide = tw.Agent("guide", tw.Prompt("guide", "You guide."))
    async with house(tw.App(agents=[guide, other]), model=ScriptedModel([{"text": "Yes."}])) as made:
        first = await made.rt.threads.create("other")
        [*_, last] = [await made.rt.threads.create("guide") for _ in range(50)]
        page = await made.enter(context, "/threads")
        await expect(page.locator("[data-thread]")).to_have_count(50)
        await expect(page.locator("[data-thread]").first).to_have_attribute("data-thread", last.id)
        await page.get_by_role("link", name="Older").click()
        await expect(page.locator("[data-thread]")).to_have_count(1)
        await expect(page.locator("[data-thread]")).to_have_attribute("data-thread", first.id)
        await page.get_by_label("Agent", exact=True).fill("other")
        await page.get_by_label("Agent", exact=True).press("Enter")
        await expect(page).to_have_url(f"{made.url}/threads?agent=other")
        await expect(page.locator(f"[data-thread={first.id}]")).to_be_visible()
        await expect(page.locator("[data-thread]")).to_have_count(1)


async def test_a_thread_fits_a_phone(context: BrowserContext) -> None:
    long = "x" * 300
    turns: list[dict[str, Any]] = [
        {"text": long, "calls": [{"name": "echo", "args": {"text": long}}]},
        {"text": "Done."},
    ]
    async with talking(turns) as made:
        run = await ran(made.rt, "guide", long, tags=["t" * 100])
        page = await made.enter(context, f"/threads/{run.thread_id}")
        await page.set_viewport_size({"width": 390, "height": 800})
        await page.locator(".fold > summary").click()
        await expect(page.locator(".fold .inside .code")).to_have_count(2)
        await no_overflow(page)
        for tab in ("family", "files", "values", "prompt"):
            await page.goto(f"{made.url}/threads/{run.thread_id}?tab={tab}")
            await expect(page.locator(".tab[aria-current=page]")).to_be_visible()
            await no_overflow(page)
        await page.goto(f"{made.url}/threads")
        await expect(page.locator("[data-thread]")).to_have_count(1)
        await no_overflow(page)


async def test_a_suspended_call_is_answered_in_the_thread(context: BrowserContext) -> None:
    confirm = tw.Tool.from_config(
        {
            "name": "confirmAction",
            "description": "Asks.",
            "inputSchema": {"type": "object", "properties": {"question": {"type": "string"}}},
            "executionType": "external",
        }
    )
    asked = {"calls": [{"name": "confirmAction", "args": {"question": "Shall I book?"}}], "delay": 1}
    gate = Gate()
    model = ScriptedModel([asked, {"text": "It is booked.", "delay": 0}], sleep=gate.sleep)
    agent = tw.Agent("guide", tw.Prompt("guide", "You guide.", tools=[confirm]))
    async with house(tw.App(agents=[agent]), model=model) as made:
        thread = await made.rt.threads.create("guide")
        page = await made.enter(context, f"/threads/{thread.id}")
        await say(page, "Book it")
        gate.open()
        await expect(page.locator(".writing .call.streaming")).to_be_visible()
        gate.open(100)
        card = page.locator(".message .call.requires_action", has_text="Shall I book?").last
        await expect(page.get_by_role("link", name="Answer in Pending")).to_have_count(0)
        await card.get_by_role("button", name="Yes").click()
        await expect(said(page, "It is booked.")).to_be_visible()
        await expect(page.locator(".call.fold.complete")).to_have_count(1)
        [message] = [each for each in await made.rt.threads.messages(thread.id) if each.role == "tool"]
        assert message.content == '{"confirmed":true}'


async def grow(page: Page, gate: Gate) -> None:
    """Continue the model's stream until the page is longer by some lines."""
    height = "document.scrollingElement.scrollHeight"
    before = await page.evaluate(height)
    async with asyncio.timeout(60):
        while await page.evaluate(height) < before + 50:
            gate.open()
            await page.evaluate("new Promise(requestAnimationFrame)")


async def test_a_streamed_answer_is_followed_and_a_message_that_is_sent_moves_the_page_to_it(
    context: BrowserContext,
) -> None:
    gate = Gate()
    answer = "Turn left at the old oak. " * 1_200
    async with talking([{"text": answer, "delay": 1}], gate) as made:
        thread = await made.rt.threads.create("guide")
        gate.open(len(answer) // 24)  # a pause before each piece
        await made.rt.runs.wait((await made.rt.threads.send(thread.id, "Hello")).id)
        page = await made.enter(context, f"/threads/{thread.id}")
        await expect(said(page, "Turn left")).to_be_visible()
        await page.evaluate("scrollTo(0, 0)")
        await page.wait_for_function("scrollY === 0")
        await say(page, "Which way?")
        await expect(said(page, "Which way?")).to_be_in_viewport()
        for _ in range(4):
            await grow(page, gate)
            await page.wait_for_function(AT_END)
        await expect(page.locator(".streaming")).to_have_count(1)
        gate.open(10_000)
        await expect(page.locator(".streaming")).to_have_count(0)


async def test_a_failed_run_shows_its_error_in_its_thread_and_in_the_list(context: BrowserContext) -> None:
    async with talking([]) as made:
        run = await ran(made.rt, "guide", "Which way\nto the sea?")
        assert run.status == "failed"
        assert run.error
        page = await made.enter(context, f"/threads/{run.thread_id}")
        await expect(page.locator("[role=alert]")).to_contain_text(run.error)
        await expect(page.locator(".head .badge", has_text="failed")).to_be_visible()
        await page.goto(f"{made.url}/threads")
        row = page.locator(f"[data-thread={run.thread_id}]")
        await expect(row.locator(".title")).to_have_text("Which way to the sea?")
        await expect(row.locator(".badge")).to_have_text("failed")
        await expect(row).to_contain_text("1 message")
        await expect(row).not_to_contain_text("1 messages")


async def test_a_person_answers_a_handlers_question_in_their_thread(context: BrowserContext) -> None:
    @tw.tool(description="Books.")
    async def book(state: tw.ThreadState) -> str:
        return (await state.elicit("Shall I book the train?")).action

    agent = tw.Agent("guide", tw.Prompt("guide", "You guide.", tools=[book]))
    turns: list[dict[str, Any]] = [{"calls": [{"name": "book"}]}, {"text": "It is booked."}]
    async with house(tw.App(agents=[agent]), model=ScriptedModel(turns)) as made:
        thread = await made.rt.threads.create("guide", user_id=await made.person("ada"))
        page = await made.enter(context, f"/threads/{thread.id}", person="ada")
        await say(page, "Book it")
        question = page.locator(".message .call.requires_action", has_text="Shall I book the train?").last
        await expect(question).to_be_visible()
        await expect(page.locator(".head .badge").first).to_have_text("waiting")
        await page.goto(f"{made.url}/threads")
        await expect(page.locator(f"[data-thread={thread.id}] .badge")).to_have_text("waiting")
        await page.goto(f"{made.url}/threads/{thread.id}")
        await expect(question).to_be_visible()
        await question.get_by_role("button").first.click()
        await expect(said(page, "It is booked.")).to_be_visible()


async def test_a_run_that_waits_for_an_approval_says_so_and_its_thread_is_listed_as_waiting(
    context: BrowserContext,
) -> None:
    @tw.tool(description="Pays.", requires_approval=True)
    async def pay() -> str:
        return "Paid."

    agent = tw.Agent("guide", tw.Prompt("guide", "You guide.", tools=[pay]))
    turns: list[dict[str, Any]] = [{"calls": [{"name": "pay"}]}, {"text": "It is paid."}]
    async with house(tw.App(agents=[agent]), model=ScriptedModel(turns)) as made:
        run = await send_to(made.rt, "guide", "Pay")
        await made.rt.runs.wait_for_input(run.id)
        page = await made.enter(context, "/threads")
        await expect(page.locator(f"[data-thread={run.thread_id}] .badge")).to_have_text("waiting")
        await page.goto(f"{made.url}/runs/{run.id}")
        await expect(page.get_by_text("This run waits for an approval.")).to_be_visible()
        await expect(page.get_by_role("link", name="See the child threads")).to_have_count(0)
        await page.get_by_role("link", name="Answer in Pending").click()
        await page.locator(".call.requires_action").get_by_role("button", name="Approve").click()
        await made.rt.runs.wait(run.id)
        await page.goto(f"{made.url}/runs/{run.id}")
        await expect(page.locator("dl.facts")).to_contain_text("Finished")


async def test_the_list_of_spaces_has_an_address_of_its_own(context: BrowserContext) -> None:
    async with talking([]) as made:
        page = await made.enter(context, "/spaces")
        await expect(page.get_by_role("heading", name="Spaces", exact=True)).to_be_visible()
        await expect(page.locator(".place[aria-current=page]")).to_contain_text("Spaces")


LONG = "The department for long-distance travel and accommodation of Wolfeschlegelsteinhausen & Co"
LINES = "(shown) => Math.round(shown.clientHeight / parseFloat(getComputedStyle(shown).lineHeight))"


async def test_on_a_phone_long_names_have_two_lines_and_nothing_stands_below_the_message_field(
    context: BrowserContext,
) -> None:
    async with house(
        tw.App(agents=[tw.Agent("cook", instructions="Cook.")]), model=ScriptedModel([{"text": "Hi."}])
    ) as made:
        ada = await made.person("ada")
        await made.rt.spaces.create(LONG, id="long", kind="public")
        for n in range(30):
            await made.rt.spaces.say("long", ada, f"Word {n}")
        thread = await made.rt.threads.create("cook", user_id=ada)
        await made.rt.threads.rename(thread.id, LONG)
        page = await made.enter(context, "/", person="ada")
        await page.set_viewport_size({"width": 390, "height": 780})
        for path in ("/", "/threads"):
            await page.goto(f"{made.url}{path}")
            title = page.locator(".item .title", has_text="The department")
            await expect(title).to_be_visible()
            assert await title.evaluate(LINES) <= 2
            await no_overflow(page)
        await page.goto(f"{made.url}/spaces/long")
        await expect(page.get_by_text("Word 29")).to_be_visible()
        await page.evaluate("scrollTo(0, document.scrollingElement.scrollHeight / 2)")
        below = (
            "() => { const field = document.querySelector('.compose').getBoundingClientRect();"
            " const bar = document.querySelector('.navigation').getBoundingClientRect();"
            " return field.bottom >= bar.top; }"
        )
        assert await page.evaluate(below)


async def test_a_path_that_leads_nowhere_is_said_within_the_console(context: BrowserContext) -> None:
    async with house(tw.App()) as made:
        page = await made.enter(context, "/")
        for path in ("/nowhere", "/spaces/one/two", "/runs/one/two/three"):
            answered = await page.goto(f"{made.url}{path}")
            assert answered is not None and answered.status == 404
            await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
            await expect(page.get_by_role("link", name="To the spaces")).to_be_visible()


async def test_a_thread_is_renamed(context: BrowserContext) -> None:
    agent = tw.Agent("cook", instructions="Cook.")
    async with house(tw.App(agents=[agent]), model=ScriptedModel([{"text": "Hi."}])) as made:
        run = await ran(made.rt, "cook", "First words", user_id=await made.person("ada"))
        page = await made.enter(context, f"/threads/{run.thread_id}", person="ada")
        await expect(page.locator("h1")).to_have_text("First words")
        for name, title in ((HOSTILE, "<img"), ("", "First words")):
            await page.get_by_role("button", name="Rename").click()
            await page.get_by_label("Name (optional)").fill(name)
            await page.get_by_role("button", name="Save").click()
            await expect(page.locator("h1")).to_contain_text(title)
            await unharmed(page)
            await page.goto(f"{made.url}/threads")
            await expect(page.locator(".item .title")).to_contain_text(title)
            await page.goto(f"{made.url}/threads/{run.thread_id}")
