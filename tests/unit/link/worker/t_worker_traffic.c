/* The worker library: canary, mirror and fallback are sent to the server. */
#include "worker_pair.h"

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

static struct as_frame_traffic expect_traffic(struct pair *p)
{
    struct as_frame_traffic t;

    fake_expect(&p->d, AS_FRAME_TRAFFIC);
    assert_int_equal(as_frame_get_traffic(&p->d.f, &t), 0);
    return t;
}

static void it_is_sent_when_it_changes(void **state)
{
    struct pair *p = *state;
    struct as_worker_traffic t = {
        .size = sizeof(t), .is_canary = true, .canary = 5000, .mirror = 100, .fallback = "stable"};
    struct as_frame_traffic told;

    assert_int_equal(as_worker_set_traffic(p->w, &t), 0);
    told = expect_traffic(p);
    assert_int_equal(told.flags, AS_FRAME_CANARY);
    assert_int_equal(told.canary, 5000);
    assert_int_equal(told.mirror, 100);
    assert_true(as_str_eq(told.fallback, AS_STR("stable")));
    t = (struct as_worker_traffic){.size = sizeof(t)}; /* nothing any more */
    assert_int_equal(as_worker_set_traffic(p->w, &t), 0);
    told = expect_traffic(p);
    assert_int_equal(told.flags | told.canary | told.mirror | told.fallback.n, 0);
}

/* Before the first model, or a canary would be the default version for a moment. */
static void a_new_link_gets_it_first(void **state)
{
    struct pair *p = *state;
    struct as_worker_traffic t = {.size = sizeof(t), .is_canary = true};

    fake_hang_up(&p->d);
    assert_int_equal(as_worker_wait(p->w), AS_EOF);
    assert_int_equal(as_worker_set_traffic(p->w, &t), 0);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    assert_int_equal(p->d.traffic.flags, AS_FRAME_CANARY);
    assert_true(p->d.traffic_first);
}

static void values_out_of_range_are_refused(void **state)
{
    struct pair *p = *state;
    struct as_worker_traffic t = {.size = sizeof(t), .is_canary = true, .canary = AS_WORKER_SHARE};
    char name[AS_FRAME_NAME + 2];

    assert_int_equal(as_worker_set_traffic(p->w, &t), 0);
    t.canary++;
    assert_int_equal(as_worker_set_traffic(p->w, &t), AS_EINVALID);
    t = (struct as_worker_traffic){.size = sizeof(t), .canary = 1};
    assert_int_equal(as_worker_set_traffic(p->w, &t), AS_EINVALID);
    t = (struct as_worker_traffic){.size = sizeof(t), .mirror = AS_WORKER_SHARE};
    assert_int_equal(as_worker_set_traffic(p->w, &t), 0);
    t.mirror++;
    assert_int_equal(as_worker_set_traffic(p->w, &t), AS_EINVALID);
    memset(name, 'x', sizeof(name));
    name[AS_FRAME_NAME] = '\0';
    t = (struct as_worker_traffic){.size = sizeof(t), .fallback = name};
    assert_int_equal(as_worker_set_traffic(p->w, &t), 0);
    name[AS_FRAME_NAME] = 'x';
    name[AS_FRAME_NAME + 1] = '\0';
    assert_int_equal(as_worker_set_traffic(p->w, &t), AS_EINVALID);
    t.fallback = "a b"; /* no deployment is called so */
    assert_int_equal(as_worker_set_traffic(p->w, &t), AS_EINVALID);
    t.size = 4;
    assert_int_equal(as_worker_set_traffic(p->w, &t), AS_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_sent_when_it_changes, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(a_new_link_gets_it_first, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(values_out_of_range_are_refused, setup, pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
