"""What the end-to-end tests share: a real server under watch, clients of several kinds, a hand-made worker."""
