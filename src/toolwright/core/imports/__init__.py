"""Conversations from elsewhere, as messages of a thread: each form, and what all of them share."""
