/* OPTIONS: rows of keys and values, each within its limits; and the maximum length of a CONTROL
 * request.
 */
#include "frames.h"

#include <string.h>

static void options_round_trip(void **state AS_UNUSED)
{
    struct as_frame_options in = {.has = 1u << AS_FRAME_OPT_HEALTH_PERIOD |
                                         1u << AS_FRAME_OPT_EXECUTION_TIMEOUT |
                                         1u << AS_FRAME_OPT_DUMP_SIGNAL};
    struct as_frame_options out;
    struct as_frame f;
    struct as_outq q;
    struct bytes b;

    in.value[AS_FRAME_OPT_HEALTH_PERIOD] = 10 * AS_SEC;
    in.value[AS_FRAME_OPT_EXECUTION_TIMEOUT] = 0;
    in.value[AS_FRAME_OPT_DUMP_SIGNAL] = 26;
    as_outq_init(&q);
    as_frame_put_options(&q, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_OPTIONS);
    assert_int_equal(f.flags, AS_FRAME_F_OPTIONAL); /* a receiver that does not know it skips it */
    assert_int_equal(f.n, 48);
    assert_int_equal(as_frame_handling_of(&f), AS_FRAME_KNOWN);
    assert_int_equal(as_frame_get_options(&f, &out), 0);
    assert_int_equal(out.has, in.has);
    assert_memory_equal(out.value, in.value, sizeof(in.value));
    for (f.n = 0; f.n < 48; f.n++) /* rows are whole */
        assert_int_equal(as_frame_get_options(&f, &out), f.n % 16 ? AS_EPROTO : 0);
    free(b.p);
    as_outq_fini(&q);
}

/* One row, `n` times. */
static int options_with(uint32_t key, uint32_t zero, uint64_t v, uint32_t n)
{
    uint8_t *payload = calloc(1, 16 * (size_t)n);
    struct as_frame_options o;
    struct as_frame f;
    struct bytes b;
    int err;

    for (uint32_t i = 0; i < n; i++) {
        set32(payload + 16 * (size_t)i, key);
        set32(payload + 16 * (size_t)i + 4, zero);
        set64(payload + 16 * (size_t)i + 8, v);
    }
    b = raw_frame(AS_FRAME_OPTIONS, AS_FRAME_F_OPTIONAL, 0, payload, 16 * (size_t)n);
    f = only_frame(b);
    err = as_frame_get_options(&f, &o);
    free(b.p);
    free(payload);
    return err;
}

