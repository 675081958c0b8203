"""The client: a server's threads, runs and calls from another program, over HTTP."""

from toolwright.client.client import Client
from toolwright.client.identity import Token
from toolwright.client.worker import Worker
from toolwright.wire.seen import (
    Agent,
    Call,
    Entity,
    Event,
    File,
    FrontEnd,
    Goal,
    Health,
    InboxEvent,
    Memory,
    Message,
    MessageCall,
    Offer,
    Plan,
    Run,
    Sent,
    Step,
    StepEntry,
    StreamToken,
    Thread,
)

__all__ = [
    "Agent",
    "Call",
    "Client",
    "Entity",
    "Event",
    "File",
    "FrontEnd",
    "Goal",
    "Health",
    "InboxEvent",
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
