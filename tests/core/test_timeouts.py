"""The timeout of a call, by its kind (D8)."""

import pytest
from tests.behaviour.marks import requirement

from toolwright.core.errors import DefinitionError
from toolwright.core.tools.tool import Kind, Tool, tool


@requirement("S3-2.1-7")
@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("gateway", 30.0),
        ("external", 30.0),
        ("space", 30.0),
        ("mcp", 30.0),
        ("prompt", None),
        ("agent", None),
        ("delegate", None),
        ("latent", None),
        ("internal", None),
    ],
)
def test_the_timeout_depends_on_the_kind(kind: Kind, seconds: float | None) -> None:
    assert Tool(name="x", description="x", kind=kind).timeout == seconds


def test_a_function_has_five_minutes_unless_it_opts_out() -> None:
    assert tool(name="x", description="x")(lambda: 1).timeout == 300.0
    assert Tool(name="x", description="x", handler=lambda: 1).timeout == 300.0
    assert tool(name="x", description="x", timeout=None)(lambda: 1).timeout is None
    assert Tool(name="x", description="x", kind="mcp", timeout=None).timeout is None


@requirement("S3-2.1-9", "S3-4.2-5")
@pytest.mark.parametrize("kind", ["external", "space"])
def test_a_wait_for_another_task_always_ends(kind: Kind) -> None:
    with pytest.raises(DefinitionError, match="needs a timeout"):
        Tool(name="x", description="x", kind=kind, timeout=None)


@pytest.mark.parametrize("timeout", [10**400, 1e12, float("inf"), True])
def test_a_timeout_is_one_that_a_deadline_can_hold(timeout: float) -> None:
    with pytest.raises(DefinitionError, match="positive number"):
        Tool(name="x", description="x", kind="external", timeout=timeout)
