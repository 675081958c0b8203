"""The smallest app: one tool, one agent.

export TOOLWRIGHT_MODEL=openai:gpt-6.1-terra OPENAI_API_KEY=…
toolwright chat assistant
"""

from datetime import date

import toolwright as tw


@tw.tool(read_only=True)
def days_until(day: str) -> int:
    """Count the days from today until a date.

    Args:
        day: The date, as in 2030-12-31.
    """
    return (date.fromisoformat(day) - date.today()).days  # noqa: DTZ011 - the user's own calendar


assistant = tw.Agent("assistant", instructions="You are brief.", tools=[days_until])
app = tw.App(agents=[assistant])
