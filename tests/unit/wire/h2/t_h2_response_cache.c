/* Specification of wire/h2/h2_response_cache: header blocks that were sent before. What a client
 * decodes must not depend on whether nghttp2 or the cache has encoded it.
 */
#include "h2_pair.h"
#include "wire/h2/h2_internal.h"

#define PLAIN ":status: 200\ncontent-type: application/grpc\n"
#define WHOLE PLAIN "grpc-status: 0\n"

static const char *fields(struct pair *t, int32_t id)
{
    return pair_text(&pair_reply_of(t, id)->headers);
}

static int32_t ask(struct pair *t)
{
    int32_t id = pair_request(t, NULL, NULL, 0);

    pair_to_server(t);
    return id;
}

/* It is not encoded before the next pair_to_client. */
static void answer(struct pair *t, int32_t id)
{
    pair_answer(t, (uint32_t)id, &(struct as_http_piece){(const uint8_t *)"ok", 2, NULL}, 1, true);
}

static void answer_with(struct pair *t, int32_t id, uint32_t status, const char *name,
                        const char *value)
{
    struct as_http_header h = {as_str_of(name), as_str_of(value)};
    struct as_http_piece body = {(const uint8_t *)"ok", 2, NULL};

    as_h2_answer(t->h, (uint32_t)id,
                 &(struct as_http_answer){
                     .status = status, .headers = &h, .n_headers = 1, .body = &body, .n_body = 1});
}

static int32_t call(struct pair *t)
{
    int32_t id = ask(t);

    answer(t, id);
    pair_pump(t);
    return id;
}

/* The same fields in heads and trailers, again and again: invalid fields are left out, and are not
 * cached. */
static void invalid_fields_are_left_out(void **state)
{
    const struct as_http_header h[] = {
        {AS_STR("a"), AS_STR("b")},         {AS_STR("X"), AS_STR("1")},
        {AS_STR("x\r\ny"), AS_STR("1")},    {AS_STR(":path"), AS_STR("/")},
        {AS_STR(""), AS_STR("1")},          {AS_STR("v1"), AS_STR("1\r\ny: 2")},
        {AS_STR("v2"), AS_STR("1\0")},      {AS_STR("v3"), AS_STR(" 1")},
        {AS_STR("v4"), AS_STR("1 ")},       {AS_STR("connection"), AS_STR("close")},
        {AS_STR("upgrade"), AS_STR("h2c")}, {AS_STR("transfer-encoding"), AS_STR("chunked")},
    };
    struct pair *t = pair_new();
    struct as_http_piece body = {(const uint8_t *)"ok", 2, NULL};
    struct as_http_answer a = {.status = 200, .body = &body, .n_body = 1, .headers = h};

    (void)state;
    t->mode = PAIR_HOLD;
    pair_pump(t);
    a.trailers = h;
    a.n_headers = a.n_trailers = AS_COUNT(h);
    for (int i = 0; i < 4; i++) {
        int32_t id = ask(t);

        as_h2_answer(t->h, (uint32_t)id, &a);
        pair_pump(t);
        assert_string_equal(fields(t, id), ":status: 200\na: b\na: b\n");
        assert_string_equal(pair_reply_of(t, id)->frames, "hdH");
    }
    a.trailers = h + 1; /* none is left: the body ends the answer */
    a.n_trailers = AS_COUNT(h) - 1;
    for (int i = 0; i < 4; i++) {
        int32_t id = ask(t);

        as_h2_answer(t->h, (uint32_t)id, &a);
        pair_pump(t);
        assert_string_equal(fields(t, id), ":status: 200\na: b\n");
        assert_string_equal(pair_reply_of(t, id)->frames, "hD");
    }
    pair_free(t);
}

/* A pair that has sent WHOLE until it is cached. */
static struct pair *pair_that_knows(void)
{
    struct pair *t = pair_new();

    t->mode = PAIR_HOLD;
    pair_pump(t);
    for (int i = 0; i < 4; i++)
        call(t);
    assert_true(t->h->response_cache.head.is_known);
    assert_true(t->h->response_cache.trailers.is_known);
    return t;
}

static void check(struct pair *t, int32_t id, const char *text)
{
    assert_string_equal(fields(t, id), text);
    assert_true(pair_reply_of(t, id)->closed);
    assert_int_equal(pair_reply_of(t, id)->code, NGHTTP2_NO_ERROR);
}

