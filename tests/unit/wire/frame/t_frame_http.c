/* The frames of HTTP requests: OPEN, heads of answers, messages of websockets, bodies. */
#include "wire/frame/frame_http.h"

#include "frames.h"
#include "wire/frame/frame_call.h"

#include <string.h>

static struct as_meta fields[] = {{STATIC_STR("accept"), STATIC_STR("*/*")},
                                  {STATIC_STR("x-empty"), STATIC_STR("")},
                                  {STATIC_STR("accept"), STATIC_STR("text/html")}};

static struct as_frame_http_open request(void)
{
    return (struct as_frame_http_open){.version = 11,
                                       .priority = 3,
                                       .target = 9,
                                       .timeout = 1234567,
                                       .flags = AS_HTTP_F_WHOLE,
                                       .id = AS_STR("req-1"),
                                       .method = AS_STR("POST"),
                                       .scheme = AS_STR("http"),
                                       .authority = AS_STR("a.example:80"),
                                       .path = AS_STR("/app/a%20b"),
                                       .query = AS_STR("q=1&q=2"),
                                       .root_path = AS_STR("/app"),
                                       .peer = AS_STR("127.0.0.1:999"),
                                       .server = AS_STR("127.0.0.1:8000"),
                                       .meta = fields,
                                       .n_meta = 3,
                                       .body_len = 4,
                                       .body = (const uint8_t *)"body"};
}

static struct bytes encode_open(const struct as_frame_http_open *o, struct as_blob *owner)
{
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    assert_int_equal(as_frame_put_http_open(&q, 41, o, owner), 0);
    assert_int_equal(q.bytes % 64, 0);
    b = bytes_of(&q);
    as_outq_fini(&q);
    return b;
}

static struct bytes encode_head(const struct as_frame_http_head *h, struct as_blob *owner)
{
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    assert_int_equal(as_frame_put_http_head(&q, 41, h, owner), 0);
    assert_int_equal(q.bytes % 64, 0);
    b = bytes_of(&q);
    as_outq_fini(&q);
    return b;
}

static struct bytes encode_ws(const struct as_frame_ws_message *m, struct as_blob *owner)
{
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    assert_int_equal(as_frame_put_ws_message(&q, 41, m, owner), 0);
    assert_int_equal(q.bytes % 64, 0);
    b = bytes_of(&q);
    as_outq_fini(&q);
    return b;
}

static int decode(const struct as_frame *f, int what)
{
    struct as_frame_ws_message m;
    struct as_frame_http_open o;
    struct as_frame_http_head h;
    struct as_arena a;
    const char *why;
    int err;

    as_arena_init(&a, NULL, 0);
    if (what == 0)
        err = as_frame_get_http_open(f, &a, &o, &why);
    else if (what == 1)
        err = as_frame_get_http_head(f, &a, &h, &why);
    else
        err = as_frame_get_ws_message(f, &m, &why);
    assert_true(!err == !*why);
    as_arena_fini(&a);
    return err;
}

static void assert_fields(const struct as_meta *meta, uint32_t n)
{
    assert_int_equal(n, 3);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(as_str_eq(meta[i].key, fields[i].key));
        assert_true(as_str_eq(meta[i].value, fields[i].value));
    }
}

static void an_open_round_trip(void **state AS_UNUSED)
{
    struct as_frame_http_open in = request(), o;
    struct bytes b = encode_open(&in, NULL);
    struct as_frame f = only_frame(b);
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(f.type, AS_FRAME_OPEN);
    assert_int_equal(f.flags, AS_FRAME_F_END);
    assert_int_equal(as_frame_kind_of(&f), AS_FRAME_HTTP);
    assert_int_equal(as_frame_get_http_open(&f, &a, &o, &why), 0);
    assert_int_equal(o.version, 11);
    assert_int_equal(o.priority, 3);
    assert_int_equal(o.target, 9);
    assert_int_equal(o.timeout, 1234567);
    assert_int_equal(o.flags, AS_HTTP_F_WHOLE);
    assert_true(as_str_eq(o.id, in.id));
    assert_true(as_str_eq(o.method, in.method));
    assert_true(as_str_eq(o.scheme, in.scheme));
    assert_true(as_str_eq(o.authority, in.authority));
    assert_true(as_str_eq(o.path, in.path));
    assert_true(as_str_eq(o.query, in.query));
    assert_true(as_str_eq(o.root_path, in.root_path));
    assert_true(as_str_eq(o.peer, in.peer));
    assert_true(as_str_eq(o.server, in.server));
    assert_fields(o.meta, o.n_meta);
    assert_int_equal(o.body_len, 4);
    assert_memory_equal(o.body, "body", 4);
    assert_int_equal((size_t)(o.body - b.p) % 64, 0);
    as_arena_fini(&a);
    free(b.p);
}

