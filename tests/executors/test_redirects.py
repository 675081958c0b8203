"""Redirects: our own rules, every hop checked, no credentials sent to another origin (D13)."""

import json
from itertools import pairwise

import pytest

from tests.executors.rig import Bench, answer, as_json, bench

pytestmark = pytest.mark.anyio

HEADERS = {
    "Authorization": "Bearer ${env.KEY}",
    "Cookie": "a=b",
    "X-Tenant": "acme",
    "Content-Type": "application/vnd.x+json",
}
ENV = {"KEY": "very-secret-value"}


def to(location: str, status: str = "302 Found") -> bytes:
    return answer(status, Location=location)


def lead(on: Bench, *paths: str) -> None:
    """Answer each path with a redirect to the next one."""
    for here, there in pairwise(paths):
        on.server.replies[here] = to(there)


async def test_five_redirects_are_followed_and_no_more() -> None:
    async with bench() as on:
        lead(on, "/", "/1", "/2", "/3", "/4", "/5")
        assert (await on.call(method="GET")).result == {"path": "/5"}
        lead(on, "/", "/1", "/2", "/3", "/4", "/5", "/6")
        result = await on.call(method="GET")
        assert (result.error, result.error_code) == (
            "The service redirected more than 5 times.",
            "http_redirects",
        )
        lead(on, "/", "/")
        assert (await on.call()).error_code == "http_redirects"


@pytest.mark.parametrize(
    ("status", "method", "then", "keeps"),
    [
        ("301 Moved Permanently", "POST", "GET", False),
        ("302 Found", "POST", "GET", False),
        ("303 See Other", "POST", "GET", False),
        ("303 See Other", "PUT", "GET", False),
        ("303 See Other", "DELETE", "GET", False),
        ("307 Temporary Redirect", "POST", "POST", True),
        ("308 Permanent Redirect", "PUT", "PUT", True),
        ("302 Found", "PUT", "PUT", True),
        ("301 Moved Permanently", "PATCH", "PATCH", True),
    ],
)
async def test_methods_and_bodies_go_as_the_status_says(
    status: str, method: str, then: str, keeps: bool
) -> None:
    async with bench() as on:
        on.server.replies["/"] = to("/next", status)
        await on.call("/", {"a": 1}, method=method, headers=HEADERS, env=ENV)
        first, second = on.server.received
        assert second.method == then
        assert second.headers["Authorization"] == "Bearer very-secret-value"
        assert second.headers["Idempotency-Key"] == first.headers["Idempotency-Key"]
        assert second.body == (b'{"a":1}' if keeps else b"")
        assert second.headers.get("Content-Type") == ("application/vnd.x+json" if keeps else None)


async def test_no_credentials_go_to_another_origin_nor_come_back() -> None:
    async with bench() as on:
        port = on.server.port
        on.server.replies["/"] = to(f"http://other.test:{port}/there", "307 Temporary Redirect")
        on.server.replies["/there"] = to(f"http://api.test:{port}/back", "307 Temporary Redirect")
        await on.call("/", {"a": 1}, headers=HEADERS, env=ENV)
        first, *others = on.server.received
        assert {"Authorization", "Cookie", "X-Tenant"} <= set(first.headers)
        for got in others:
            assert not {"Authorization", "Cookie", "X-Tenant"} & set(got.headers)
            assert json.loads(got.body) == {"a": 1}
            assert got.headers["Content-Type"] == "application/json"
        assert others[0].headers["Host"] == f"other.test:{port}"


async def test_user_and_password_go_to_no_other_place_either() -> None:
    async with bench() as on:
        port = on.server.port
        on.server.replies["/"] = to(f"http://x:y@other.test:{port}/there")
        await on.call(host="me:pw@api.test")
        assert "Authorization" in on.server.received[0].headers
        assert "Authorization" not in on.server.received[1].headers


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "fd00:ec2::254"])
@pytest.mark.parametrize("trusted", [True, False])
async def test_every_hop_is_validated_also_those_of_trusted_urls(address: str, trusted: bool) -> None:
    async with bench({"inside.test": [[address]]}) as on:
        on.server.replies["/"] = to(f"http://inside.test:{on.server.port}/admin")
        result = await on.call(trusted=trusted)
        assert result.error_code == "address_refused"
        assert result.error == (
            "The target of the service's redirect has an address that is not public; "
            "the operator may allow it with TOOLWRIGHT_HTTP_ALLOW."
        )
        assert len(on.server.received) == 1


async def test_a_trusted_url_is_trusted_at_its_first_hop_only() -> None:
    async with bench({"inside.test": [["127.0.0.1"]]}) as on:
        on.server.replies["/"] = to("/next")
        assert (await on.call(host="inside.test", trusted=True)).error_code == "address_refused"
    async with bench({"inside.test": [["127.0.0.1"]]}, allow=["inside.test"]) as on:
        on.server.replies["/"] = to("/next")
        assert (await on.call(host="inside.test", trusted=True)).result == {"path": "/next"}


async def test_a_name_that_turns_inward_at_a_later_hop_is_refused() -> None:
    async with bench({"rebind.test": [["93.184.216.34"], ["127.0.0.1"]]}) as on:
        on.server.replies["/"] = answer(
            "302 Found", Location=f"http://rebind.test:{on.server.port}/again", Connection="close"
        )
        result = await on.call(host="rebind.test")
        assert result.error_code == "address_refused"
        assert on.wires.dialled == ["93.184.216.34"]


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "gopher://x/",
        "ftp://api.test/",
        "javascript:alert(1)",
        "http://[::1",
        "http://x:99999/",
    ],
)
async def test_invalid_places_are_refused(location: str) -> None:
    async with bench() as on:
        on.server.replies["/"] = to(location)
        result = await on.call("/?k=${env.KEY}", env=ENV)
        assert result.status == "error"
        assert result.error_code in ("http_redirects", "http_unreachable", "http_too_large")
        assert "very-secret-value" not in (result.error or "")
        assert len(on.server.received) == 1


async def test_a_place_that_repeats_a_value_is_not_named() -> None:
    async with bench() as on:
        on.server.replies["/"] = to(f"http://very-secret-value.test:{on.server.port}/")
        result = await on.call("/?k=${env.KEY}", env=ENV)
        assert result.error == (
            "The target of the service's redirect cannot be reached: its name cannot be resolved."
        )


async def test_the_answer_at_the_end_is_the_result() -> None:
    async with bench() as on:
        on.server.replies["/"] = to(f"http://other.test:{on.server.port}/end?x=1#part")
        on.server.replies["/end"] = as_json([1])
        assert (await on.call()).result == [1]
        assert on.server.received[-1].target == "/end?x=1"
        on.server.replies["/end"] = answer("500 Internal Server Error", "no")
        assert (await on.call()).error == "HTTP 500 Internal Server Error: no"
