"""What the end-to-end tests share: a real server under watch (process), clients and peers by hand (protocol), and helpers."""
