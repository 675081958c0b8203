import toolwright as tw


@tw.tool(requires_approval=True)
def pay(to: str, euros: int) -> str:
    """Pay a person."""
    return f"Paid {euros} euros to {to}."


agent = tw.Agent("clerk", model="openai:gpt-6.1-terra", tools=[pay])
print(tw.run_sync(agent, "Pay Ann 5 euros.", approve=lambda call: input(f"{call.arguments}? ") == "y").output)
