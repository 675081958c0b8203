"""Plans of an agent: what it is reminded of, and when."""

from functools import partial

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.mind import LONGEST_NAME, LONGEST_TEXT, Plan, PlanChange
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
