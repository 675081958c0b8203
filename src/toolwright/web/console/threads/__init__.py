"""Threads as the console shows them: the conversation, where one writes, the family, files and values."""
