import toolwright as tw

critic = tw.Agent("critic", instructions="Find the weakest word.", model="openai:gpt-6.1-terra")
poet = tw.Agent("poet", model="openai:gpt-6.1-terra", tools=[critic.as_tool("Criticizes a verse.")])
if __name__ == "__main__":
    print(tw.run_sync(poet, "A verse about rain; ask the critic first.").output)
