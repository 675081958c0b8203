"""The timers by which tasks of MCP servers are asked about."""

from datetime import datetime, timedelta

from toolwright.core.journal.effects import Effect, SetTimer
from toolwright.core.journal.mcp_effects import SetMcpTask
from toolwright.core.mcp.records import McpTask, task_timer
from toolwright.core.results.result import RemoteTask
from toolwright.core.threads.call import Call

LEAST, MOST = 0.2, 60.0
"""Seconds between two questions about a task, whatever its server says."""
USUAL = 1.0  # where it says nothing


def next_look(now: datetime, seconds: float | None) -> datetime:
    """The time of the next question, after so many seconds as the server has said."""
    return now + timedelta(seconds=min(max(USUAL if seconds is None else seconds, LEAST), MOST))


def follow(
    call: Call, agent_id: str, task: RemoteTask, space_id: str | None, now: datetime
) -> tuple[Effect, ...]:
    """Effects by which the task of a call is asked about from now on; its questions are shown in that space."""
    row = McpTask(
        call_id=call.id,
        thread_id=call.thread_id,
        agent_id=call.agent or agent_id,
        server=task.server,
        task_id=task.id,
        created_at=now,
        output=task.output,
        place=task.place,
        session=task.session,
        space_id=space_id,
    )
    return (SetMcpTask(task=row), SetTimer(name=task_timer(call.id), due=next_look(now, task.poll)))
