/* The small frames: what each put writes, its get reads; what a get refuses; the credit of a
 * stream.
 */
#include "frames.h"

static int decode_batch(uint64_t first, uint32_t n, struct as_frame_batch *ret)
{
    struct as_frame_batch b = {first, n};
    struct as_outq q;
    struct bytes bytes;
    struct as_frame f;
    int err;

    as_outq_init(&q);
    as_frame_put_batch(&q, &b);
    bytes = bytes_of(&q);
    f = only_frame(bytes);
    assert_int_equal(f.type, AS_FRAME_BATCH);
    assert_int_equal(f.n, 16);
    err = as_frame_get_batch(&f, ret);
    for (f.n = 0; f.n < 16; f.n++)
        assert_int_equal(as_frame_get_batch(&f, ret), AS_EPROTO);
    bytes.p[16 + 12] = 1; /* reserved */
    f.n = 16;
    assert_int_equal(as_frame_get_batch(&f, ret), AS_EPROTO);
    as_outq_fini(&q);
    free(bytes.p);
    return err;
}

static void batch_round_trip_and_limits(void **state AS_UNUSED)
{
    struct as_frame_batch b = {0};

    assert_int_equal(decode_batch(41, 3, &b), 0);
    assert_int_equal(b.first, 41);
    assert_int_equal(b.n, 3);
    assert_int_equal(decode_batch(1, 2, &b), 0);
    assert_int_equal(decode_batch(1, 65535, &b), 0);
    assert_int_equal(decode_batch(1, 1, &b), AS_EPROTO);
    assert_int_equal(decode_batch(1, 65536, &b), AS_EPROTO);
    assert_int_equal(decode_batch(2, 2, &b), AS_EPROTO); /* even streams are the worker's */
    assert_int_equal(decode_batch(UINT64_MAX, 2, &b), AS_EPROTO);
}

static void error_round_trip(void **state AS_UNUSED)
{
    struct as_frame_error in = {.code = 13,
                                .flags = AS_ERROR_F_RETRY | AS_ERROR_F_STARTED,
                                .service = 123456789012,
                                .message = AS_STR("handler said no")};
    struct as_frame_error out;
    struct as_frame f;
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    as_frame_put_error(&q, 77, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_ERROR);
    assert_int_equal(f.stream, 77);
    assert_int_equal(as_frame_get_error(&f, &out), 0);
    assert_int_equal(out.code, 13);
    assert_int_equal(out.flags, in.flags);
    assert_int_equal(out.service, in.service);
    assert_str(out.message, "handler said no");
    free(b.p);
    as_outq_fini(&q);
}

/* An ERROR payload with one 32-bit word changed. */
static int error_with(size_t offset, uint32_t v, size_t n)
{
    uint8_t payload[64] = {13};
    struct as_frame_error e;
    struct as_frame f;
    struct bytes b;
    int err;

    set32(payload + 16, 2);
    set32(payload + offset, v);
    b = raw_frame(AS_FRAME_ERROR, 0, 1, payload, n);
    f = only_frame(b);
    err = as_frame_get_error(&f, &e);
    free(b.p);
    return err;
}

static void error_limits(void **state AS_UNUSED)
{
    assert_int_equal(error_with(0, 13, 26), 0);
    assert_int_equal(error_with(0, 1, 26), 0);
    assert_int_equal(error_with(0, 16, 26), 0);
    assert_int_equal(error_with(0, 0, 26), AS_EPROTO);
    assert_int_equal(error_with(0, 17, 26), AS_EPROTO);
    assert_int_equal(error_with(4, 3, 26), 0);
    assert_int_equal(error_with(4, 4, 26), AS_EPROTO);
    assert_int_equal(error_with(20, 1, 26), AS_EPROTO);
    assert_int_equal(error_with(16, 3, 26), AS_EPROTO); /* text longer than the frame */
    assert_int_equal(error_with(16, 1, 26), AS_EPROTO); /* and shorter */
    assert_int_equal(error_with(16, UINT32_MAX, 26), AS_EPROTO);
    assert_int_equal(error_with(0, 13, 23), AS_EPROTO);
}

