/* The worker library: how replicas are to be chosen is sent to the server. */
#include "worker_pair.h"

#include "wire/frame/frame_router.h"

#include <string.h>

static int setup(void **state)
{
    static const struct as_worker_model model = {
        .size = sizeof(model), .name = "echo", .max_ongoing = 100};
    struct pair *p = as_xalloc(sizeof(*p));
    struct as_worker_conf conf = {
        .size = sizeof(conf), .path = p->d.path, .token = "secret", .slots = 4};

    fake_init(&p->d);
    assert_int_equal(as_worker_new(&p->w, &conf), 0);
    assert_int_equal(as_worker_add(p->w, &model), 0);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    *state = p;
    return 0;
}

static struct as_frame_router expect_router(struct pair *p)
{
    struct as_frame_router r;

    fake_expect(&p->d, AS_FRAME_ROUTER);
    assert_int_equal(as_frame_get_router(&p->d.f, &r), 0);
    return r;
}

static void it_is_sent_when_it_changes(void **state)
{
    struct pair *p = *state;
    struct as_worker_router r = {.size = sizeof(r),
                                 .policy = "session",
                                 .session_header = "X_User",
                                 .max_wait = AS_NEVER,
                                 .fallbacks = -1,
                                 .max_sessions = 5,
                                 .prefer_local = true};
    struct as_frame_router told;

    assert_int_equal(as_worker_set_router(p->w, &r), 0);
    told = expect_router(p);
    assert_string_equal(told.policy, "session");
    assert_string_equal(told.session_header, "x-user");
    assert_int_equal(told.has, 1u << AS_FRAME_ROUTER_MAX_WAIT | 1u << AS_FRAME_ROUTER_FALLBACKS |
                                   1u << AS_FRAME_ROUTER_MAX_SESSIONS |
                                   1u << AS_FRAME_ROUTER_PREFER_LOCAL);
    assert_int_equal(told.value[AS_FRAME_ROUTER_MAX_WAIT], 0);
    assert_int_equal(told.value[AS_FRAME_ROUTER_FALLBACKS], 0);
    assert_int_equal(told.value[AS_FRAME_ROUTER_MAX_SESSIONS], 5);
    assert_int_equal(as_worker_set_router(p->w, &r), 0); /* the same is not sent again */
    r = (struct as_worker_router){.size = sizeof(r)};    /* nothing any more */
    assert_int_equal(as_worker_set_router(p->w, &r), 0);
    told = expect_router(p);
    assert_true(as_frame_router_is_empty(&told));
}

static void values_out_of_range_are_refused(void **state)
{
    struct pair *p = *state;
    struct as_worker_router r = {.size = sizeof(r), .virtual_nodes = 1000, .bound = 10000};

    assert_int_equal(as_worker_set_router(p->w, &r), 0);
    r.virtual_nodes++;
    assert_int_equal(as_worker_set_router(p->w, &r), AS_EINVALID);
    r = (struct as_worker_router){.size = sizeof(r), .fallbacks = 8};
    assert_int_equal(as_worker_set_router(p->w, &r), AS_EINVALID);
    r = (struct as_worker_router){.size = sizeof(r), .fallbacks = -2};
    assert_int_equal(as_worker_set_router(p->w, &r), AS_EINVALID);
    r = (struct as_worker_router){.size = sizeof(r), .policy = "a.b"};
    assert_int_equal(as_worker_set_router(p->w, &r), AS_EINVALID);
    r = (struct as_worker_router){.size = sizeof(r),
                                  .policy = "a_policy_with_a_name_that_is_too_long"};
    assert_int_equal(as_worker_set_router(p->w, &r), AS_EINVALID);
    r = (struct as_worker_router){.size = sizeof(r), .session_header = "a b"};
    assert_int_equal(as_worker_set_router(p->w, &r), AS_EINVALID);
    r = (struct as_worker_router){.size = sizeof(r), .ask_first = AS_MS - 1};
    assert_int_equal(as_worker_set_router(p->w, &r), AS_EINVALID);
    r = (struct as_worker_router){.size = 4};
    assert_int_equal(as_worker_set_router(p->w, &r), AS_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_sent_when_it_changes, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(values_out_of_range_are_refused, setup, pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
