"""What a unit does to what an agent keeps in mind: its goals, memories and plans."""

from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.threads.delivery import Delivery
from toolwright.core.value import value


@value
class SetGoal:
    """A goal is new or has changed."""

    goal: Goal


@value
class DropGoal:
    """A goal is given up."""

    agent_id: str
    id: str


@value
class SetMemory:
    """A memory is new or has changed."""

    memory: Memory


@value
class DropMemory:
    """A memory is forgotten."""

    agent_id: str
    key: str


@value
class SetPlan:
    """A plan is new or has changed; its timer is set to its next time."""

    plan: Plan


@value
class DropPlan:
    """A plan is given up, and its timer with it."""

    agent_id: str
    id: str


@value
class FirePlan:
    """A plan's time has come: its event is delivered, `then` is what is left of it, None if it fires but once.

    Only if the plan is still as it was seen; else the guard `plan` fails.
    """

    plan: Plan
    then: Plan | None
    delivery: Delivery