static void texts_are_cut_at_their_limit_between_characters(void **state AS_UNUSED)
{
    char *text = malloc(AS_FRAME_TEXT + 2);
    struct as_outq q;

    as_outq_init(&q);
    for (size_t n = AS_FRAME_TEXT; n <= AS_FRAME_TEXT + 2; n++) {
        struct as_frame_error e = {.code = 13, .message = {text, n}}, out;
        struct as_frame f;
        struct bytes b;

        memset(text, 'x', n);
        if (n > AS_FRAME_TEXT)
            memcpy(text + AS_FRAME_TEXT - 1, "\xc3\xa9", 2); /* é over the edge */
        as_frame_put_error(&q, 1, &e);
        b = bytes_of(&q);
        f = only_frame(b);
        assert_int_equal(as_frame_get_error(&f, &out), 0);
        assert_int_equal(out.message.n, n > AS_FRAME_TEXT ? AS_FRAME_TEXT - 1 : n);
        free(b.p);
    }
    as_outq_fini(&q);
    free(text);
}

static void a_text_over_its_limit_is_refused(void **state AS_UNUSED)
{
    uint8_t *p = calloc(1, AS_FRAME_TEXT + 1);
    struct bytes b = raw_frame(AS_FRAME_GOODBYE, 0, 0, p, AS_FRAME_TEXT);
    struct as_frame f = only_frame(b);
    struct as_str s;

    assert_int_equal(as_frame_get_text(&f, &s), 0);
    assert_int_equal(s.n, AS_FRAME_TEXT);
    free(b.p);
    b = raw_frame(AS_FRAME_GOODBYE, 0, 0, p, AS_FRAME_TEXT + 1);
    f = only_frame(b);
    assert_int_equal(as_frame_get_text(&f, &s), AS_EPROTO);
    free(b.p);
    free(p);
}

static const struct as_frame_hello hello = {.lo = 1,
                                            .hi = 3,
                                            .capabilities = AS_CAP_RECALL | AS_CAP_PAGE,
                                            .epoch = 9,
                                            .max_message = 1u << 31,
                                            .pid = 4711,
                                            .token = STATIC_STR("secret"),
                                            .replica = STATIC_STR("app#0"),
                                            .deployment = STATIC_STR(""),
                                            .peer = STATIC_STR("test 1.0")};

static struct bytes put_hello(const struct as_frame_hello *h)
{
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    as_frame_put_hello(&q, h);
    b = bytes_of(&q);
    as_outq_fini(&q);
    return b;
}

static void hello_round_trip(void **state AS_UNUSED)
{
    struct bytes b = put_hello(&hello);
    struct as_frame f = only_frame(b);
    struct as_frame_hello h;

    assert_int_equal(f.type, AS_FRAME_HELLO);
    assert_int_equal(f.stream, 0);
    assert_memory_equal(f.p, "ASLK", 4);
    assert_int_equal(as_frame_get_hello(&f, &h), 0);
    assert_int_equal(h.lo, 1);
    assert_int_equal(h.hi, 3);
    assert_int_equal(h.capabilities, 5);
    assert_int_equal(h.epoch, 9);
    assert_int_equal(h.max_message, 1u << 31);
    assert_int_equal(h.pid, 4711);
    assert_str(h.token, "secret");
    assert_str(h.replica, "app#0");
    assert_str(h.deployment, "");
    assert_str(h.peer, "test 1.0");
    free(b.p);
}

/* The HELLO above with 16 bits at `offset` of its payload changed. */
static int hello_with(size_t offset, uint16_t v)
{
    struct bytes b = put_hello(&hello);
    struct as_frame f = only_frame(b);
    struct as_frame_hello h;
    int err;

    memcpy(b.p + 16 + offset, &v, 2);
    err = as_frame_get_hello(&f, &h);
    free(b.p);
    return err;
}

static void hello_is_checked(void **state AS_UNUSED)
{
    assert_int_equal(hello_with(0, 0x5341), 0); /* unchanged */
    assert_int_equal(hello_with(0, 0x5342), AS_EPROTO);
    assert_int_equal(hello_with(4, 0), AS_EPROTO); /* no version 0 */
    assert_int_equal(hello_with(4, 3), 0);
    assert_int_equal(hello_with(4, 4), AS_EPROTO);  /* lo > hi */
    assert_int_equal(hello_with(36, 7), AS_EPROTO); /* strings one byte too long */
    assert_int_equal(hello_with(36, 5), AS_EPROTO); /* and one byte too short */
    assert_int_equal(hello_with(42, UINT16_MAX), AS_EPROTO);
    assert_int_equal(hello_with(44, 1), AS_EPROTO);
}

