"""The page at /docs and the OpenAPI document: served without external resources, under the rules of all routes."""

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request

from tests.api.rig import serving
from tests.api.town import ADA, town
from toolwright.core.errors import DefinitionError
from toolwright.web import gateway
from toolwright.web.routes import docs
from toolwright.web.routes.docs import correct_document
from toolwright.wiring.app import App
from toolwright.wiring.gateway import gateway as application_of
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

PARTS = ("/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/docs/start.js")
PATHS = ("/", "/docs", "/openapi.json", *PARTS)
FOLDER = Path(gateway.__file__).with_name("swagger_ui")


async def test_the_page_takes_everything_from_this_server() -> None:
    async with serving() as api:
        page = await api.client.get("/docs")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        taken = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert {f"/{each}" for each in taken if not each.startswith("data:")} == set(PARTS)
        for path in PARTS:
            part = await api.client.get(path)
            assert part.status_code == 200
            kind = "text/css" if path.endswith(".css") else "text/javascript"
            assert part.headers["content-type"] == f"{kind}; charset=utf-8"
            again = await api.client.get(path, headers={"if-none-match": part.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")


async def test_the_page_can_run_no_script_but_its_own_and_cannot_be_framed() -> None:
    async with serving() as api:
        for path in ("/docs", *PARTS):
            headers = (await api.client.get(path)).headers
            rules = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
            assert (rules["default-src"], rules["script-src"], rules["connect-src"]) == (
                "'none'",
                "'self'",
                "'self'",
            )
            assert rules["frame-ancestors"] == "'none'"
            assert headers["x-content-type-options"] == "nosniff"
        assert "<script>" not in (await api.client.get("/docs")).text


async def test_nothing_else_of_the_folder_is_served() -> None:
    async with serving() as api:
        names = {path.name for path in FOLDER.iterdir()} - {path.rpartition("/")[2] for path in PARTS}
        assert "LICENSE" in names
        for name in [*names, "../gateway.py", "%2e%2e%2fgateway.py", "..%2fgateway.py", ""]:
            assert (await api.client.get(f"/docs/{name}")).status_code == 404


async def test_the_root_leads_to_the_page() -> None:
    async with serving() as api:
        answer = await api.client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (307, "docs")
        page = await api.client.get("/", follow_redirects=True)
        assert (page.status_code, page.url.path) == (200, "/docs")


@pytest.mark.parametrize("path", PATHS)
async def test_without_keys_only_pages_and_hosts_of_this_machine_may_read_it(path: str) -> None:
    async with serving() as api:
        for headers in (
            {"Host": "rebound.example"},
            {"Origin": "https://evil.example"},
            {"Via": "1.1 proxy"},
        ):
            assert (await api.client.get(path, headers=headers)).status_code == 403


@pytest.mark.parametrize("path", PATHS[1:])
async def test_with_keys_it_is_for_those_who_have_one_at_whatever_host(path: str) -> None:
    async with serving(secret_keys=("sk",)) as api:
        for key, status in ((None, 401), ("wrong", 401), ("sk", 200)):
            headers = {"Host": "service.example"} | ({} if key is None else {"x-secret-key": key})
            assert (await api.client.get(path, headers=headers)).status_code == status


async def test_with_keys_a_person_may_read_it_too() -> None:
    async with town() as made:
        for headers, status in ((ADA, 200), ({**ADA, "x-public-key": "wrong"}, 401)):
            assert (await made.api.client.get("/openapi.json", headers=headers)).status_code == status


async def test_with_keys_the_root_says_what_the_server_is() -> None:
    async with serving(secret_keys=("sk",)) as api:
        answer = await api.client.get("/")
        assert (answer.status_code, answer.json()["name"]) == (200, "Toolwright")


@pytest.mark.parametrize("path", PATHS)
async def test_with_keys_everybody_may_read_it_where_it_is_open(path: str) -> None:
    async with serving(secret_keys=("sk",), docs="open") as api:
        answer = await api.client.get(path, headers={"Host": "service.example"}, follow_redirects=False)
        assert answer.status_code == (307 if path == "/" else 200)


async def test_a_setting_takes_the_document_and_its_page_away() -> None:
    settings = Settings(
        database_url="memory://", docs=False, secret_keys=("sk_0123456789abcdef",), public_keys=()
    )
    transport = httpx2.ASGITransport(application_of(App(), settings))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path in PATHS[1:]:
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["error"]) == (404, "Not found")
        root = (await client.get("/")).json()
        assert (root["name"], root["health"]) == ("Toolwright", "/health")


def test_the_setting_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, shown in (("off", False), ("false", False), ("0", False), ("on", True), ("open", "open")):
        monkeypatch.setenv("TOOLWRIGHT_DOCS", text)
        assert Settings().docs == shown
    monkeypatch.setenv("TOOLWRIGHT_DOCS", "perhaps")
    with pytest.raises(DefinitionError, match="TOOLWRIGHT_DOCS"):
        Settings()


async def test_behind_a_proxy_the_document_says_below_which_path_the_routes_are() -> None:
    async with serving() as api:
        transport = httpx2.ASGITransport(api.application, root_path="/tools")
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/tools/openapi.json")).json()["servers"] == [{"url": "/tools"}]
        assert "servers" not in await api.get("/openapi.json")


async def test_the_document_is_made_once_and_not_on_the_event_loop() -> None:
    threads: list[int] = []

    class Noted(FastAPI):
        @property
        def description(self) -> str:
            threads.append(threading.get_ident())
            return ""

        @description.setter
        def description(self, _: str) -> None:
            """FastAPI's constructor sets it."""

    app = Noted()
    correct_document(app)
    request = Request({"type": "http", "app": app, "headers": [], "root_path": ""})
    here: Any = None
    await asyncio.gather(docs.describe(here, request), docs.describe(here, request))
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_pages_that_load_scripts_from_elsewhere_are_gone() -> None:
    async with serving() as api:
        for path in ("/redoc", "/docs/oauth2-redirect"):
            assert (await api.client.get(path)).status_code == 404
