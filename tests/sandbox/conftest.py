"""Untrusted code is run by Deno in most tests of this folder."""

import pytest


@pytest.fixture(autouse=True)
def with_deno(deno: None) -> None:
    """Skip the tests that need Deno if it is missing."""
