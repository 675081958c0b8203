"""A log line for each request, without private data."""

import logging

import pytest

from tests.api.rig import serving
from tests.api.town import ADA, SERVICE, town

pytestmark = pytest.mark.anyio


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "toolwright.access"]


async def test_a_request_is_a_line_without_its_query_and_its_keys(caplog: pytest.LogCaptureFixture) -> None:
    async with town() as made:
        with caplog.at_level(logging.INFO, logger="toolwright.access"):
            await made.api.client.get("/api/threads?token=hidden&limit=2", headers=SERVICE)
            await made.get("/api/threads/none", ADA, 404)
            await made.api.client.get("/api/runs/a%0aGET%20/api/forged", headers={"x-secret-key": "wrong"})
            await made.api.client.get("/health")
        ada = made.ids["ada"]
    said = [" ".join(word for word in line.split(" ") if word != "ms") for line in lines(caplog)]
    parts = [line.split(" ") for line in said]
    assert [(each[0], each[1], each[2], *each[4:]) for each in parts[:2] + parts[3:]] == [
        ("GET", "/api/threads", "400", "127.0.0.1", "service"),
        ("GET", "/api/threads/none", "404", "127.0.0.1", f"person:{ada}"),
        ("GET", "/health", "200", "127.0.0.1", "-"),
    ]
    assert r"/api/runs/a\nGET /api/forged 404" in said[2]
    assert "hidden" not in caplog.text
    assert "wrong" not in caplog.text


async def test_disabled_log_lines_cost_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as api:
        with caplog.at_level(logging.WARNING, logger="toolwright.access"):
            await api.get("/health")
    assert lines(caplog) == []


@pytest.mark.parametrize(
    ("headers", "status", "caller"),
    [
        ({}, "401", "-"),
        ({"x-secret-key": "wrong"}, "401", "-"),
        ({"x-public-key": "pk"}, "401", "-"),
        ({**ADA, "authorization": "Bearer wrong"}, "401", "-"),
        ({"x-secret-key": "sk-of-the-scraper"}, "403", "service:scraper"),
        ({"x-secret-key": "sk-of-the-backend"}, "200", "service:backend"),
        (SERVICE, "200", "service"),
    ],
)
async def test_a_caller_is_named_once_they_are_known_and_not_before(
    caplog: pytest.LogCaptureFixture, headers: dict[str, str], status: str, caller: str
) -> None:
    keys = ("sk", "scraper(metrics)=sk-of-the-scraper", "backend(all)=sk-of-the-backend")
    async with town(secret_keys=keys) as made:
        with caplog.at_level(logging.INFO, logger="toolwright.access"):
            await made.api.client.get("/api/threads", headers=headers)
    [line] = lines(caplog)
    assert line.startswith(f"GET /api/threads {status} ")
    assert line.endswith(f" ms 127.0.0.1 {caller}")
    assert "sk-of" not in line


async def test_behind_a_proxy_the_address_is_that_of_its_client(caplog: pytest.LogCaptureFixture) -> None:
    async with town() as made:
        with caplog.at_level(logging.INFO, logger="toolwright.access"):
            forwarded = {**SERVICE, "x-forwarded-for": "203.0.113.9"}
            await made.api.client.get("/api/threads", headers=forwarded)
    [line] = lines(caplog)
    assert line.endswith(" ms 203.0.113.9 service")
