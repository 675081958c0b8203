"""Every error has a status."""

import pytest

from toolwright.core.errors import ToolwrightError
from toolwright.web.answers import STATUSES, status_of


def below(error: type[ToolwrightError]) -> list[type[ToolwrightError]]:
    return [each for child in error.__subclasses__() for each in (child, *below(child))]


@pytest.mark.parametrize("error", below(ToolwrightError), ids=lambda error: error.__name__)
def test_every_error_has_a_status(error: type[ToolwrightError]) -> None:
    assert any(each in STATUSES for each in error.__mro__)
    assert 400 <= status_of(error) < 600
