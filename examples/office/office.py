"""A room of four agents: they answer in turn, react, stay silent, write to each other and remember.

Offline it follows a script: `python office.py`, with the journal in memory, or `python office.py --db sqlite:///office.db`.
With `OFFICE_MODEL=openai:gpt-6.1-terra` (and that provider's key) each agent uses a real model. `--trace`, which needs
the extra `telemetry`, prints the trace of the last question: runs, their steps, and the calls of these.
"""

import argparse
import asyncio
import os
from typing import TYPE_CHECKING

from script import Script

import toolwright as tw

if TYPE_CHECKING:
    from spans import Spans

MODEL = os.environ.get("OFFICE_MODEL") or Script()
NAMES = ("michael", "jim", "dwight", "angela")
GENERAL, DM = "general", "dm-michael-jim"


def agent(name: str) -> tw.Agent:
    prompt = tw.Prompt(name, f"You are {name.title()}. You work in a small office.", model=MODEL)
    return tw.Agent(name, prompt, toolkits=["channels", "memory"])


app = tw.App(agents=[agent(name) for name in NAMES])


async def set_up(rt: tw.Runtime) -> str:
    """Create the channels and Angela's memory block unless they exist. Return the id of Pam, a person."""
    pam = await rt.entities.create(external_id="pam", display_name="Pam")
    if not await rt.spaces.list():
        await rt.spaces.create(
            "General", "public", id=GENERAL, members=[pam.id, *NAMES], delivery="sequential"
        )
        await rt.spaces.create("Michael and Jim", "dm", id=DM, members=NAMES[:2])
        await rt.blocks.write("angela", "mood", "Busy.")
    return pam.id


class Office:
    """Posts Pam's messages and prints what the agents do, each run and message once."""

    def __init__(self, rt: tw.Runtime, pam: str) -> None:
        self.rt = rt
        self.pam = pam
        self.printed_seq = {GENERAL: 0, DM: 0}
        self.printed_runs: set[str] = set()

    async def say(self, text: str) -> None:
        """Post a message as Pam, and print the runs and messages that follow until no run is open."""
        await self.rt.spaces.say(GENERAL, self.pam, text)
        while new := {run.id for run in await self.rt.runs.list(limit=200)} - self.printed_runs:
            for run_id in sorted(new):
                run = await self.rt.runs.wait(run_id, 60)
                self.printed_runs.add(run.id)
                await self.print_run(run)
        await self.print_messages()

    async def skip_existing(self) -> None:
        """Mark the runs and messages that the journal already has as printed."""
        self.printed_runs = {run.id for run in await self.rt.runs.list(limit=200) if run.over}
        self.printed_seq = {channel: (await self.rt.spaces.get(channel)).seq for channel in self.printed_seq}

    async def print_run(self, run: tw.Run) -> None:
        """Print the calls of a run."""
        name = (await self.rt.agents.get(run.agent)).name
        messages = [
            each for each in await self.rt.threads.messages(run.thread_id, 1_000) if each.run_id == run.id
        ]
        calls = [call.name for message in messages for call in message.calls]
        print(f"  {name:<8} depth {run.chain_depth}: {', '.join(calls) or 'reads it'}")

    async def print_messages(self) -> None:
        """Print the new messages of each channel with their reactions."""
        for channel, seq in self.printed_seq.items():
            for each in await self.rt.spaces.messages(channel, 200, after=seq):
                author = "?" if each.author is None else each.author.display_name
                emojis = "".join(f"  {reaction.emoji}" for reaction in each.reactions)
                print(f"  #{channel:<14} {author}: {each.message.content}{emojis}")
                self.printed_seq[channel] = each.message.seq or seq

    async def print_mood(self) -> None:
        """Print the memory block `mood` as Angela's next prompt contains it."""
        preview = await self.rt.prompts.of("angela", GENERAL)
        [mood] = [section.text for section in preview.sections if section.name == "block:mood"]
        print("  Angela's next prompt:", mood.replace("\n", " "))


async def play(database_url: str, spans: "Spans | None" = None) -> None:
    async with app.runtime(tw.Settings(database_url=database_url)) as rt:
        office = Office(rt, await set_up(rt))
        await office.skip_existing()
        print("A question goes round the room, and on in a direct message:")
        await office.say("A party on Friday! What is the theme?")
        print("Angela remembers:")
        await office.print_mood()
        await office.say("Meredith is allergic to peanuts, by the way.")
        await office.print_mood()
        print("And finds it again:")
        if spans is not None:
            spans.clear()
        await office.say("What can Meredith eat?")
        for passage in await rt.passages.search("angela", "MEREDITH"):
            print(f"  stored: {passage.content} {list(passage.tags)}")
    if spans is not None:
        print("The trace of that:")
        print(spans.tree())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A room of four agents.")
    parser.add_argument("--db", default="memory://", help="URL of the journal, such as sqlite:///office.db")
    parser.add_argument("--trace", action="store_true", help="print the trace of the last question")
    arguments = parser.parse_args()
    if arguments.trace:
        from spans import Spans  # only this needs OpenTelemetry
    asyncio.run(play(arguments.db, Spans() if arguments.trace else None))
