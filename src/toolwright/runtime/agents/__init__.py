"""Agents as they are kept, configured and woken: home threads, plans, inboxes, system prompts."""
