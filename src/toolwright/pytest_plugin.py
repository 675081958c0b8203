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
_HELP = "Fail each test that sends a request to a model of a provider."

Begin: TypeAlias = "Callable[..., AbstractAsyncContextManager[Runtime]]"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line option, and the ini setting for the same purpose."""
    parser.getgroup("toolwright").addoption(OPTION, action="store_true", help=_HELP)
    parser.addini(BLOCK, _HELP, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the guard if the option or the setting is on."""
    config.addinivalue_line("markers", f"{MARKER}: the test may send requests to models of providers")
    if config.getoption(BLOCK) or config.getini(BLOCK):
        config.pluginmanager.register(_ProviderGuardPlugin(), "toolwright_guard")


class _ProviderGuardPlugin:
    """Blocks models of providers in every phase of every test without the marker."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Guard the setup of a test's fixtures."""
        return (yield from _guarded(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Guard the test itself."""
        return (yield from _guarded(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Guard the teardown of its fixtures."""
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
    """Open a runtime in memory: `async with toolwright_runtime(app, model=…) as rt:`, see `testing.runtime`.

    The test fails if a run sends a request to a model of a provider, unless the test is marked `toolwright_providers`.
    The fixture works with every plugin for async tests.
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
