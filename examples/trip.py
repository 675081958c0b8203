"""An agent that asks in a space before it books: `toolwright serve trip:app`, for the page confirm.html."""

import toolwright as tw

confirm = tw.Tool(
    name="confirmAction",
    description="Ask the user to confirm an action.",
    kind="space",
    is_async=True,
    parameters={
        "type": "object",
        "properties": {"question": {"type": "string"}},
        "required": ["question"],
    },
)
host = tw.Agent(
    "host",
    instructions="You book hotels. Confirm a booking before you make it.",
    model="openai:gpt-6.1-terra",
    toolkits=["spaces"],
    tools=[confirm],
)
app = tw.App(agents=[host])
