"""Arguments of serve.batch are checked."""

from anyserve import serve


def attempt(**options):
    try:
        @serve.batch(**options)
        async def f(values):
            return values

        return "accepted"
    except Exception as e:
        return type(e).__name__


for options in ({"max_batch_size": 0}, {"max_batch_size": 2.5}, {"max_batch_size": 3.0}, {"max_batch_size": 1},
                {"batch_wait_timeout_s": -1}, {"batch_wait_timeout_s": 0}, {"max_concurrent_batches": 0},
                {"max_concurrent_batches": 2}, {"batch_wait_timeout_s": "1"}):  # fmt: skip
    print(options, attempt(**options))
try:
    @serve.batch
    def sync(values):
        return values

    print("accepted")
except Exception as e:
    print(type(e).__name__)
