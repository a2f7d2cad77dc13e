#!/usr/bin/env python3
"""Writes docs/guide/api.md, the reference of the Python package, out of its docstrings; --check only compares.

usage: tools/gen_api.py FOLDER [--check]      FOLDER: a build's python folder, which has the package with its extension
"""

import inspect
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/guide/api.md"
# Without an underscore, but for the package itself.
INTERNAL = {"AnyServe.deployments", "AnyServe.home", "AnyServe.models", "Tensor.check_labels", "Tensor.served_shape"}
HEAD = """# The Python package

Everything that `import anyserve` offers, out of its docstrings (`tools/gen_api.py` writes this page). How the parts are used
together: [a first server](serving.md).
"""


def prose(doc):
    """A docstring as Markdown: parameters become a list, indented blocks code."""
    text = re.sub(r":\w+:`", "`", inspect.cleandoc(doc or "").replace("``", "`"))
    # "name: what it means", with its continuation indented
    text = re.sub(r"(?m)^([a-z_]\w*(?:, [a-z_]\w*)*): ((?:.*)(?:\n    .*)*)", lambda m: f"- `{m[1]}`: " + m[2].replace("\n    ", "\n  "), text)
    text = re.sub(r"(?m)^([^-\n ].*)\n- `", r"\1\n\n- `", text)
    text = re.sub(r"(?m)^((?:- `|  )\S.*)\n(?=[^- \n])", r"\1\n\n", text)
    out, code = [], False
    for line in text.split("\n"):
        if line.startswith("    ") and not code and (not out or not out[-1].strip()):
            out.append("```python fragment")
            code = True
        elif code and line.strip() and not line.startswith("    "):
            while not out[-1].strip():
                out.pop()
            out += ["```", ""]
            code = False
        out.append(line[4:] if code else line)
    if code:
        out.append("```")
    return "\n".join(out).strip()


def signature(name, value):
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return name
    text = re.sub(r"\((self|cls)(, )?(/, )?", "(", text, count=1)
    text = re.sub(r"'([A-Za-z_][\w.\[\], ]*)'", r"\1", text)
    return name + text.replace("typing.", "").replace("anyserve.", "")


def block(level, title, call, doc):
    parts = ["#" * level + " " + title]
    if call:
        parts.append(f"```text\n{call}\n```")
    if doc:
        parts.append(prose(doc))
    return "\n\n".join(parts) + "\n"


def members(cls):
    """Own public methods and attributes that have a docstring, in the order of their definition."""
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        raw = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        doc = inspect.getdoc(raw)
        if not doc or "Alias for field number" in doc:
            continue
        if isinstance(raw, property) or inspect.isdatadescriptor(raw):
            yield name, None, doc
        elif callable(raw):
            yield name, signature(f"{name}", raw), doc


def entry(name, value):
    out = [block(2, name, signature(name, value), inspect.getdoc(value))]
    if inspect.isclass(value):
        out += [block(3, f"{name}.{member}", call, doc) for member, call, doc in members(value) if f"{name}.{member}" not in INTERNAL]
    return out


def page(package):
    out = [HEAD]
    for name in package.__all__:
        out += entry(name, getattr(package, name))
    client = inspect.signature(package.AnyServe.test_client).return_annotation
    module = sys.modules[package.AnyServe.__module__]
    from importlib import import_module

    found = getattr(module, str(client), None) or getattr(import_module("anyserve.testing.client"), str(client).strip("'\""))
    out += entry(found.__name__, found)
    return "\n".join(out)


def main():
    sys.path.insert(0, sys.argv[1])
    import anyserve

    text = page(anyserve)
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE} is not what the docstrings say: run tools/gen_api.py {sys.argv[1]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