static void hello_string_limit(void **state AS_UNUSED)
{
    char name[AS_FRAME_NAME + 1];
    struct as_frame_hello h = hello, out;
    uint8_t payload[48 + AS_FRAME_NAME + 1] = {0};
    struct as_frame f;
    struct bytes b;

    memset(name, 'n', sizeof(name));
    h.replica = (struct as_str){name, AS_FRAME_NAME};
    h.peer = (struct as_str){name, AS_FRAME_NAME + 1}; /* free text is cut */
    b = put_hello(&h);
    f = only_frame(b);
    assert_int_equal(as_frame_get_hello(&f, &out), 0);
    assert_int_equal(out.replica.n, AS_FRAME_NAME);
    assert_int_equal(out.peer.n, AS_FRAME_NAME);
    memcpy(payload, b.p + 16, 36); /* the same with one token of N+1 */
    payload[36] = 1;
    payload[37] = 1;
    free(b.p);
    b = raw_frame(AS_FRAME_HELLO, 0, 0, payload, sizeof(payload));
    f = only_frame(b);
    assert_int_equal(as_frame_get_hello(&f, &out), AS_EPROTO);
    free(b.p);
}

static void registered_round_trip(void **state AS_UNUSED)
{
    struct as_frame_registered in = {
        .model = 1, .target = 2, .code = 6, .message = AS_STR("taken")};
    struct as_frame_registered out;
    struct as_frame f;
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    as_frame_put_registered(&q, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_REGISTERED);
    assert_int_equal(as_frame_get_registered(&f, &out), 0);
    assert_int_equal(out.model, 1);
    assert_int_equal(out.target, 2);
    assert_int_equal(out.code, 6);
    assert_str(out.message, "taken");
    b.p[16 + 8] = 17;
    assert_int_equal(as_frame_get_registered(&f, &out), AS_EPROTO);
    b.p[16 + 8] = 16;
    b.p[16 + 12]++;
    assert_int_equal(as_frame_get_registered(&f, &out), AS_EPROTO);
    f.n = 15;
    assert_int_equal(as_frame_get_registered(&f, &out), AS_EPROTO);
    free(b.p);
    as_outq_fini(&q);
}

static void credit_round_trip(void **state AS_UNUSED)
{
    struct as_frame_credit in = {.slots = 4, .prefetch = 3, .messages = 2, .bytes = UINT64_MAX};
    struct as_frame_credit out;
    struct as_frame f;
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    as_frame_put_credit(&q, 0, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_CREDIT);
    assert_int_equal(as_frame_get_credit(&f, &out), 0);
    assert_int_equal(out.slots, 4);
    assert_int_equal(out.prefetch, 3);
    assert_int_equal(out.messages, 2);
    assert_int_equal(out.bytes, UINT64_MAX);
    f.n = 23;
    assert_int_equal(as_frame_get_credit(&f, &out), AS_EPROTO);
    f.n = 25;
    assert_int_equal(as_frame_get_credit(&f, &out), AS_EPROTO);
    f.n = 24;
    b.p[16 + 12] = 1;
    assert_int_equal(as_frame_get_credit(&f, &out), AS_EPROTO);
    free(b.p);
    as_outq_fini(&q);
}

