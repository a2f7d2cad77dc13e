/* Specification of wire/h2/h2_request_cache: request heads that come again. What the owner gets
 * must not depend on whether a block was decoded or taken from the cache.
 */
#include "base/rand.h"
#include "h2_raw.h"
#include "wire/h2/h2_internal.h"

#define REQ(t, id) ((t)->req[((id)-1) / 2])

/* Adds an entry to the compression table: a literal with indexing and a new name. */
static size_t insert(uint8_t *to, const char *name, const char *value)
{
    size_t n = literal(to, name, value);

    to[0] = 0x40;
    return n;
}

/* References to the static table: POST, http; and a path. */
static size_t pseudo(uint8_t *to)
{
    size_t n = 2;

    to[0] = 0x83;
    to[1] = 0x86;
    n += literal(to + n, ":path", "/m");
    return n + literal(to + n, ":authority", "host");
}

static const char *text(struct pair *t, uint32_t id)
{
    assert_non_null(REQ(t, id));
    return (const char *)REQ(t, id)->text.p;
}

static void ask(struct pair *t, uint32_t id, const uint8_t *block, size_t n)
{
    raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS, id, block, n);
}

static bool is_cached(const struct pair *t)
{
    return t->h->request_cache.request;
}

static void a_block_that_comes_twice_is_cached(void **state AS_UNUSED)
{
    struct pair *t = pair_greeted();
    uint8_t block[128];
    size_t n = pseudo(block);

    n += literal(block + n, "te", "trailers");
    n += literal(block + n, "x-a", "1");
    n += literal(block + n, "x-empty", "");
    for (uint32_t id = 1; id < 11; id += 2) {
        ask(t, id, block, n);
        assert_int_equal(is_cached(t), id > 1);
        assert_string_equal(text(t, id), "POST|/m|http|host||trailers|||\nx-a: 1\nx-empty: ");
        assert_int_equal(REQ(t, id)->n_end, 1);
        assert_true(REQ(t, id)->end_stream);
    }
    pair_free(t);
}

/* Fields live as long as the streams that have them, whatever the cache holds by then. */
static void another_block_clears_the_cache(void **state AS_UNUSED)
{
    struct pair *t = pair_greeted();
    uint8_t block[128], other[128];
    size_t n = pseudo(block), m = pseudo(other);

    n += literal(block + n, "x-a", "1");
    m += literal(other + m, "x-a", "2");
    for (uint32_t id = 1; id < 7; id += 2)
        ask(t, id, block, n);
    assert_true(is_cached(t));
    ask(t, 7, other, m);
    assert_false(is_cached(t));
    assert_string_equal(text(t, 7), "POST|/m|http|host|||||\nx-a: 2");
    pair_trailers_only(t, 5);
    assert_string_equal(sent(t), "H5 "); /* pair_on_close has compared its fields */
    assert_int_equal(REQ(t, 5)->n_close, 1);
    ask(t, 9, other, m);
    ask(t, 11, other, m);
    assert_string_equal(text(t, 11), "POST|/m|http|host|||||\nx-a: 2");
    pair_free(t);
}

/* The same bytes mean something else after a change of the table. */
static void the_compression_table_changes(void **state AS_UNUSED)
{
    struct pair *t = pair_greeted();
    uint8_t block[128], other[128];
    size_t n = pseudo(block), m = pseudo(other);

    m += insert(other + m, "x-a", "1");
    ask(t, 1, other, m);
    assert_int_equal(t->h->request_cache.n, 0); /* its bytes mean "insert" */
    block[n++] = 0x80 | 62;                     /* the newest entry */
    for (uint32_t id = 3; id < 11; id += 2) {
        ask(t, id, block, n);
        assert_string_equal(text(t, id), "POST|/m|http|host|||||\nx-a: 1");
    }
    assert_true(is_cached(t));
    m = pseudo(other);
    m += insert(other + m, "x-b", "2");
    ask(t, 11, other, m);
    assert_false(is_cached(t));
    for (uint32_t id = 13; id < 19; id += 2) {
        ask(t, id, block, n);
        assert_string_equal(text(t, id), "POST|/m|http|host|||||\nx-b: 2");
    }
    pair_free(t);
}

