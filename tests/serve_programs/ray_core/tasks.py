"""Tasks: results as arguments, lists of references, several results, errors, generators, and waiting."""

import time

import ray

ray.init(ignore_reinit_error=True)


@ray.remote
def add(a, b=1):
    return a + b


@ray.remote
def total(numbers):
    return sum(ray.get(numbers))


@ray.remote(num_returns=3)
def split(text):
    return text.split(",")


@ray.remote
def fails(text):
    raise KeyError(text)


@ray.remote
def slow(seconds, answer):
    time.sleep(seconds)
    return answer


@ray.remote
def count(n):
    for i in range(n):
        yield i * i
    if n > 3:
        raise RuntimeError("too many")


@ray.remote
def factorial(n):
    return 1 if n == 0 else n * ray.get(factorial.remote(n - 1))


print(ray.get(add.remote(1, b=2)))
first = add.remote(1)
print(ray.get(add.remote(first, b=add.remote(first))))
print(ray.get([add.remote(i, i) for i in range(5)]))
print(ray.get(total.remote([add.remote(i) for i in range(4)])))
print(ray.get(list(split.remote("a,b,c"))))
print(ray.get(factorial.remote(5)))
try:
    ray.get(fails.remote("x"))
except KeyError as e:
    print("KeyError", isinstance(e, ray.exceptions.RayTaskError), repr(e.cause), str(e).strip().splitlines()[-1])
try:
    ray.get(add.remote(fails.remote("in an argument"), 1))
except KeyError as e:
    print("KeyError", str(e).strip().splitlines()[-1])
print([ray.get(ref) for ref in count.remote(3)])
seen = []
try:
    for ref in count.remote(5):
        seen.append(ray.get(ref))
except RuntimeError as e:
    print(seen, str(e).strip().splitlines()[-1])

late, early = slow.remote(30, "late"), slow.remote(0.1, "early")
ready, rest = ray.wait([late, early], num_returns=1, timeout=20)
print(ray.get(ready), rest == [late])
ready, rest = ray.wait([late], timeout=0.1)
print(ready, rest == [late])
try:
    ray.get(late, timeout=0.1)
except ray.exceptions.GetTimeoutError as e:
    print("GetTimeoutError", isinstance(e, TimeoutError), e)
ray.cancel(late, force=True)
try:
    ray.get(late, timeout=20)
except (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError) as e:
    print("cancelled")
for wrong in (lambda: add(1), lambda: ray.get(1), lambda: ray.wait(first), lambda: ray.wait([first, first]),
              lambda: add.options(nonsense=1)):  # fmt: skip
    try:
        wrong()
    except Exception as e:
        print(type(e).__name__)
print(ray.get(add.options(num_returns=1, max_retries=0).remote(2, 3)))
ray.shutdown()
