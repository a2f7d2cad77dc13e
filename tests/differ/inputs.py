"""Random inputs that are nearly HTTP/1.1: a grammar with every known trick, then mutations."""

METHODS = [b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"get", b"DELETE", b"CONNECT", b"PRI", b"G ET", b"M-SEARCH", b""]
TARGETS = [b"/", b"/v2/models/m/infer", b"/a?b=c&d", b"*", b"http://h/", b"http://h", b"http://h?x", b"HTTP://H/a",
           b"https://h:1/", b"h:80", b"/a#b", b"/\x80", b"/a b", b"//h", b"/%00", b"", b"/\x7f", b"/\t", b"ftp://h/",
           b"http://u@h/", b"/\\", b"/{}|^\"<>`"]
VERSIONS = [b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1 ",
                                b"", b"HTTP/1.10", b"HTTP/01.1", b"XTTP/1.1"]
ENDS = [b"\r\n"] * 30 + [b"\n", b"\r", b"\r\r\n", b"\n\r\n", b" \r\n", b"\x00\r\n", b"\x0b\r\n"]
NAMES = [b"Content-Length", b"Transfer-Encoding", b"Host", b"Connection", b"X-A", b"Content-Type", b"Expect", b"Cookie",
         b"Upgrade", b"Content_Length", b"Content-Length ", b" Content-Length", b"Transfer-Encoding\t", b"Transfer_Encoding",
         b"X\x00", b"X\xe4", b"", b"X:", b"Trailer", b"TE", b"Keep-Alive", b"Proxy-Connection", b"(x)", b"x\"y"]
COLONS = [b": "] * 12 + [b":", b":\t", b" :", b" : ", b"", b":\r\n ", b":\x0b", b": \x0c"]
VALUES = {
    b"Content-Length": [b"5", b"0", b"3", b"5, 5", b"5,6", b"+5", b"-5", b"0x5", b"05", b"5 ", b"5;", b"", b"99999999999999999999",
                        b"5\x00", b"\x0b5", b"1e1", b"5\r\n 5", b"5.0", b"\xd9\xa5"],
    b"Transfer-Encoding": [b"chunked", b"Chunked", b"chunked", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked",
                           b"identity", b"xchunked", b"chunkedx", b"chunked;a", b"\"chunked\"", b"", b",chunked", b"chunked,",
                           b"\x0bchunked", b"chunk\r\n ed", b"chunked\x00", b"cow, chunked", b"chun ked"],
    b"Host": [b"h", b"h:80", b"", b"a, b", b"a b", b"a/b", b"u@h", b"[::1]:1", b"h\x00", b"h#", b"h?"],
    b"Connection": [b"close", b"keep-alive", b"upgrade", b"keep-alive, close", b"x", b"Close", b"content-length"],
    b"Expect": [b"100-continue", b"100-Continue", b"200-ok", b""],
    b"Upgrade": [b"h2c", b"websocket"],
}
OTHER = [b"v", b"", b"a b", b"\tx\t", b"x\xff", b"x\x01", b"x\x7f", b"x\x00y", b"a\rb", b"a\nb", b"a\r\n b"]
BODIES = [b"", b"hello", b"abc", b"0\r\n\r\n", b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"]
SIZES = [b"5", b"05", b"A", b"a", b"1", b"0x5", b"+5", b"-1", b" 5", b"5 ", b"5\t", b"", b"g", b"FFFFFFFFFFFFFFFF", b"5;a=b", b"5;",
         b"5 ;a", b"5;a\nb", b"5;\"\r\n\"", b"5,", b"0000000000000005", b"5;\x00", b"5\x00", b"5_0"]


def _field(rng):
    name = rng.choice(NAMES[:8] if rng.random() < .7 else NAMES)
    values = VALUES.get(name.strip(), OTHER if rng.random() < .5 else [b"v"])
    value = values[0] if rng.random() < .6 else rng.choice(values)
    return name + (b": " if rng.random() < .9 else rng.choice(COLONS)) + value


def _end(rng):
    return b"\r\n" if rng.random() < .95 else rng.choice(ENDS)


def _chunks(rng):
    out = b""
    for _ in range(rng.randrange(4)):
        size = rng.choice([b"5", b"A", b"1"]) if rng.random() < .8 else rng.choice(SIZES)
        data = {b"5": b"hello", b"A": b"0123456789", b"1": b"x"}.get(size, b"hello")
        out += size + _end(rng) + data + _end(rng)
    out += (b"0" if rng.random() < .95 else rng.choice([b"00", b"", b"0;x", b"0 "])) + _end(rng)
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        out += _field(rng) + _end(rng)
    return out + _end(rng)


def _request(rng):
    method = rng.choice(METHODS[:4] if rng.random() < .9 else METHODS)
    target = rng.choice(TARGETS[:3] if rng.random() < .8 else TARGETS)
    version = b"HTTP/1.1" if rng.random() < .85 else rng.choice(VERSIONS)
    gap = b" " if rng.random() < .97 else rng.choice([b"  ", b"\t", b"", b"\x0b"])
    lines = [method + gap + target + b" " + version]
    if rng.random() < .92:
        lines.append(b"Host: h")
    framing = rng.random()
    body = b""
    if framing < .3:
        body = rng.choice(BODIES)
        lines.append(b"Content-Length: %d" % len(body))
    elif framing < .6:
        lines.append(b"Transfer-Encoding: chunked")
        body = _chunks(rng)
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 3])):
        lines.insert(rng.randrange(1, len(lines) + 1), _field(rng))
    return b"".join(line + _end(rng) for line in lines) + _end(rng) + body


def _mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([0, 0, 0, 0, 1, 1, 2, 4])):
        if not data:
            break
        at = rng.randrange(len(data))
        how = rng.randrange(5)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at]
        elif how == 2:
            data.insert(at, rng.choice(b"\r\n \t\x00:;,0aA\x7f\x80\x0b"))
        elif how == 3:
            data[at:at] = rng.choice([b"\r\n", b"\n", b"\r", b" ", b"\r\n ", b"\r\n\r\n"])
        else:
            end = min(len(data), at + rng.randrange(1, 20))
            data[at:at] = data[at:end]
    return bytes(data)


def make(rng):
    data = b"".join(_request(rng) for _ in range(rng.choice([1, 1, 2, 3])))
    if rng.random() < .03:
        data = rng.choice([b"\r\n", b"\r\n\r\n", b"\n", b" "]) + data
    return _mutate(rng, data)
