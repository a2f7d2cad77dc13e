/* Specification of wire/h2/h2_closed_streams: which frames of ended and skipped streams are errors.
 */
#include "wire/h2/h2_closed_streams.h"

#include "unit.h"

enum { DATA, HEADERS, RST_STREAM = 3 };

#define OPEN(id)   assert_int_equal(as_h2_closed_streams_check(&p, HEADERS, false, (id)), 0)
#define CALL(id)   assert_int_equal(as_h2_closed_streams_check(&p, HEADERS, true, (id)), 0)
#define FRAME(...) as_h2_closed_streams_check(&p, __VA_ARGS__)

static void requests_in_order(void **state AS_UNUSED)
{
    struct as_h2_closed_streams p = {0};

    for (uint32_t id = 1; id < 10000; id += 2) {
        OPEN(id);
        assert_int_equal(FRAME(DATA, false, id), 0);
        assert_int_equal(FRAME(DATA, id % 3, id), 0);
        if (id % 3 == 0) /* trailers */
            assert_int_equal(FRAME(HEADERS, true, id), 0);
    }
}

/* RFC 9113 §5.1: half-closed (remote) and closed */
static void after_the_end(void **state AS_UNUSED)
{
    static const uint8_t types[] = {DATA, HEADERS};
    struct as_h2_closed_streams p = {0};

    for (uint32_t i = 0; i < AS_COUNT(types); i++) {
        uint32_t id = 1 + 6 * i;

        CALL(id);
        assert_int_equal(FRAME(types[i], true, id), AS_H2_CODE_CLOSED);
        OPEN(id + 2);
        assert_int_equal(FRAME(DATA, true, id + 2), 0);
        assert_int_equal(FRAME(types[i], false, id + 2), AS_H2_CODE_CLOSED);
        OPEN(id + 4);
        assert_int_equal(FRAME(RST_STREAM, false, id + 4), 0);
        assert_int_equal(FRAME(RST_STREAM, false, id + 4), 0);
        assert_int_equal(FRAME(types[i], false, id + 4), AS_H2_CODE_CLOSED);
    }
}

/* The server may have ended it, and the client may not know that yet. */
static void open_streams_may_go_on(void **state AS_UNUSED)
{
    struct as_h2_closed_streams p = {0};

    OPEN(1);
    CALL(3);
    assert_int_equal(FRAME(DATA, false, 1), 0);
    assert_int_equal(FRAME(HEADERS, true, 1), 0);
    assert_int_equal(FRAME(DATA, false, 1), AS_H2_CODE_CLOSED);
}

/* RFC 9113 §5.1.1: a new stream closes those below it that were never used. */
static void ids_must_grow(void **state AS_UNUSED)
{
    struct as_h2_closed_streams p = {0};

    CALL(5);
    assert_int_equal(FRAME(HEADERS, true, 3), AS_H2_CODE_PROTOCOL);
    assert_int_equal(FRAME(DATA, true, 1), AS_H2_CODE_PROTOCOL);
    assert_int_equal(FRAME(RST_STREAM, false, 1), 0);
    OPEN(7);
}

static void other_streams_are_not_ours(void **state AS_UNUSED)
{
    struct as_h2_closed_streams p = {0};

    assert_int_equal(FRAME(DATA, true, 9), 0); /* idle */
    assert_int_equal(FRAME(RST_STREAM, false, 9), 0);
    for (int i = 0; i < 2; i++) {
        CALL(2);
        CALL(0);
    }
    CALL(9); /* and none of it counted */
    assert_int_equal(FRAME(HEADERS, true, 7), AS_H2_CODE_PROTOCOL);
}

/* The newest AS_H2_CLOSED_STREAMS_IDS streams are remembered. */
static void memory_is_bounded(void **state AS_UNUSED)
{
    const uint32_t last = 2 * AS_H2_CLOSED_STREAMS_IDS + 1; /* one more than there is room for */
    struct as_h2_closed_streams p = {0};

    for (uint32_t id = 1; id <= last; id += 2)
        CALL(id);
    assert_int_equal(FRAME(DATA, false, 1), 0);
    assert_int_equal(FRAME(DATA, false, 3), AS_H2_CODE_CLOSED);
    assert_int_equal(FRAME(DATA, false, last), AS_H2_CODE_CLOSED);
}

/* After a jump in the ids older streams are forgotten, and no old bit remains. */
static void jumps(void **state AS_UNUSED)
{
    static const uint32_t to[] = {2 * AS_H2_CLOSED_STREAMS_IDS - 1,
                                  2 * AS_H2_CLOSED_STREAMS_IDS + 1, 99999, 0x7fffffff};

    for (size_t i = 0; i < AS_COUNT(to); i++) {
        bool is_kept = to[i] / 2 < AS_H2_CLOSED_STREAMS_IDS;
        struct as_h2_closed_streams p = {0};

        CALL(1);
        OPEN(to[i]);
        assert_int_equal(FRAME(HEADERS, false, 1), is_kept ? AS_H2_CODE_CLOSED : 0);
        assert_int_equal(FRAME(DATA, false, to[i] - 2), AS_H2_CODE_PROTOCOL);
        assert_int_equal(FRAME(DATA, false, to[i] - 2 * (AS_H2_CLOSED_STREAMS_IDS - 1)),
                         is_kept ? AS_H2_CODE_CLOSED : AS_H2_CODE_PROTOCOL);
        assert_int_equal(FRAME(DATA, true, to[i]), 0);
        assert_int_equal(FRAME(DATA, false, to[i]), AS_H2_CODE_CLOSED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_in_order),
        cmocka_unit_test(after_the_end),
        cmocka_unit_test(open_streams_may_go_on),
        cmocka_unit_test(ids_must_grow),
        cmocka_unit_test(other_streams_are_not_ours),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(jumps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
