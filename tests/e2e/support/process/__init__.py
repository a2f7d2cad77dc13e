"""Processes: a real server under watch, commands beside it, and what the kernel tells of them."""
