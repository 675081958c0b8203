"""The shapes of what agents keep in mind, for the OpenAPI document; `wire` renders them."""

from datetime import datetime

from toolwright.web.answers.shapes import ListShape, Shape


class GoalShape(Shape):
    """Something that an agent wants; `status` and `priority` are its own words."""

    id: str
    description: str
    status: str
    priority: str


class GoalList(ListShape):
    """Goals, the oldest first."""

    goals: list[GoalShape]


class MemoryShape(Shape):
    """Something that an agent remembers."""

    key: str
    value: str


class MemoryList(ListShape):
    """Memories, by key."""

    memories: list[MemoryShape]


class PlanShape(Shape):
    """A plan; `cron`, read in `timezone`, is there if it runs again and again."""

    id: str
    name: str
    instruction: str
    next_run_at: datetime
    cron: str | None = None
    timezone: str | None = None


class PlanList(ListShape):
    """Plans, the next one first."""

    plans: list[PlanShape]
