"""Agents as tools: child threads started, notified, resumed; requests for variables."""
