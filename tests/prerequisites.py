"""What tests need of the machine beside Python: where it is, or that it is missing."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from deno import find_deno_bin  # type: ignore[import-untyped]  # the wheel has no types

FIND_DENO: Callable[[], str] = find_deno_bin


def missing(why: str, environ: Mapping[str, str] = os.environ) -> NoReturn:
    """The test is skipped for that reason; under `CI=true` it has failed."""
    if environ.get("CI") == "true":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def deno_program(find: Callable[[], str] = FIND_DENO, environ: Mapping[str, str] = os.environ) -> Path:
    """The Deno that comes with the package's `sandbox` extra."""
    try:
        return Path(find())
    except FileNotFoundError:
        missing("There is no program `deno`: `pip install 'deno>=2.9,<3'` brings it.", environ)
