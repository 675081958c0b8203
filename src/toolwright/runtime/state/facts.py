"""What a call knows of its thread and its run, for its handler and for built-in tools; nothing here waits or writes."""

from datetime import datetime

from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.journal.effects import Source
from toolwright.core.json_value import JSONObject
from toolwright.core.ports import Clock
from toolwright.core.spaces.entity import Entity
from toolwright.core.threads.call import Call
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tenvs_needed import Lacking
from toolwright.runtime.hold.hold import Hold
from toolwright.runtime.hold.source import source_of


class Facts:
    """The call, where it stands, and who speaks there."""

    __slots__ = ("_call", "_hold")

    def __init__(self, hold: Hold, call: Call) -> None:
        self._hold = hold
        self._call = call

    @property
    def thread(self) -> Thread:
        """The thread, for built-in tools."""
        return self._hold.thread

    @property
    def missing_home_tenvs(self) -> Lacking:
        """What the agent's tools need and its home thread would not have, for built-in tools."""
        voice = self._hold.base
        at_home = voice is None or self._hold.thread.id == home_thread_id_of(self._hold.thread.agent)
        return Lacking() if at_home or voice is None else voice.lacks_at_home

    @property
    def clock(self) -> Clock:
        """The time, for built-in tools."""
        return self._hold.clock

    @property
    def thread_id(self) -> str:
        return self._hold.thread.id

    @property
    def agent_id(self) -> str:
        return self._hold.thread.agent

    @property
    def user_id(self) -> str | None:
        return self._hold.thread.user_id

    @property
    def call_id(self) -> str:
        return self._call.id

    @property
    def created_at(self) -> datetime:
        return self._hold.thread.created_at

    @property
    def arguments(self) -> JSONObject | None:
        return self._hold.thread.arguments

    @property
    def call(self) -> Call:
        """This call, for calls that it makes."""
        return self._call

    @property
    def author(self) -> Entity | None:
        """The agent as an entity, for built-in tools."""
        return self._hold.author

    @property
    def space_id(self) -> str | None:
        """The space that the agent is in, for built-in tools."""
        return self._hold.where.space_id

    @property
    def trigger(self) -> JSONObject | None:
        """The message in a space that the run reads, for built-in tools."""
        return self._hold.where.trigger

    @property
    def chain_depth(self) -> int:
        """How deep the run is in a chain of agents, for built-in tools."""
        return self._hold.run.chain_depth

    @property
    def source(self) -> Source:
        """Whence what the call does in spaces comes, for built-in tools."""
        return source_of(self._hold)

    def clean(self, text: str) -> str:
        """The text without secrets, for built-in tools."""
        return self._hold.redactor.text(text)