static void equal_answers_are_cached(void **state AS_UNUSED)
{
    struct pair *t = pair_new();

    t->mode = PAIR_HOLD;
    for (int i = 0; i < 9; i++) {
        int32_t id = call(t);

        check(t, id, WHOLE);
        assert_string_equal(pair_text(&pair_reply_of(t, id)->body), "ok");
        assert_string_equal(pair_reply_of(t, id)->frames, "hdH");
        /* the first has literals, the second references; the cache learns from the first */
        assert_int_equal(t->h->response_cache.head.is_known, i >= 1);
    }
    assert_int_equal(t->h->response_cache.n_heads_pending, 0);
    pair_free(t);
}

static void many_at_once(void **state AS_UNUSED)
{
    struct pair *t = pair_that_knows();
    int32_t id[20];

    for (size_t i = 0; i < AS_COUNT(id); i++)
        id[i] = ask(t);
    for (size_t i = 0; i < AS_COUNT(id); i++)
        answer(t, id[i]);
    assert_int_equal(t->h->response_cache.n_heads_pending, AS_COUNT(id));
    pair_pump(t);
    for (size_t i = 0; i < AS_COUNT(id); i++)
        check(t, id[i], WHOLE);
    assert_int_equal(t->h->response_cache.n_heads_pending, 0);
    pair_free(t);
}

/* The table changes between an answer and its frame: fields become literals. */
static void another_block_comes_between(void **state AS_UNUSED)
{
    struct pair *t = pair_that_knows();
    int32_t id[6];

    for (size_t i = 0; i < AS_COUNT(id); i++)
        id[i] = ask(t);
    answer(t, id[0]);
    answer_with(t, id[1], 404, "x-new", "1");
    answer(t, id[2]);
    assert_int_equal(t->h->response_cache.n_heads_pending, 2);
    pair_pump(t);
    assert_false(t->h->response_cache.head.is_known);
    check(t, id[0], WHOLE);
    check(t, id[1], ":status: 404\nx-new: 1\n");
    check(t, id[2], WHOLE);
    for (size_t i = 3; i < AS_COUNT(id); i++) { /* learnt anew */
        answer(t, id[i]);
        pair_pump(t);
        check(t, id[i], WHOLE);
    }
    assert_true(t->h->response_cache.head.is_known);
    pair_free(t);
}

/* The text of a waiting frame is not replaced; when no frame waits, it is. */
static void two_kinds_take_turns(void **state AS_UNUSED)
{
    struct pair *t = pair_that_knows();
    int32_t a, b, c;

    for (int i = 0; i < 5; i++) {
        a = ask(t);
        b = ask(t);
        c = ask(t);
        answer_with(t, a, 200, "content-type", i ? "text/html" : "text/plain");
        answer_with(t, b, 200, "content-type", "text/plain");
        answer(t, c);
        pair_pump(t);
        check(t, a,
              i ? ":status: 200\ncontent-type: text/html\n"
                : ":status: 200\ncontent-type: text/plain\n");
        check(t, b, ":status: 200\ncontent-type: text/plain\n");
        check(t, c, WHOLE);
        assert_int_equal(t->h->response_cache.n_heads_pending, 0);
    }
    pair_free(t);
}

/* The cache learns the text of the frame, even if another answer comes before the frame is sent. */
static void a_waiting_frame_is_learned_with_its_own_text(void **state AS_UNUSED)
{
    struct pair *t = pair_new();
    int32_t a, b;

    t->mode = PAIR_HOLD;
    pair_pump(t);
    for (int i = 0; i < 6; i++) {
        a = ask(t);
        b = ask(t);
        answer_with(t, a, 200, "x-a", "1");
        answer_with(t, b, 200, "x-b", "2");
        pair_pump(t);
        check(t, a, ":status: 200\nx-a: 1\n");
        check(t, b, ":status: 200\nx-b: 2\n");
    }
    pair_free(t);
}

static void settings(struct pair *t, uint32_t table)
{
    nghttp2_settings_entry e = {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, table};

    assert_int_equal(nghttp2_submit_settings(t->client, NGHTTP2_FLAG_NONE, &e, 1), 0);
    pair_to_server(t);
}

/* A new table size is sent before the next block, and entries may be gone. */
static void the_client_changes_its_table(void **state AS_UNUSED)
{
    static const uint32_t size[] = {0, 4096, 100, 64, 4096};

    for (int before = 0; before < 2; before++) {
        struct pair *t = pair_that_knows();

        for (size_t i = 0; i < AS_COUNT(size); i++) {
            int32_t a = ask(t), b = ask(t);

            answer(t, a); /* not encoded yet */
            if (before)
                answer(t, b);
            settings(t, size[i]);
            if (!before)
                answer(t, b);
            pair_pump(t);
            check(t, a, WHOLE);
            check(t, b, WHOLE);
            for (int k = 0; k < 4; k++)
                check(t, call(t), WHOLE);
        }
        pair_free(t);
    }
}

