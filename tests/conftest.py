"""What all tests share."""

import os

import pytest

from tests.prerequisites import deno_program

# Many tests start processes of their own: those shall find their bytecode, not compile it anew each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio alone."""
    return "asyncio"


@pytest.fixture(scope="session")
def deno() -> None:
    """For tests that run code by Deno: without it they would wait for what such code never says."""
    deno_program()
