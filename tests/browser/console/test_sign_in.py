"""Signing in to the console: who is allowed, and who is rejected."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
from playwright.async_api import BrowserContext, expect

import toolwright as tw
from tests.browser.console.rig import HOUR, KEY, House, house
from tests.client.rig import served
from tests.web.signing import SECRET
from toolwright.testing import ScriptedModel
from toolwright.web.auth.person_tokens import ExpectedClaims, SharedSecret
from toolwright.web.console import visit
from toolwright.web.console.console import Console
from toolwright.web.console.sign_in import COOKIE

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def test_a_secret_key_signs_in_and_the_page_that_was_asked_for_is_shown(
    context: BrowserContext,
) -> None:
    async with house(tw.App()) as made:
        await made.rt.spaces.create("Trip to Tokyo", id="trip", kind="public")
        page = await made.enter(context, "/spaces/trip")
        await expect(page.get_by_role("heading", name="Trip to Tokyo")).to_be_visible()


async def test_without_keys_everybody_on_this_machine_is_let_in(context: BrowserContext) -> None:
    async with house(tw.App(), keyed=False) as made:
        page = await context.new_page()
        await page.goto(made.url)
        await expect(page.get_by_role("heading", name="Spaces")).to_be_visible()
        await expect(page.get_by_role("button", name="Sign out")).to_have_count(0)


async def test_a_wrong_key_is_reported_and_a_sign_out_applies_to_every_window(
    context: BrowserContext,
) -> None:
    async with house(tw.App()) as made:
        page = await context.new_page()
        await page.goto(made.url)
        await page.fill("[name=secret_key]", "<b>wrong</b>")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("The secret key is wrong.")
        await page.close()
        page = await made.enter(context)
        [cookie] = await context.cookies()
        assert cookie.get("httpOnly") and cookie.get("sameSite") == "Lax" and cookie.get("path") == "/console"
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("dialog").get_by_role("button", name="Sign out", exact=True).click()
        await expect(page.get_by_label("Secret key")).to_be_visible()
        async with web(made) as client:  # a client that has kept the cookie
            kept = await client.get(
                "/console/", headers={**HTML, "cookie": f"{COOKIE}={cookie.get('value')}"}
            )
            assert kept.status_code == 303


async def test_a_session_that_is_over_leads_back_to_where_one_was(context: BrowserContext) -> None:
    async with house(tw.App()) as made:
        await made.person("ada")
        await made.rt.spaces.create("Trip to Tokyo", id="trip", kind="public")
        page = await made.enter(context, "/spaces/trip", person="ada")
        made.clock.advance(HOUR + 60)
        await page.get_by_label("Message", exact=True).fill("Too late")
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Token")).to_be_visible()
        assert [each.message.content for each in await made.rt.spaces.messages("trip")] == []
        await page.fill("[name=public_key]", "pk")
        await page.fill("[name=token]", made.token("ada"))
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Trip to Tokyo")).to_be_visible()


async def test_every_button_leads_to_the_sign_in_after_the_session_has_ended(
    context: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visit, "POLL_INTERVAL", HOUR)  # only the button's request finds out, not the poll
    async with house(tw.App()) as made:
        ada = await made.person("ada")
        await made.rt.spaces.create("Trip to Tokyo", id="trip", kind="public")
        for n in range(51):
            await made.rt.spaces.say("trip", ada, f"Word {n}")
        page = await made.enter(context, "/spaces/trip", person="ada")
        await expect(page.get_by_text("Word 50", exact=True)).to_be_visible()
        made.clock.advance(HOUR + 60)
        await page.get_by_role("button", name="Earlier messages").click()
        await expect(page.get_by_label("Token")).to_be_visible()


async def test_who_has_signed_out_sees_nothing_more_in_a_window_that_stays_open(
    context: BrowserContext,
) -> None:
    async with house(tw.App()) as made:
        ada = await made.person("ada")
        await made.rt.spaces.create("Trip to Tokyo", id="trip", members=[ada])
        page = await made.enter(context, "/spaces/trip", person="ada")
        await made.rt.spaces.say("trip", ada, "Hello")
        await expect(page.get_by_text("Hello")).to_be_visible()
        # the browser stays on the page
        await page.route("**/sign-in**", lambda route: route.fulfill(status=204))
        async with page.expect_request("**/sign-in**"):
            left = await context.request.post(f"{made.url}/sign-out", max_redirects=0)
            assert left.status == 303
            await made.rt.spaces.say("trip", ada, "Here is the secret.")
        await page.evaluate("() => new Promise((done) => setTimeout(done, 500))")
        await expect(page.get_by_text("secret")).to_have_count(0)


@asynccontextmanager
async def second_server(made: House) -> AsyncGenerator[httpx2.AsyncClient]:
    """Run another server of the same journal, without the sessions of the first one in its memory."""
    people = SharedSecret(SECRET, ExpectedClaims(claim="sub"), made.clock)
    options: dict[str, Any] = {"secret_keys": (KEY,), "public_keys": ("pk",), "verify_token": people}
    async with (
        served(made.rt, clock=made.clock, console=partial(Console, tool_uis=()), **options) as port,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=20) as client,
    ):
        yield client


async def signed_in(made: House, client: httpx2.AsyncClient, name: str | None = "ada") -> str:
    """Return the cookie of a new session of that person, or of a service."""
    form = {"secret_key": KEY} if name is None else {"public_key": "pk", "token": made.token(name)}
    answered = await client.post("/console/sign-in", data=form)
    assert answered.status_code == 303
    return answered.headers["set-cookie"].partition(";")[0]


async def test_a_session_that_was_signed_out_stays_so_over_a_restart(context: BrowserContext) -> None:
    async with house(tw.App()) as made, web(made) as client:
        await made.person("ada")
        kept = await signed_in(made, client)
        assert (await client.get("/console/", headers={**HTML, "cookie": kept})).status_code == 200
        assert (await client.post("/console/sign-out", headers={"cookie": kept})).status_code == 303
        async with second_server(made) as again:  # which has only the state in the journal
            for server in (client, again):
                left = await server.get("/console/", headers={**HTML, "cookie": kept})
                assert left.status_code == 303
            assert (
                await again.get("/console/", headers={**HTML, "cookie": await signed_in(made, again)})
            ).status_code == 200


async def test_signing_out_everywhere_ends_all_sessions_of_the_caller_and_no_others(
    context: BrowserContext,
) -> None:
    async with house(tw.App()) as made, web(made) as client:
        await made.person("ada")
        await made.person("bob")
        mine = [await signed_in(made, client) for _ in range(2)]
        others = [await signed_in(made, client, "bob"), await signed_in(made, client, None)]
        page = await made.enter(context, "/threads", person="ada")
        made.clock.advance(1)
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()
        await expect(page.get_by_label("Token")).to_be_visible()
        made.clock.advance(1)
        async with second_server(made) as again:
            for server in (client, again):
                for cookie, status in [*((each, 303) for each in mine), *((each, 200) for each in others)]:
                    shown = await server.get("/console/", headers={**HTML, "cookie": cookie})
                    assert shown.status_code == status
        after = await signed_in(made, client)
        assert (await client.get("/console/", headers={**HTML, "cookie": after})).status_code == 200


async def test_who_signed_out_by_a_clock_that_was_ahead_can_sign_in_again(context: BrowserContext) -> None:
    async with house(tw.App()) as made, web(made) as client:
        await made.person("ada")
        made.clock.advance(365 * 24 * HOUR)
        cookie = await signed_in(made, client)
        await client.post("/console/sign-out?everywhere", headers={"cookie": cookie})
        made.clock.advance(-365 * 24 * HOUR)
        cookie = await signed_in(made, client)
        shown = await client.get("/console/", headers={**HTML, "cookie": cookie})
        assert shown.status_code == 200


async def test_a_link_signs_in_once(context: BrowserContext) -> None:
    async with house(tw.App()) as made:
        async with web(made) as client:
            link = (await client.post("/console/links", headers={"x-secret-key": KEY})).json()["path"]
        page = await context.new_page()
        await page.goto(f"{made.origin}{link}")
        await expect(page.get_by_role("heading", name="Spaces")).to_be_visible()
        assert "link=" not in page.url
        await context.clear_cookies()
        await page.goto(f"{made.origin}{link}")
        await expect(page.get_by_role("alert")).to_contain_text("This link was already used")


HTML = {"accept": "text/html"}


def web(made: House) -> httpx2.AsyncClient:
    """An HTTP client that is not a browser."""
    return httpx2.AsyncClient(base_url=made.origin, trust_env=False, timeout=20)


async def test_a_link_for_a_person_signs_in_as_them_and_only_a_service_makes_one(
    context: BrowserContext,
) -> None:
    async with house(tw.App()) as made, web(made) as client:
        ada = await made.person("ada")
        assert (await client.post("/console/links")).status_code == 401
        assert (await client.post("/console/links", headers={"x-secret-key": "wrong"})).status_code == 401
        key = {"x-secret-key": KEY}
        unknown = await client.post("/console/links", params={"entityId": "ent_none"}, headers=key)
        assert (unknown.status_code, unknown.json()["error"]) == (404, "There is no person 'ent_none'.")
        made_link = await client.post("/console/links", params={"entityId": ada}, headers=key)
        page = await context.new_page()
        await page.goto(made.origin + made_link.json()["path"])
        await expect(page.get_by_role("heading", name="Spaces")).to_be_visible()
        await expect(page.get_by_role("link", name="Runs")).to_have_count(0)


@pytest.mark.parametrize("gone", ["deleted", "renamed"])
async def test_a_person_who_is_not_known_any_more_has_neither_pages_nor_files(gone: str) -> None:
    async with (
        house(tw.App(agents=[tw.Agent("guide", model=ScriptedModel([]))])) as made,
        web(made) as client,
    ):
        ada = await made.person("ada")
        thread = await made.rt.threads.create("guide", "ada")
        note = tw.Attachment(name="note.txt", mime_type="text/plain", data="aGk=")
        await made.rt.threads.post(thread.id, "Look", [note])
        [file] = await made.rt.files.list(thread.id)
        url = f"/console/files/{thread.id}{file.ref.path}"
        link = await client.post("/console/links", params={"entityId": ada}, headers={"x-secret-key": KEY})
        await client.get(link.json()["path"])
        assert (await client.get("/console/", headers=HTML)).status_code == 200
        assert (await client.get(url)).content == b"hi"
        if gone == "deleted":
            await made.rt.entities.delete(ada)
        else:  # from now on their token names another person
            await made.rt.entities.update(ada, external_id="eve")
        assert (await client.get("/console/", headers=HTML)).status_code == 303
        assert (await client.get(url)).status_code == 401


async def test_nothing_of_the_console_is_had_without_signing_in() -> None:
    async with house(tw.App()) as made, web(made) as client:
        asked = await client.get("/console/runs?status=failed", headers=HTML)
        assert asked.status_code == 303
        assert asked.headers["location"] == "/console/sign-in?next=%2Fconsole%2Fruns%3Fstatus%3Dfailed"
        for path in (
            "/files/thr_1/x.png",
            "/_nicegui_ws/socket.io/?EIO=4&transport=polling",
            "/_nicegui/x.js",
        ):
            refused = await client.get(f"/console{path}")
            assert refused.status_code == 401, path
        posted = await client.post("/console/_nicegui_ws/socket.io/?EIO=4&transport=polling", content="0")
        assert posted.status_code == 401
        forged = {**HTML, "cookie": f"{COOKIE}=eyJpZCI6ICJ4In0=.{'0' * 64}"}
        assert (await client.get("/console/", headers=forged)).status_code == 303


async def test_a_page_of_another_site_can_neither_sign_in_nor_frame_the_console_nor_lead_away() -> None:
    async with house(tw.App()) as made, web(made) as client:
        evil = {"origin": "https://evil.example"}
        refused = await client.post("/console/sign-in", data={"secret_key": KEY}, headers=evil)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        for there in ("https://evil.example/", "//evil.example", "/console/\\evil.example", "/api/runs"):
            entered = await client.post(
                "/console/sign-in",
                params={"next": there},
                data={"secret_key": KEY},
                headers={"origin": made.origin},
            )
            assert (entered.status_code, entered.headers["location"]) == (303, "/console/"), there
        shown = await client.get(
            "/console/", headers={**HTML, "cookie": entered.headers["set-cookie"].split(";")[0]}
        )
        assert shown.status_code == 200
        assert "frame-ancestors 'none'" in shown.headers["content-security-policy"]
        socket = "/console/_nicegui_ws/socket.io/?EIO=4&transport=polling"
        posted = await client.post(
            socket, content="0", headers={**evil, "cookie": entered.headers["set-cookie"].split(";")[0]}
        )
        assert posted.status_code == 403


async def test_a_page_of_another_site_reads_nothing_of_the_console() -> None:
    async with house(tw.App()) as made, web(made) as client:
        entered = await client.post(
            "/console/sign-in", data={"secret_key": KEY}, headers={"origin": made.origin}
        )
        cookie = {"cookie": entered.headers["set-cookie"].split(";")[0]}
        paths = (
            "/",
            "/sign-in",
            "/_nicegui_ws/socket.io/?EIO=4&transport=polling",
            "/files/x",
            "/static/console.js",
        )
        for path in paths:
            for origin in ("https://evil.example", "null", f"{made.origin}.evil.example"):
                for method in ("GET", "HEAD", "OPTIONS"):
                    answered = await client.request(
                        method, f"/console{path}", headers={**cookie, "origin": origin}
                    )
                    assert answered.status_code == 403, (method, path, origin)
                    allowed = [name for name in answered.headers if name.startswith("access-control-")]
                    assert allowed == [], (method, path, origin)
        own = await client.get("/console/", headers={**HTML, **cookie, "origin": made.origin})
        assert own.status_code == 200


async def test_a_form_that_is_too_long_or_none_is_refused_in_one_sentence() -> None:
    async with house(tw.App()) as made, web(made) as client:
        for body in (b"x" * 100_000, b"\xff\xfe", b"a&" * 100):
            refused = await client.post("/console/sign-in", content=body, headers={"origin": made.origin})
            assert refused.status_code == 400
            assert refused.json()["error"].startswith("This ")