/* The block of a stream's trailers changes the table, too. */
static void trailers_change_the_table(void **state AS_UNUSED)
{
    struct pair *t = pair_greeted();
    uint8_t block[128], tail[32];
    size_t n = pseudo(block), m = insert(tail, "x-a", "1");

    raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 3, block, n);
    ask(t, 3, tail, m);
    block[n++] = 0x80 | 62;
    ask(t, 5, block, n);
    ask(t, 7, block, n);
    assert_true(is_cached(t));
    raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 9, block, n);
    assert_true(is_cached(t));
    m = insert(tail, "x-b", "2");
    ask(t, 9, tail, m);
    assert_int_equal(REQ(t, 9)->n_end, 1);
    assert_false(is_cached(t));
    ask(t, 11, block, n);
    assert_string_equal(text(t, 11), "POST|/m|http|host|||||\nx-b: 2");
    pair_free(t);
}

/* A cached block may come as trailers: then it is malformed, as it is when decoded. */
static void a_cached_block_as_trailers_is_malformed(void **state AS_UNUSED)
{
    struct pair *t = pair_greeted();
    uint8_t block[128];
    size_t n = pseudo(block);

    for (uint32_t id = 1; id < 7; id += 2)
        raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, block, n);
    assert_true(is_cached(t));
    ask(t, 3, block, n);
    assert_int_equal(REQ(t, 3)->n_end, 0);
    assert_string_equal(sent(t), "R3:1 ");
    pair_free(t);
}

static void a_cached_head_may_have_a_content_length(void **state AS_UNUSED)
{
    struct pair *t = pair_greeted();
    uint8_t block[128];
    size_t n = pseudo(block);

    n += literal(block + n, "content-length", "2");
    for (uint32_t id = 1; id < 9; id += 2) {
        raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, block, n);
        raw(t, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, id, "ab", 2);
        assert_int_equal(REQ(t, id)->n_end, 1);
    }
    assert_true(is_cached(t));
    raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 9, block, n);
    raw(t, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 9, "abc", 3);
    assert_int_equal(REQ(t, 9)->n_end, 0);
    assert_string_equal(sent(t), "R9:1 ");
    ask(t, 11, block, n); /* and no body at all */
    assert_null(REQ(t, 11));
    assert_string_equal(sent(t), "R11:1 ");
    pair_free(t);
}

static size_t add_frame(uint8_t *to, uint32_t id, const uint8_t *block, size_t n)
{
    memset(to, 0, 9);
    to[2] = (uint8_t)n;
    to[3] = NGHTTP2_HEADERS;
    to[4] = NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS;
    to[8] = (uint8_t)id;
    memcpy(to + 9, block, n);
    return 9 + n;
}

/* Each request gets its own fields, even if nghttp2 gets several frames at once. */
static void many_frames_in_one_read(void **state AS_UNUSED)
{
    static const uint8_t order[] = {0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0};
    struct pair *t = pair_greeted();
    uint8_t block[2][128], all[AS_COUNT(order) * 100];
    size_t n[2], len = 0;

    for (size_t i = 0; i < 2; i++) {
        n[i] = pseudo(block[i]);
        n[i] += literal(block[i] + n[i], "x-a", i ? "1" : "0");
    }
    for (uint32_t i = 0; i < AS_COUNT(order); i++)
        len += add_frame(all + len, 2 * i + 1, block[order[i]], n[order[i]]);
    pair_feed(t, all, len);
    for (uint32_t i = 0; i < AS_COUNT(order); i++)
        assert_string_equal(text(t, 2 * i + 1), order[i] ? "POST|/m|http|host|||||\nx-a: 1"
                                                         : "POST|/m|http|host|||||\nx-a: 0");
    assert_true(is_cached(t));
    pair_free(t);
}