static void ids_travel_in_frames_of_1024(void **state AS_UNUSED)
{
    uint64_t ids[AS_FRAME_IDS + 1], out[AS_FRAME_IDS];
    struct as_frame f;
    struct as_outq q;
    struct bytes b;
    uint32_t n;
    int64_t used;

    for (uint32_t i = 0; i <= AS_FRAME_IDS; i++)
        ids[i] = 2 * i + 1;
    as_outq_init(&q);
    as_frame_put_ids(&q, AS_FRAME_RECALL, ids, AS_FRAME_IDS + 1);
    b = bytes_of(&q);
    used = as_frame_next(b.p, b.n, &f);
    assert_int_equal(f.type, AS_FRAME_RECALL);
    assert_int_equal(as_frame_get_ids(&f, out, AS_FRAME_IDS, &n), 0);
    assert_int_equal(n, AS_FRAME_IDS);
    assert_memory_equal(out, ids, sizeof(out));
    assert_int_equal(as_frame_get_ids(&f, out, AS_FRAME_IDS - 1, &n), AS_EPROTO);
    assert_int_equal(as_frame_next(b.p + used, b.n - (size_t)used, &f), 64);
    assert_int_equal(as_frame_get_ids(&f, out, AS_FRAME_IDS, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(out[0], 2 * AS_FRAME_IDS + 1);
    free(b.p);
    as_outq_fini(&q);
}

static void ids_are_whole_and_may_be_absent(void **state AS_UNUSED)
{
    uint8_t payload[8 * (AS_FRAME_IDS + 1)] = {0};
    uint64_t out[AS_FRAME_IDS + 1];
    struct bytes b = raw_frame(AS_FRAME_RETURNED, 0, 0, payload, sizeof(payload));
    struct as_frame f = only_frame(b);
    uint32_t n = 9;

    assert_int_equal(as_frame_get_ids(&f, out, AS_FRAME_IDS + 1, &n), AS_EPROTO);
    f.n = 15;
    assert_int_equal(as_frame_get_ids(&f, out, AS_FRAME_IDS, &n), AS_EPROTO);
    f.n = 0;
    assert_int_equal(as_frame_get_ids(&f, out, AS_FRAME_IDS, &n), 0);
    assert_int_equal(n, 0);
    free(b.p);
}

static int cancel_with(uint64_t reason, size_t n)
{
    uint8_t payload[16] = {0};
    struct as_frame f;
    struct bytes b;
    uint32_t out;
    int err;

    set64(payload, reason);
    b = raw_frame(AS_FRAME_CANCEL, 0, 5, payload, n);
    f = only_frame(b);
    err = as_frame_get_cancel(&f, &out);
    if (!err)
        assert_int_equal(out, reason);
    free(b.p);
    return err;
}

static void cancel_takes_a_grpc_status(void **state AS_UNUSED)
{
    assert_int_equal(cancel_with(1, 8), 0);
    assert_int_equal(cancel_with(16, 8), 0);
    assert_int_equal(cancel_with(0, 8), AS_EPROTO);
    assert_int_equal(cancel_with(17, 8), AS_EPROTO);
    assert_int_equal(cancel_with((uint64_t)1 << 32 | 1, 8), AS_EPROTO);
    assert_int_equal(cancel_with(1, 7), AS_EPROTO);
    assert_int_equal(cancel_with(1, 9), AS_EPROTO);
}

static void control_round_trip(void **state AS_UNUSED)
{
    struct as_frame_control in = {
        .op = AS_CONTROL_HEALTH, .reply = true, .code = 14, .text = AS_STR("no GPU")};
    struct as_frame_control out;
    struct as_frame f;
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    as_frame_put_control(&q, 12, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.stream, 12);
    assert_int_equal(as_frame_get_control(&f, &out), 0);
    assert_int_equal(out.op, AS_CONTROL_HEALTH);
    assert_true(out.reply);
    assert_int_equal(out.code, 14);
    assert_str(out.text, "no GPU");
    b.p[16] = 200; /* a frame with an unknown op is valid */
    assert_int_equal(as_frame_get_control(&f, &out), 0);
    b.p[16 + 2] = 2;
    assert_int_equal(as_frame_get_control(&f, &out), AS_EPROTO);
    b.p[16 + 2] = 0;
    b.p[16 + 4] = 17;
    assert_int_equal(as_frame_get_control(&f, &out), AS_EPROTO);
    b.p[16 + 4] = 0;
    b.p[16 + 12] = 1;
    assert_int_equal(as_frame_get_control(&f, &out), AS_EPROTO);
    f.n = 15;
    assert_int_equal(as_frame_get_control(&f, &out), AS_EPROTO);
    free(b.p);
    as_outq_fini(&q);
}

static void ping_repeats_its_eight_bytes(void **state AS_UNUSED)
{
    struct as_frame f;
    struct as_outq q;
    struct bytes b;
    uint64_t v;

    as_outq_init(&q);
    as_frame_put_ping(&q, AS_FRAME_PONG, 0x0102030405060708);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_PONG);
    assert_int_equal(as_frame_get_ping(&f, &v), 0);
    assert_int_equal(v, 0x0102030405060708);
    f.n = 7;
    assert_int_equal(as_frame_get_ping(&f, &v), AS_EPROTO);
    f.n = 9;
    assert_int_equal(as_frame_get_ping(&f, &v), AS_EPROTO);
    free(b.p);
    as_outq_fini(&q);
}

static void drain_may_be_empty(void **state AS_UNUSED)
{
    struct as_frame f;
    struct as_outq q;
    struct bytes b;
    struct as_str s;

    as_outq_init(&q);
    as_frame_put_text(&q, AS_FRAME_DRAIN, (struct as_str){0});
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_DRAIN);
    assert_int_equal(as_frame_get_text(&f, &s), 0);
    assert_int_equal(s.n, 0);
    free(b.p);
    as_outq_fini(&q);
}

