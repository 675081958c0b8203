"""One Chromium for all tests of this folder, and separate pages for each test."""

import gc
import os
from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, BrowserContext, async_playwright, expect

from tests.browser.chromium import CHROMIUM, FLAGS, found

PATIENCE = 60_000  # milliseconds, for a busy machine: half of the timeout of a test


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """One event loop for all tests, since they share the browser's connection."""
    return "asyncio"


@pytest.fixture(scope="session")
async def browser(anyio_backend: str) -> AsyncGenerator[Browser]:
    """Chromium without a window."""
    executable = found(CHROMIUM, os.environ)
    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as playwright:
        yield await playwright.chromium.launch(executable_path=executable, args=FLAGS)


@pytest.fixture
async def context(browser: Browser) -> AsyncGenerator[BrowserContext]:
    """A browser context without data of other tests, and with a bounded timeout."""
    gc.collect()
    gc.freeze()  # a starting console scans all objects that are not frozen, which takes a second
    async with await browser.new_context(viewport={"width": 800, "height": 700}) as opened:
        opened.set_default_timeout(PATIENCE)
        yield opened
