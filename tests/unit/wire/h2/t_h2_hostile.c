/* Specification of wire/h2/h2: clients that break the rules, answers that cannot be sent, memory.
 */
#include "h2_raw.h"
#include "wire/h2/h2_internal.h"

#define REQ(t, id)   ((t)->req[((id)-1) / 2])
#define REPLY(t, id) (&(t)->reply[((id)-1) / 2])

/* ---- clients that break the rules ---- */

static void test_a_wrong_preface_ends_the_connection(void **state)
{
    static const char *const wrong[] = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\n"};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(wrong); i++) {
        struct pair *t = pair_new();
        size_t taken;

        pair_feed(t, wrong[i], strlen(wrong[i]));
        assert_int_equal(t->recv_rc, AS_EPROTO);
        assert_true(as_h2_done(t->h));
        assert_false(as_h2_wants_write(t->h));
        assert_int_equal(as_h2_send(t->h, &t->q, 1000), AS_EPROTO);
        assert_int_equal(as_h2_recv(t->h, (const uint8_t *)"x", 1, 0, &taken), AS_EPROTO);
        pair_free(t);
    }
}

static void test_a_broken_frame_ends_the_connection_with_a_goaway(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    raw_request(t, 1, 0, "x", "y");
    raw(t, NGHTTP2_PING, 0, 0, "1234567", 7);
    assert_string_equal(sent(t), "G:6 "); /* FRAME_SIZE_ERROR */
    assert_int_equal(t->send_rc, AS_EPROTO);
    assert_true(as_h2_done(t->h));
    pair_answer(t, 1, NULL, 0, true);
    assert_string_equal(sent(t), "");
    assert_int_equal(t->n_req, 1);
    pair_free(t);
}

/* Any last stream is accepted, but the frame must be well-formed. */
static void test_a_broken_goaway_ends_the_connection(void **state)
{
    static const struct {
        uint32_t stream;
        size_t n;
        const char *want;
    } broken[] = {{1, 8, "G:1 "}, {0, 7, "G:6 "}, {0, 3, "G:6 "}, {0, 0, "G:6 "}};

    (void)state;
    for (size_t i = 0; i < 2 * AS_COUNT(broken); i++) {
        struct pair *t = pair_greeted();

        t->slice = i % 2;
        raw(t, NGHTTP2_GOAWAY, 0, broken[i / 2].stream, "\0\0\0\1\0\0\0\0", broken[i / 2].n);
        assert_string_equal(sent(t), broken[i / 2].want);
        assert_int_equal(t->send_rc, AS_EPROTO);
        pair_free(t);
    }
}

static void test_malformed_requests_do_not_reach_the_owner(void **state)
{
    static const char *const bad[][2] = {
        {"Upper", "x"},    {"connection", "close"}, {"te", "gzip"},         {":path", "/twice"},
        {":unknown", "x"}, {"x", "a\nb"},           {"content-length", "x"}};
    struct pair *t = pair_greeted();

    (void)state;
    raw_request(t, 1, NGHTTP2_FLAG_END_STREAM, "te", "trailers");
    assert_int_equal(t->n_req, 1);
    for (uint32_t i = 0; i < AS_COUNT(bad); i++) {
        char want[32];

        raw_request(t, 2 * i + 3, NGHTTP2_FLAG_END_STREAM, bad[i][0], bad[i][1]);
        snprintf(want, sizeof(want), "R%u:1 ", 2 * i + 3);
        assert_string_equal(sent(t), want);
    }
    assert_int_equal(t->n_req, 1);
    assert_int_equal(t->send_rc, 0);
    pair_free(t);
}

/* wire/h2/h2_closed_streams finds it; nghttp2 alone would ignore the frame. */
static void test_frames_after_the_clients_own_end_end_the_connection(void **state)
{
    static const uint8_t types[] = {NGHTTP2_DATA, NGHTTP2_HEADERS};

    (void)state;
    for (size_t i = 0; i < 2 * AS_COUNT(types); i++) {
        struct pair *t = pair_greeted();

        t->slice = i % 2; /* all at once, byte by byte */
        t->mode = PAIR_EARLY;
        raw_request(t, 1, NGHTTP2_FLAG_END_STREAM, "x", "y");
        assert_string_equal(sent(t), "H1 ");
        t->mode = PAIR_HOLD;
        raw_request(t, 3, 0, "x", "y");
        raw(t, types[i / 2], NGHTTP2_FLAG_END_STREAM, 1, "late", 4);
        raw_request(t, 5, NGHTTP2_FLAG_END_STREAM, "x", "y");
        assert_int_equal(t->recv_rc, AS_EPROTO);
        assert_int_equal(t->n_req, 2); /* the bytes after it are not read */
        assert_string_equal(sent(t), "G:5 ");
        assert_int_equal(t->send_rc, AS_EPROTO);
        assert_int_equal(as_h2_breach(t->h), AS_H2_PROTOCOL);
        pair_free(t);
    }
}

