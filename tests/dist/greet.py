"""The program that first_use.py runs: it starts a server, and calls a function and a class of its own."""

from anyserve import serve


@serve.deployment
class Greeter:
    def __init__(self, word):
        self.word = word

    def __call__(self, name):
        return f"{self.word} {name}"


@serve.deployment
def twice(text):
    return [text, text]


if __name__ == "__main__":
    greeter, repeat = serve.run(Greeter.bind("Hello"), name="greeter"), serve.run(twice.bind(), name="twice", route_prefix=None)
    print(repeat.remote(greeter.remote("world")).result())
