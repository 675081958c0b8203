"""The mind of an agent, kept between its runs: goals, memories and plans (S3 built-in tools)."""

from datetime import datetime

from toolwright.core.value import value


@value
class Goal:
    """Something that the agent wants; `status` and `priority` are the agent's own words."""

    agent_id: str
    id: str
    description: str
    status: str
    priority: str
    created_at: datetime


@value
class Memory:
    """Something that the agent knows, by key."""

    agent_id: str
    key: str
    value: str
    updated_at: datetime


@value
class Plan:
    """Something that the agent is to be reminded of at `next_run_at`, with `cron` again and again.

    `timezone` is an IANA name, in which the fields of `cron` are read.
    """

    agent_id: str
    id: str
    name: str
    instruction: str
    next_run_at: datetime
    cron: str | None = None
    timezone: str | None = None
    created_at: datetime

    @property
    def timer(self) -> str:
        """The name of its timer."""
        return plan_timer(self.agent_id, self.id)


def plan_timer(agent_id: str, plan_id: str) -> str:
    """The name of the timer of that plan."""
    return f"plan:{agent_id}:{plan_id}"