static void test_frames_after_the_servers_end_are_ignored(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    t->mode = PAIR_EARLY;
    raw_request(t, 1, 0, "x", "y");
    assert_string_equal(sent(t), "H1 R1:0 ");
    raw(t, NGHTTP2_DATA, 0, 1, "on its way", 10);
    raw(t, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "too", 3);
    assert_string_equal(sent(t), "");
    assert_int_equal(t->send_rc, 0);
    pair_free(t);
}

/* Half-closed (remote): the same result as from nghttp2. */
static void test_frames_after_the_end_of_an_open_stream_end_the_connection(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    raw_request(t, 1, NGHTTP2_FLAG_END_STREAM, "x", "y");
    raw(t, NGHTTP2_DATA, 0, 1, "more", 4);
    assert_string_equal(sent(t), "G:5 ");
    assert_int_equal(t->send_rc, AS_EPROTO);
    pair_free(t);
}

static void test_invalid_priorities_end_the_connection(void **state)
{
    static const struct {
        uint32_t stream;
        const char *payload;
        size_t n;
        const char *sent;
    } cases[] = {
        {0, "\0\0\0\3w", 5, "G:1 "},   /* RFC 9113 §6.3 */
        {3, "\0\0\0\3w", 5, "G:1 "},   /* RFC 7540 §5.3.1 */
        {3, "\x80\0\0\3w", 5, "G:1 "}, /* exclusive */
        {3, "\0\0\0\5w", 5, ""},       {3, "\0\0\0\0w", 5, ""},
    };

    (void)state;
    for (size_t i = 0; i < 2 * AS_COUNT(cases); i++) {
        struct pair *t = pair_greeted();

        t->slice = i % 2;
        raw(t, NGHTTP2_PRIORITY, 0, cases[i / 2].stream, cases[i / 2].payload, cases[i / 2].n);
        assert_string_equal(sent(t), cases[i / 2].sent);
        pair_free(t);
    }
}

/* Header blocks in any number of pieces: nghttp2's own limit, which is off, would count every
 * piece. */
static void test_a_header_block_in_many_frames(void **state)
{
    (void)state;
    for (size_t slice = 0; slice <= 2; slice++) {
        struct pair *t = pair_greeted();
        uint8_t block[256];
        size_t size = literal(block, ":method", "POST");

        size += literal(block + size, ":scheme", "http");
        size += literal(block + size, ":path", "/m");
        size += literal(block + size, ":authority", "host");
        t->slice = slice;
        raw(t, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, block, size);
        for (unsigned i = 1; i <= 4; i++)
            raw(t, NGHTTP2_CONTINUATION, i == 4 ? NGHTTP2_FLAG_END_HEADERS : 0, 1, block,
                literal(block, "x", "y"));
        assert_int_equal(t->recv_rc, 0);
        assert_int_equal(t->n_req, 1);
        assert_int_equal(REQ(t, 1)->head->n_rest, 4);
        pair_free(t);
    }
}

static void test_a_body_that_differs_from_its_content_length(void **state)
{
    struct pair *t = pair_greeted();

    (void)state;
    raw_request(t, 1, 0, "content-length", "3");
    raw(t, NGHTTP2_DATA, 0, 1, "1234", 4);
    assert_string_equal(sent(t), "R1:1 ");
    assert_int_equal(REQ(t, 1)->n_end, 0);
    assert_int_equal(REQ(t, 1)->n_close, 1);
    assert_int_equal(REQ(t, 1)->code, NGHTTP2_PROTOCOL_ERROR);
    raw_request(t, 3, 0, "content-length", "3");
    raw(t, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 3, "12", 2);
    assert_string_equal(sent(t), "R3:1 ");
    assert_int_equal(REQ(t, 3)->n_end, 0);
    pair_free(t);
}

static void test_more_streams_than_acknowledged_end_the_connection(void **state)
{
    struct as_h2_conf conf = pair_conf;
    struct pair *t;

    (void)state;
    conf.max_streams = 2;
    t = pair_new_with(&conf, 65535, 16384);
    t->mode = PAIR_HOLD;
    pair_pump(t);
    for (uint32_t id = 1; id <= 5; id += 2)
        raw_request(t, id, NGHTTP2_FLAG_END_STREAM, "x", "y");
    assert_string_equal(sent(t), "G:1 ");
    assert_int_equal(t->send_rc, AS_EPROTO);
    assert_int_equal(t->n_req, 2);
    pair_free(t);
}

