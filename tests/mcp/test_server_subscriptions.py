"""Subscriptions of hosts: a changed file of the app is reported, and subscriptions have limits."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated

import mcp
import toolwright as tw
from tests.mcp.server_rig import hosting
from toolwright.web.auth.access import TokenIdentity
from toolwright.web.mcp.calls import ToolCalls
from toolwright.web.mcp.resources import Resources
from toolwright.web.mcp.subscriptions import MAX_STREAMS, MAX_URIS, Subscriptions

pytestmark = pytest.mark.anyio
MODERN = "2026-07-28"


def app(folder: Path, **more: Any) -> tw.App:  # arguments of `mcp_server`
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("first", encoding="utf-8")
    resources = {"docs://a": folder / "a.txt", "docs://b": folder / "b.txt", "docs://text": "Fixed."}
    return tw.App(mcp_server={"resources": resources, **more})


async def subscribe(client: mcp.Client, uri: str) -> None:
    """Send the request whose method of the client is deprecated."""
    params = mcp_types.SubscribeRequestParams(uri=uri)
    await client.session.send_request(mcp_types.SubscribeRequest(params=params), mcp_types.EmptyResult)


async def unsubscribe(client: mcp.Client, uri: str) -> None:
    params = mcp_types.UnsubscribeRequestParams(uri=uri)
    await client.session.send_request(mcp_types.UnsubscribeRequest(params=params), mcp_types.EmptyResult)


class Changes:
    """Collects the notifications of a session, and changes a file until one has arrived."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._arrived = asyncio.Event()

    async def __call__(self, message: object) -> None:
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            self.uris.append(message.params.uri)
            self._arrived.set()

    async def after(self, path: Path) -> list[str]:
        """Change the file until a notification has arrived: the session's stream can open after its first answers."""
        self.uris.clear()
        self._arrived.clear()
        while not self._arrived.is_set():
            await asyncio.to_thread(_lengthen, path)
            await asyncio.wait([asyncio.ensure_future(self._arrived.wait())], timeout=5)
        return list(dict.fromkeys(self.uris))


