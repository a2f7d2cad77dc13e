"""A deployment with one slot calls itself."""

from support import calling

from anyserve import serve
from anyserve.serve.exceptions import BackPressureError


@serve.deployment(max_ongoing_requests=1)
class Tree:
    async def __call__(self, depth, width):
        me = serve.get_deployment_handle("Tree", "tree")
        parts = [me.remote(depth - 1, width) for _ in range(width if depth else 0)]
        return 1 + sum([await p for p in parts])


def main():
    tree = serve.run(Tree.bind(), name="tree")
    print(tree.remote(5, 3).result(timeout_s=60), (3**6 - 1) // 2)
    print(tree.remote(16, 1).result(timeout_s=60))
    try:
        tree.remote(17, 1).result(timeout_s=60)
    except BackPressureError as e:  # of the innermost call, through all others
        print("refused:", "calls are nested more than 16 deep" in str(e))
    calling.settle()


main()
