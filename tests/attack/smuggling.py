"""Messages that two readers could read in two ways, or that nobody should read.

HTTP1: name → (bytes, the status that comes back, a part of the error's text); behind most of them is NEXT, a request that a server which
read the message otherwise would answer. HTTP2: name → the fields of a request. LIMITS: the server's options that they need.
"""

HOST = b"Host: h\r\n"
NEXT = b"GET /v2/health/live HTTP/1.1\r\nHost: next\r\n\r\n"
POST = b"POST /v2/models/echo/infer HTTP/1.1\r\n" + HOST
TE = b"Transfer-Encoding: chunked\r\n"
LIMITS = ("--max-request-line", "512", "--max-header-bytes", "2K", "--max-headers", "20", "--max-chunk-extension", "16")


def get(line=b"GET /v2/health/live HTTP/1.1\r\n", fields=HOST):
    return line + fields + b"\r\n" + NEXT


def post(fields, body=b""):
    return POST + fields + b"\r\n" + body + NEXT


def chunked(body):
    return post(TE, body)


BOTH = "content-length and transfer-encoding together"
LENGTH = "content-length is not a number"
VERSION = "the version is neither"
SIZE = "the size is"
HTTP1 = {
    # how long is the body? CL.TE, TE.CL, TE.TE
    "cl_te": (post(b"Content-Length: 6\r\n" + TE, b"0\r\n\r\nG"), 400, BOTH),
    "te_cl": (post(TE + b"Content-Length: 3\r\n", b"1\r\nx\r\n0\r\n\r\n"), 400, BOTH),
    "cl_0_te": (post(b"Content-Length: 0\r\n" + TE, b"0\r\n\r\n"), 400, BOTH),
    "te_twice": (post(TE + TE, b"0\r\n\r\n"), 400, "second transfer-encoding"),
    "te_chunked_identity": (post(TE + b"Transfer-Encoding: identity\r\n", b"0\r\n\r\n"), 400, "second transfer-encoding"),
    "te_identity": (post(b"Transfer-Encoding: identity\r\nContent-Length: 3\r\n", b"abc"), 501, "is not chunked"),
    "te_gzip_chunked": (post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), 501, "is not chunked"),
    "te_chunked_gzip": (post(b"Transfer-Encoding: chunked, gzip\r\n", b"0\r\n\r\n"), 501, "is not chunked"),
    "te_chunked_chunked": (post(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"), 501, "is not chunked"),
    "te_xchunked": (post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"), 501, "is not chunked"),
    "te_parameter": (post(b"Transfer-Encoding: chunked;a=b\r\n", b"0\r\n\r\n"), 501, "is not chunked"),
    "te_quoted": (post(b"Transfer-Encoding: \"chunked\"\r\n", b"0\r\n\r\n"), 400, "malformed"),
    "te_empty": (post(b"Transfer-Encoding:\r\n", b"0\r\n\r\n"), 400, "empty"),
    "te_vertical_tab": (post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"), 400, "control character"),
    "te_nul": (post(b"Transfer-Encoding: chunked\0\r\n", b"0\r\n\r\n"), 400, "control character"),
    "te_space_before_colon": (post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), 400, "before the colon"),
    "te_folded": (post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"), 400, "empty"),
    "te_leading_space": (post(b" Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, "obs-fold"),
    "te_bare_lf_before": (post(b"X: y\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, "LF without CR"),
    "te_bare_cr_before": (post(b"X: y\rTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, "control character"),
    "te_in_1_0": (b"POST /v2 HTTP/1.0\r\n" + HOST + TE + b"\r\n0\r\n\r\n" + NEXT, 400, "HTTP/1.0"),
    "cl_twice": (post(b"Content-Length: 3\r\nContent-Length: 3\r\n", b"abc"), 400, "second content-length"),
    "cl_twice_different": (post(b"Content-Length: 3\r\nContent-Length: 0\r\n", b"abc"), 400, "second content-length"),
    "cl_list": (post(b"Content-Length: 3, 3\r\n", b"abc"), 400, LENGTH),
    "cl_plus": (post(b"Content-Length: +3\r\n", b"abc"), 400, LENGTH),
    "cl_minus": (post(b"Content-Length: -3\r\n", b"abc"), 400, LENGTH),
    "cl_hex": (post(b"Content-Length: 0x3\r\n", b"abc"), 400, LENGTH),
    "cl_fraction": (post(b"Content-Length: 3.0\r\n", b"abc"), 400, LENGTH),
    "cl_exponent": (post(b"Content-Length: 1e1\r\n", b"abc"), 400, LENGTH),
    "cl_inner_space": (post(b"Content-Length: 1 0\r\n", b"abc"), 400, LENGTH),
    "cl_empty": (post(b"Content-Length:\r\n", b"abc"), 400, LENGTH),
    "cl_overflow": (post(b"Content-Length: 18446744073709551619\r\n", b"abc"), 400, LENGTH),
    "cl_wide_digits": (post("Content-Length: ３\r\n".encode(), b"abc"), 400, LENGTH),
    "cl_space_before_colon": (post(b"Content-Length : 3\r\n", b"abc"), 400, "before the colon"),
    "cl_folded": (post(b"Content-Length: 3\r\n 3\r\n", b"abc"), 400, "obs-fold"),
    "cl_nul": (post(b"Content-Length: 3\0\r\n", b"abc"), 400, "control character"),
    # chunks
    "chunk_hex_prefix": (chunked(b"0x3\r\nabc\r\n0\r\n\r\n"), 400, SIZE),
    "chunk_plus": (chunked(b"+3\r\nabc\r\n0\r\n\r\n"), 400, SIZE),
    "chunk_minus": (chunked(b"-3\r\nabc\r\n0\r\n\r\n"), 400, SIZE),
    "chunk_space_before": (chunked(b" 3\r\nabc\r\n0\r\n\r\n"), 400, SIZE),
    "chunk_space_behind": (chunked(b"3 \r\nabc\r\n0\r\n\r\n"), 400, SIZE),
    "chunk_space_extension": (chunked(b"3 ;a\r\nabc\r\n0\r\n\r\n"), 400, SIZE),
    "chunk_empty_size": (chunked(b"\r\nabc\r\n0\r\n\r\n"), 400, SIZE),
    "chunk_underscore": (chunked(b"1_0\r\nabc\r\n0\r\n\r\n"), 400, SIZE),
    "chunk_overflow": (chunked(b"10000000000000003\r\nabc\r\n0\r\n\r\n"), 400, "too many digits"),
    "chunk_bare_lf": (chunked(b"3\nabc\r\n0\r\n\r\n"), 400, SIZE),
    "chunk_bare_cr": (chunked(b"3\rabc\r\n0\r\n\r\n"), 400, "CR without LF"),
    "chunk_extension_lf": (chunked(b"3;a\nabc\r\n0\r\n\r\n"), 400, "control character"),
    "chunk_extension_nul": (chunked(b"3;\0\r\nabc\r\n0\r\n\r\n"), 400, "control character"),
    "chunk_extension_long": (chunked(b"3;" + b"a" * 17 + b"\r\nabc\r\n0\r\n\r\n"), 400, "--max-chunk-extension"),
    "chunk_too_long": (chunked(b"3\r\nabcd\r\n0\r\n\r\n"), 400, "longer than the size"),
    "chunk_too_short": (chunked(b"3\r\nab\r\n0\r\n\r\n"), 400, "longer than the size"),
    "chunk_data_lf": (chunked(b"3\r\nabc\n0\r\n\r\n"), 400, "longer than the size"),
    "trailer_content_length": (chunked(b"0\r\nContent-Length: 3\r\n\r\n"), 400, "not allowed in a trailer"),
    "trailer_transfer_encoding": (chunked(b"0\r\nTransfer-Encoding: x\r\n\r\n"), 400, "not allowed in a trailer"),
    "trailer_host": (chunked(b"0\r\nHost: x\r\n\r\n"), 400, "not allowed in a trailer"),
    "trailer_folded": (chunked(b"0\r\nA: b\r\n c\r\n\r\n"), 400, "obs-fold"),
    "trailer_no_colon": (chunked(b"0\r\nGET / HTTP/1.1\r\n\r\n"), 400, "white space in the name"),
    "trailer_bare_lf": (chunked(b"0\r\nA: b\n\r\n"), 400, "LF without CR"),
    "trailers_too_many": (chunked(b"0\r\n" + b"A: b\r\n" * 21 + b"\r\n"), 431, "--max-headers"),
    "trailers_too_large": (chunked(b"0\r\nA: " + b"b" * 2048 + b"\r\n\r\n"), 431, "--max-header-bytes"),
    # the request line
    "line_bare_lf": (get(b"GET /v2 HTTP/1.1\n"), 400, "LF without CR"),
    "line_bare_cr": (get(b"GET /v2\rX HTTP/1.1\r\n"), 400, "percent-encoded"),
    "line_two_spaces": (get(b"GET  /v2 HTTP/1.1\r\n"), 400, "version is malformed"),
    "line_tab": (get(b"GET\t/v2 HTTP/1.1\r\n"), 400, "method is malformed"),
    "line_space_before": (get(b" GET /v2 HTTP/1.1\r\n"), 400, "method is malformed"),
    "line_space_behind": (get(b"GET /v2 HTTP/1.1 \r\n"), 400, "version is malformed"),
    "line_space_in_target": (get(b"GET /v2 /x HTTP/1.1\r\n"), 400, "version is malformed"),
    "line_no_version": (get(b"GET /v2\r\n"), 400, "version is missing"),
    "line_empty": (b"\r\n" + get(), 400, "the line is empty"),
    "line_nul": (get(b"GET /v2\0 HTTP/1.1\r\n"), 400, "percent-encoded"),
    "line_no_ascii": (get("GET /é HTTP/1.1\r\n".encode()), 400, "percent-encoded"),
    "line_fragment": (get(b"GET /v2#x HTTP/1.1\r\n"), 400, "fragment"),
    "line_too_long": (get(b"GET /" + b"a" * 512 + b" HTTP/1.1\r\n"), 414, "--max-request-line"),
    "line_endless": (b"A" * 600, 414, "--max-request-line"),
    "method_quoted": (get(b"\"GET\" /v2 HTTP/1.1\r\n"), 400, "method is malformed"),
    "method_connect": (get(b"CONNECT h:80 HTTP/1.1\r\n"), 501, "CONNECT"),
    "version_0_9": (get(b"GET /v2 HTTP/0.9\r\n"), 505, VERSION),
    "version_1_2": (get(b"GET /v2 HTTP/1.2\r\n"), 505, VERSION),
    "version_2_0": (get(b"GET /v2 HTTP/2.0\r\n"), 505, VERSION),
    "version_lower_case": (get(b"GET /v2 http/1.1\r\n"), 400, "version is malformed"),
    "version_1_10": (get(b"GET /v2 HTTP/1.10\r\n"), 400, "version is malformed"),
    "version_not_http": (get(b"GET /v2 ICY/1.1\r\n"), 400, "version is malformed"),
    "target_authority": (get(b"GET h:80 HTTP/1.1\r\n"), 400, "neither / nor"),
    "target_other_host": (get(b"GET http://other/v2 HTTP/1.1\r\n"), 400, "differs"),
    "target_user": (get(b"GET http://u@h/v2 HTTP/1.1\r\n"), 400, "target's host"),
    "target_ftp": (get(b"GET ftp://h/v2 HTTP/1.1\r\n"), 400, "neither / nor"),
    "target_asterisk": (get(b"GET * HTTP/1.1\r\n"), 400, "for OPTIONS only"),
    # fields
    "host_missing": (get(fields=b""), 400, "host is missing"),
    "host_twice": (get(fields=HOST + HOST), 400, "second host"),
    "host_list": (get(fields=b"Host: a, b\r\n"), 400, "host is malformed"),
    "host_path": (get(fields=b"Host: h/x\r\n"), 400, "host is malformed"),
    "host_user": (get(fields=b"Host: u@h\r\n"), 400, "host is malformed"),
    "name_empty": (get(fields=HOST + b": x\r\n"), 400, "name is empty"),
    "name_space": (get(fields=HOST + b"A B: x\r\n"), 400, "white space in the name"),
    "name_nul": (get(fields=HOST + b"A\0: x\r\n"), 400, "not allowed in a name"),
    "name_no_ascii": (get(fields=HOST + "é: x\r\n".encode()), 400, "not allowed in a name"),
    "no_colon": (get(fields=HOST + b"abc\r\n"), 400, "colon is missing"),
    "folded": (get(fields=HOST + b"A: b\r\n\tc\r\n"), 400, "obs-fold"),
    "value_nul": (get(fields=HOST + b"A: \0\r\n"), 400, "control character"),
    "value_del": (get(fields=HOST + b"A: \x7f\r\n"), 400, "control character"),
    "value_bare_cr": (get(fields=HOST + b"A: b\rB: c\r\n"), 400, "control character"),
    "end_bare_lf": (b"GET /v2 HTTP/1.1\r\n" + HOST + b"\n" + NEXT, 400, "LF without CR"),
    "end_double_cr": (b"GET /v2 HTTP/1.1\r\n" + HOST + b"\r\r\n" + NEXT, 400, "not allowed in a name"),
    "fields_too_many": (get(fields=HOST + b"A: b\r\n" * 20), 431, "--max-headers"),
    "fields_too_large": (get(fields=HOST + b"A: " + b"b" * 2048 + b"\r\n"), 431, "--max-header-bytes"),
    "field_endless": (b"GET /v2 HTTP/1.1\r\n" + b"A" * 3000, 431, "--max-header-bytes"),
    "expect_other": (post(b"Content-Length: 3\r\nExpect: 200-ok\r\n", b"abc"), 417, "100-continue"),
    # no HTTP at all
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "looks like TLS"),
    "nonsense": (b"\x00\x01\x02\x03", 400, "method is malformed"),
    "http2_too_late": (b"GET /v2 HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None, ""),
    "http2_behind": (b"PRI / HTTP/1.1\r\n\r\n", "h2", ""),
}


# --- HTTP/2: what a front could make HTTP/1.1 of ---

GOOD = [(":method", "GET"), (":scheme", "http"), (":path", "/v2/health/live"), (":authority", "h")]
HTTP2 = {
    "connection": GOOD + [("connection", "close")],
    "transfer_encoding": GOOD + [("transfer-encoding", "chunked")],
    "keep_alive": GOOD + [("keep-alive", "5")],
    "proxy_connection": GOOD + [("proxy-connection", "x")],
    "upgrade": GOOD + [("upgrade", "h2c")],
    "te_other": GOOD + [("te", "chunked")],
    "upper_case_name": GOOD + [("X-Upper", "a")],
    "lf_in_value": GOOD + [("x", "a\nb: c")],
    "cr_in_value": GOOD + [("x", "a\rb")],
    "nul_in_value": GOOD + [("x", "a\0b")],
    "lf_in_name": GOOD + [("x\nb", "a")],
    "space_in_name": GOOD + [("x b", "a")],
    "colon_in_name": GOOD + [("x:b", "a")],
    "empty_name": GOOD + [("", "a")],
    "lf_in_path": [(":method", "GET"), (":scheme", "http"), (":path", "/v2\r\nX: y"), (":authority", "h")],
    "lf_in_method": [(":method", "GET\r\nX"), (":scheme", "http"), (":path", "/v2"), (":authority", "h")],
    "path_missing": [(":method", "GET"), (":scheme", "http"), (":authority", "h")],
    "path_empty": [(":method", "GET"), (":scheme", "http"), (":path", ""), (":authority", "h")],
    "method_missing": [(":scheme", "http"), (":path", "/v2"), (":authority", "h")],
    "scheme_missing": [(":method", "GET"), (":path", "/v2"), (":authority", "h")],
    "method_twice": [(":method", "GET")] + GOOD,
    "path_twice": GOOD[:3] + [(":path", "/x")] + GOOD[3:],
    "pseudo_behind": [*GOOD[:3], ("x", "y"), GOOD[3]],
    "pseudo_unknown": [*GOOD, (":x", "y")],
    "status": [*GOOD, (":status", "200")],
    "cl_twice": GOOD + [("content-length", "0"), ("content-length", "1")],
    "cl_no_number": GOOD + [("content-length", "+1")],
    "cl_without_body": GOOD + [("content-length", "3")],
}

# --- to an application ---

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: next\r\n\r\n"


def to_application(data):
    """The same bytes for application.py, which counts the requests that came by smuggling."""
    for model, application in ((NEXT, SMUGGLED), (b"/v2/models/echo/infer", b"/echo"), (b"/v2/health/live", b"/echo"), (b"/v2", b"/echo")):
        data = data.replace(model, application)
    return data