/* The bytes are cut anywhere, also inside a frame head. */
static void frames_in_pieces_are_not_cached(void **state AS_UNUSED)
{
    for (size_t slice = 1; slice < 80; slice++) {
        struct pair *t = pair_greeted();
        uint8_t block[128];
        size_t n = pseudo(block), m = n + insert(block + n, "x-a", "1");

        t->slice = slice;
        for (uint32_t id = 1; id < 9; id += 2) {
            ask(t, id, block, id == 1 ? m : n + 1);
            block[n] = 0x80 | 62;
            assert_string_equal(text(t, id), "POST|/m|http|host|||||\nx-a: 1");
        }
        assert_int_equal(is_cached(t), slice >= 9 + n + 1);
        pair_free(t);
    }
}

/* Blocks in several frames, with padding or with a priority are left to nghttp2. */
static void unusual_frames_are_not_cached(void **state AS_UNUSED)
{
    struct pair *t = pair_greeted();
    uint8_t block[128] = {0}; /* of pad length 0; of a priority without a parent and weight 1 */
    size_t n = pseudo(block + 5);

    for (uint32_t id = 1; id < 7; id += 2)
        ask(t, id, block + 5, n);
    assert_true(is_cached(t));
    raw(t, NGHTTP2_HEADERS,
        NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_PRIORITY, 7, block,
        5 + n);
    assert_false(is_cached(t));
    for (uint32_t id = 9; id < 13; id += 2)
        ask(t, id, block + 5, n);
    assert_true(is_cached(t));
    raw(t, NGHTTP2_HEADERS,
        NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_PADDED, 13, block + 4,
        1 + n);
    assert_false(is_cached(t));
    for (uint32_t id = 15; id < 19; id += 2)
        ask(t, id, block + 5, n);
    assert_true(is_cached(t));
    raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 19, block + 5, n);
    n = insert(block, "x-a", "1");
    raw(t, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 19, block, n);
    assert_false(is_cached(t));
    for (uint32_t id = 1; id < 21; id += 2)
        assert_string_equal(text(t, id), id < 19 ? "POST|/m|http|host||||"
                                                   "|"
                                                 : text(t, 19));
    assert_string_equal(text(t, 19), "POST|/m|http|host|||||\nx-a: 1");
    pair_free(t);
}

static void a_malformed_head_is_never_cached(void **state AS_UNUSED)
{
    struct pair *t = pair_greeted();
    uint8_t block[128];
    size_t n = pseudo(block);

    n += literal(block + n, "connection", "close");
    for (uint32_t id = 1; id < 9; id += 2) {
        ask(t, id, block, n);
        assert_false(is_cached(t));
        assert_null(REQ(t, id));
    }
    assert_string_equal(sent(t), "R1:1 R3:1 R5:1 R7:1 ");
    pair_free(t);
}

/* The largest block and text that are cached, and one byte more. */
static void large_heads_are_decoded_each_time(void **state AS_UNUSED)
{
    char value[AS_H2_REQUEST_BLOCK_MAX];

    for (size_t over = 0; over < 2; over++) {
        struct pair *t = pair_greeted();
        uint8_t block[2 * AS_H2_REQUEST_BLOCK_MAX];
        size_t n = pseudo(block), v = AS_H2_REQUEST_BLOCK_MAX - n - 3 - 4 - 1 + over;

        /* longer than 126: its length takes two bytes */
        assert_true(v > 127);
        memset(value, 'v', v);
        value[v] = 0;
        n += literal(block + n, "x-ab", value);
        memmove(block + n - v + 1, block + n - v, v);
        block[n - v - 1] = 0x7f;
        block[n - v] = (uint8_t)(v - 127);
        n++;
        assert_int_equal(n, AS_H2_REQUEST_BLOCK_MAX + over);
        for (uint32_t id = 1; id < 7; id += 2)
            ask(t, id, block, n);
        assert_int_equal(is_cached(t), !over);
        assert_string_equal(strchr(text(t, 5), ' ') + 1, value);
        pair_free(t);
    }
}

