"""State and memory of an agent: goals, memories, plans, blocks and passages, each a list with its forms."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, TypeAlias, TypeVar, cast

from nicegui import ui

from toolwright.core.agents.agent import Agent, agent_of_keeper
from toolwright.core.agents.memory import MAX_LABEL, MAX_QUERY, MAX_TAG, MAX_TAGS, Block, Passage
from toolwright.core.agents.mind import (
    MAX_SCHEDULE,
    MAX_TEXT,
    Goal,
    GoalChange,
    Memory,
    MemoryChange,
    Plan,
    PlanChange,
)
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_NAME
from toolwright.core.text import brief
from toolwright.web.console.browsing import Listing
from toolwright.web.console.dialogs import confirm, fill_in
from toolwright.web.console.schema_form import ABSENT, Absence
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import (
    action,
    badge,
    box,
    icon_action,
    link,
    nothing,
    plain_text,
    prose,
    when,
)

T = TypeVar("T")
Save: TypeAlias = Callable[[JSONObject], Awaitable[object]]
_CONTENT: JSONObject = {"type": "string", "title": "Content"}
_READER: JSONObject = {
    "type": "object",
    "properties": {"reader": {"type": "string", "title": "Agent, by name or id", "minLength": 1}},
    "required": ["reader"],
}


class ItemList(Generic[T]):
    """A list of an agent's items: its section on the page, and dialogs after which it is re-read."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit

    async def draw(
        self,
        title: str,
        read: Callable[[int, int], Awaitable[Sequence[T]]],
        show: Callable[[T], object],
        *,
        empty: Callable[[], object],
        new: tuple[str, Callable[[], None]] | None,
        search: Callable[[], object] | None = None,
    ) -> None:
        """Render the section. `new` labels and opens the form of a new item, `search` renders its field."""
        with box("section", "section"):
            with box("div", "head"):
                plain_text(title, "h2")
                box("span", "fill")
                if new is not None:
                    action(new[0], new[1], icon="add")
            if search is not None:
                search()
            self._list = Listing(self._visit, read, show, empty=empty)
            await self._list.show()

    async def show(self, offset: int | None = None) -> None:
        """Re-read the list."""
        await self._list.show(offset)

    def fill_in(
        self,
        title: str,
        schema: JSONObject,
        save: Save,
        *,
        values: JSON | Absence = ABSENT,
        label: str = "Save",
        done: str = "Saved.",
        hint: str = "",
        offset: int | None = None,
    ) -> None:
        """Ask for the fields of the schema, save them, and re-read the list."""

        async def submit(entered: JSONObject) -> None:
            await save(entered)
            await self.show(offset)

        fill_in(self._visit, title, schema, submit, values=values, label=label, done=done, hint=hint)

    def delete(
        self, question: str, label: str, drop: Callable[[], Awaitable[object]], *, done: str, hint: str = ""
    ) -> None:
        """Delete an item after a confirmation, and re-read the list."""

        async def go() -> None:
            await drop()
            await self.show()

        confirm(self._visit, question, label, go, done=done, hint=hint)


def _texts(entered: JSONObject) -> dict[str, str]:
    """Return the fields of a form that were filled in."""
    return {name: str(text) for name, text in entered.items() if text is not None}


_TIME: JSONObject = {"type": "string", "maxLength": MAX_SCHEDULE}
_PLAN: JSONObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": MAX_NAME, "title": "Name"},
        "instruction": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_TEXT,
            "title": "Instruction to the agent",
        },
        "run_after": {**_TIME, "title": "Once, after", "description": "Such as 5 hours or 1h30m."},
        "scheduled_at": {
            **_TIME,
            "title": "Once, at",
            "description": "Such as 2027-03-01T09:00:00+01:00, or with a time zone below.",
        },
        "cron": {
            **_TIME,
            "title": "Repeatedly",
            "description": "Minute, hour, day of month, month, day of week: 0 9 * * 1-5; or @daily.",
        },
        "timezone": {
            **_TIME,
            "title": "Time zone",
            "description": "Such as Europe/Berlin. The default is UTC.",
        },
    },
    "required": ["name", "instruction"],
}


