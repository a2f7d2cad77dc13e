"""Handlers on cue: each handler that calls apps/cue.py becomes a scene, which the test sees begin and lets end."""

import json
import os
import socket
import threading

from . import wait


class Scene:
    """One handler that waits."""

    def __init__(self, sock):
        self._sock = sock
        self._file = sock.makefile()
        hello = json.loads(self._file.readline())
        self.tag, self.pid = hello["tag"], hello["pid"]

    def go(self, word="go"):
        self._sock.sendall(f"{word}\n".encode())

    def last_word(self):
        """What the handler said before it ended: "cancelled", or nothing."""
        self._sock.settimeout(wait.SECONDS)
        try:
            return self._file.read().strip()
        except ConnectionResetError:
            return ""

    def close(self):
        self._file.close()
        self._sock.close()


class Stage:
    def __init__(self, folder):
        self.path = os.path.join(folder, "stage")
        self.scenes = []  # in the order in which their handlers began
        self._news = threading.Condition()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(256)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                scene = Scene(self._listener.accept()[0])
            except OSError:
                return
            except ValueError:
                continue  # it died before it said a word
            with self._news:
                self.scenes.append(scene)
                self._news.notify_all()

    def started(self, n, seconds=wait.SECONDS):
        """The first n scenes, as soon as there are n."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.scenes) >= n, seconds), \
                f"{len(self.scenes)} of {n} handlers began: {[s.tag for s in self.scenes]}"
            return self.scenes[:n]

    def tags(self):
        return [s.tag for s in self.scenes]

    def reset(self):
        for scene in self.scenes:
            scene.close()
        self.scenes = []

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()
        os.unlink(self.path)
