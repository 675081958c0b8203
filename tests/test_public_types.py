"""The public names as a type checker sees them: each is typed, and unknown names are errors."""

from typing import assert_type

import pytest

import toolwright as tw
from toolwright.core.errors import NotFound


def test_all_names_are_typed_and_listed() -> None:
    assert_type(tw.errors.NotFound("x"), NotFound)
    assert_type(tw.testing.ManualClock(), tw.testing.ManualClock)
    assert_type(tw.Settings(), tw.Settings)
    assert_type(tw.App(), tw.App)
    assert {"errors", "testing", "App", "Settings", "run"} <= {*dir(tw)}


def test_a_misspelt_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Setings'"):
        _ = tw.Setings  # type: ignore[attr-defined]  # the type checker finds it too