/* Without END a body follows; a websocket has none. */
static void an_open_without_end(void **state AS_UNUSED)
{
    struct as_frame_http_open in = request(), o;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    for (int websocket = 0; websocket < 2; websocket++) {
        struct as_frame f;
        struct bytes b;

        in.flags = websocket ? AS_HTTP_F_WEBSOCKET : AS_HTTP_F_BEYOND;
        in.body_len = 0;
        in.version = 20;
        in.id = in.query = (struct as_str){0};
        b = encode_open(&in, NULL);
        f = only_frame(b);
        assert_int_equal(f.flags, 0);
        assert_int_equal(as_frame_get_http_open(&f, &a, &o, &why), 0);
        assert_int_equal(o.flags, in.flags);
        assert_int_equal(o.query.n | o.id.n | o.body_len, 0);
        assert_null(o.body);
        free(b.p);
    }
    as_arena_fini(&a);
}

static void a_head_round_trip(void **state AS_UNUSED)
{
    struct as_frame_http_head in = {.status = 999,
                                    .service = 55,
                                    .ended = 77,
                                    .end = true,
                                    .meta = fields,
                                    .n_meta = 3,
                                    .body_len = 1,
                                    .body = (const uint8_t *)"x"};
    struct bytes b = encode_head(&in, NULL);
    struct as_frame f = only_frame(b);
    struct as_frame_http_head h;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(f.flags, AS_FRAME_F_MSG | AS_FRAME_F_END);
    assert_int_equal(as_frame_kind_of(&f), AS_FRAME_HTTP);
    assert_int_equal(as_frame_http_type(&f), AS_HTTP_HEAD);
    assert_int_equal(as_frame_get_http_head(&f, &a, &h, &why), 0);
    assert_int_equal(h.status, 999);
    assert_int_equal(h.service, 55);
    assert_int_equal(h.ended, 77);
    assert_true(h.end);
    assert_fields(h.meta, h.n_meta);
    assert_int_equal(h.body_len, 1);
    assert_int_equal(*h.body, 'x');
    free(b.p);
    in = (struct as_frame_http_head){.status = 101};
    b = encode_head(&in, NULL);
    f = only_frame(b);
    assert_int_equal(f.flags, AS_FRAME_F_MSG);
    assert_int_equal(as_frame_get_http_head(&f, &a, &h, &why), 0);
    assert_false(h.end);
    assert_int_equal(h.status, 101);
    assert_int_equal(h.n_meta | h.body_len, 0);
    as_arena_fini(&a);
    free(b.p);
}

static void a_websocket_message_round_trip(void **state AS_UNUSED)
{
    static const struct as_frame_ws_message in[] = {
        {.opcode = AS_WS_TEXT, .body_len = 2, .body = (const uint8_t *)"hi"},
        {.opcode = AS_WS_BINARY},
        {.opcode = AS_WS_BINARY, .end = true},
        {.opcode = AS_WS_CLOSE, .end = true, .code = 4321},
        {.opcode = AS_WS_CLOSE, .end = true, .body_len = 3, .body = (const uint8_t *)"bye"},
    };

    for (size_t i = 0; i < AS_COUNT(in); i++) {
        struct bytes b = encode_ws(&in[i], NULL);
        struct as_frame f = only_frame(b);
        struct as_frame_ws_message m;
        const char *why;

        assert_int_equal(as_frame_http_type(&f), AS_HTTP_WS_MESSAGE);
        assert_int_equal(as_frame_get_ws_message(&f, &m, &why), 0);
        assert_int_equal(m.opcode, in[i].opcode);
        assert_int_equal(m.code, in[i].code);
        assert_int_equal(m.end, in[i].end);
        assert_int_equal(m.body_len, in[i].body_len);
        assert_int_equal(m.cost, 64 + m.body_len);
        if (m.body_len)
            assert_memory_equal(m.body, in[i].body, m.body_len);
        free(b.p);
    }
}

