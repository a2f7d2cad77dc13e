"""What a replica does to its arguments is not seen by the caller, and the other way round."""

from anyserve import serve


class Box:
    def __init__(self, items):
        self.items = items

    def __eq__(self, other):
        return isinstance(other, Box) and self.items == other.items


@serve.deployment
class Changer:
    def __init__(self):
        self.kept = []

    def __call__(self, box):
        box.items.append("changed")
        self.kept.append(box)
        return box

    def last(self):
        return self.kept[-1].items


handle = serve.run(Changer.bind(), name="copies", route_prefix=None)
mine = Box([1])
theirs = handle.remote(mine).result()
print(mine.items, theirs.items, mine == theirs)
theirs.items.clear()
print(handle.last.remote().result())
serve.shutdown()