/* First bytes according to RFC 7541 §6; numbers and strings that are cut are not cacheable. */
static void blocks_that_change_the_table(void **state AS_UNUSED)
{
    static const struct {
        const char *block;
        size_t n;
        bool is_steady;
    } row[] = {
        {"\x82\x86\xff\x00", 4, true},      /* references; 127 takes two bytes */
        {"\xff\x80\x01", 3, true},          /* 255 */
        {"\xff", 1, false},                 /* cut */
        {"\xff\x80\x80\x80\x01", 5, false}, /* too large */
        {"\x00\x01n\x01v", 5, true},        /* not indexed */
        {"\x10\x01n\x01v", 5, true},        /* never indexed */
        {"\x0f\x01\x01v", 4, true},         /* name from the table, entry 16 */
        {"\x04\x01v\x84", 4, true},         /* … 4, and a reference */
        {"\x04\x81v", 3, true},             /* Huffman-coded */
        {"\x40\x01n\x01v", 5, false},       /* indexed */
        {"\x44\x01v", 3, false},            /* … with a name from the table */
        {"\x3f\x00", 2, false},             /* a new size */
        {"\x20", 1, false},                 /* … 0 */
        {"\x82\x20", 2, false},             /* … behind a reference */
        {"\x00\x01n\x02v", 5, false},       /* cut */
        {"\x00\x02n", 3, false},            /* … in the name */
        {"\x00", 1, false},                 /* … before it */
        {"\x04", 1, false},                 /* … before the value */
        {"", 0, true},
    };

    for (size_t i = 0; i < AS_COUNT(row); i++) {
        uint8_t *exact = malloc(AS_MAX(row[i].n, (size_t)1));

        assert_non_null(exact);
        memcpy(exact, row[i].block, row[i].n);
        if (as_h2_request_cache_is_cacheable(exact, row[i].n) != row[i].is_steady)
            fail_msg("row %zu", i);
        free(exact);
    }
}

/* A real client: nghttp2 chooses the table, the order and the pieces. */
static void a_client_that_repeats_itself(void **state AS_UNUSED)
{
    struct pair *t = pair_new();
    const nghttp2_nv extra[] = {pair_nv("te", "trailers"), pair_nv("grpc-timeout", "1S"),
                                pair_nv("x-id", "1")},
                     other[] = {pair_nv("te", "trailers"), pair_nv("x-id", "2")};

    for (int i = 0; i < 40; i++) {
        struct pair_upload u = {.left = 10};
        bool odd = i % 10 == 9;
        int32_t id = pair_request(t, &u, odd ? other : extra, odd ? 2 : 3);

        pair_pump(t);
        assert_string_equal(text(t, (uint32_t)id),
                            odd ? "POST|/m|http|host||trailers|||\nx-id: 2"
                                : "POST|/m|http|host||trailers|1S||\nx-id: 1");
        assert_int_equal(REQ(t, id)->n_close, 1);
        assert_int_equal(is_cached(t), i % 10 >= (i < 10 ? 2 : 1) && !odd);
    }
    pair_free(t);
}

/* One of a few kinds of requests, what the owner must see of it, and whether it is cancelled. */
static int32_t any_request(struct pair *t, struct as_rand *r, struct pair_upload *u, char *ret_text,
                           size_t cap)
{
    static const char *const paths[] = {"/m", "/m", "/m", "/other"}, *const timeouts[] = {
                                                                         NULL, NULL, NULL,
                                                                         NULL, "1S", "20m"};
    const char *path = paths[as_rand_below(r, AS_COUNT(paths))];
    const char *timeout = timeouts[as_rand_below(r, AS_COUNT(timeouts))];
    nghttp2_nv nv[6] = {
        pair_nv(":method", "POST"), pair_nv(":scheme", "http"),
        pair_nv(":path", path),     pair_nv(":authority", "host"),
        pair_nv("te", "trailers"),  pair_nv("grpc-timeout", timeout ? timeout : "")};
    nghttp2_data_provider body = {.source = {.ptr = u}, .read_callback = pair_read};
    int32_t id;

    snprintf(ret_text, cap, "POST|%s|http|host||trailers|%s||", path, timeout ? timeout : "");
    u->left = as_rand_below(r, 4) ? as_rand_below(r, 300) : as_rand_below(r, 40000);
    id = nghttp2_submit_request(t->client, NULL, nv, timeout ? 6 : 5, &body, NULL);
    assert_true(id > 0);
    return id;
}

