"""Load that goes on while a test does other things, with tritonclient and grpcio."""

import threading
import time

import grpc
import numpy as np
import tritonclient.http

from . import wait
from .protocol import oip


class Load:
    """Requests at a rate to a model of two inputs, half by gRPC, half by HTTP, each with numbers of its own.

    Every answer is checked: `output` must be right(a, b)."""

    def __init__(self, server, rate, model="add", output="sum", right=np.add, threads=4):
        self.model, self.output, self.expected = model, output, right
        self.right, self.wrong, self.errors = 0, [], []
        self.server, self.pause = server, threads / rate
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self, i):
        ask = self._grpc() if i % 2 else self._http()
        next(ask)
        due, n = time.monotonic(), 0
        while not self.ended.is_set():
            n += 1
            a = np.array([i, n, -n], np.float32)
            b = np.array([n, 2 * n, 1], np.float32)
            try:
                answer = ask.send((a, b))
                with self.lock:
                    self.right += 1
                if not np.array_equal(answer, self.expected(a, b)):
                    self.wrong.append((a, b, answer))
            except (grpc.RpcError, tritonclient.utils.InferenceServerException) as e:
                self.errors.append(e)
                ask = self._grpc() if i % 2 else self._http()
                next(ask)
            due = max(due + self.pause, time.monotonic() - 1)  # open loop: what is late is caught up
            self.ended.wait(due - time.monotonic())
        ask.close()

    def _grpc(self):
        with oip.Client(self.server.address) as client:
            answer = None
            while True:
                a, b = yield answer
                answer = client.infer(self.model, {"a": a, "b": b})[self.output]

    def _http(self):
        with tritonclient.http.InferenceServerClient(self.server.address) as client:
            answer = None
            while True:
                inputs = [tritonclient.http.InferInput(n, [3], "FP32") for n in "ab"]
                for tensor, value in zip(inputs, (yield answer)):
                    tensor.set_data_from_numpy(value)
                answer = client.infer(self.model, inputs).as_numpy(self.output)

    def run_until(self, condition):
        wait.until(lambda: condition() or self.errors or self.wrong, self.text)

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def text(self):
        return f"{self.right} right; wrong: {self.wrong[:3]}; {len(self.errors)} errors: {self.errors[:3]}"