static void test_an_answer_that_cannot_be_sent_resets_the_stream(void **state)
{
    static char value[70000];
    struct pair *t = pair_new();
    int32_t id = pair_request(t, NULL, NULL, 0), id2 = pair_request(t, NULL, NULL, 0);
    struct as_http_header big = {AS_STR("x"), {value, sizeof(value)}};

    (void)state;
    memset(value, 'v', sizeof(value));
    t->mode = PAIR_HOLD;
    pair_pump(t);
    as_h2_answer(t->h, (uint32_t)id,
                 &(struct as_http_answer){.status = 200, .headers = &big, .n_headers = 1});
    as_h2_answer(t->h, (uint32_t)id2,
                 &(struct as_http_answer){.status = 200, .trailers = &big, .n_trailers = 1});
    pair_pump(t);
    assert_string_equal(REPLY(t, id)->frames, "r");
    assert_int_equal(REPLY(t, id)->code, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(REQ(t, id)->n_close, 1);
    assert_string_equal(REPLY(t, id2)->frames, "hr");
    assert_int_equal(REPLY(t, id2)->code, NGHTTP2_INTERNAL_ERROR);
    pair_free(t);
}

/* ---- the memory given to nghttp2 ---- */

static void test_records_are_kept_up_to_a_bound(void **state)
{
    struct pair *t = pair_new();

    (void)state;
    t->mode = PAIR_HOLD;
    for (size_t i = 0; i < 200; i++)
        pair_request(t, NULL, NULL, 0);
    pair_pump(t);
    for (uint32_t id = 1; id < 400; id += 2)
        pair_answer(t, id, NULL, 0, true);
    pair_pump(t);
    assert_int_equal(t->n_close, 200);
    assert_int_equal(t->h->n_free, AS_H2_FREE_MAX);
    pair_free(t);
}

static void test_blocks_are_kept_up_to_a_bound(void **state)
{
    struct as_h2_memory pool;
    nghttp2_mem *m = &pool.mem;
    void *p[1000];

    (void)state;
    as_h2_memory_init(&pool);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < AS_COUNT(p); i++) {
            p[i] = m->malloc(i, m->mem_user_data);
            assert_non_null(p[i]);
            assert_int_equal((uintptr_t)p[i] % 16, 0);
            memset(p[i], 0xee, i);
        }
        assert_int_equal(pool.free_bytes, 0);
        for (size_t i = 0; i < AS_COUNT(p); i++)
            m->free(p[i], m->mem_user_data);
        assert_in_range(pool.free_bytes, AS_H2_MEMORY_MAX - 512 * AS_H2_RECYCLE, AS_H2_MEMORY_MAX);
    }
    as_h2_memory_fini(&pool);
}

static void test_blocks_grow_and_are_cleared(void **state)
{
    struct as_h2_memory pool;
    nghttp2_mem *m = &pool.mem;
    uint8_t *p;

    (void)state;
    as_h2_memory_init(&pool);
    p = m->realloc(NULL, 10, m->mem_user_data);
    memset(p, 0xee, 10);
    for (size_t n = 11; n < 2000; n += 50) {
        p = m->realloc(p, n, m->mem_user_data);
        assert_int_equal(p[9], 0xee);
        memset(p + 10, 0xdd, n - 10);
    }
    m->free(p, m->mem_user_data);
    m->free(NULL, m->mem_user_data);
    p = m->calloc(4, 4, m->mem_user_data);
    assert_memory_equal(p, (uint8_t[16]){0}, 16);
    m->free(p, m->mem_user_data);
    assert_null(m->calloc(SIZE_MAX / 2, 3, m->mem_user_data));
    assert_null(m->malloc(SIZE_MAX, m->mem_user_data));
    as_h2_memory_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_preface_ends_the_connection),
        cmocka_unit_test(test_a_broken_frame_ends_the_connection_with_a_goaway),
        cmocka_unit_test(test_a_broken_goaway_ends_the_connection),
        cmocka_unit_test(test_malformed_requests_do_not_reach_the_owner),
        cmocka_unit_test(test_frames_after_the_clients_own_end_end_the_connection),
        cmocka_unit_test(test_frames_after_the_servers_end_are_ignored),
        cmocka_unit_test(test_frames_after_the_end_of_an_open_stream_end_the_connection),
        cmocka_unit_test(test_invalid_priorities_end_the_connection),
        cmocka_unit_test(test_a_header_block_in_many_frames),
        cmocka_unit_test(test_a_body_that_differs_from_its_content_length),
        cmocka_unit_test(test_more_streams_than_acknowledged_end_the_connection),
        cmocka_unit_test(test_an_answer_that_cannot_be_sent_resets_the_stream),
        cmocka_unit_test(test_records_are_kept_up_to_a_bound),
        cmocka_unit_test(test_blocks_are_kept_up_to_a_bound),
        cmocka_unit_test(test_blocks_grow_and_are_cleared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
