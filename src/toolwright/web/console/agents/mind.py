"""The mind of an agent: goals, memories and plans."""

from functools import partial

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.mind import (
    LONGEST_NAME,
    LONGEST_TEXT,
    Goal,
    GoalChange,
    Memory,
    MemoryChange,
    Plan,
    PlanChange,
)
from toolwright.core.agents.schedule import LONGEST_SCHEDULE
from toolwright.core.json_value import JSONObject
from toolwright.core.text import brief
from toolwright.web.console.browsing import Listing
from toolwright.web.console.dialogs import confirm, fill_in
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, icon_action, link, nothing, prose, when, words

_TIME: JSONObject = {"type": "string", "maxLength": LONGEST_SCHEDULE}
_PLAN: JSONObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "title": "Name"},
        "instruction": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_TEXT,
            "title": "What the agent is told",
        },
        "run_after": {**_TIME, "title": "Once, after", "description": "Such as 5 hours or 1h30m."},
        "scheduled_at": {
            **_TIME,
            "title": "Once, at",
            "description": "Such as 2027-03-01T09:00:00+01:00, or with a time zone below.",
        },
        "cron": {
            **_TIME,
            "title": "Again and again",
            "description": "Minute, hour, day of month, month, day of week: 0 9 * * 1-5; or @daily.",
        },
        "timezone": {**_TIME, "title": "Time zone", "description": "Such as Europe/Berlin; else UTC."},
    },
    "required": ["name", "instruction"],
}


class Plans:
    """The plans of an agent, the next one first."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._visit = visit
        self._agent = agent
        self._user_id = user_id
        self._minds = visit.runtime.minds

    async def draw(self) -> None:
        """Draw them."""
        with box("section", "section"):
            with box("div", "head"):
                words("Plans", "h2")
                box("span", "fill")
                if self._user_id is None:  # a person's plans are made in their threads
                    action("New plan", partial(self._edit, None), icon="add")
            read = partial(self._minds.plans, self._agent.id, user_id=self._user_id)
            empty = partial(nothing, "Nothing is planned", "The agent plans by its tools, or you do.")
            self._list = Listing(self._visit, read, self._show, empty=empty)
            await self._list.show()

    def _show(self, plan: Plan) -> None:
        with box("li", "item"):
            with box("div", "fill"):
                with box("div", "row"):
                    words(plan.name, "span", "title")
                    words("next run", "span", "quiet small")
                    when(plan.next_run_at, "small")
                    if plan.cron is not None:
                        badge(f"{plan.cron} {plan.timezone or 'UTC'}", "busy")
                prose(plan.instruction)
                if plan.thread_id is not None:
                    link("Its thread", f"/threads/{plan.thread_id}", "small")
            if self._user_id is None:
                icon_action("edit", f"Edit {brief(plan.name, 60)}", partial(self._edit, plan))
            icon_action("delete", f"Delete {brief(plan.name, 60)}", partial(self._delete, plan))

    def _edit(self, plan: Plan | None) -> None:
        async def take(entered: JSONObject) -> None:
            texts = {name: str(text) for name, text in entered.items() if text is not None}
            change = PlanChange(id=None if plan is None else plan.id, **texts)
            await self._minds.set_plans(self._agent.id, [change])
            await self._list.show()

        values: JSONObject = {}
        hint = "Say one of: once after, once at, again and again."
        if plan is not None:
            values = {"name": plan.name, "instruction": plan.instruction}
            hint = "Without a new time the plan keeps its own."
        title = "New plan" if plan is None else "Plan"
        fill_in(self._visit, title, _PLAN, take, values=values, hint=hint)

    def _delete(self, plan: Plan) -> None:
        async def go() -> None:
            await self._minds.drop_plan(self._agent.id, plan.id, user_id=self._user_id)
            await self._list.show()

        confirm(self._visit, f"Delete the plan {plan.name}?", "Delete", go, done="Deleted.")


_SHORT: JSONObject = {"type": "string", "maxLength": LONGEST_NAME}
_TEXT: JSONObject = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
_GOAL: JSONObject = {
    "type": "object",
    "properties": {
        "description": {**_TEXT, "title": "What it wants"},
        "status": {**_SHORT, "title": "Status", "description": "In the agent's own words; active at first."},
        "priority": {**_SHORT, "title": "Priority", "description": "The same; medium at first."},
    },
    "required": ["description"],
}
_MEMORY: JSONObject = {
    "type": "object",
    "properties": {
        "key": {**_SHORT, "title": "Key", "minLength": 1},
        "value": {**_TEXT, "title": "Value"},
    },
    "required": ["key", "value"],
}


class Goals:
    """The goals of an agent, the oldest first."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._visit = visit
        self._agent = agent
        self._user_id = user_id
        self._minds = visit.runtime.minds

    async def draw(self) -> None:
        """Draw them."""
        with box("section", "section"):
            with box("div", "head"):
                words("Goals", "h2")
                box("span", "fill")
                action("New goal", partial(self._edit, None), icon="add")
            read = partial(self._minds.goals, self._agent.id, user_id=self._user_id)
            empty = partial(nothing, "No goals", "The agent sets them by its tools, or you do.")
            self._list = Listing(self._visit, read, self._show, empty=empty)
            await self._list.show()

    def _show(self, goal: Goal) -> None:
        with box("li", "item"):
            with box("div", "fill stack"):
                prose(goal.description)
                with box("div", "row"):
                    badge(brief(goal.status, 40))
                    badge(brief(goal.priority, 40))
                    when(goal.created_at, "quiet small")
            icon_action("edit", "Edit this goal", partial(self._edit, goal))
            icon_action("delete", "Give this goal up", partial(self._delete, goal))

    def _edit(self, goal: Goal | None) -> None:
        async def take(entered: JSONObject) -> None:
            texts = {name: str(text) for name, text in entered.items() if text is not None}
            change = GoalChange(id=None if goal is None else goal.id, **texts)
            await self._minds.set_goals(self._agent.id, [change], user_id=self._user_id)
            await self._list.show()

        values: JSONObject = {}
        if goal is not None:
            values = {"description": goal.description, "status": goal.status, "priority": goal.priority}
        fill_in(self._visit, "New goal" if goal is None else "Goal", _GOAL, take, values=values)

    def _delete(self, goal: Goal) -> None:
        async def go() -> None:
            await self._minds.drop_goal(self._agent.id, goal.id, user_id=self._user_id)
            await self._list.show()

        confirm(self._visit, "Have the agent give up this goal?", "Give up", go, done="Given up.")