static void options_have_bounds(void **state AS_UNUSED)
{
    for (uint32_t key = 1; key <= AS_FRAME_OPT_REQUEST_TIMEOUT; key++) {
        assert_int_equal(options_with(key, 0, AS_FRAME_OPTION_MAX, 1), 0);
        assert_int_equal(options_with(key, 0, AS_FRAME_OPTION_MAX + 1, 1), AS_EPROTO);
        /* a check without any time always fails, so the value is refused */
        assert_int_equal(options_with(key, 0, 0, 1),
                         key == AS_FRAME_OPT_HEALTH_TIMEOUT ? AS_EPROTO : 0);
    }
    assert_int_equal(options_with(AS_FRAME_OPT_DUMP_SIGNAL, 0, 64, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_DUMP_SIGNAL, 0, 65, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_HEALTH_FAILURES, 0, 0, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_HEALTH_FAILURES, 0, 1, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_HEALTH_FAILURES, 0, 1000, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_HEALTH_FAILURES, 0, 1001, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_MAX_QUEUED, 0, 0, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_MAX_QUEUED, 0, 1, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_MAX_QUEUED, 0, AS_FRAME_QUEUED_MAX, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_MAX_QUEUED, 0, AS_FRAME_QUEUED_MAX + 1, 1),
                     AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_MAX_QUEUED, 0, AS_FRAME_QUEUED_ANY - 1, 1),
                     AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_MAX_QUEUED, 0, AS_FRAME_QUEUED_ANY, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_IDEMPOTENT, 0, 0, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_IDEMPOTENT, 0, 1, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_IDEMPOTENT, 0, 2, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_PER_CALLER, 0, 0, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_PER_CALLER, 0, 1, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_PER_CALLER, 0, 2, 1), AS_EPROTO);
    for (uint64_t status = 428; status <= 504; status++)
        assert_int_equal(options_with(AS_FRAME_OPT_BACKPRESSURE_STATUS, 0, status, 1),
                         status == 429 || status == 503 ? 0 : AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_BACKPRESSURE_RETRY, 0, 0, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_BACKPRESSURE_RETRY, 0, AS_FRAME_OPTION_MAX, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_BACKPRESSURE_RETRY, 0, AS_FRAME_OPTION_MAX + 1, 1),
                     AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_PRIORITY_SHARE, 0, 1, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_PRIORITY_SHARE, 0, 2, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_PRIORITY_SHARE, 0, 1000, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_PRIORITY_SHARE, 0, 1001, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_FAIRNESS, 0, AS_FRAME_FAIR_COST, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_FAIRNESS, 0, AS_FRAME_FAIR_COST + 1, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_ADAPTIVE, 0, 1, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_ADAPTIVE, 0, 2, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_HEDGE_QUANTILE, 0, 999, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_HEDGE_QUANTILE, 0, 1000, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_HEDGE_BUDGET, 0, 0, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_HEDGE_BUDGET, 0, 1, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_HEDGE_BUDGET, 0, 1000, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_HEDGE_BUDGET, 0, 1001, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_HEDGE_MIN_DELAY, 0, 0, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_HEDGE_MIN_DELAY, 0, AS_FRAME_OPTION_MAX + 1, 1),
                     AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_CODEL_INTERVAL, 0, 0, 1), AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_CODEL_INTERVAL, 0, 1, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_CODEL_TARGET, 0, 0, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_CODEL_TARGET, 0, AS_FRAME_OPTION_MAX + 1, 1),
                     AS_EPROTO);
    assert_int_equal(options_with(AS_FRAME_OPT_SLOW_START, 0, AS_FRAME_OPTION_MAX, 1), 0);
    assert_int_equal(options_with(AS_FRAME_OPT_SLOW_START, 0, AS_FRAME_OPTION_MAX + 1, 1),
                     AS_EPROTO);
    assert_int_equal(options_with(1, 1, 1, 1), AS_EPROTO); /* reserved */
    assert_int_equal(options_with(0, 0, 1, 1), AS_EPROTO); /* no key */
    assert_int_equal(options_with(1, 0, 1, 2), AS_EPROTO); /* twice */
    /* keys of a later version are skipped, as many as fit */
    assert_int_equal(options_with(AS_FRAME_OPTION_END, 0, UINT64_MAX, AS_FRAME_OPTION_ROWS), 0);
    assert_int_equal(options_with(AS_FRAME_OPTION_END, 0, 0, AS_FRAME_OPTION_ROWS + 1), AS_EPROTO);
}

/* The text of a request is sent completely or not at all; that of a reply is cut. */
static void control_texts_have_a_limit(void **state AS_UNUSED)
{
    char *text = calloc(1, AS_FRAME_CONTROL_TEXT + 1);
    struct as_frame_control in = {.op = AS_CONTROL_RECONFIGURE,
                                  .text = {text, AS_FRAME_CONTROL_TEXT}},
                            out;
    uint8_t *payload = calloc(1, 16 + AS_FRAME_CONTROL_TEXT + 1);
    struct as_frame f;
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    as_frame_put_control(&q, 1, &in);
    in.reply = true;
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(as_frame_get_control(&f, &out), 0);
    assert_int_equal(out.text.n, AS_FRAME_CONTROL_TEXT);
    free(b.p);
    as_frame_put_control(&q, 1, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(as_frame_get_control(&f, &out), 0);
    assert_int_equal(out.text.n, AS_FRAME_TEXT);
    free(b.p);
    for (uint16_t is_reply = 0; is_reply < 2; is_reply++) {
        uint32_t limit = is_reply ? AS_FRAME_TEXT : AS_FRAME_CONTROL_TEXT;

        payload[2] = (uint8_t)is_reply;
        set32(payload + 8, limit + 1);
        b = raw_frame(AS_FRAME_CONTROL, 0, 1, payload, 16 + (size_t)limit + 1);
        f = only_frame(b);
        assert_int_equal(as_frame_get_control(&f, &out), AS_EPROTO);
        free(b.p);
    }
    free(payload);
    free(text);
    as_outq_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_round_trip),
        cmocka_unit_test(options_have_bounds),
        cmocka_unit_test(control_texts_have_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
