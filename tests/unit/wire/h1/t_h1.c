/* Specification of wire/h1/h1: heads and bodies of requests; which requests are refused, and with
 * which text.
 */
#include "h1_case.h"

#define HOST "Host: h\r\n"

/* --- whatever the cuts, the same is seen --- */

static void check_cut(const char *bytes, size_t n, size_t first, size_t step, const char *seen,
                      const char *sent)
{
    struct h1_case c = {0};

    h1_open(&c);
    if (h1_feed(&c, bytes, first, first) == first)
        h1_feed(&c, bytes + first, n - first, step);
    assert_string_equal(h1_text(&c.seen), seen);
    if (sent)
        assert_string_equal(h1_text(&c.sent), sent);
    h1_close(&c);
}

static void check(const char *bytes, size_t n, const char *seen, const char *sent)
{
    for (size_t first = 0; first <= n; first++)
        check_cut(bytes, n, first, n, seen, sent);
    check_cut(bytes, n, 0, 1, seen, sent);
    check_cut(bytes, n, 0, 3, seen, sent);
}
#define BOTH(bytes, seen, sent) check("" bytes, sizeof(bytes) - 1, seen, sent)
#define SEEN(bytes, seen)       check("" bytes, sizeof(bytes) - 1, seen, NULL)

/* Checks the status and the text of the error, and that the connection ends after it. */
static void check_refused(const char *bytes, size_t n, uint32_t status, const char *text)
{
    for (int whole = 0; whole < 2; whole++) {
        struct h1_case c = {0};
        char line[32], body[256];

        h1_open(&c);
        h1_feed(&c, bytes, n, whole ? n : 1);
        snprintf(line, sizeof(line), "HTTP/1.1 %u ", status);
        snprintf(body, sizeof(body), "\r\n\r\n{\"error\":\"%s\"}", text);
        if (strncmp(h1_text(&c.sent), line, strlen(line)) != 0 || !strstr(h1_text(&c.sent), body))
            fail_msg("wanted %s%s, got %s", line, body, h1_text(&c.sent));
        assert_non_null(strstr(h1_text(&c.sent), "\r\nconnection: close\r\n"));
        assert_true(as_h1_done(c.h));
        assert_false(as_h1_wants_read(c.h));
        assert_non_null(as_h1_breach(c.h));
        h1_close(&c);
    }
}
#define REFUSED(bytes, status, text) check_refused("" bytes, sizeof(bytes) - 1, status, text)
#define REFUSED_FIELD(field, status, text)                                                         \
    REFUSED("POST / HTTP/1.1\r\n" HOST field "\r\n\r\n", status, text)

/* --- what is understood --- */

static void test_a_request_may_be_cut_anywhere(void **state)
{
    (void)state;
    SEEN("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET / host=h {}~");
    SEEN("POST /v2/m?x=1 HTTP/1.1\r\nhOST:h:80\r\nX-A:  b c \t\r\nContent-Type: t\r\n"
         "Content-Length: 5\r\n\r\nhello",
         "POST /v2/m?x=1 host=h:80 type=t x-a=b c content-length=5 {hello}~");
    SEEN("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"
         "5\r\nhello\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n",
         "POST / host=h {hello0123456789}~");
}

