"""Agents as tools: child threads begun, told of, resumed; requests for values."""
