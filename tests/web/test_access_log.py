"""A line for each request, in which nothing stands that is nobody's business."""

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
    said = [" ".join(word for word in line.split(" ") if word != "ms") for line in lines(caplog)]
    parts = [line.split(" ") for line in said]
    assert [(each[0], each[1], each[2], each[-1]) for each in parts[:2] + parts[3:]] == [
        ("GET", "/api/threads", "400", "service"),
        ("GET", "/api/threads/none", "404", "person"),
        ("GET", "/health", "200", "-"),
    ]
    assert r"/api/runs/a\nGET /api/forged 404" in said[2]
    assert "hidden" not in caplog.text
    assert "wrong" not in caplog.text


async def test_nobody_pays_for_lines_that_nobody_wants(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as api:
        with caplog.at_level(logging.WARNING, logger="toolwright.access"):
            await api.get("/health")
    assert lines(caplog) == []