static void test_answers_follow_each_other_as_requests_do(void **state)
{
    (void)state;
    BOTH("GET /1 HTTP/1.1\r\n" HOST "\r\nPOST /2 HTTP/1.1\r\n" HOST
         "Content-Length: 1\r\n\r\nxGET /3 HTTP/1.1\r\n" HOST "\r\n",
         "GET /1 host=h {}~POST /2 host=h content-length=1 {x}~GET /3 host=h {}~",
         "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
         "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
         "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
}

static void test_values_may_be_empty_have_tabs_and_any_byte_above_ascii(void **state)
{
    (void)state;
    SEEN("GET / HTTP/1.1\r\nHost:\r\nA:\r\nB: \t \r\nC: x\ty\xff\r\n\r\n",
         "GET / host= a= b= c=x\ty\xff {}~");
}

static void test_any_token_is_a_method_and_a_name(void **state)
{
    (void)state;
    SEEN("M-SEARCH!#$%&'*+.^_`|~09 / HTTP/1.1\r\n" HOST "!#$%&'*+-.^_`|~09AZ: 1\r\n\r\n",
         "M-SEARCH!#$%&'*+.^_`|~09 / host=h !#$%&'*+-.^_`|~09az=1 {}~");
}

static void test_targets(void **state)
{
    (void)state;
    SEEN("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS * host=h {}~");
    SEEN("GET http://h/a?b HTTP/1.1\r\n" HOST "\r\n", "GET /a?b host=h {}~");
    SEEN("GET HTTPS://H:80?b HTTP/1.1\r\nHost: h:80\r\n\r\n", "GET /?b host=h:80 {}~");
    SEEN("GET http://h HTTP/1.1\r\n" HOST "\r\n", "GET / host=h {}~");
    REFUSED("GET http://h/ HTTP/1.1\r\nHost: x\r\n\r\n", 400,
            "header: host differs from the host of the target");
    REFUSED("GET http://h/ HTTP/1.0\r\n\r\n", 400,
            "header: host differs from the host of the target");
    REFUSED("GET http:///x HTTP/1.1\r\nHost:\r\n\r\n", 400,
            "request line: the target's host is malformed");
    REFUSED("GET http://u@h/x HTTP/1.1\r\nHost: u@h\r\n\r\n", 400,
            "request line: the target's host is malformed");
    REFUSED("GET ftp://h/ HTTP/1.1\r\n" HOST "\r\n", 400,
            "request line: the target begins with neither / nor http://");
    REFUSED("GET v2 HTTP/1.1\r\n" HOST "\r\n", 400,
            "request line: the target begins with neither / nor http://");
    REFUSED("GET * HTTP/1.1\r\n" HOST "\r\n", 400,
            "request line: the target * is allowed for OPTIONS only");
    REFUSED("GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400, "request line: the target has a fragment");
    REFUSED("GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400,
            "request line: the target has a byte that must be percent-encoded");
    REFUSED("GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400,
            "request line: the target has a byte that must be percent-encoded");
    REFUSED("CONNECT h:80 HTTP/1.1\r\n" HOST "\r\n", 501, "request line: CONNECT is not supported");
}

/* --- the request line --- */

static void test_request_lines_that_are_refused(void **state)
{
    (void)state;
    REFUSED("\r\nGET / HTTP/1.1\r\n", 400, "request line: the line is empty");
    REFUSED("GET /\r\n", 400, "request line: the version is missing");
    REFUSED("GET\r\n", 400, "request line: the method is malformed");
    REFUSED(" GET / HTTP/1.1\r\n", 400, "request line: the method is malformed");
    REFUSED("G\tT / HTTP/1.1\r\n", 400, "request line: the method is malformed");
    REFUSED("GET\t/ HTTP/1.1\r\n", 400, "request line: the method is malformed");
    REFUSED("GET  / HTTP/1.1\r\n", 400, "request line: the version is malformed");
    REFUSED("GET /  HTTP/1.1\r\n", 400, "request line: the version is malformed");
    REFUSED("GET / HTTP/1.1 \r\n", 400, "request line: the version is malformed");
    REFUSED("GET / x HTTP/1.1\r\n", 400, "request line: the version is malformed");
    REFUSED("GET / http/1.1\r\n", 400, "request line: the version is malformed");
    REFUSED("GET / HTTP/1.10\r\n", 400, "request line: the version is malformed");
    REFUSED("GET / HTTP/x.1\r\n", 400, "request line: the version is malformed");
    REFUSED("GET / HTTP/1.1\n", 400, "request line: LF without CR");
    REFUSED("GET / HTTP/1.1\r\r\n", 400, "request line: the version is malformed");
    REFUSED("GET /\r HTTP/1.1\r\n", 400,
            "request line: the target has a byte that must be percent-encoded");
    REFUSED("\n", 400, "request line: LF without CR");
    REFUSED("{", 400, "request line: the method is malformed");
    REFUSED("\x16\x03\x01", 400,
            "request line: this looks like TLS, and the port speaks plain HTTP");
    REFUSED("GET / HTTP/1.2\r\n", 505,
            "request line: the version is neither HTTP/1.1 nor HTTP/1.0");
    REFUSED("GET / HTTP/0.9\r\n", 505,
            "request line: the version is neither HTTP/1.1 nor HTTP/1.0");
    REFUSED("PRI * HTTP/2.0\r\n", 505,
            "request line: the version is neither HTTP/1.1 nor HTTP/1.0");
}

static void test_the_request_line_is_bounded(void **state)
{
    char line[100];

    (void)state;
    for (size_t n = 64; n <= 65; n++) { /* H1_CONF allows 64 */
        memset(line, 'a', sizeof(line));
        memcpy(line, "GET /", 5);
        memcpy(line + n - 9, " HTTP/1.1\r\n" HOST "\r\n", 22);
        if (n == 64)
            check_cut(line, n + 13, 0, 1,
                      "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa host=h {}~", NULL);
        else
            check_refused(line, n + 13, 414,
                          "request line: the line is longer than --max-request-line");
    }
    memset(line, 'a', sizeof(line));
    check_refused(line, 66, 414, "request line: the line is longer than --max-request-line");
}

/* --- fields --- */

static void test_fields_that_are_refused(void **state)
{
    (void)state;
    REFUSED_FIELD("A : b", 400, "header 2: white space in the name or before the colon");
    REFUSED_FIELD("A\t: b", 400, "header 2: white space in the name or before the colon");
    REFUSED_FIELD("A b: c", 400, "header 2: white space in the name or before the colon");
    REFUSED_FIELD(" A: b", 400, "header 2: the line begins with white space (obs-fold)");
    REFUSED_FIELD("A: b\r\n\tc", 400, "header 3: the line begins with white space (obs-fold)");
    REFUSED_FIELD("A", 400, "header 2: a colon is missing");
    REFUSED_FIELD(": b", 400, "header 2: the name is empty");
    REFUSED_FIELD("A\"B: c", 400, "header 2: the name has a byte that is not allowed in a name");
    REFUSED_FIELD("A\xe4: c", 400, "header 2: the name has a byte that is not allowed in a name");
    REFUSED_FIELD("A\0B: c", 400, "header 2: the name has a byte that is not allowed in a name");
    REFUSED_FIELD("A: b\0c", 400, "header 2: control character in the value");
    REFUSED_FIELD("A: 0123456789ab\x7f", 400, "header 2: control character in the value");
    REFUSED_FIELD("A: 0123456\x01"
                  "9abcdef",
                  400, "header 2: control character in the value");
    REFUSED_FIELD("A: b\rC: d", 400, "header 2: control character in the value");
    REFUSED_FIELD("A: b\r", 400, "header 2: control character in the value");
    REFUSED_FIELD("A: b\nC: d", 400, "header 2: LF without CR");
    REFUSED("GET / HTTP/1.1\r\n" HOST "\n", 400, "header 2: LF without CR");
}

static void test_host(void **state)
{
    (void)state;
    SEEN("GET / HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n", "GET / host=[::1]:8000 {}~");
    REFUSED("GET / HTTP/1.1\r\n\r\n", 400, "header: host is missing");
    REFUSED("GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400, "header 2: a second host");
    REFUSED("GET / HTTP/1.0\r\n" HOST HOST "\r\n", 400, "header 2: a second host");
    REFUSED("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "header 1: host is malformed");
    REFUSED("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400, "header 1: host is malformed");
    REFUSED("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "header 1: host is malformed");
    REFUSED("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, "header 1: host is malformed");
    REFUSED("GET / HTTP/1.1\r\nHost: \xe4\r\n\r\n", 400, "header 1: host is malformed");
}

static void test_the_length_of_a_body(void **state)
{
    (void)state;
    SEEN("POST / HTTP/1.1\r\n" HOST "Content-Length: 003\r\n\r\nabc",
         "POST / host=h content-length=003 {abc}~");
    SEEN("POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
         "POST / host=h content-length=0 {}~");
    SEEN("GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\na",
         "GET / host=h content-length=1 {a}~");
    REFUSED_FIELD("Content-Length: 1\r\nContent-Length: 1", 400,
                  "header 3: a second content-length");
#define BAD(v)                                                                                     \
    REFUSED_FIELD("Content-Length:" v, 400,                                                        \
                  "header 2: content-length is not a number, or too large")
    BAD("");
    BAD("+1");
    BAD("-1");
    BAD("1, 1");
    BAD("1 1");
    BAD("0x1");
    BAD("1.0");
    BAD("1a");
    BAD("9223372036854775808");
    BAD("18446744073709551617");
#undef BAD
    REFUSED_FIELD("Content_Length: 1\r\nContent-Length : 1", 400,
                  "header 3: white space in the name or before the colon");
}

static void test_transfer_codings(void **state)
{
    (void)state;
    REFUSED_FIELD("Transfer-Encoding: chunked\r\nContent-Length: 1", 400,
                  "header: content-length and transfer-encoding together");
    REFUSED_FIELD("Content-Length: 1\r\nTransfer-Encoding: chunked", 400,
                  "header: content-length and transfer-encoding together");
    REFUSED_FIELD("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400,
                  "header 3: a second transfer-encoding");
    REFUSED_FIELD("Transfer-Encoding:", 400, "header 2: transfer-encoding is empty");
    REFUSED_FIELD("Transfer-Encoding: \"chunked\"", 400,
                  "header 2: transfer-encoding is malformed");
    REFUSED_FIELD("Transfer-Encoding: chunked\x80", 400,
                  "header 2: transfer-encoding is malformed");
#define UNKNOWN(v)                                                                                 \
    REFUSED_FIELD("Transfer-Encoding: " v, 501, "header 2: transfer-encoding is not chunked")
    UNKNOWN("gzip");
    UNKNOWN("identity");
    UNKNOWN("gzip, chunked");
    UNKNOWN("chunked, gzip");
    UNKNOWN("chunked, chunked");
    UNKNOWN("chunked;a=b");
    UNKNOWN("xchunked");
#undef UNKNOWN
    REFUSED("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
            "header: transfer-encoding in HTTP/1.0");
}

static void test_fields_are_bounded_in_number(void **state)
{
    (void)state;
    SEEN("GET / HTTP/1.1\r\n" HOST "1:\r\n2:\r\n3:\r\n4:\r\n5:\r\n6:\r\n7:\r\n\r\n",
         "GET / host=h 1= 2= 3= 4= 5= 6= 7= {}~");
    REFUSED("GET / HTTP/1.1\r\n" HOST "1:\r\n2:\r\n3:\r\n4:\r\n5:\r\n6:\r\n7:\r\n8:\r\n\r\n", 431,
            "header 9: more than --max-headers fields");
}

/* Each counts 32 bytes more than its line has. */
static void test_fields_are_bounded_in_bytes(void **state)
{
    char head[2048];

    (void)state;
    for (size_t more = 0; more < 2; more++) {
        size_t value = 1024 - 32 - strlen("Host: h") - 32 - 3 + more;
        int n = snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: h\r\nA: %0*d\r\n\r\n",
                         (int)value, 7);

        if (more) {
            check_refused(head, (size_t)n, 431,
                          "header 2: the fields together are larger than --max-header-bytes");
            check_refused(head, (size_t)n - 3, 431, /* before the line has ended */
                          "header 2: the fields together are larger than --max-header-bytes");
        } else {
            struct h1_case c = {0};

            h1_open(&c);
            h1_feed(&c, head, (size_t)n, 1);
            assert_int_equal(c.head.rest[0].value.n, value);
            h1_close(&c);
        }
    }
}

static void test_a_head_that_outgrows_its_first_block_keeps_its_slices(void **state)
{
    static const struct as_h1_conf conf = {
        .max_line = 4000, .max_header_bytes = 60000, .max_headers = 100};
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_buf b = {0};

    (void)state;
    as_buf_str(&b, "GET http://h/path HTTP/1.1\r\nHost: h\r\nContent-Type: t\r\n");
    for (int i = 0; i < 90; i++)
        as_buf_printf(&b, "n%d: %0500d\r\n", i, i);
    as_buf_str(&b, "\r\n");
    h1_open_with(&c, &conf);
    assert_int_equal(h1_feed(&c, b.p, b.n, 777), b.n);
    assert_true(as_str_eq(c.head.path, AS_STR("/path")));
    assert_true(as_str_eq(c.head.authority, AS_STR("h")));
    assert_true(as_str_eq(c.head.content_type, AS_STR("t")));
    assert_int_equal(c.head.n_rest, 90);
    for (uint32_t i = 0; i < 90; i++) {
        char want[16];

        snprintf(want, sizeof(want), "n%u", i);
        assert_true(as_str_eq(c.head.rest[i].name, as_str_of(want)));
        assert_int_equal(c.head.rest[i].value.n, 500);
        assert_int_equal(atoi(c.head.rest[i].value.p), i);
    }
    as_buf_fini(&b);
    h1_close(&c);
}

static void test_fields_of_the_connection_are_not_shown(void **state)
{
    (void)state;
    SEEN("GET / HTTP/1.1\r\n" HOST
         "Keep-Alive: 5\r\nUpgrade: h2c\r\nProxy-Connection: x\r\nExpect: 100-continue\r\n"
         "Connection: upgrade\r\nTE: trailers\r\nX: y\r\n\r\n",
         "GET / host=h expect=100-continue x=y {}~");
    /* nor those that it names, in front of it and behind it; a length is never one of them */
    SEEN("POST / HTTP/1.1\r\n" HOST "A: 1\r\nConnection: A ,Content-Length\r\nB: 2\r\nA: 4\r\n"
         "Content-Length: 0\r\n\r\n",
         "POST / host=h b=2 content-length=0 {}~");
    SEEN("GET / HTTP/1.1\r\n" HOST "Connection: a, close\r\nConnection: c\r\nC: 3\r\nD: 5\r\n\r\n",
         "GET / host=h d=5 {}~");
    REFUSED_FIELD(
        "Connection: a\r\nConnection: b\r\nConnection: c\r\nConnection: d\r\nConnection: e", 400,
        "header 6: too many fields connection");
}

/* --- chunks --- */

#define CHUNKED   "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
#define IN_CHUNKS "POST / host=h {"

static void test_chunks(void **state)
{
    (void)state;
    SEEN(CHUNKED "0\r\n\r\n", IN_CHUNKS "}~");
    SEEN(CHUNKED "00a\r\n0123456789\r\n00\r\n\r\n", IN_CHUNKS "0123456789}~");
    SEEN(CHUNKED "1;a=\"b\"\r\nx\r\n0;\xff\r\n\r\n", IN_CHUNKS "x}~");
    SEEN(CHUNKED "1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n",
         IN_CHUNKS "x}~GET / host=h {}~");
}

/* The owner gets on_close for its request, and the client gets the reason. */
#define BAD_CHUNK(bytes, text) REFUSED(CHUNKED bytes, 400, text)

static void test_chunks_that_are_refused(void **state)
{
    (void)state;
    BAD_CHUNK("\r\n", "chunk 1: the size is not hexadecimal");
    BAD_CHUNK("-1\r\n", "chunk 1: the size is not hexadecimal");
    BAD_CHUNK(" 1\r\n", "chunk 1: the size is not hexadecimal");
    BAD_CHUNK(";a\r\n", "chunk 1: the size is not hexadecimal");
    BAD_CHUNK("0x1\r\n", "chunk 1: the size is followed by neither ; nor CR LF");
    BAD_CHUNK("1 \r\n", "chunk 1: the size is followed by neither ; nor CR LF");
    BAD_CHUNK("1 ;a\r\n", "chunk 1: the size is followed by neither ; nor CR LF");
    BAD_CHUNK("1_0\r\n", "chunk 1: the size is followed by neither ; nor CR LF");
    BAD_CHUNK("1\nx\r\n", "chunk 1: the size is followed by neither ; nor CR LF");
    BAD_CHUNK("1\rx", "chunk 1: CR without LF behind the size");
    BAD_CHUNK("1;a\rx", "chunk 1: CR without LF behind the size");
    BAD_CHUNK("1;a\nx", "chunk 1: control character in the extension");
    BAD_CHUNK("1;a\0x", "chunk 1: control character in the extension");
    BAD_CHUNK("1234567890abcdef\r\n", "chunk 1: the size has too many digits");
    BAD_CHUNK("0000000000000000\r\n", "chunk 1: the size has too many digits");
    BAD_CHUNK("1\r\nxy\r\n",
              "chunk 1: the data is longer than the size, or does not end with CR LF");
    BAD_CHUNK("1\r\nx\n", "chunk 1: the data is longer than the size, or does not end with CR LF");
    BAD_CHUNK("1\r\nx\rx", "chunk 1: the data is longer than the size, or does not end with CR LF");
    BAD_CHUNK("1\r\nx\r\ng\r\n", "chunk 2: the size is not hexadecimal");
    SEEN(CHUNKED "2\r\nab\r\nx", IN_CHUNKS "ab~1");
}

static void test_extensions_are_bounded(void **state)
{
    (void)state;
    SEEN(CHUNKED "1;1234567\r\nx\r\n0;1234567\r\n\r\n", IN_CHUNKS "x}~");
    BAD_CHUNK("1;12345678\r\nx\r\n", "chunk 1: the extension is longer than --max-chunk-extension");
}

static void test_trailers_are_checked_and_bounded(void **state)
{
    (void)state;
    BAD_CHUNK("0\r\nA : b\r\n", "trailer 1: white space in the name or before the colon");
    BAD_CHUNK("0\r\nA: b\r\n c\r\n", "trailer 2: the line begins with white space (obs-fold)");
    BAD_CHUNK("0\r\nA: \x01\r\n", "trailer 1: control character in the value");
    BAD_CHUNK("0\r\nA: b\n", "trailer 1: LF without CR");
    BAD_CHUNK("0\r\nContent-Length: 1\r\n", "trailer 1: a field that is not allowed in a trailer");
    BAD_CHUNK("0\r\nTransfer-Encoding: x\r\n",
              "trailer 1: a field that is not allowed in a trailer");
    BAD_CHUNK("0\r\nHost: x\r\n", "trailer 1: a field that is not allowed in a trailer");
    SEEN(CHUNKED "0\r\n1:\r\n2:\r\n3:\r\n4:\r\n5:\r\n6:\r\n7:\r\n8:\r\n\r\n", IN_CHUNKS "}~");
    REFUSED(CHUNKED "0\r\n1:\r\n2:\r\n3:\r\n4:\r\n5:\r\n6:\r\n7:\r\n8:\r\n9:\r\n", 431,
            "trailer 9: more than --max-headers fields");
}

static void test_trailers_are_bounded_in_bytes(void **state)
{
    char body[2048];

    (void)state;
    for (size_t more = 0; more < 2; more++) {
        int n = snprintf(body, sizeof(body), CHUNKED "0\r\nA: %0*d\r\n\r\n",
                         (int)(1024 - 32 - 3 + more), 7);

        if (more)
            check_refused(body, (size_t)n, 431,
                          "trailer 1: the fields together are larger than --max-header-bytes");
        else
            check_cut(body, (size_t)n, 0, 1, IN_CHUNKS "}~", NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_may_be_cut_anywhere),
        cmocka_unit_test(test_answers_follow_each_other_as_requests_do),
        cmocka_unit_test(test_values_may_be_empty_have_tabs_and_any_byte_above_ascii),
        cmocka_unit_test(test_any_token_is_a_method_and_a_name),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_request_lines_that_are_refused),
        cmocka_unit_test(test_the_request_line_is_bounded),
        cmocka_unit_test(test_fields_that_are_refused),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_the_length_of_a_body),
        cmocka_unit_test(test_transfer_codings),
        cmocka_unit_test(test_fields_are_bounded_in_number),
        cmocka_unit_test(test_fields_are_bounded_in_bytes),
        cmocka_unit_test(test_a_head_that_outgrows_its_first_block_keeps_its_slices),
        cmocka_unit_test(test_fields_of_the_connection_are_not_shown),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_chunks_that_are_refused),
        cmocka_unit_test(test_extensions_are_bounded),
        cmocka_unit_test(test_trailers_are_checked_and_bounded),
        cmocka_unit_test(test_trailers_are_bounded_in_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
