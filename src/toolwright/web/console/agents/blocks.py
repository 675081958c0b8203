"""Core memory blocks of an agent: read, written, shared with other agents."""

from functools import partial

from toolwright.core.agents.agent import Agent, agent_of_keeper
from toolwright.core.agents.memory import LONGEST_LABEL, Block
from toolwright.core.json_value import JSONObject
from toolwright.core.text import brief
from toolwright.web.console.browsing import Listing
from toolwright.web.console.dialogs import confirm, fill_in
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, icon_action, link, nothing, prose, when, words

_CONTENT: JSONObject = {"type": "string", "title": "Content"}
_BLOCK: JSONObject = {"type": "object", "properties": {"content": _CONTENT}, "required": ["content"]}
_NEW_BLOCK: JSONObject = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "title": "Label", "minLength": 1, "maxLength": LONGEST_LABEL},
        "content": _CONTENT,
    },
    "required": ["label", "content"],
}
_READER: JSONObject = {
    "type": "object",
    "properties": {"reader": {"type": "string", "title": "Agent, by name or id", "minLength": 1}},
    "required": ["reader"],
}


class Blocks:
    """The blocks that an agent reads, its own to be changed."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._visit = visit
        self._agent = agent
        self._user_id = user_id
        self._blocks = visit.runtime.blocks

    async def draw(self) -> None:
        """Draw them."""
        with box("section", "section"):
            with box("div", "head"):
                words("Blocks", "h2")
                box("span", "fill")
                action("New block", self._new, icon="add")
            read = partial(self._blocks.list, self._agent.id, user_id=self._user_id)
            self._list = Listing(self._visit, read, self._show, empty=_no_blocks)
            await self._list.show()

    def _show(self, block: Block) -> None:
        own = agent_of_keeper(block.agent_id) == self._agent.id
        with box("li", "item"), box("div", "fill stack"):
            with box("div", "row"):
                words(block.label, "span", "title")
                if not own:
                    badge("another agent's")
                elif block.is_shared:
                    badge("shared", "busy")
                when(block.updated_at, "quiet small")
                box("span", "fill")
                if own:
                    self._buttons(block)
                else:
                    link("Its owner", f"/agents/{block.agent_id}?tab=memory", "small")
            prose(block.content)

    def _buttons(self, block: Block) -> None:
        icon_action("edit", f"Edit {brief(block.label, 60)}", partial(self._edit, block))
        if self._user_id is None:
            icon_action("group_add", "Let another agent read it", partial(self._share, block))
        if block.is_shared:
            icon_action("group_remove", "Let an agent read it no longer", partial(self._unshare, block))
        icon_action("delete", f"Delete {brief(block.label, 60)}", partial(self._delete, block))

    def _new(self) -> None:
        async def take(entered: JSONObject) -> None:
            await self._blocks.write(
                self._agent.id, str(entered["label"]), str(entered["content"]), user_id=self._user_id
            )
            await self._list.show()

        hint = "A block stands in the agent's prompt. One of this label is replaced."
        fill_in(self._visit, "New block", _NEW_BLOCK, take, hint=hint)

    def _edit(self, block: Block) -> None:
        async def take(entered: JSONObject) -> None:
            await self._blocks.write(
                self._agent.id, block.label, str(entered["content"]), user_id=self._user_id
            )
            await self._list.show()

        fill_in(self._visit, f"Block {block.label}", _BLOCK, take, values={"content": block.content})

    def _share(self, block: Block) -> None:
        async def take(entered: JSONObject) -> None:
            await self._blocks.link(self._agent.id, block.label, str(entered["reader"]))
            await self._list.show()

        fill_in(self._visit, f"Who is to read {block.label}?", _READER, take, label="Share", done="Shared.")

    def _unshare(self, block: Block) -> None:
        async def take(entered: JSONObject) -> None:
            await self._blocks.unlink(self._agent.id, block.label, str(entered["reader"]))
            await self._list.show()

        title = f"Who is to read {block.label} no longer?"
        fill_in(self._visit, title, _READER, take, label="Take it away", done="They read it no longer.")

    def _delete(self, block: Block) -> None:
        async def go() -> None:
            await self._blocks.drop(self._agent.id, block.label, user_id=self._user_id)
            await self._list.show()

        hint = "Agents that read it lose it too."
        confirm(self._visit, f"Delete the block {block.label}?", "Delete", go, done="Deleted.", hint=hint)


def _no_blocks() -> None:
    nothing("No blocks yet", "The agent writes them, or you do.")
