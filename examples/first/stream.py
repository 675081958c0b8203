import toolwright as tw

agent = tw.Agent("poet", instructions="Write haiku.", model="openai:gpt-6.1-terra")
for event in tw.stream(agent, "About rain, please."):
    if isinstance(event, tw.TextDelta):
        print(event.text, end="", flush=True)
