"""The client: a server's threads, runs and calls from another program, over HTTP."""

from toolwright.client.client import Client
from toolwright.client.transport.http import Token
from toolwright.client.worker import Worker
from toolwright.wire.models.agents import Agent, Goal, Memory, Plan
from toolwright.wire.models.reading import BrokenItem, Items
from toolwright.wire.models.threads import (
    Call,
    Entity,
    Event,
    File,
    FrontEnd,
    Health,
    InboxEvent,
    Message,
    MessageCall,
    Offer,
    Run,
    Sent,
    Step,
    StepEntry,
    StreamToken,
    Thread,
)

__all__ = [
    "Agent",
    "BrokenItem",
    "Call",
    "Client",
    "Entity",
    "Event",
    "File",
    "FrontEnd",
    "Goal",
    "Health",
    "InboxEvent",
    "Items",
    "Memory",
    "Message",
    "MessageCall",
    "Offer",
    "Plan",
    "Run",
    "Sent",
    "Step",
    "StepEntry",
    "StreamToken",
    "Thread",
    "Token",
    "Worker",
]