/* The payloads of the DATA frames from `at` on; each is a frame without MSG, the last with END. */
static struct bytes follow(struct bytes b, size_t at, size_t len, bool ends)
{
    struct bytes out = bytes_new(len);
    struct as_frame f;
    size_t n = 0;

    while (at < b.n) {
        int64_t used = as_frame_next(b.p + at, b.n - at, &f);

        assert_true(used > 0);
        assert_int_equal(f.type, AS_FRAME_DATA);
        assert_int_equal(f.stream, 41);
        at += (size_t)used;
        assert_int_equal(f.flags, at == b.n && ends ? AS_FRAME_F_END : 0);
        assert_true(n + f.n <= len);
        if (f.n)
            memcpy(out.p + n, f.p, f.n);
        n += f.n;
    }
    assert_int_equal(n, len);
    return out;
}

/* Copied and by reference, around every limit: what arrives is the same. */
static void bodies_are_copied_or_referenced(void **state AS_UNUSED)
{
    static const size_t sizes[] = {1,       AS_COPY_MAX,        AS_COPY_MAX + 1,
                                   65535,   AS_FRAME_INLINE,    AS_FRAME_INLINE + 1,
                                   70000,   AS_FRAME_MAX - 16u, AS_FRAME_MAX - 15u,
                                   3u << 20};

    for (size_t i = 0; i < 2 * AS_COUNT(sizes); i++) {
        struct as_blob *blob = as_blob_new(sizes[i / 2]), *owner = i & 1 ? blob : NULL;
        struct as_frame_http_open o = request();
        struct as_frame_http_head h = {.status = 200, .end = true};
        struct as_frame_ws_message m = {.opcode = AS_WS_TEXT, .end = i & 2}, got;
        struct bytes b, tail;
        struct as_outq q;
        struct as_frame f;
        const char *why;
        int64_t used;

        for (size_t k = 0; k < blob->n; k++)
            blob->data[k] = (uint8_t)(k * 13 >> 3);
        m.body = h.body = o.body = blob->data;
        m.body_len = h.body_len = o.body_len = blob->n;
        as_outq_init(&q);
        if (blob->n <= AS_FRAME_INLINE) {
            b = encode_open(&o, owner);
            f = only_frame(b);
            assert_int_equal(decode(&f, 0), 0);
            assert_memory_equal(f.p + f.n - blob->n, blob->data, blob->n);
            free(b.p);
            b = encode_head(&h, owner);
            f = only_frame(b);
            assert_int_equal(decode(&f, 1), 0);
            assert_memory_equal(f.p + f.n - blob->n, blob->data, blob->n);
            free(b.p);
        } else {
            assert_int_equal(as_frame_put_http_open(&q, 41, &o, owner), AS_ETOOBIG);
            assert_int_equal(as_frame_put_http_head(&q, 41, &h, owner), AS_ETOOBIG);
            assert_int_equal(q.bytes, 0);
        }
        b = encode_ws(&m, owner);
        used = as_frame_next(b.p, b.n, &f);
        assert_int_equal(as_frame_get_ws_message(&f, &got, &why), 0);
        assert_int_equal(got.body_len, blob->n);
        assert_int_equal(!got.body, blob->n > AS_FRAME_INLINE);
        if (!got.body) {
            tail = follow(b, (size_t)used, blob->n, m.end);
            assert_memory_equal(tail.p, blob->data, blob->n);
            free(tail.p);
        }
        free(b.p);
        as_frame_put_http_data(&q, 41, blob->data, blob->n, m.end, owner);
        b = bytes_of(&q);
        tail = follow(b, 0, blob->n, m.end);
        assert_memory_equal(tail.p, blob->data, blob->n);
        free(tail.p);
        free(b.p);
        as_outq_fini(&q);
        as_blob_unref(blob);
    }
}

