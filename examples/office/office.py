"""A room of four agents: they answer in turn, react, stay silent, write to each other and remember.

Offline it follows a script: `python office.py`, with the journal in memory, or `python office.py --db sqlite:///office.db`.
With `OFFICE_MODEL=openai:gpt-5` (and that provider's key) a real model speaks for each of them. With `--trace`, which
needs the extra `telemetry`, the trace of the last question is printed: runs, their steps, and the calls of these.
"""

import argparse
import asyncio
import os
from typing import TYPE_CHECKING

from script import Script

import toolwright as tw
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime

if TYPE_CHECKING:
    from spans import Spans

MODEL = os.environ.get("OFFICE_MODEL") or Script()
NAMES = ("michael", "jim", "dwight", "angela")
GENERAL, DM = "general", "dm-michael-jim"


def agent(name: str) -> tw.Agent:
    prompt = tw.Prompt(name, f"You are {name.title()}. You work in a small office.", model=MODEL)
    return tw.Agent(name, prompt, toolkits=["channels", "memory"])


app = tw.App(agents=[agent(name) for name in NAMES])


async def furnish(rt: Runtime) -> str:
    """The channels, once, and what Angela is like; the id of Pam, a person."""
    pam = await rt.entities.create(external_id="pam", display_name="Pam")
    if not await rt.spaces.list():
        await rt.spaces.create(
            "General", "public", id=GENERAL, members=[pam.id, *NAMES], delivery="sequential"
        )
        await rt.spaces.create("Michael and Jim", "dm", id=DM, members=NAMES[:2])
        await rt.blocks.write("angela", "mood", "Busy.")
    return pam.id


class Office:
    """The room at work, and how much of it has been printed."""

    def __init__(self, rt: Runtime, pam: str) -> None:
        self.rt = rt
        self.pam = pam
        self.read = {GENERAL: 0, DM: 0}
        self.over: set[str] = set()

    async def hear(self, text: str) -> None:
        """Pam says something; what comes of it is printed when all are silent."""
        await self.rt.spaces.say(GENERAL, self.pam, text)
        while left := {run.id for run in await self.rt.runs.list(limit=200)} - self.over:
            for run_id in sorted(left):
                run = await self.rt.runs.wait(run_id, 60)
                self.over.add(run.id)
                await self.print_run(run)
        await self.print_messages()

    async def skip(self) -> None:
        """What the journal had before is not printed."""
        self.over = {run.id for run in await self.rt.runs.list(limit=200) if run.over}
        self.read = {channel: (await self.rt.spaces.get(channel)).seq for channel in self.read}

    async def print_run(self, run: Run) -> None:
        """What an agent did in a run, call by call."""
        name = (await self.rt.agents.get(run.agent)).name
        messages = [
            each for each in await self.rt.threads.messages(run.thread_id, 1_000) if each.run_id == run.id
        ]
        made = [call.name for message in messages for call in message.calls]
        print(f"  {name:<8} depth {run.chain_depth}: {', '.join(made) or 'reads it'}")

    async def print_messages(self) -> None:
        """What was said since, by channel, with the reactions."""
        for channel, read in self.read.items():
            for each in await self.rt.spaces.messages(channel, 200, after=read):
                who = "?" if each.author is None else each.author.display_name
                emojis = "".join(f"  {reaction.emoji}" for reaction in each.reactions)
                print(f"  #{channel:<14} {who}: {each.message.content}{emojis}")
                self.read[channel] = each.message.seq or read

    async def print_mood(self) -> None:
        """What Angela's next prompt will tell her of herself."""
        told = await self.rt.prompts.of("angela", GENERAL)
        [mood] = [section.text for section in told.sections if section.name == "block:mood"]
        print("  Angela's next prompt:", mood.replace("\n", " "))


async def play(database_url: str, spans: "Spans | None" = None) -> None:
    async with app.runtime(tw.Settings(database_url=database_url)) as rt:
        office = Office(rt, await furnish(rt))
        await office.skip()
        print("A question goes round the room, and on in a direct message:")
        await office.hear("A party on Friday! What is the theme?")
        print("Angela remembers:")
        await office.print_mood()
        await office.hear("Meredith is allergic to peanuts, by the way.")
        await office.print_mood()
        print("And finds it again:")
        if spans is not None:
            spans.forget()
        await office.hear("What can Meredith eat?")
        for passage in await rt.passages.search("angela", "MEREDITH"):
            print(f"  stored: {passage.content} {list(passage.tags)}")
    if spans is not None:
        print("The trace of that:")
        print(spans.tree())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A room of four agents.")
    parser.add_argument("--db", default="memory://", help="url of the journal, such as sqlite:///office.db")
    parser.add_argument("--trace", action="store_true", help="print the trace of the last question")
    arguments = parser.parse_args()
    if arguments.trace:
        from spans import Spans  # only this needs OpenTelemetry
    asyncio.run(play(arguments.db, Spans() if arguments.trace else None))
