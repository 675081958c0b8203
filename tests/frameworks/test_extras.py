"""The errors if a framework is not installed."""

import subprocess
import sys

import pytest

CALLS = {
    "pydantic-ai": ("pydantic_ai", "tw.Toolset().for_pydantic_ai()", "tw.Tool.from_pydantic_ai(1)"),
    "openai-agents": ("agents", "tw.Toolset().for_openai_agents()", "tw.Toolset().for_openai_agents()"),
    "langchain": ("langchain_core", "tw.Toolset().for_langchain()", "tw.Tool.from_langchain(1)"),
}


@pytest.mark.parametrize("extra", CALLS)
def test_a_framework_that_is_not_installed_is_named_with_its_extra(extra: str) -> None:
    library, *calls = CALLS[extra]
    script = f"""
import sys
sys.modules[{library!r}] = None  # as if it were not installed
import toolwright as tw
for call in {calls!r}:
    try:
        eval(call)
    except tw.errors.MissingExtra as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.endswith(f"not installed: pip install 'toolwright-agents[{extra}]'.") for line in lines)