static void the_end_of_a_body_may_be_an_empty_frame(void **state AS_UNUSED)
{
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    as_frame_put_http_data(&q, 41, NULL, 0, false, NULL);
    assert_int_equal(q.bytes, 0);
    as_frame_put_http_data(&q, 41, NULL, 0, true, NULL);
    assert_int_equal(q.bytes, 64);
    b = bytes_of(&q);
    free(follow(b, 0, 0, true).p);
    free(b.p);
    as_outq_fini(&q);
}

struct change {
    size_t at;
    uint8_t value;
};

static void assert_each_refused(struct bytes b, int what, const struct change *c, size_t n)
{
    struct as_frame f = only_frame(b);

    assert_int_equal(decode(&f, what), 0);
    for (size_t i = 0; i < n; i++) {
        uint8_t was = b.p[c[i].at];

        b.p[c[i].at] = c[i].value;
        if (decode(&f, what) != AS_EPROTO)
            fail_msg("accepted: %d at %zu", c[i].value, c[i].at);
        b.p[c[i].at] = was;
    }
    while (f.n--) /* the frame is whole */
        assert_int_equal(decode(&f, what), AS_EPROTO);
    free(b.p);
}

static void malformed_opens_are_refused(void **state AS_UNUSED)
{
    static const struct change bad[] = {
        {16, 1},    {16, 3},    {18, 0},    {18, 21},   {19, 1},    {32, 3},  {32, 5},    {34, 2},
        {39, 0x80}, {40, 1},    {47, 1},    {48, 2},    {48, 4},    {49, 5},  {52, 90},   {52, 4},
        {56, 1},    {56, 8},    {58, 9},    {60, 0},    {60, 5},    {60, 12}, {63, 0x80}, {64, 3},
        {64, 5},    {67, 0x80}, {92, 0xff}, {96, 0xff}, {99, 0x80},
    };
    struct as_frame_http_open in = request();
    struct bytes b;
    struct as_frame f;

    assert_each_refused(encode_open(&in, NULL), 0, bad, AS_COUNT(bad));
    for (int i = 0; i < 8; i++) {
        struct as_str *text[] = {&in.method, &in.scheme,    &in.authority, &in.path,
                                 &in.query,  &in.root_path, &in.peer,      &in.server};

        *text[i] = AS_STR("a\nb");
        b = encode_open(&in, NULL);
        f = only_frame(b);
        assert_int_equal(decode(&f, 0), AS_EPROTO);
        free(b.p);
        in = request();
    }
    in.id = AS_STR("\xff");
    b = encode_open(&in, NULL);
    f = only_frame(b);
    assert_int_equal(decode(&f, 0), AS_EPROTO);
    free(b.p);
    in = request();
    in.flags = AS_HTTP_F_WEBSOCKET; /* with a body */
    b = encode_open(&in, NULL);
    f = only_frame(b);
    assert_int_equal(decode(&f, 0), AS_EPROTO);
    free(b.p);
    in = request();
    in.method.n = 0;
    b = encode_open(&in, NULL);
    f = only_frame(b);
    assert_int_equal(decode(&f, 0), AS_EPROTO);
    free(b.p);
}

static void malformed_heads_are_refused(void **state AS_UNUSED)
{
    static const struct change bad[] = {
        {16, 1}, {16, 0}, {17, 0}, {17, 2}, {17, 3},   {18, 100},  {19, 4}, {32, 3},
        {32, 5}, {34, 2}, {40, 1}, {47, 1}, {48, 2},   {48, 4},    {52, 1}, {56, 1},
        {56, 8}, {58, 9}, {60, 1}, {63, 1}, {64, 200}, {67, 0x80},
    };
    struct as_frame_http_head h = {
        .status = 101, .meta = fields, .n_meta = 3, .body_len = 4, .body = (const uint8_t *)"body"};

    assert_each_refused(encode_head(&h, NULL), 1, bad, AS_COUNT(bad));
}

