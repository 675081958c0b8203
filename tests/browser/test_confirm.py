"""`examples/confirm.html`: a person confirms an agent's request in a browser."""

from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Route, expect

from tests.browser.chromium import found
from tests.browser.rig import HOUR, asks, room, says

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
BOOK = "Book a hotel in Tokyo"
YES = '{"confirmed":true}'
NO = '{"confirmed":false}'
BOOKED = says('"confirmed":true', "It is booked.")


@pytest.mark.parametrize("pending", [True, False], ids=["the agent goes on", "the run waits"])
async def test_a_click_answers_and_the_run_goes_on(context: BrowserContext, pending: bool) -> None:
    async with room([BOOKED, asks("Confirm booking?")], pending=pending) as made, made.served() as port:
        ada = await made.open(context, port)
        await expect(ada.page.get_by_role("heading")).to_have_text("Trip to Tokyo")
        await ada.say(BOOK)
        await expect(ada.open("Confirm booking?")).to_have_class("call requires_action")
        await ada.answer("Confirm booking?", "Yes")
        await ada.answered("Confirm booking?", YES)
        await expect(ada.message("It is booked.").locator(".who")).to_have_text("tester")
        [call] = await made.rig.rt.calls.list(status=None, space_id="trip")
        assert (call.status, call.name) == ("resolved", "confirmAction")
        runs = await made.rig.rt.runs.list()
        for run in runs:
            assert (await made.rig.rt.runs.wait(run.id, 10)).status == "completed"
        assert len(runs) == (2 if pending else 1)


async def test_two_open_confirmations_are_answered_in_the_other_order(context: BrowserContext) -> None:
    turns = [BOOKED, says('"confirmed":false', "As you like."), asks("The hotel?", "The flight?")]
    async with room(turns) as made, made.served() as port:
        ada = await made.open(context, port)
        await ada.say(BOOK)
        await expect(ada.open("The hotel?")).to_be_visible()
        await ada.answer("The flight?", "No")
        await ada.answered("The flight?", NO)
        await expect(ada.message("As you like.")).to_be_visible()
        await expect(ada.open("The hotel?")).to_be_visible()
        await ada.answer("The hotel?", "Yes")
        await ada.answered("The hotel?", YES)
        await expect(ada.message("It is booked.")).to_be_visible()
        said = await ada.page.locator("#messages li").all_inner_texts()
        for text, word in zip(said, (BOOK, "hotel", "flight", "As you like", "booked"), strict=True):
            assert word in text


async def test_a_confirmation_that_is_open_is_answered_after_a_reload(context: BrowserContext) -> None:
    async with room([BOOKED, asks("Confirm booking?")]) as made, made.served() as port:
        ada = await made.open(context, port)
        await ada.say(BOOK)
        await expect(ada.open("Confirm booking?")).to_be_visible()
        await ada.page.reload()
        await ada.says("connected")
        await ada.answer("Confirm booking?", "Yes")
        await ada.answered("Confirm booking?", YES)
        await expect(ada.message("It is booked.")).to_be_visible()
        await expect(ada.message(BOOK)).to_have_count(1)


async def test_what_one_person_answers_is_answered_for_all(context: BrowserContext) -> None:
    async with room([BOOKED, asks("Confirm booking?")]) as made, made.served() as port:
        ada, bob = [await made.open(context, port, name) for name in ("ada", "bob")]
        await ada.say(BOOK)
        await expect(ada.open("Confirm booking?")).to_be_visible()
        await bob.answer("Confirm booking?", "No")
        for either in (ada, bob):
            await either.answered("Confirm booking?", NO)


async def test_a_click_that_comes_too_late_is_reported_and_the_answer_is_kept(
    context: BrowserContext,
) -> None:
    async with room([BOOKED, asks("Confirm booking?")]) as made, made.served() as port:
        ada = await made.open(context, port)
        await ada.say(BOOK)
        await expect(ada.open("Confirm booking?")).to_be_visible()
        [call] = await made.rig.rt.calls.list(space_id="trip")

        async def overtaken(route: Route) -> None:
            await made.rig.rt.calls.submit(call.run_id, call.id, {"confirmed": False})
            await route.continue_()

        await ada.page.route("**/tool-results", overtaken)
        await ada.answer("Confirm booking?", "Yes")
        await ada.says("Tool call already resolved")
        await ada.answered("Confirm booking?", NO)


async def test_the_page_goes_on_when_the_server_is_back(context: BrowserContext) -> None:
    async with room([BOOKED, asks("Confirm booking?")]) as made:
        async with made.served() as port:
            ada = await made.open(context, port)
            await ada.say(BOOK)
            await expect(ada.open("Confirm booking?")).to_be_visible()
        await ada.says("connecting again …")
        [call] = await made.rig.rt.calls.list(space_id="trip")
        await made.rig.rt.calls.submit(call.run_id, call.id, {"confirmed": True})
        async with made.served(port):
            await ada.says("connected")
            await ada.answered("Confirm booking?", YES)
            await expect(ada.message("It is booked.")).to_have_count(1)


async def test_an_expired_token_is_reported_and_a_new_one_goes_on(context: BrowserContext) -> None:
    async with room([BOOKED, asks("Confirm booking?")]) as made:
        async with made.served() as port:
            ada = await made.open(context, port)
            await ada.say(BOOK)
            await expect(ada.open("Confirm booking?")).to_be_visible()
        made.clock.advance(HOUR + 60)
        async with made.served(port):
            await ada.says("The token has expired.")
            await ada.connect(token=made.token("ada"))
            await ada.says("connected")
            await ada.answer("Confirm booking?", "Yes")
            await ada.answered("Confirm booking?", YES)


async def test_a_click_with_an_expired_token_asks_for_a_new_one(context: BrowserContext) -> None:
    async with room([BOOKED, asks("Confirm booking?")]) as made, made.served() as port:
        ada = await made.open(context, port)
        await ada.say(BOOK)
        await expect(ada.open("Confirm booking?")).to_be_visible()
        made.clock.advance(HOUR + 60)
        await ada.answer("Confirm booking?", "Yes")
        await ada.says("The token has expired.")
        await ada.connect(token=made.token("ada"))
        await ada.says("connected")
        await ada.answer("Confirm booking?", "Yes")
        await ada.answered("Confirm booking?", YES)


async def test_a_missing_space_is_reported_at_once(context: BrowserContext) -> None:
    async with room([BOOKED]) as made, made.served() as port:
        ada = await made.visit(context)
        await ada.connect(server=f"http://127.0.0.1:{port}", key="pk", token=made.token("ada"), space="tea")
        await ada.says("There is no space 'tea'.")


def test_without_chromium_these_tests_are_skipped_but_fail_under_ci(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="no Chromium"):
        found(tmp_path / "chromium", {})
    with pytest.raises(pytest.fail.Exception, match="no Chromium"):
        found(tmp_path / "chromium", {"CI": "true"})
    assert found(tmp_path, {"CI": "true"}) == str(tmp_path)