class Memories:
    """What an agent remembers, by key."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._visit = visit
        self._agent = agent
        self._user_id = user_id
        self._minds = visit.runtime.minds

    async def draw(self) -> None:
        """Draw them."""
        with box("section", "section"):
            with box("div", "head"):
                words("Memories", "h2")
                box("span", "fill")
                action("New memory", partial(self._edit, None), icon="add")
            read = partial(self._minds.memories, self._agent.id, user_id=self._user_id)
            empty = partial(nothing, "Nothing is remembered", "The agent keeps values by key, or you do.")
            self._list = Listing(self._visit, read, self._show, empty=empty)
            await self._list.show()

    def _show(self, memory: Memory) -> None:
        with box("li", "item"):
            with box("div", "fill"):
                with box("div", "row"):
                    words(memory.key, "span", "title mono")
                    when(memory.updated_at, "quiet small")
                prose(memory.value)
            icon_action("edit", f"Edit {brief(memory.key, 60)}", partial(self._edit, memory))
            icon_action("delete", f"Forget {brief(memory.key, 60)}", partial(self._delete, memory))

    def _edit(self, memory: Memory | None) -> None:
        async def take(entered: JSONObject) -> None:
            change = MemoryChange(key=str(entered["key"]), value=str(entered["value"]))
            await self._minds.set_memories(self._agent.id, [change], user_id=self._user_id)
            await self._list.show()

        values: JSONObject = {} if memory is None else {"key": memory.key, "value": memory.value}
        hint = "A memory of the same key is replaced."
        fill_in(self._visit, "Memory", _MEMORY, take, values=values, hint=hint)

    def _delete(self, memory: Memory) -> None:
        async def go() -> None:
            await self._minds.drop_memory(self._agent.id, memory.key, user_id=self._user_id)
            await self._list.show()

        question = f"Have the agent forget {brief(memory.key, 100)}?"
        confirm(self._visit, question, "Forget", go, done="Forgotten.")