/* Passes on everything that the client sends, in reads of `slice` bytes. */
static void say_all(struct pair *t)
{
    struct as_buf all = {0};
    const uint8_t *p;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(t->client, &p)) > 0)
        as_buf_add(&all, p, (size_t)n);
    if (all.n)
        pair_feed(t, all.p, all.n);
    as_buf_fini(&all);
}

/* Requests of some kinds, in reads of any length. */
static void any_order_and_any_cut(void **state AS_UNUSED)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct pair *t = pair_new();
        struct as_rand r = {seed};
        struct pair_upload u[300];
        char want[300][96];
        unsigned known = 0;

        t->mode = PAIR_HOLD;
        for (size_t i = 0; i < AS_COUNT(u);) {
            size_t few = 1 + as_rand_below(&r, 12), some = AS_MIN(few, AS_COUNT(u) - i);

            for (size_t k = 0; k < some; k++) {
                int32_t id = any_request(t, &r, &u[i + k], want[i + k], sizeof(want[0]));

                assert_int_equal(id, 2 * (i + k) + 1);
            }
            i += some;
            t->slice = as_rand_below(&r, 3) ? 100000 : 1 + as_rand_below(&r, 400);
            say_all(t);
            pair_pump(t);
            known += is_cached(t);
            for (size_t k = i - some; k < i; k++)
                pair_trailers_only(t, (uint32_t)(2 * k + 1));
        }
        for (uint32_t i = 0; i < AS_COUNT(u); i++)
            assert_string_equal(text(t, 2 * i + 1), want[i]);
        assert_true(known > 0);
        pair_free(t);
    }
}

/* After GOAWAY: a cached head is not used, and the table is unchanged. */
static void a_refused_stream_gets_no_cached_head(void **state AS_UNUSED)
{
    struct pair *t = pair_greeted();
    uint8_t block[128];
    size_t n = pseudo(block);

    for (uint32_t id = 1; id < 7; id += 2)
        ask(t, id, block, n);
    as_h2_shutdown_final(t->h);
    assert_string_equal(sent(t), "G:0 ");
    for (uint32_t id = 7; id < 11; id += 2) {
        ask(t, id, block, n);
        assert_null(REQ(t, id));
    }
    assert_true(is_cached(t));
    for (uint32_t id = 1; id < 7; id += 2)
        pair_trailers_only(t, id);
    assert_string_equal(sent(t), "H1 H3 H5 ");
    pair_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_comes_twice_is_cached),
        cmocka_unit_test(another_block_clears_the_cache),
        cmocka_unit_test(the_compression_table_changes),
        cmocka_unit_test(trailers_change_the_table),
        cmocka_unit_test(a_cached_block_as_trailers_is_malformed),
        cmocka_unit_test(a_cached_head_may_have_a_content_length),
        cmocka_unit_test(many_frames_in_one_read),
        cmocka_unit_test(frames_in_pieces_are_not_cached),
        cmocka_unit_test(unusual_frames_are_not_cached),
        cmocka_unit_test(a_malformed_head_is_never_cached),
        cmocka_unit_test(large_heads_are_decoded_each_time),
        cmocka_unit_test(blocks_that_change_the_table),
        cmocka_unit_test(a_client_that_repeats_itself),
        cmocka_unit_test(any_order_and_any_cut),
        cmocka_unit_test(a_refused_stream_gets_no_cached_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
