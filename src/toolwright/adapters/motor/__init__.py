"""Schedulers: process woken threads."""