static void end_carries_the_time_of_the_handler(void **state AS_UNUSED)
{
    struct as_outq q;
    struct bytes b;
    struct as_frame f;
    uint64_t service;

    as_outq_init(&q);
    as_frame_put_end(&q, 7, 123);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_END);
    assert_int_equal(f.stream, 7);
    assert_int_equal(as_frame_get_end(&f, &service), 0);
    assert_int_equal(service, 123);
    f.n = 7;
    assert_int_equal(as_frame_get_end(&f, &service), AS_EPROTO);
    free(b.p);
    as_outq_fini(&q);
}

static void a_window_is_open_while_messages_and_bytes_are_left(void **state AS_UNUSED)
{
    struct as_frame_window w = {0};
    struct as_frame_credit c = {.messages = 2, .bytes = 100};

    assert_false(as_frame_window_is_open(&w));
    assert_int_equal(as_frame_window_add(&w, &c), 0);
    as_frame_window_consume(&w, 150); /* the last message may exceed it */
    assert_int_equal(w.messages, 1);
    assert_int_equal(w.bytes, -50);
    assert_false(as_frame_window_is_open(&w));
    c = (struct as_frame_credit){.bytes = 51};
    assert_int_equal(as_frame_window_add(&w, &c), 0);
    assert_true(as_frame_window_is_open(&w));
    as_frame_window_consume(&w, 0);
    assert_false(as_frame_window_is_open(&w)); /* no message is left */
}

static void credit_of_a_stream_is_bounded(void **state AS_UNUSED)
{
    const struct {
        struct as_frame_window have;
        struct as_frame_credit c;
        int err;
    } rows[] = {
        {{0, 0}, {.messages = AS_FRAME_CREDIT_MESSAGES, .bytes = AS_FRAME_CREDIT_BYTES}, 0},
        {{0, 0}, {.messages = AS_FRAME_CREDIT_MESSAGES + 1}, AS_EPROTO},
        {{0, 0}, {.bytes = AS_FRAME_CREDIT_BYTES + 1}, AS_EPROTO},
        {{0, 0}, {.bytes = UINT64_MAX}, AS_EPROTO},
        {{1, 0}, {.messages = AS_FRAME_CREDIT_MESSAGES}, AS_EPROTO},
        {{0, 1}, {.bytes = AS_FRAME_CREDIT_BYTES}, AS_EPROTO},
        {{0, -1}, {.bytes = AS_FRAME_CREDIT_BYTES}, 0},
        {{0, 0}, {.slots = 1}, AS_EPROTO},
        {{0, 0}, {.prefetch = 1}, AS_EPROTO},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_frame_window w = rows[i].have;

        assert_int_equal(as_frame_window_add(&w, &rows[i].c), rows[i].err);
        if (rows[i].err)
            assert_memory_equal(&w, &rows[i].have, sizeof(w));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_round_trip_and_limits),
        cmocka_unit_test(error_round_trip),
        cmocka_unit_test(error_limits),
        cmocka_unit_test(texts_are_cut_at_their_limit_between_characters),
        cmocka_unit_test(a_text_over_its_limit_is_refused),
        cmocka_unit_test(hello_round_trip),
        cmocka_unit_test(hello_is_checked),
        cmocka_unit_test(hello_string_limit),
        cmocka_unit_test(registered_round_trip),
        cmocka_unit_test(credit_round_trip),
        cmocka_unit_test(ids_travel_in_frames_of_1024),
        cmocka_unit_test(ids_are_whole_and_may_be_absent),
        cmocka_unit_test(cancel_takes_a_grpc_status),
        cmocka_unit_test(control_round_trip),
        cmocka_unit_test(ping_repeats_its_eight_bytes),
        cmocka_unit_test(drain_may_be_empty),
        cmocka_unit_test(end_carries_the_time_of_the_handler),
        cmocka_unit_test(a_window_is_open_while_messages_and_bytes_are_left),
        cmocka_unit_test(credit_of_a_stream_is_bounded),
    };

    return cmocka_run_group_tests_name("frame_control", tests, NULL, NULL);
}
