import toolwright as tw

agent = tw.Agent("poet", instructions="Write haiku.", model="openai:gpt-5-mini")
for event in tw.stream(agent, "About rain, please."):
    if isinstance(event, tw.TextDelta):
        print(event.text, end="", flush=True)
