"""Protocols by hand: clients of the server, and the peers that it talks to."""
