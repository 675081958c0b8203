"""Head of a run: status, cost, agent, thread and error, and the actions to cancel or retry it."""

from collections.abc import Mapping
from typing import Final

from toolwright.core.threads.run import Run
from toolwright.web.console.dialogs import confirm
from toolwright.web.console.runs.calls import shown_json
from toolwright.web.console.runs.facts import (
    KINDS,
    agent_link,
    agent_name,
    draw_waiting,
    joined,
    price,
    reason,
    span,
    thread_link,
    tokens,
)
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, code, draw_decisions, heading, plain_text, when

_ENDS: Final[Mapping[str, str]] = {
    "end_turn": "Finished",
    "stop_tool": "Finished by a stop tool",
    "max_steps": "Step limit reached",
    "max_seconds": "Time limit reached",
    "session_stop": "Session ended",
    "session_fail": "Session failed",
    "max_tokens": "Answer cut at the output limit",
    "refusal": "Refused by the model",
    "content_filter": "Stopped by the provider's content filter",
    "empty": "Empty answer",
}


class RunHead:
    """The head on the page. Only changed parts are redrawn, so that a form in it is kept."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._run: Run | None = None
        with box("div", "head"):
            self._title = box("div", "row")
            box("div", "fill")
            self._actions = box("div", "row")
        self._dialogs = box("div")  # a question stays while the head is redrawn
        self._error = box("div")
        self._waiting = box("div")
        self._facts = box("div", "card section")
        self._output = box("div")

    async def show(self, run: Run) -> None:
        """Render the current state of the run."""
        was, self._run = self._run, run
        if was == run:
            return
        with self._title.clear():
            heading("Run")
            badge(run.status, KINDS.get(run.status, ""))
            plain_text(reason(run.waiting), "span", "quiet small")
        if was is None or was.status != run.status or was.cancel_requested_at != run.cancel_requested_at:
            self._draw_actions(run)
        with self._error.clear():
            if run.error is not None:
                plain_text(joined(run.error_code or "", run.error), "div", "error section").props["role"] = (
                    "alert"
                )
        if was is None or (was.status, was.waiting) != (run.status, run.waiting):
            with self._waiting.clear():
                await draw_waiting(self._visit, run)
        await self._draw_facts(run)
        await self._draw_output(run)

    def _draw_actions(self, run: Run) -> None:
        with self._actions.clear():
            if not run.over and run.cancel_requested_at is not None:
                plain_text("is being cancelled …", "span", "quiet")
            elif not run.over:
                action("Cancel the run", lambda: self._ask(run.id), kind="danger")
            elif run.status == "failed":
                action("Retry the run", lambda: retry(self._visit, run.id), icon="replay")

    def _ask(self, run_id: str) -> None:
        with self._dialogs:
            ask_to_cancel(self._visit, run_id)

    async def _draw_facts(self, run: Run) -> None:
        name = await agent_name(self._visit, run.agent)
        with self._facts.clear(), box("dl", "facts"):
            _fact("Agent")
            with box("dd"):
                agent_link(self._visit, run.agent, name)
            _fact("Thread")
            with box("dd"):
                thread_link(run.thread_id)
            _fact("Run")
            plain_text(run.id, "dd", "mono")
            _fact("Began")
            with box("dd", "row"):
                when(run.started_at or run.created_at, "")
                took = span(run.started_at, run.completed_at)
                plain_text(f"took {took}" if took else "", "span", "quiet")
            for title, text in (
                ("Steps", str(run.step_count)),
                ("Tokens", tokens(run.usage)),
                ("Cost", price(run.cost)),
                ("End", _ENDS.get(run.stop_reason or "", "")),
                ("Chain depth", str(run.chain_depth) if run.chain_depth else ""),
                ("Recovered", f"{run.lives} times" if run.lives else ""),
            ):
                if text:
                    _fact(title)
                    plain_text(text, "dd")
            if run.decisions:
                _fact("Decided")
                with box("dd"):
                    draw_decisions(run.decisions)
            if run.deps is not None and self._visit.is_service:
                _fact("Deps")
                with box("dd"):
                    code(await shown_json(run.deps))

    async def _draw_output(self, run: Run) -> None:
        text = run.output if isinstance(run.output, str) else await shown_json(run.output)
        with self._output.clear():
            if run.over and run.output is not None and not isinstance(run.output, str):
                plain_text("Output", "h2", "section")
                code(text)


def ask_to_cancel(visit: Visit, run_id: str) -> None:
    """Cancel the run after a confirmation."""

    async def cancel() -> None:
        await visit.permits.run(visit.caller, run_id)
        await visit.runtime.runs.cancel(run_id, by=visit.caller.through("console"))

    confirm(
        visit,
        "Cancel this run?",
        "Cancel the run",
        cancel,
        done="The run is being cancelled.",
        hint="The results so far are kept. A call in progress is cancelled, and its effect is unknown.",
        keep="Keep running",
    )


async def retry(visit: Visit, run_id: str) -> None:
    """Continue the failed run from its last step."""

    async def continued() -> None:
        await visit.permits.run(visit.caller, run_id)
        await visit.runtime.runs.retry(run_id, by=visit.caller.through("console"))

    await visit.act(continued(), "The run is queued again.")


def _fact(title: str) -> None:
    plain_text(title, "dt")