static void malformed_messages_are_refused(void **state AS_UNUSED)
{
    static const struct change bad[] = {
        {16, 1}, {17, 1}, {18, 1}, {19, 1}, {20, 1}, {24, 1}, {32, 3}, {32, 5}, {37, 2},
        {40, 1}, {48, 1}, {52, 0}, {52, 3}, {52, 8}, {53, 1}, {56, 8}, {60, 1},
    };
    struct as_frame_ws_message m = {
        .opcode = AS_WS_TEXT, .body_len = 4, .body = (const uint8_t *)"body"};

    assert_each_refused(encode_ws(&m, NULL), 2, bad, AS_COUNT(bad));
}

static void limits(void **state AS_UNUSED)
{
    static char text[AS_FRAME_TABLE + 8];
    static struct as_meta many[AS_FRAME_PARAMS + 1];
    struct as_frame_http_open o = request();
    struct as_frame_http_head h = {.status = 200, .meta = many, .n_meta = AS_FRAME_PARAMS};
    struct as_frame_ws_message m = {.opcode = AS_WS_CLOSE,
                                    .body = (const uint8_t *)text,
                                    .body_len = AS_WS_REASON,
                                    .end = true};
    struct as_outq q;
    struct as_frame f;
    struct bytes b;

    as_outq_init(&q);
    memset(text, 'i', sizeof(text));
    o.meta = many;
    o.n_meta = AS_FRAME_PARAMS;
    for (int over = 0; over < 2; over++) {
        assert_int_equal(as_frame_put_http_open(&q, 41, &o, NULL), over ? AS_ETOOBIG : 0);
        assert_int_equal(as_frame_put_http_head(&q, 41, &h, NULL), over ? AS_ETOOBIG : 0);
        assert_int_equal(as_frame_put_ws_message(&q, 41, &m, NULL), over ? AS_ETOOBIG : 0);
        o.n_meta++;
        h.n_meta++;
        m.body_len++;
        if (!over)
            free(bytes_of(&q).p);
        assert_int_equal(q.bytes, 0);
    }
    o = (struct as_frame_http_open){.version = 10, .method = AS_STR("G"), .flags = 4};
    o.path = (struct as_str){text, AS_FRAME_TABLE - 32 - 1};
    b = encode_open(&o, NULL);
    f = only_frame(b);
    assert_int_equal(decode(&f, 0), 0);
    free(b.p);
    assert_true(as_frame_http_open_fits(&o));
    o.path.n++;
    assert_false(as_frame_http_open_fits(&o));
    assert_int_equal(as_frame_put_http_open(&q, 41, &o, NULL), AS_ETOOBIG);
    many[0].value = (struct as_str){text, AS_FRAME_TABLE - 8};
    h.n_meta = 1;
    b = encode_head(&h, NULL);
    f = only_frame(b);
    assert_int_equal(decode(&f, 1), 0);
    free(b.p);
    many[0].value.n++;
    assert_int_equal(as_frame_put_http_head(&q, 41, &h, NULL), AS_ETOOBIG);
    m = (struct as_frame_ws_message){.opcode = AS_WS_TEXT, .body_len = ((uint64_t)1 << 40) + 1};
    assert_int_equal(as_frame_put_ws_message(&q, 41, &m, NULL), AS_ETOOBIG);
    assert_int_equal(q.bytes, 0);
    as_outq_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_round_trip),
        cmocka_unit_test(an_open_without_end),
        cmocka_unit_test(a_head_round_trip),
        cmocka_unit_test(a_websocket_message_round_trip),
        cmocka_unit_test(bodies_are_copied_or_referenced),
        cmocka_unit_test(the_end_of_a_body_may_be_an_empty_frame),
        cmocka_unit_test(malformed_opens_are_refused),
        cmocka_unit_test(malformed_heads_are_refused),
        cmocka_unit_test(malformed_messages_are_refused),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