class PlanListView:
    """The plans of an agent, soonest first."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._items: ItemList[Plan] = ItemList(visit)
        self._agent = agent
        self._user_id = user_id
        self._minds = visit.runtime.minds

    async def draw(self) -> None:
        """Render the plans."""
        read = partial(self._minds.plans, self._agent.id, user_id=self._user_id)
        empty = partial(nothing, "No plans", "The agent creates plans with its tools, or you do.")
        # a person's plans are created in their threads
        new = ("New plan", partial(self._edit, None)) if self._user_id is None else None
        await self._items.draw("Plans", read, self._show, empty=empty, new=new)

    def _show(self, plan: Plan) -> None:
        with box("li", "item"):
            with box("div", "fill"):
                with box("div", "row"):
                    plain_text(plan.name, "span", "title")
                    plain_text("next run", "span", "quiet small")
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
        async def save(entered: JSONObject) -> None:
            change = PlanChange(id=None if plan is None else plan.id, **_texts(entered))
            await self._minds.set_plans(self._agent.id, [change])

        values: JSONObject = {}
        hint = "Fill in exactly one of: Once, after; Once, at; Repeatedly."
        if plan is not None:
            values = {"name": plan.name, "instruction": plan.instruction}
            hint = "Leave the times empty to keep the current schedule."
        title = "New plan" if plan is None else "Plan"
        self._items.fill_in(title, _PLAN, save, values=values, hint=hint)

    def _delete(self, plan: Plan) -> None:
        async def drop() -> None:
            await self._minds.drop_plan(self._agent.id, plan.id, user_id=self._user_id)

        self._items.delete(f"Delete the plan {plan.name}?", "Delete", drop, done="Deleted.")


_SHORT: JSONObject = {"type": "string", "maxLength": MAX_NAME}
_TEXT: JSONObject = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
_GOAL: JSONObject = {
    "type": "object",
    "properties": {
        "description": {**_TEXT, "title": "Description"},
        "status": {**_SHORT, "title": "Status", "description": "Any text. The default is active."},
        "priority": {**_SHORT, "title": "Priority", "description": "Any text. The default is medium."},
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
    """The goals of an agent, oldest first."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._items: ItemList[Goal] = ItemList(visit)
        self._agent = agent
        self._user_id = user_id
        self._minds = visit.runtime.minds

    async def draw(self) -> None:
        """Render the goals."""
        read = partial(self._minds.goals, self._agent.id, user_id=self._user_id)
        empty = partial(nothing, "No goals", "The agent sets goals with its tools, or you do.")
        new = ("New goal", partial(self._edit, None))
        await self._items.draw("Goals", read, self._show, empty=empty, new=new)

    def _show(self, goal: Goal) -> None:
        with box("li", "item"):
            with box("div", "fill stack"):
                prose(goal.description)
                with box("div", "row"):
                    badge(brief(goal.status, 40))
                    badge(brief(goal.priority, 40))
                    when(goal.created_at, "quiet small")
            icon_action("edit", "Edit this goal", partial(self._edit, goal))
            icon_action("delete", "Delete this goal", partial(self._delete, goal))

    def _edit(self, goal: Goal | None) -> None:
        async def save(entered: JSONObject) -> None:
            change = GoalChange(id=None if goal is None else goal.id, **_texts(entered))
            await self._minds.set_goals(self._agent.id, [change], user_id=self._user_id)

        values: JSONObject = {}
        if goal is not None:
            values = {"description": goal.description, "status": goal.status, "priority": goal.priority}
        self._items.fill_in("New goal" if goal is None else "Goal", _GOAL, save, values=values)

    def _delete(self, goal: Goal) -> None:
        async def drop() -> None:
            await self._minds.drop_goal(self._agent.id, goal.id, user_id=self._user_id)

        self._items.delete("Delete this goal?", "Delete", drop, done="Deleted.")


