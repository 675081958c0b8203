"""The pytest plugin: the fixture `toolwright_runtime`, and the guard against requests to providers."""

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:  # nothing of toolwright is loaded in tests that do not use it
    from collections.abc import AsyncGenerator

    from toolwright.runtime.runtime import Runtime
    from toolwright.wiring.app import App
    from toolwright.wiring.settings import Settings

BLOCK, OPTION, MARKER = "toolwright_block_providers", "--toolwright-block-providers", "toolwright_providers"
_HELP = "Fail each test that would ask a model of a provider."

Begin: TypeAlias = "Callable[..., AbstractAsyncContextManager[Runtime]]"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option, and the setting of the same name."""
    parser.getgroup("toolwright").addoption(OPTION, action="store_true", help=_HELP)
    parser.addini(BLOCK, _HELP, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """The marker; and the guard, where it is wanted."""
    config.addinivalue_line("markers", f"{MARKER}: the test may ask models of providers")
    if config.getoption(BLOCK) or config.getini(BLOCK):
        config.pluginmanager.register(_Guarding(), "toolwright_guard")


class _Guarding:
    """Guards every phase of every test that is not marked."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """The fixtures of a test."""
        return (yield from _guarded(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """The test itself."""
        return (yield from _guarded(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """The end of its fixtures."""
        return (yield from _guarded(item))


def _guarded(item: pytest.Item) -> Generator[None, Any, Any]:
    if item.get_closest_marker(MARKER) is not None:
        return (yield)
    from toolwright.adapters.models.resolve import ProviderGuard  # noqa: PLC0415 - only where it is wanted

    guard = ProviderGuard()
    with guard.on():
        result = yield
    if guard.fault is not None:
        pytest.fail(guard.fault, pytrace=False)
    return result


@pytest.fixture
def toolwright_runtime(request: pytest.FixtureRequest) -> "Begin":
    """Begins runtimes in memory: `async with toolwright_runtime(app, model=…) as rt:`, as `testing.runtime` does.

    No model of a provider is asked in them: the test fails that would, unless it is marked `toolwright_providers`.
    It works with every plugin for async tests.
    """
    from toolwright import testing  # noqa: PLC0415 - only where it is used

    node: pytest.Item = request.node
    if node.get_closest_marker(MARKER) is not None:
        return testing.runtime

    @asynccontextmanager
    async def begin(
        app: "App", settings: "Settings | None" = None, *, model: object | None = None
    ) -> "AsyncGenerator[Runtime]":
        with testing.no_providers():
            async with testing.runtime(app, settings, model=model) as running:
                yield running

    return begin
