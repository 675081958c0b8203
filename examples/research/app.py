"""A newsroom: an orchestrator with two resumable researchers, a writer with a reviewer, a prompt and a code tool.

Offline it follows a script: `toolwright serve app:app`, then `python play.py` in another terminal. With
`RESEARCH_MODEL=openai:gpt-6.1-terra` (and that provider's key) a real model leads it.
"""

import json
import os

from script import SCRIPT

import toolwright as tw

MODEL = os.environ.get("RESEARCH_MODEL") or SCRIPT


@tw.tool(description="Looks a figure up in the archive.", read_only=True)
async def archive(name: str) -> dict[str, int]:
    """Figures by year.

    Args:
        name: What is looked for.
    """
    return {"2022": 380, "2023": 400, "2024": 430} if "ferr" in name.lower() else {}


@tw.tool(
    description="Asks the paid news service.",
    variables=[
        tw.Variable("NEWS_KEY", type="secret", scoped=True, description="The key of the news service.")
    ],
    read_only=True,
)
async def news(state: tw.ThreadState, about: str) -> str:
    """The newest headline.

    Args:
        about: What it is about.
    """
    key = await state.env("NEWS_KEY")
    return f"The service knows you (a key of {len(key or '')} characters): a new line for {about} opens in spring."


@tw.tool(description="Runs a TypeScript module and gives what its default export gives.", read_only=True)
async def calculate(state: tw.ThreadState, code: str) -> str:
    """Return the result as JSON.

    Args:
        code: The source of the module.
    """
    outcome = await state.run_code(code, timeout=5.0)
    return json.dumps(outcome.result) if outcome.status == "success" else f"It failed: {outcome.error}"


def exposed(name: str, prompt: tw.Prompt, description: str) -> tw.Agent:
    """Return an agent that others can call."""
    return tw.Agent(name, prompt, expose_as_tool=True, tool_description=description)


figures = exposed(
    "figures",
    tw.Prompt(
        "figures", "You look figures up and calculate with them.", model=MODEL, tools=[archive, calculate]
    ),
    "Knows figures.",
)
headlines = exposed(
    "headlines",
    tw.Prompt("headlines", "You know what is new.", model=MODEL, tools=[news]),
    "Knows the news; needs a key of its own.",
)
article = tw.Agent(
    "article",
    type="dual_ai",
    side_a=tw.Side(
        tw.Prompt("writer", "You write one paragraph, and improve it.", model=MODEL), label="writer"
    ),
    side_b=tw.Side(
        tw.Prompt("reviewer", "You review a paragraph in one sentence.", model=MODEL), label="reviewer"
    ),
    max_session_turns=1,
    expose_as_tool=True,
    tool_description="Writes a paragraph and has it reviewed.",
)
title = tw.Prompt(
    "title",
    "You give a paragraph a title.",
    model=MODEL,
    expose_as_tool=True,
    tool_description="Finds a title.",
)
orchestrator = tw.Prompt(
    "orchestrator",
    "You answer questions with a short article. Ask your researchers first, then have it written and titled.",
    model=MODEL,
    tools=[
        {"name": "figures", "resumable": {"receives_messages": "side_a"}},
        {"name": "headlines", "resumable": {"receives_messages": "side_a"}},
        "article",
        "title",
    ],
)
app = tw.App(
    agents=[tw.Agent("orchestrator", orchestrator), figures, headlines, article],
    prompts=[title],
    tools=[archive, news, calculate],
)