class Memories:
    """An agent's memories, by key."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._items: ItemList[Memory] = ItemList(visit)
        self._agent = agent
        self._user_id = user_id
        self._minds = visit.runtime.minds

    async def draw(self) -> None:
        """Render the memories."""
        read = partial(self._minds.memories, self._agent.id, user_id=self._user_id)
        empty = partial(nothing, "No memories", "The agent stores values by key, or you do.")
        new = ("New memory", partial(self._edit, None))
        await self._items.draw("Memories", read, self._show, empty=empty, new=new)

    def _show(self, memory: Memory) -> None:
        with box("li", "item"):
            with box("div", "fill"):
                with box("div", "row"):
                    plain_text(memory.key, "span", "title mono")
                    when(memory.updated_at, "quiet small")
                prose(memory.value)
            icon_action("edit", f"Edit {brief(memory.key, 60)}", partial(self._edit, memory))
            icon_action("delete", f"Delete {brief(memory.key, 60)}", partial(self._delete, memory))

    def _edit(self, memory: Memory | None) -> None:
        async def save(entered: JSONObject) -> None:
            change = MemoryChange(key=str(entered["key"]), value=str(entered["value"]))
            await self._minds.set_memories(self._agent.id, [change], user_id=self._user_id)

        values: JSONObject = {} if memory is None else {"key": memory.key, "value": memory.value}
        hint = "A memory of the same key is replaced."
        self._items.fill_in("Memory", _MEMORY, save, values=values, hint=hint)

    def _delete(self, memory: Memory) -> None:
        async def drop() -> None:
            await self._minds.drop_memory(self._agent.id, memory.key, user_id=self._user_id)

        question = f"Delete the memory {brief(memory.key, 100)}?"
        self._items.delete(question, "Delete", drop, done="Deleted.")


_BLOCK: JSONObject = {"type": "object", "properties": {"content": _CONTENT}, "required": ["content"]}
_NEW_BLOCK: JSONObject = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "title": "Label", "minLength": 1, "maxLength": MAX_LABEL},
        "content": _CONTENT,
    },
    "required": ["label", "content"],
}


class BlockListView:
    """The blocks that an agent reads. Its own can be edited."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._items: ItemList[Block] = ItemList(visit)
        self._agent = agent
        self._user_id = user_id
        self._blocks = visit.runtime.blocks

    async def draw(self) -> None:
        """Render the blocks."""
        read = partial(self._blocks.list, self._agent.id, user_id=self._user_id)
        empty = partial(nothing, "No blocks yet", "The agent writes them, or you do.")
        await self._items.draw("Blocks", read, self._show, empty=empty, new=("New block", self._new))

    def _show(self, block: Block) -> None:
        is_own = agent_of_keeper(block.agent_id) == self._agent.id
        with box("li", "item"), box("div", "fill stack"):
            with box("div", "row"):
                plain_text(block.label, "span", "title")
                if not is_own:
                    badge("another agent's")
                elif block.is_shared:
                    badge("shared", "busy")
                when(block.updated_at, "quiet small")
                box("span", "fill")
                if is_own:
                    self._buttons(block)
                else:
                    link("Its owner", f"/agents/{block.agent_id}?tab=memory", "small")
            prose(block.content)

    def _buttons(self, block: Block) -> None:
        icon_action("edit", f"Edit {brief(block.label, 60)}", partial(self._edit, block))
        if self._user_id is None:
            icon_action("group_add", "Share with an agent", partial(self._share, block))
        if block.is_shared:
            icon_action("group_remove", "Stop sharing with an agent", partial(self._unshare, block))
        icon_action("delete", f"Delete {brief(block.label, 60)}", partial(self._delete, block))

    def _new(self) -> None:
        async def save(entered: JSONObject) -> None:
            await self._blocks.write(
                self._agent.id, str(entered["label"]), str(entered["content"]), user_id=self._user_id
            )

        hint = "Blocks are part of the agent's prompt. A block with the same label is replaced."
        self._items.fill_in("New block", _NEW_BLOCK, save, hint=hint)

    def _edit(self, block: Block) -> None:
        async def save(entered: JSONObject) -> None:
            await self._blocks.write(
                self._agent.id, block.label, str(entered["content"]), user_id=self._user_id
            )

        self._items.fill_in(f"Block {block.label}", _BLOCK, save, values={"content": block.content})

    def _share(self, block: Block) -> None:
        async def save(entered: JSONObject) -> None:
            await self._blocks.link(self._agent.id, block.label, str(entered["reader"]))

        self._items.fill_in(
            f"Share {block.label} with an agent", _READER, save, label="Share", done="Shared."
        )

    def _unshare(self, block: Block) -> None:
        async def save(entered: JSONObject) -> None:
            await self._blocks.unlink(self._agent.id, block.label, str(entered["reader"]))

        title = f"Stop sharing {block.label}"
        self._items.fill_in(title, _READER, save, label="Stop sharing", done="No longer shared.")

    def _delete(self, block: Block) -> None:
        async def drop() -> None:
            await self._blocks.drop(self._agent.id, block.label, user_id=self._user_id)

        hint = "Agents that it is shared with lose it too."
        self._items.delete(f"Delete the block {block.label}?", "Delete", drop, done="Deleted.", hint=hint)


