#!/usr/bin/env python3
"""The include law of the house, checked over the #include lines of src/ and python/src/.

A layer, a folder of src/, includes only itself and what lies below it along a line of the picture in
docs/ARCHITECTURE.md; a room, a folder of a layer, only what ROOMS gives it of its layer, without circles. A part, a folder
of a room, groups files that may include any other file of the room. No file includes itself through others. A .c file that has a header of its own includes it first, which proves that the header can
be read alone. System headers that bring descriptors, threads or a clock stay out of the layers that promise to have none.

A function is declared in the room that defines it. So what is called by name lies in the same room or below; upwards a
call goes through a pointer only: callbacks, and the tables in UPWARDS, which a room declares and a room above defines.
The walk of a request, a table of docs/architecture/request.md, names at most WALK_MAX rooms, and functions that are there.

Prints every offending line; exit code 1 if there is one.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')

BELOW = {
    "base": [],
    "io": ["base"],
    "wire": ["base"],
    "core": ["base"],
    "link": ["io", "wire", "core", "base"],
    "edge": ["link", "io", "wire", "core", "base"],
    "conf": ["wire", "core", "base"],
    "ctl": ["conf", "link", "io", "wire", "core", "base"],
    "tool": ["ctl", "conf", "io", "wire", "core", "base"],
    "app": ["tool", "ctl", "conf", "edge", "link", "io", "wire", "core", "base"],
    "python": [],
}
# A room, a folder inside a layer, includes itself and these rooms of its layer. What stands in the layer's own folder
# (its command line, the edge itself) may include every room of it.
ROOMS = {
    "app/client": [],
    "app/commands": ["app/client", "app/options"],
    "app/controller": ["app/options"],
    "app/dispatcher": ["app/options"],
    "app/options": [],
    "app/server": ["app/client", "app/controller", "app/options"],
    "base/container": ["base"],
    "base/digest": ["base"],
    "base/memory": ["base", "base/container"],
    "conf/option": [],
    "conf/spec": ["conf/option"],
    "core/autoscale": [],
    "core/dispatch": ["core/protect", "core/queue", "core/route"],
    "core/keys": [],
    "core/protect": ["core/replicas"],
    "core/queue": [],
    "core/registry": ["core/queue"],
    "core/replicas": [],
    "core/route": [],
    "ctl/message": [],
    "ctl/output": ["ctl/message"],
    "ctl/reconcile": ["ctl/message", "ctl/output", "ctl/state", "ctl/worker"],
    "ctl/state": ["ctl/message"],
    "ctl/supervise": ["ctl/message", "ctl/output", "ctl/state"],
    "ctl/worker": ["ctl/message", "ctl/state", "ctl/supervise"],
    "edge/admin": ["edge", "edge/exchange", "edge/rest"],
    "edge/conn": ["edge"],
    "edge/exchange": ["edge", "edge/conn"],
    "edge/grpc": ["edge/exchange"],
    "edge/infer": ["edge/exchange", "edge/grpc", "edge/rest"],
    "edge/ingress": ["edge/exchange", "edge/rest", "edge/websocket"],
    "edge/methods": ["edge/admin", "edge/exchange", "edge/grpc", "edge/infer", "edge/ingress", "edge/rest", "edge/service", "edge/triton"],
    "edge/rest": ["edge/exchange"],
    "edge/service": ["edge/exchange", "edge/grpc"],
    "edge/triton": ["edge/exchange", "edge/infer", "edge/rest"],
    "edge/websocket": ["edge/exchange"],
    "io/loop": [],
    "io/process": [],
    "io/tls": ["io/loop"],
    "io/socket": ["io/loop"],
    "link/call": [],
    "link/fleet": ["link/call", "link/plugin"],
    "link/plugin": [],
    "link/native": ["link/call", "link/fleet", "link/transport"],
    "link/simple": ["link/call", "link/fleet"],
    "link/transport": [],
    "link/worker": ["link", "link/transport"],
    "tool/bench": ["tool", "tool/call", "tool/tensor"],
    "tool/call": ["tool", "tool/server", "tool/tensor"],
    "tool/server": [],
    "tool/simulate": [],
    "tool/tensor": [],
    "wire/frame": ["wire"],
    "wire/grpc": ["wire", "wire/h2", "wire/protobuf"],
    "wire/h1": ["wire/http"],
    "wire/h2": ["wire/http"],
    "wire/http": [],
    "wire/json": ["wire"],
    "wire/management": ["wire", "wire/json", "wire/protobuf"],
    "wire/oip": ["wire", "wire/frame", "wire/http", "wire/json", "wire/protobuf"],
    "wire/protobuf": [],
    "wire/triton": ["wire", "wire/json", "wire/protobuf"],
    "wire/ws": ["wire", "wire/frame", "wire/http"],
}
# Tables of operations that one room declares and calls, and a room above defines.
UPWARDS = {
    "as_exchange_http": ("edge/exchange", "edge/rest"),
    "as_exchange_ops": ("edge/conn", "edge/exchange"),
    "as_grpc_methods": ("edge/exchange", "edge/methods"),
    "as_rest_client_metrics": ("edge/rest", "edge/methods"),
    "as_rest_ingress": ("edge/rest", "edge/ingress"),
    "as_rest_tables": ("edge/rest", "edge/methods"),
    "as_upstream_native": ("link/fleet", "link/native"),
    "as_upstream_simple": ("link/fleet", "link/simple"),
}
WALK = ROOT / "docs/architecture/request.md"
WALK_MAX = 10
# base/memory/pages is an allocator: it maps anonymous memory, never a descriptor.
ALLOWED = {("src/base/memory/pages.c", "sys/mman.h")}
UV = {"io", "link", "edge", "ctl", "tool", "app"}
# base promises no I/O, wire no descriptors, core neither descriptors nor a clock. (signal.h and
# sys/wait.h are let in for the numbers that they name.)
PURE = {"base", "wire", "core"}
IMPURE = re.compile(r"(unistd|fcntl|poll|pthread|threads|time)\.h|"
                    r"sys/(socket|mman|epoll|eventfd|un|time)\.h|linux/.*|netinet/.*|arpa/.*")


def layer_of(path):
    parts = path.relative_to(ROOT).parts
    return "python" if parts[0] == "python" else parts[1]


def room_of(path):
    """"edge/grpc", also of a file in one of its parts, "edge/grpc/x"; of a file in the layer's own folder "edge"."""
    return "/".join(path.parent.relative_to(ROOT / "src").parts[:2])