def _lengthen(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(".")


async def test_a_session_is_told_of_the_files_that_it_subscribed_to(tmp_path: Path) -> None:
    changes = Changes()
    async with hosting(app(tmp_path)) as host, host.client("legacy", message_handler=changes) as client:
        assert client.server_capabilities.resources == mcp_types.ResourcesCapability(
            subscribe=True, list_changed=False
        )
        for uri in ("docs://a", "docs://a", "docs://b", "docs://text"):
            await subscribe(client, uri)
        assert await changes.after(tmp_path / "a.txt") == ["docs://a"]
        await unsubscribe(client, "docs://a")
        await unsubscribe(client, "docs://never")
        await changes.after(tmp_path / "b.txt")  # what was sent about the other file before has arrived, too
        (tmp_path / "a.txt").write_text("again", encoding="utf-8")
        assert await changes.after(tmp_path / "b.txt") == ["docs://b"]
        (tmp_path / "b.txt").unlink()
        with pytest.raises(MCPError) as refused:
            await subscribe(client, "docs://unknown")
        assert refused.value.code == -32002


async def test_a_file_is_polled_that_is_subscribed_to_right_after_the_last_subscription_ended(
    tmp_path: Path,
) -> None:
    told = asyncio.Queue[str]()

    def offers(*_: object) -> bool:
        return True

    parts: Any = SimpleNamespace(permissions=app(tmp_path).mcp_server, offers=offers)
    subscriptions = Subscriptions(parts, Resources(parts, ToolCalls(parts)))
    async with AsyncExitStack() as stack:
        connection = SimpleNamespace(state={}, exit_stack=stack)
        session = SimpleNamespace(_connection=connection, send_resource_updated=told.put)
        context: Any = SimpleNamespace(session=session)
        follow = mcp_types.SubscribeRequestParams(uri="docs://a")
        await subscriptions.subscribe(context, follow)
        await subscriptions.unsubscribe(context, mcp_types.UnsubscribeRequestParams(uri="docs://a"))
        await subscriptions.subscribe(context, follow)
        _lengthen(tmp_path / "a.txt")
        assert await asyncio.wait_for(told.get(), 60) == "docs://a"


async def test_a_stream_is_told_of_the_files_that_it_asked_for(tmp_path: Path) -> None:
    async with hosting(app(tmp_path)) as host, host.client(MODERN) as client:
        asked = ["docs://a", "docs://text", "docs://unknown", "docs://a"]
        async with client.listen(tools_list_changed=True, resource_subscriptions=asked) as changes:
            honored = mcp_types.SubscriptionFilter(resource_subscriptions=["docs://a", "docs://text"])
            assert changes.honored == honored
            (tmp_path / "b.txt").write_text("second", encoding="utf-8")
            (tmp_path / "a.txt").write_text("second", encoding="utf-8")
            assert await anext(aiter(changes)) == ResourceUpdated("docs://a")


async def test_no_list_is_declared_to_change(tmp_path: Path) -> None:
    async with hosting(app(tmp_path)) as host, host.wire(MODERN) as wire:
        declared = (await wire.request("server/discover"))["result"]["capabilities"]
    fixed = {"listChanged": False}
    assert declared["resources"] == {"subscribe": True, **fixed}
    assert (declared["tools"], declared["prompts"], declared["completions"]) == (fixed, fixed, {})


async def test_both_revisions_have_limits(tmp_path: Path) -> None:
    resources = {f"docs://{n}": "Fixed." for n in range(MAX_URIS + 1)}
    many = tw.App(mcp_server={"resources": resources})
    async with hosting(many) as host:
        async with host.client("legacy") as client:
            *first, last = resources
            for uri in first:
                await subscribe(client, uri)
            with pytest.raises(MCPError, match=f"A session subscribes to at most {MAX_URIS} resources"):
                await subscribe(client, last)
            await unsubscribe(client, first[0])
            await subscribe(client, last)
        async with host.client(MODERN) as client, AsyncExitStack() as streams:
            with pytest.raises(MCPError, match=f"A stream subscribes to at most {MAX_URIS} resources"):
                await streams.enter_async_context(client.listen(resource_subscriptions=[*resources]))
            for _ in range(MAX_STREAMS):
                await streams.enter_async_context(client.listen(resource_subscriptions=[last]))
            with pytest.raises(MCPError, match=f"A caller has at most {MAX_STREAMS} streams"):
                await streams.enter_async_context(client.listen(resource_subscriptions=[last]))
            await streams.aclose()
            await opened_again(client, last)


async def opened_again(client: mcp.Client, uri: str) -> None:
    """Open a stream as soon as the server has noticed that the others have ended."""
    while True:
        try:
            async with client.listen(resource_subscriptions=[uri]):
                return
        except MCPError:
            await asyncio.sleep(0.01)


def polling() -> "list[asyncio.Task[Any]]":
    return [task for task in asyncio.all_tasks() if task.get_name() == "toolwright-mcp-resources"]


@pytest.mark.parametrize("uri", ["docs://a", "docs://text"])
async def test_files_are_polled_only_while_a_host_subscribes_to_them(uri: str, tmp_path: Path) -> None:
    async with hosting(app(tmp_path)) as host:
        for ends_the_session in (False, True):
            async with host.client("legacy") as client:
                await subscribe(client, uri)
                tasks = polling()
                assert len(tasks) == (uri == "docs://a")
                if not ends_the_session:
                    await unsubscribe(client, uri)
            if tasks:
                await asyncio.wait(tasks)
        async with host.client(MODERN) as client:
            async with client.listen(resource_subscriptions=[uri]):
                tasks = polling()
                assert len(tasks) == (uri == "docs://a")
            if tasks:
                await asyncio.wait(tasks)


async def test_people_subscribe_to_what_they_may_read(tmp_path: Path) -> None:
    async def verify(token: str) -> TokenIdentity:
        return TokenIdentity(external_id=token, until=None)

    options: dict[str, Any] = {"public_keys": ("pk",), "verify_token": verify}
    async with hosting(app(tmp_path, people=["docs://b"]), **options) as host:
        await host.rt.entities.create(external_id="ada")
        headers = {"x-public-key": "pk", "authorization": "Bearer ada"}
        async with host.client("legacy", headers) as client:
            await subscribe(client, "docs://b")
            with pytest.raises(MCPError):
                await subscribe(client, "docs://a")
        asked = ["docs://a", "docs://b"]
        async with (
            host.client(MODERN, headers) as client,
            client.listen(resource_subscriptions=asked) as changes,
        ):
            assert changes.honored.resource_subscriptions == ["docs://b"]