_PASSAGE: JSONObject = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "title": "Content"},
        "tags": {
            "type": "array",
            "title": "Tags",
            "items": {"type": "string", "maxLength": MAX_TAG},
            "maxItems": MAX_TAGS,
        },
    },
    "required": ["content"],
}


class PassageListView:
    """An agent's archive, newest first, or the results of a search."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._visit = visit
        self._items: ItemList[Passage] = ItemList(visit)
        self._agent = agent
        self._user_id = user_id
        self._passages = visit.runtime.passages
        self._query = ""

    async def draw(self) -> None:
        """Render the passages with a search field."""
        new = ("New passage", self._new)
        await self._items.draw(
            "Passages", self._read, self._show, empty=self._none, new=new, search=self._search
        )

    def _search(self) -> None:
        search = ui.input("Search passages", on_change=lambda event: self._look_for(event.value))
        search.props("outlined dense clearable debounce=300").classes("search")
        search.props["data-focus"] = True

    async def _read(self, limit: int, offset: int) -> Sequence[Passage]:
        if not self._query:
            return await self._passages.list(self._agent.id, limit, offset, user_id=self._user_id)
        return await self._passages.search(self._agent.id, self._query, limit, offset, user_id=self._user_id)

    async def _look_for(self, query: str | None) -> None:
        self._query = (query or "").strip()[:MAX_QUERY]
        await self._visit.act(self._items.show(0))

    def _show(self, passage: Passage) -> None:
        with box("li", "item"), box("div", "fill stack"):
            with box("div", "row"):
                for tag in passage.tags:
                    badge(tag)
                when(passage.created_at, "quiet small")
                box("span", "fill")
                icon_action("delete", "Delete this passage", partial(self._delete, passage))
            prose(passage.content)

    def _none(self) -> None:
        if self._query:
            nothing("Nothing found", "A passage matches if it contains every word of the search.")
        else:
            nothing("No passages yet", "The agent stores them, or you do.")

    def _new(self) -> None:
        async def save(entered: JSONObject) -> None:
            tags = cast("list[str]", entered.get("tags") or [])  # guaranteed by the schema
            await self._passages.add(self._agent.id, str(entered["content"]), tags, user_id=self._user_id)

        self._items.fill_in("New passage", _PASSAGE, save, offset=0)

    def _delete(self, passage: Passage) -> None:
        async def drop() -> None:
            await self._passages.drop(self._agent.id, passage.id, user_id=self._user_id)

        self._items.delete("Delete this passage?", "Delete", drop, done="Deleted.")