def room_fault(room, other):
    if "/" not in room or other == room:
        return None
    if room not in ROOMS:
        return f"{room} has no place among the rooms of its layer"
    return None if other in ROOMS[room] else f"{room} may not know {other}"


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        m = INCLUDE.match(line)
        if m:
            yield number, line.strip(), m[1] == "<", m[2]


def resolve(path, name):
    """The file of ours that a quoted name means: below src/, else beside the file; else None."""
    for candidate in (ROOT / "src" / name, path.parent / name):
        if candidate.is_file():
            return candidate.resolve()
    return None


def system_fault(path, name):
    layer = layer_of(path)
    if name == "uv.h" and layer not in UV:
        return f"{layer} may not know libuv"
    if name.startswith("nghttp2/") and path.parent != ROOT / "src/wire/h2":
        return "only wire/h2 knows nghttp2"
    if name == "uthash.h" and path != ROOT / "src/core/route/hash.h":
        return "only core/route/hash.h knows uthash"
    if name.startswith("wslay/") and path.parent != ROOT / "src/wire/ws":
        return "only wire/ws knows wslay"
    if (name.endswith(".pb-c.h") or name.startswith("protobuf-c/")) and layer != "wire" and \
            (name, room_of(path)) != ("state.pb-c.h", "ctl/message"):
        return "only wire knows generated protobuf code, and ctl/message that of proto/state.proto"
    if name == "zlib.h" and path != ROOT / "src/wire/http/gzip.c":
        return "only wire/http/gzip knows zlib"
    if name == "Python.h" and layer != "python":
        return "only python/src knows Python"
    if layer in PURE and IMPURE.fullmatch(name) and (str(path.relative_to(ROOT)), name) not in ALLOWED:
        return f"{layer} has no descriptors, threads or clock"
    return None


def own_fault(path, name, target):
    layer = layer_of(path)
    if target is None:
        return "no such file of ours (system headers go in <>)"
    if not target.is_relative_to(ROOT / "src") and layer != "python":
        return "outside src/"
    other = layer_of(target)
    if other != layer and other not in BELOW[layer]:
        return f"{layer} may not know {other}"
    if layer == other != "python" and room_fault(room_of(path), room_of(target)):
        return room_fault(room_of(path), room_of(target))
    if layer != "python" and "/" not in name:
        return f'write "{layer}/{name}"'
    return None


def check_file(path, graph):
    """Faults of one file's lines; records its edges in graph."""
    faults = []
    rows = list(includes(path))
    for number, line, is_system, name in rows:
        if is_system:
            fault = system_fault(path, name)
        else:
            target = resolve(path, name)
            fault = own_fault(path, name, target)
            if target:
                graph.setdefault(path, []).append((number, target))
        if fault:
            faults.append((path, number, line, fault))
    own = path.with_suffix(".h")
    if path.suffix == ".c" and own.exists() and rows:
        number, line, _, name = rows[0]
        # Python.h must come before any other header: its own rule.
        if name != "Python.h" and resolve(path, name) != own.resolve():
            faults.append((path, number, line, f"{own.name} must be the first include"))
    return faults


