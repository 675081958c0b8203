"""The client: a server's threads, runs and calls from another program, over HTTP."""

from toolwright.client.client import Client
from toolwright.client.identity import Token
from toolwright.client.worker import Worker
from toolwright.wire.reading import BrokenItem, Items
from toolwright.wire.seen import (
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
from toolwright.wire.seen_agents import Agent, Goal, Memory, Plan

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
