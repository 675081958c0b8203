"""What all tests share."""

import os

import pytest

# Many tests start processes of their own: those shall find their bytecode, not compile it anew each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio alone."""
    return "asyncio"
