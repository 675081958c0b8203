import toolwright as tw


def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


agent = tw.Agent("counter", model="openai:gpt-6.1-terra", tools=[count_words])
if __name__ == "__main__":
    print(tw.run_sync(agent, "How many words has 'to be or not to be'?").output)
