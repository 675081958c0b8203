"""Agents: stored, configured and woken, with home threads, plans, inboxes and system prompts."""
