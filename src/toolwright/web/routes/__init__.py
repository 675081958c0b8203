"""The routes, by noun: each parses, authorises, makes one call of the runtime and renders."""