/* A stream that is closed before its head is encoded releases the cached head. */
static void a_stream_closes_before_its_head_is_encoded(void **state AS_UNUSED)
{
    struct pair *t = pair_that_knows();
    int32_t a = ask(t), b = ask(t);

    answer(t, a);
    answer(t, b);
    assert_int_equal(nghttp2_submit_rst_stream(t->client, NGHTTP2_FLAG_NONE, a, NGHTTP2_CANCEL), 0);
    pair_to_server(t);
    assert_int_equal(t->h->response_cache.n_heads_pending, 1);
    pair_pump(t);
    check(t, b, WHOLE);
    assert_string_equal(fields(t, a), "");
    assert_int_equal(t->h->response_cache.n_heads_pending, 0);
    a = ask(t);
    answer(t, a);
    as_h2_reset(t->h, (uint32_t)a, NGHTTP2_INTERNAL_ERROR);
    pair_pump(t);
    assert_string_equal(pair_reply_of(t, a)->frames, "r");
    assert_int_equal(t->h->response_cache.n_heads_pending, 0);
    check(t, call(t), WHOLE);
    a = ask(t);
    answer(t, a);
    pair_free(t); /* and so does one whose head is never encoded */
}

/* Streamed answers use the cached head, too. */
static void streamed_answers_use_the_cached_head(void **state AS_UNUSED)
{
    struct pair *t = pair_that_knows();
    struct as_blob *blob = as_blob_new(4);

    for (int i = 0; i < 3; i++) {
        int32_t id = ask(t);

        memcpy(blob->data, "abcd", 4);
        as_h2_begin(
            t->h, (uint32_t)id,
            &(struct as_http_answer){.status = 200, .headers = pair_headers, .n_headers = 1});
        assert_int_equal(t->h->response_cache.n_heads_pending, 1);
        pair_to_client(t);
        assert_string_equal(fields(t, id), PLAIN);
        as_h2_write(t->h, (uint32_t)id, &(struct as_http_piece){blob->data, 4, blob});
        as_h2_finish(t->h, (uint32_t)id, pair_trailers, 1);
        pair_pump(t);
        check(t, id, WHOLE);
    }
    as_blob_unref(blob);
    pair_free(t);
}

/* An answer without a body ends with its head, which nghttp2 encodes; nghttp2 also encodes heads
 * with many or long fields. */
static void other_answers_are_encoded_by_nghttp2(void **state AS_UNUSED)
{
    const struct as_http_header many[AS_H2_CACHED_BLOCK_FIELDS] = {
        PAIR_H("a", "1"), PAIR_H("b", "2"), PAIR_H("c", "3"), PAIR_H("d", "4")};
    struct as_http_piece body = {(const uint8_t *)"ok", 2, NULL};
    struct pair *t = pair_that_knows();
    char value[sizeof(t->h->response_cache.head.text)];

    memset(value, 'v', sizeof(value));
    value[sizeof(value) - 1] = 0;
    for (int i = 0; i < 4; i++) {
        int32_t a = ask(t), b = ask(t), c = ask(t);

        pair_trailers_only(t, (uint32_t)a);
        as_h2_answer(t->h, (uint32_t)b,
                     &(struct as_http_answer){.status = 200,
                                              .headers = many,
                                              .n_headers = AS_COUNT(many),
                                              .body = &body,
                                              .n_body = 1});
        answer_with(t, c, 200, "x", value);
        pair_pump(t);
        check(t, a, ":status: 200\ncontent-type: application/grpc\ngrpc-status: 12\n");
        check(t, b, ":status: 200\na: 1\nb: 2\nc: 3\nd: 4\n");
        assert_int_equal(strlen(fields(t, c)), strlen(":status: 200\nx: \n") + strlen(value));
        assert_false(t->h->response_cache.head.is_known);
    }
    pair_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_fields_are_left_out),
        cmocka_unit_test(equal_answers_are_cached),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(another_block_comes_between),
        cmocka_unit_test(two_kinds_take_turns),
        cmocka_unit_test(a_waiting_frame_is_learned_with_its_own_text),
        cmocka_unit_test(the_client_changes_its_table),
        cmocka_unit_test(a_stream_closes_before_its_head_is_encoded),
        cmocka_unit_test(streamed_answers_use_the_cached_head),
        cmocka_unit_test(other_answers_are_encoded_by_nghttp2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
