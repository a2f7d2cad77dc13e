"""What a server in a container of its own serves: what a worker sees there, processes that it leaves behind, a call that waits
for somebody outside."""

import os
import signal
import subprocess

import numpy as np

from anyserve import AnyServe

app = AnyServe()
CUE = "/run/anyserve/cue"


@app.model("seen")
def seen(path):
    """Who we are, and whether a file can be written there: 0 or an errno."""
    failed = 0
    try:
        os.close(os.open(path[0].decode() + "/written", os.O_WRONLY | os.O_CREAT))
    except OSError as e:
        failed = e.errno
    with open("/proc/self/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f)
    return {"uid": np.array([os.getuid()]), "errno": np.array([failed]), "pid": np.array([os.getpid()]),
            "capabilities": np.array([int(status[k], 16) for k in ("CapEff", "CapPrm", "CapBnd")]),
            "no_new_privileges": np.array([int(status["NoNewPrivs"])])}


def _leave_behind():
    """The pid of a process that nobody here waits for, in a session of its own."""
    said = subprocess.run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"], start_new_session=True, check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout  # fmt: skip
    return int(said)


@app.model("leave")
def leave(n):
    pids = [_leave_behind() for _ in range(int(n[0]))]
    parents = []
    for pid in pids:
        with open(f"/proc/{pid}/stat") as f:
            parents.append(int(f.read().rpartition(")")[2].split()[1]))
    return {"pids": np.array(pids), "parents": np.array(parents)}


@app.model("end")
def end(pids, crash):
    """Ends them, and, if asked to, this worker with them."""
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)
    if crash[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"left": np.array([os.path.exists(f"/proc/{int(pid)}") for pid in pids])}


@app.model("wait")
def wait(n):
    os.mkfifo(CUE)
    with open(CUE) as f:
        f.read()
    return {"n": n}
