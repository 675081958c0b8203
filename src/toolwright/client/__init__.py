"""The client: a server's threads, runs and calls from another program, over HTTP."""

from toolwright.client.client import Client
from toolwright.client.http import Token
from toolwright.client.worker import Worker
from toolwright.core.agents.mind import GoalChange, MemoryChange, PlanChange
from toolwright.wire.agent import Agent, Block, Goal, InboxEvent, Memory, Passage, Plan
from toolwright.wire.call import Call, Offer
from toolwright.wire.decision import Decision
from toolwright.wire.event import Event
from toolwright.wire.message import File, Message, MessageCall, Sent
from toolwright.wire.run import Run, SentPrompt, Step, StepEntry
from toolwright.wire.server import Health, StreamToken
from toolwright.wire.shape import Items
from toolwright.wire.space import Entity, FrontEnd
from toolwright.wire.thread import Compaction, Thread

__all__ = [
    "Agent",
    "Block",
    "Call",
    "Client",
    "Compaction",
    "Decision",
    "Entity",
    "Event",
    "File",
    "FrontEnd",
    "Goal",
    "GoalChange",
    "Health",
    "InboxEvent",
    "Items",
    "Memory",
    "MemoryChange",
    "Message",
    "MessageCall",
    "Offer",
    "Passage",
    "Plan",
    "PlanChange",
    "Run",
    "Sent",
    "SentPrompt",
    "Step",
    "StepEntry",
    "StreamToken",
    "Thread",
    "Token",
    "Worker",
]
