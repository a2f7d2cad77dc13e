"""Local testing mode: errors, user_config, options that are not possible there."""

from anyserve import serve


@serve.deployment(user_config={"v": 3})
class Model:
    def reconfigure(self, config):
        self.v = config["v"]

    def __call__(self, x):
        if x < 0:
            raise ValueError("negative")
        return x * self.v


handle = serve.run(Model.bind(), _local_testing_mode=True)
print(handle.remote(2).result())
try:
    handle.remote(-1).result()
except ValueError as e:
    print(str(e).strip().splitlines()[-1])
try:
    handle.nothing.remote().result()
except Exception as e:
    print("refused")
