/* SERVICES: which gRPC methods of the user a deployment serves, within its limits. */
#include "wire/frame/frame_services.h"

#include "frames.h"

#include <stdio.h>
#include <string.h>

static int decode(const struct as_frame *f, struct as_frame_services *ret_s, struct as_arena *a)
{
    const char *why;
    int err = as_frame_get_services(f, a, ret_s, &why);

    assert_true(!err == !*why);
    return err;
}

/* 0, or the error, of a frame that is written and read. */
static int round_trip(const struct as_frame_services *in, struct as_frame_services *ret_out,
                      struct as_arena *a, struct bytes *ret_b)
{
    struct as_outq q;
    struct as_frame f;
    int err;

    as_outq_init(&q);
    err = as_frame_put_services(&q, in);
    assert_true(!err == (q.bytes > 0));
    *ret_b = bytes_of(&q);
    as_outq_fini(&q);
    if (err)
        return err;
    f = only_frame(*ret_b);
    assert_int_equal(f.type, AS_FRAME_SERVICES);
    assert_int_equal(f.flags, AS_FRAME_F_OPTIONAL); /* a receiver that does not know it skips it */
    assert_int_equal(as_frame_handling_of(&f), AS_FRAME_KNOWN);
    return decode(&f, ret_out, a);
}

static void services_round_trip(void **state AS_UNUSED)
{
    const struct as_frame_service_method methods[] = {
        {STATIC_STR("/a.B/C"), 0},
        {STATIC_STR("/a.B/Chat"), AS_SERVICE_F_INPUTS | AS_SERVICE_F_PARTS},
        {STATIC_STR("/a.B/D"), AS_SERVICE_F_PARTS},
    };
    struct as_frame_services in = {methods, 3, AS_STR("descriptors")}, out;
    struct as_frame f;
    struct as_arena a;
    struct bytes b;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(round_trip(&in, &out, &a, &b), 0);
    assert_int_equal(out.n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(as_str_eq(out.methods[i].path, methods[i].path));
        assert_int_equal(out.methods[i].flags, methods[i].flags);
    }
    assert_true(as_str_eq(out.descriptors, in.descriptors));
    f = only_frame(b);
    for (uint32_t n = f.n; f.n--;) { /* nothing may be missing */
        assert_int_equal(decode(&f, &out, &a), AS_EPROTO);
        assert_true(f.n < n);
        if (!f.n)
            break;
    }
    free(b.p);
    in = (struct as_frame_services){0};
    assert_int_equal(round_trip(&in, &out, &a, &b), 0);
    assert_int_equal(out.n, 0);
    free(b.p);
    as_arena_fini(&a);
}

static void paths_have_one_form(void **state AS_UNUSED)
{
    static const char *const bad[] = {"",     "/",     "//",     "/a/",     "//a",
                                      "a/b",  "/a",    "/a/b/c", "/a /b",   "/a/b\n",
                                      "/a/é", "/a/b/", "/a//b",  "/a\x7f/b"};
    char path[AS_FRAME_SERVICE_PATH + 2];

    assert_true(as_frame_service_is_path(AS_STR("/a/b")));
    assert_true(as_frame_service_is_path(AS_STR("/my.package.Service/Do_It2")));
    for (size_t i = 0; i < AS_COUNT(bad); i++)
        assert_false(as_frame_service_is_path(as_str_of(bad[i])));
    memset(path, 'x', sizeof(path));
    path[0] = path[2] = '/';
    assert_true(as_frame_service_is_path((struct as_str){path, AS_FRAME_SERVICE_PATH}));
    assert_false(as_frame_service_is_path((struct as_str){path, AS_FRAME_SERVICE_PATH + 1}));
}

