"""Code that nobody trusts is run by Deno in most tests of this folder."""

import pytest


@pytest.fixture(autouse=True)
def with_deno(deno: None) -> None:
    """No test waits for a Deno that is not there."""
