"""A program that deploys and calls: its server, what it uploads, following a deploy."""