static void methods_rise(void **state AS_UNUSED)
{
    const struct as_frame_service_method same[] = {{STATIC_STR("/a/b"), 0},
                                                   {STATIC_STR("/a/b"), 0}},
                                         down[] = {{STATIC_STR("/a/bb"), 0},
                                                   {STATIC_STR("/a/b"), 0}},
                                         flag[] = {{STATIC_STR("/a/b"), 4}};
    struct as_outq q;

    as_outq_init(&q);
    assert_int_equal(as_frame_put_services(&q, &(struct as_frame_services){same, 2, AS_STR("")}),
                     AS_EINVALID);
    assert_int_equal(as_frame_put_services(&q, &(struct as_frame_services){down, 2, AS_STR("")}),
                     AS_EINVALID);
    assert_int_equal(as_frame_put_services(&q, &(struct as_frame_services){flag, 1, AS_STR("")}),
                     AS_EINVALID);
    assert_int_equal(q.bytes, 0);
    as_outq_fini(&q);
}

/* n methods, and so many bytes of descriptors. */
static int services_with(uint32_t n, size_t descriptors)
{
    struct as_frame_service_method *methods = calloc(n + 1, sizeof(*methods));
    char(*paths)[12] = calloc(n + 1, sizeof(*paths));
    char *text = calloc(1, descriptors + 1);
    struct as_frame_services in = {methods, n, {text, descriptors}}, out;
    struct as_arena a;
    struct bytes b;
    int err;

    for (uint32_t i = 0; i < n; i++)
        methods[i].path =
            (struct as_str){paths[i], (size_t)snprintf(paths[i], sizeof(paths[i]), "/a/%04u", i)};
    as_arena_init(&a, NULL, 0);
    err = round_trip(&in, &out, &a, &b);
    if (!err)
        assert_true(out.n == n && out.descriptors.n == descriptors);
    free(b.p);
    as_arena_fini(&a);
    free(text);
    free(paths);
    free(methods);
    return err;
}

static void services_have_limits(void **state AS_UNUSED)
{
    assert_int_equal(services_with(AS_FRAME_SERVICE_METHODS, 0), 0);
    assert_int_equal(services_with(AS_FRAME_SERVICE_METHODS + 1, 0), AS_EINVALID);
    assert_int_equal(services_with(1, AS_FRAME_SERVICES_MAX - 8 - 4 - 7), 0);
    assert_int_equal(services_with(1, AS_FRAME_SERVICES_MAX - 8 - 4 - 6), AS_EINVALID);
}

/* A payload as another program may send it. */
static int read_raw(const uint8_t *payload, size_t n)
{
    struct bytes b = raw_frame(AS_FRAME_SERVICES, AS_FRAME_F_OPTIONAL, 0, payload, n);
    struct as_frame f = only_frame(b);
    struct as_frame_services s;
    struct as_arena a;
    int err;

    as_arena_init(&a, NULL, 0);
    err = decode(&f, &s, &a);
    as_arena_fini(&a);
    free(b.p);
    return err;
}

static void hostile_services_are_refused(void **state AS_UNUSED)
{
    uint8_t p[32] = {1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, '/', 'a', '/', 'b'};

    assert_int_equal(read_raw(p, 16), 0);
    p[11] = 1; /* reserved */
    assert_int_equal(read_raw(p, 16), AS_EPROTO);
    p[11] = 0;
    p[8] = 5; /* a path beyond the end */
    assert_int_equal(read_raw(p, 16), AS_EPROTO);
    p[8] = 4;
    p[4] = 1; /* descriptors that are not there */
    assert_int_equal(read_raw(p, 16), AS_EPROTO);
    p[4] = 0;
    p[0] = 2; /* a method that is not there */
    assert_int_equal(read_raw(p, 16), AS_EPROTO);
    p[0] = 1;
    p[1] = 255; /* more than 1024 */
    assert_int_equal(read_raw(p, 16), AS_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(services_round_trip),
        cmocka_unit_test(paths_have_one_form),
        cmocka_unit_test(methods_rise),
        cmocka_unit_test(services_have_limits),
        cmocka_unit_test(hostile_services_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
