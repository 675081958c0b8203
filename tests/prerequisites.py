"""Programs of the machine that tests need in addition to Python: their paths, or that they are missing."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from deno import find_deno_bin  # type: ignore[import-untyped]  # the wheel has no types

FIND_DENO: Callable[[], str] = find_deno_bin


def missing(why: str, environ: Mapping[str, str] = os.environ) -> NoReturn:
    """Skip the test for that reason; under `CI=true` fail it."""
    if environ.get("CI") == "true":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def deno_program(find: Callable[[], str] = FIND_DENO, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the Deno that is installed by the package's `sandbox` extra."""
    try:
        return Path(find())
    except FileNotFoundError:
        missing("There is no program `deno`: `pip install 'deno>=2.9,<3'` brings it.", environ)
