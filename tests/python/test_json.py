"""JSON bodies, with Python's json and numpy as oracles: which are accepted, and which values they have.

Random texts from fixed seeds; ANYSERVE_JSON_CASES makes it more of them.
"""

import json
import math
import os
import random
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / os.environ.get("ANYSERVE_BUILD", "build/release") / "tests/python/json_check"
CASES = int(os.environ.get("ANYSERVE_JSON_CASES", "3000"))

DTYPES = {
    "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BOOL": np.bool_,
}


class Check:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, kind, body, json_len=None):
        """(refused, text, binary data)"""
        head = struct.pack("<III", ord(kind), len(body) if json_len is None else json_len, len(body))
        self.process.stdin.write(head + body)
        self.process.stdin.flush()
        code = self.number()
        return code, self.process.stdout.read(self.number()), self.process.stdout.read(self.number())

    def number(self):
        return struct.unpack("<I", self.process.stdout.read(4))[0]


@pytest.fixture(scope="module")
def check():
    c = Check()
    yield c
    c.process.stdin.close()
    assert c.process.wait(10) == 0  # no sanitizer had anything to say


def refuse_constant(_):
    raise ValueError


def is_json(body):
    """Python's verdict, less NaN, halves of surrogate pairs, depth, and roots that are scalars."""
    try:
        value = json.loads(body.decode(), parse_constant=refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()
        return isinstance(value, (dict, list)) and depth(value) <= 100
    except (ValueError, RecursionError):
        return False


def depth(value):
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


def random_value(r, levels):
    kind = r.randrange(8 if levels else 6)
    if kind == 0:
        return None
    if kind == 1:
        return r.random() < 0.5
    if kind == 2:
        return r.randrange(-2**70, 2**70)
    if kind == 3:
        return r.uniform(-1, 1) * 10.0**r.randrange(-320, 308)
    if kind < 6:
        return "".join(chr(r.choice([r.randrange(128), r.randrange(0xd800), r.randrange(0xe000, 0x110000)]))
                       for _ in range(r.randrange(12)))
    if kind == 6:
        return [random_value(r, levels - 1) for _ in range(r.randrange(5))]
    return {str(random_value(r, 0)): random_value(r, levels - 1) for _ in range(r.randrange(5))}


def mutated(r, body):
    """Some bytes of a good text changed, doubled or taken away, mostly to bytes that mean something."""
    b = bytearray(body)
    for _ in range(r.randrange(1, 3)):
        at = r.randrange(len(b) + 1)
        what = r.randrange(3)
        char = r.choice(b'{}[]:,"\\/bfnrtu0123456789.eE+- \t\n\r\x0b\x0c\x00\x7f\x80\xc3\xed\xf0tfn')
        if what == 0 and at < len(b):
            b[at] = char
        elif what == 1:
            b.insert(at, char)
        elif at < len(b):
            del b[at:at + r.randrange(1, 4)]
    return bytes(b)


def test_any_text_is_accepted_or_refused_as_python_does(check):
    r = random.Random(1)
    verdicts = [0, 0]
    for _ in range(CASES):
        value = [random_value(r, 4)]
        body = json.dumps(value, ensure_ascii=r.random() < 0.5, indent=r.choice([None, None, 1])).encode()
        assert check.ask("w", body)[0] == 0, body
        for _ in range(4):
            bad = mutated(r, body)
            code, why, _ = check.ask("w", bad)
            assert code == (not is_json(bad)), (bad, why)
            verdicts[code] += 1
    assert min(verdicts) > CASES / 10  # both kinds were there


@pytest.mark.parametrize("body, good", [
    (b"[]", True), (b"{}", True), (b" [ ] ", True), (b"[1]x", False), (b"[1] [2]", False), (b"", False),
    (b"1", False), (b"[01]", False), (b"[1.]", False), (b"[.5]", False), (b"[+1]", False), (b"[1e]", False),
    (b"[1e5]", True), (b"[-0]", True), (b"[-]", False), (b"[1E+05]", True), (b"[nan]", False), (b"[NaN]", False),
    (b"[Infinity]", False), (b"[1e999]", True), (b"[" + b"9" * 5000 + b"]", True), (b"[tru]", False),
    (b"[truex]", False), (b"[true", False), (b"[1,]", False), (b"[,1]", False), (b'{"a":1,}', False),
    (b'{"a" 1}', False), (b'{1:2}', False), (b"{'a':1}", False), (b'["\\ud800"]', False), (b'["\\udc00"]', False),
    (b'["\\ud83d\\ude00"]', True), (b'["\\ud83d\\u0041"]', False), (b'["\\x41"]', False), (b'["\\u12"]', False),
    (b'["\\', False), (b'["\t"]', False), (b'["\\t"]', True), (b'["\x7f"]', True), (b'["\xff"]', False),
    (b'["\xed\xa0\x80"]', False), (b"[1}", False), (b"{]", False), (b"[[1]", False), (b"[1]]", False),
    (b"[1\x00]", False), (b"[1]\x00", False), (b"\xef\xbb\xbf[1]", False), (b"[1 2]", False), (b'["a""b"]', False),
    (b'["a"b]', False), (b'[1"a"]', False), (b"[1\x0c2]", False), (b"[1\x0c,2]", False), (b"[" * 100 + b"]" * 100, True),
    (b"[" * 101 + b"]" * 101, False), (b"[" * 100000 + b"]" * 100000, False), (b"[" * 100000, False),
    (b"// c\n[1]", False), (b"[1]/**/", False), (b'{"a":{"b":1}', False), (b'{"a":[{}', False),
])
def test_texts_at_the_edge(check, body, good):
    assert check.ask("w", body)[0] == (not good)


def request(name, dtype, shape, data, **more):
    return json.dumps({"inputs": [{"name": name, "datatype": dtype, "shape": shape, "data": data}], **more})


def outputs(answer):
    return json.loads(answer)["outputs"]


def random_array(r, dtype, shape):
    n = math.prod(shape)
    if dtype == "BOOL":
        return np.array([r.random() < 0.5 for _ in range(n)], bool).reshape(shape)
    if dtype in ("FP16", "FP32", "FP64"):
        bits = np.array([r.getrandbits(8 * np.dtype(DTYPES[dtype]).itemsize) for _ in range(n)], np.uint64)
        kind = {"FP16": np.uint16, "FP32": np.uint32, "FP64": np.uint64}[dtype]
        values = bits.astype(kind).view(DTYPES[dtype])
        return np.where(np.isfinite(values), values, 0).astype(DTYPES[dtype]).reshape(shape)
    info = np.iinfo(DTYPES[dtype])
    edge = [info.min, info.max, 0]
    return np.array([r.choice([r.randrange(info.min, info.max + 1), r.choice(edge)]) for _ in range(n)],
                    DTYPES[dtype]).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_go_in_and_come_out_exactly(check, dtype):
    r = random.Random(dtype)
    for _ in range(CASES // 30):
        shape = [r.randrange(5) for _ in range(r.randrange(4))]
        a = random_array(r, dtype, shape)
        data = a.tolist() if r.random() < 0.5 else a.ravel().tolist()
        body = request("x", dtype, shape, data).encode()
        code, text, raw = check.ask("b", body)
        assert code == 0, (body, text)
        assert outputs(text)[0]["parameters"] == {"binary_data_size": a.nbytes}
        assert raw == a.tobytes(), body  # bit by bit, negative zeros too
        code, text, _ = check.ask("i", body)
        assert code == 0
        out = outputs(text)[0]
        back = np.array(out["data"], DTYPES[dtype]).reshape(out["shape"])
        assert (out["name"], out["datatype"], out["shape"]) == ("x", dtype, shape)
        assert back.tobytes() == a.tobytes()


def nearest(text, bits, mantissa, least):
    """The number of a narrow float type nearest to a decimal text, ties to even, as a Fraction."""
    from fractions import Fraction
    exact = Fraction(text)
    if exact == 0:
        return Fraction(0)
    e = max(math.floor(math.log2(abs(exact))), least)
    best = None
    for scale in (e - 1, e, e + 1):  # log2 may be off by one
        if scale < least:
            continue
        unit = Fraction(2)**(scale - mantissa)
        k = abs(exact) / unit
        n = k.numerator // k.denominator
        n += (k - n > Fraction(1, 2)) or (k - n == Fraction(1, 2) and n % 2 == 1)
        if n <= 2**(mantissa + 1) and (n >= 2**mantissa or scale == least):
            best = n * unit
            break
    return best if exact > 0 else -best


@pytest.mark.parametrize("dtype, mantissa, least, kind", [
    ("FP16", 10, -14, "<e"), ("FP32", 23, -126, "<f"), ("FP64", 52, -1022, "<d"), ("BF16", 7, -126, None)])
def test_decimals_are_rounded_once(check, dtype, mantissa, least, kind):
    from fractions import Fraction
    r = random.Random(dtype)
    for _ in range(CASES // 10):
        # just beside the middle of two neighbours, closer than a double can see
        e = r.randrange(max(least, -40), 15)
        middle = Fraction(2 * r.randrange(2**mantissa, 2**(mantissa + 1)) + 1) * Fraction(2)**(e - mantissa - 1)
        digits = len(str(middle.denominator)) * 4
        text = f"{middle.numerator * 10**digits // middle.denominator}"
        text += r.choice(["", "0" * 30 + "1", "0" * 5 + "1"]) if r.random() < 0.7 else ""
        text += f"e-{digits + len(text) - len(str(middle.numerator * 10**digits // middle.denominator))}"
        text = r.choice(["", "-"]) + text
        body = ('{"inputs":[{"name":"x","datatype":"%s","shape":[1],"data":[%s]}]}' % (dtype, text)).encode()
        code, why, raw = check.ask("b", body)
        assert code == 0, (text, why)
        value = struct.unpack(kind, raw)[0] if kind else struct.unpack("<f", b"\0\0" + raw)[0]
        assert Fraction(value) == nearest(text, 0, mantissa, least), text


def test_strings_go_in_and_come_out(check):
    r = random.Random(5)
    for _ in range(CASES // 5):
        texts = [random_value(r, 0) for _ in range(r.randrange(6))]
        texts = [t if isinstance(t, str) else "x" * r.randrange(40) for t in texts]
        body = json.dumps({"id": "a\"b", "inputs": [{"name": "s", "shape": [len(texts)], "data": texts,
                           "datatype": "BYTES"}]}, ensure_ascii=r.random() < 0.5).encode()
        code, text, raw = check.ask("b", body)
        assert code == 0
        assert raw == b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)
        assert json.loads(text)["id"] == 'a"b'
        code, text, _ = check.ask("i", body)
        assert code == 0 and outputs(text)[0]["data"] == texts


def test_any_order_of_keys(check):
    import itertools
    a = np.arange(6, dtype=np.float32)
    members = {"name": "x", "shape": [2, 3], "datatype": "FP32", "data": a.tolist()}
    for order in itertools.permutations(members):
        for first in (True, False):
            tensor = {k: members[k] for k in order}
            body = {"inputs": [tensor, {**tensor, "name": "y"}]}
            body = {"later": {"x": [1, {}]}, **body} if first else {**body, "id": "7"}
            code, text, raw = check.ask("b", json.dumps(body).encode())
            assert code == 0 and raw == 2 * a.tobytes()


def test_nan_and_infinities_are_read_and_written_in_floats(check):
    for dtype in ("FP16", "FP32", "FP64"):
        a = np.array([np.nan, np.inf, -np.inf, 1], DTYPES[dtype])
        code, text, _ = check.ask("i", request("x", dtype, [4], a.tolist()).encode())
        assert code == 0
        np.testing.assert_array_equal(np.array(outputs(text)[0]["data"], DTYPES[dtype]), a)
    code, why, _ = check.ask("i", request("x", "INT32", [1], [math.nan]).encode())
    assert code == 1 and b"expected a value" in why


def test_parts_of_binary_data_are_taken_in_order(check):
    a, b, c = np.arange(3, dtype=np.int16), np.array([1.5]), np.arange(4000, dtype=np.float32)
    head = json.dumps({"inputs": [
        {"name": "a", "shape": [3], "datatype": "INT16", "parameters": {"binary_data_size": 6}},
        {"name": "j", "shape": [1], "datatype": "FP64", "data": [2.5]},
        {"name": "b", "shape": [1], "datatype": "FP64", "parameters": {"binary_data_size": 8}},
        {"name": "c", "shape": [4000], "datatype": "FP32", "data": c.tolist()},
    ]}).encode()
    code, text, raw = check.ask("b", head + a.tobytes() + b.tobytes(), len(head))
    assert code == 0, text
    assert raw == a.tobytes() + np.array([2.5]).tobytes() + b.tobytes() + c.tobytes()