def find_cycles(graph):
    done, stack, faults = set(), [], []

    def walk(path):
        stack.append(path)
        for number, target in graph.get(path, []):
            if target in stack:
                chain = " -> ".join(p.name for p in stack[stack.index(target):] + [target])
                faults.append((path, number, "", f"circle: {chain}"))
            elif target not in done:
                walk(target)
        stack.pop()
        done.add(path)

    for path in sorted(graph):
        if path not in done:
            walk(path)
    return faults


def circle_of_rooms():
    """A room that reaches itself by ROOMS, as a fault; the layers' own folders, which may include all rooms, aside."""
    reach = {room: {r for r in others if "/" in r} for room, others in ROOMS.items()}
    for middle in reach:
        for room in reach:
            if middle in reach[room]:
                reach[room] |= reach[middle]
    return [(Path(__file__).resolve(), 1, "", f"{room} is in a circle of rooms") for room in reach if room in reach[room]]


FUNCTION = re.compile(r"^(?!static|typedef|#|\s|/|\*)[\w\s*]*?\b(as_\w+)\([^;{}]*?\)\s*(?:AS_\w+(?:\([^)]*\))?\s*)?([;{])", re.M)
TABLE = re.compile(r"^(extern )?const struct ([^;={(]*)(\s*=|;)", re.M)


def names_of(files):
    """(name, path, line, is it a definition) of each function and constant table that files of src share."""
    for path in files:
        if layer_of(path) == "python":
            continue
        text = path.read_text()
        for m in FUNCTION.finditer(text):
            yield m[1], path, text.count("\n", 0, m.start(1)) + 1, m[2] == "{"
        for m in TABLE.finditer(text):
            for name in re.findall(r"\b(as_\w+)(?=\s*(?:\[[^]]*\]\s*)*(?:,|$))", m[2]):
                yield name, path, text.count("\n", 0, m.start()) + 1, not m[1]


def misplaced_declarations(files):
    rows = list(names_of(files))
    home = {name: room_of(path) for name, path, _, defined in rows if defined}
    faults, upwards = [], {}
    for name, path, number, defined in rows:
        if defined or path.suffix != ".h" or home.get(name, room_of(path)) == room_of(path):
            continue
        upwards[name] = (room_of(path), home[name])
        if UPWARDS.get(name) != upwards[name]:
            faults.append((path, number, name, f"declared here, defined in {home[name]}"))
    return faults + [(Path(__file__).resolve(), 1, name, "no such table") for name in UPWARDS if name not in upwards]


def walk_faults():
    """The table of the page: room | file and its functions | …; functions stand behind their file."""
    faults, rooms = [], []
    for number, line in enumerate(WALK.read_text().splitlines(), 1):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if not re.fullmatch(r"\d+", cells[0]) or not re.fullmatch(r"`[\w/]+`", cells[1]):
            continue
        room, file = cells[1].strip("`"), None
        rooms.append(room)
        folder = ROOT / (room if room.startswith("python/") else "src/" + room)
        for word in re.findall(r"`([\w.]+)`", " ".join(cells[2:4])):
            if word.endswith(".c"):
                file = folder / word
                if not file.is_file():
                    faults.append((WALK, number, word, f"no such file in {room}"))
            elif file and file.is_file() and not re.search(rf"^\w.*\b{word}\([^;]*$", file.read_text(), re.M):
                faults.append((WALK, number, word, f"not defined in {file.name}"))
    if not 1 < len(rooms) <= WALK_MAX or len(rooms) != len(set(rooms)):
        faults.append((WALK, 1, "", f"the walk has {len(rooms)} rooms, {len(set(rooms))} different ones; at most {WALK_MAX}"))
    return faults


def main():
    files = sorted(p for top in ("src", "python/src") if (ROOT / top).exists()
                   for p in (ROOT / top).rglob("*") if p.suffix in (".c", ".h", ".cc", ".hh"))
    graph, faults = {}, []
    for path in files:
        if layer_of(path) not in BELOW:
            faults.append((path, 1, "", "folder without a place in the picture"))
            continue
        faults += check_file(path, graph)
    faults += find_cycles(graph) + circle_of_rooms() + misplaced_declarations(files) + walk_faults()
    for path, number, line, fault in faults:
        print(f"{path.relative_to(ROOT)}:{number}: {fault}" + (f": {line}" if line else ""))
    print(f"layers: {len(files)} files, {len(faults)} faults")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
