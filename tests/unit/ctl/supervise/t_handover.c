/* Specification of ctl/supervise/handover: which inherited descriptor is what. */
#include "ctl/supervise/handover.h"

#include "unit.h"

static void what_is_written_is_read(void **state AS_UNUSED)
{
    struct as_handover h = {.n = 0}, back;
    struct as_buf b = {0};

    as_handover_add(&h, AS_HANDOVER_GRPC, 17);
    as_handover_add(&h, AS_HANDOVER_GRPC, 5);
    as_handover_add(&h, AS_HANDOVER_CONTROL, 9);
    as_handover_write(&h, &b);
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, "grpc:3,grpc:4,control:5");
    assert_int_equal(as_handover_parse(&back, (char *)b.p), 0);
    assert_int_equal(back.n, 3);
    assert_int_equal(back.kind[2], AS_HANDOVER_CONTROL);
    assert_int_equal(back.fd[2], 5);
    as_buf_fini(&b);
}

static void anything_else_is_refused(void **state AS_UNUSED)
{
    static const char *const bad[] = {"",       "grpc",      "grpc:",   "grpc:x",
                                      "grpc:2", "grpc:1024", "grpc:3,", ",grpc:3",
                                      "tcp:3",  ":3",        "grpc:-3", "grpc:3;link:4"};
    struct as_handover back = {.n = 7};

    for (size_t i = 0; i < AS_COUNT(bad); i++)
        assert_int_equal(as_handover_parse(&back, bad[i]), AS_EINVALID);
    assert_int_equal(back.n, 7); /* not changed */
    assert_int_equal(as_handover_parse(&back, "grpc:1023"), 0);
}

static void the_number_is_bounded(void **state AS_UNUSED)
{
    struct as_handover back;
    struct as_buf b = {0};

    for (uint32_t i = 0; i < AS_HANDOVER_MAX; i++)
        as_buf_printf(&b, "%sgrpc:%u", i ? "," : "", 3 + i);
    as_buf_add(&b, "", 1);
    assert_int_equal(as_handover_parse(&back, (char *)b.p), 0);
    b.n--;
    as_buf_str(&b, ",grpc:99");
    as_buf_add(&b, "", 1);
    assert_int_equal(as_handover_parse(&back, (char *)b.p), AS_EINVALID);
    as_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(the_number_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
