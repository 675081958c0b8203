"""`toolwright chat AGENT`."""

import asyncio
import os
import signal
from contextlib import suppress

from rich.console import Console

from toolwright.cli.chat.conversation import Conversation
from toolwright.cli.chat.view import Lines, View
from toolwright.cli.loop import run
from toolwright.cli.output import Refusal, log_briefly
from toolwright.cli.settings import read_settings, the_app, warn_of_variables
from toolwright.core.errors import NotFound
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.app import App
from toolwright.wiring.lazy import NamedModels
from toolwright.wiring.settings import Settings

ELSEWHERE = "Another process drives this database: it does the work, and text appears when it is whole."
GRACE = 1.0  # seconds for what is at work when the conversation ends; it goes on at the next start


def chat(name: str, model: str | None, target: str | None) -> int:
    """Talk to the agent on the configured database; the exit code."""
    log_briefly()
    warn_of_variables(os.environ)
    app = the_app(target)
    settings = read_settings(**({} if model is None else {"model": model}))
    try:
        agent = app.catalog.agent(name)
    except NotFound as error:
        raise Refusal(error.message) from error
    if model is not None:
        app.catalog = app.catalog.with_model(agent.id, model)
    return run(_chat(app, agent.id, settings))


async def _chat(app: App, agent_id: str, settings: Settings) -> int:
    active = app.catalog.active(agent_id)
    model = active.model or settings.model
    if model is None:
        raise Refusal(
            f"The agent {active.agent.name!r} has no model: give --model, or set TOOLWRIGHT_MODEL.", 1
        )
    if isinstance(model, str):
        await _check(model)
    async with app.runtime(settings, grace=GRACE) as runtime:
        return await _converse(runtime, agent_id, _called(model))


def _called(model: object) -> str:
    return model if isinstance(model, str) else str(getattr(model, "name", type(model).__name__))


async def _check(model: str) -> None:
    """Make the model once, to see now whether that works."""
    models = NamedModels()
    await models(model)
    await models.aclose()


async def _converse(runtime: Runtime, agent_id: str, model: str) -> int:
    console = Console()
    agent = await runtime.agents.get(agent_id)
    thread = await runtime.threads.create(agent_id)
    conversation = Conversation(runtime, thread, View(console, agent.name), console)
    with suppress(NotImplementedError):  # no signal handlers on this system
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, conversation.interrupt)
    here, elsewhere = f"{agent.name} · {model} · {thread.id}", f"{agent.name} · {thread.id}\n{ELSEWHERE}"
    heading = here if runtime.driving else elsewhere
    console.print(heading, style="dim", markup=False, highlight=False, soft_wrap=True)
    lines = Lines()
    lines.start()
    try:
        return await conversation.hold(lines)
    finally:
        lines.stop()
