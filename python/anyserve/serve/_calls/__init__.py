"""How calls of handles leave this process."""
