/* link/simple: registrations, and workers that leave and come back. */
#include "simple_world.h"

#include <fcntl.h>

/* --- workers that go and come back --- */

static void test_a_worker_that_dies_and_comes_back(void **state AS_UNUSED)
{
    struct call c;
    struct hand h;

    begin_alone(&h, false);
    exchange(&h, 0);
    hand_close(&h);
    h.conn[0] = -1;
    UNTIL(state_is("lost")); /* at once, not with the next request */
    assert_false(as_fleet_deployment_ready(w.fleet, model()->deployment));
    assert_true(logged("event=worker_lost"));
    submit(&c, 3); /* waits */
    hand_listen(&h, 16);
    UNTIL(state_is("ready"));
    assert_true(logged("event=worker_back"));
    hand_accept(&h, 0); /* the look whether it is there, or the request already */
    while (ended(h.conn[0])) {
        hand_hang_up(&h, 0);
        hand_accept(&h, 0);
    }
    hand_serve(&h, 0);
    check_good(&c);
    end_with(&h);
}

/* Without any connection its death shows by the look that is taken now and then. */
static void test_a_worker_that_dies_unseen(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct hand h;

    conf.simple_idle = 10 * AS_MS;
    begin_with(conf);
    hand_open(&h, "a");
    hand_join(&h, false);
    UNTIL((replicas(), shown.connections == 0));
    hand_close(&h);
    UNTIL(state_is("lost"));
    end();
}

static void test_the_others_serve_on(void **state AS_UNUSED)
{
    struct call c[6];
    struct taken t;
    struct hand a, b;

    begin_with(usual());
    hand_open(&a, "a");
    hand_open(&b, "b");
    hand_join(&a, false);
    hand_join(&b, false);
    hand_accept(&a, 0);
    hand_accept(&b, 0);
    submit(&c[0], 0);
    submit(&c[1], 1);
    /* the one has read its request, the other not a byte when it dies */
    hand_take(&a, 0, &t);
    UNTIL(peek(b.conn[0], 4));
    hand_close(&b);
    hand_answer(&a, 0, &t);
    check_good(&c[0]);
    hand_serve(&a, 0);
    check_good(&c[1]);
    for (int i = 2; i < 6; i++) {
        submit(&c[i], (uint8_t)i);
        hand_serve(&a, 0);
        check_good(&c[i]);
    }
    drop(&t);
    end();
    hand_close(&a);
}

static void test_a_missed_heartbeat(void **state AS_UNUSED)
{
    struct as_str names[] = {AS_STR("m"), AS_STR("n")};
    struct as_fleet_conf conf = usual();
    struct hand h;

    conf.heartbeat_timeout = 50 * AS_MS;
    begin_alone_with(conf, &h, false);
    UNTIL(state_is("lost"));
    assert_true(logged("no heartbeat"));
    assert_true(as_simple_heartbeat(w.fleet, AS_STR("a"), NULL, 0));
    assert_true(state_is("ready"));
    exchange(&h, 0);
    UNTIL(state_is("lost"));
    assert_true(as_simple_heartbeat(w.fleet, AS_STR("a"), names, 1));
    assert_true(state_is("ready"));
    /* it believes that it has registered more */
    assert_false(as_simple_heartbeat(w.fleet, AS_STR("a"), names, 2));
    assert_false(as_simple_heartbeat(w.fleet, AS_STR("b"), NULL, 0));
    assert_false(as_simple_heartbeat(w.fleet, AS_STR("a"), names + 1, 1));
    end_with(&h);
}

static void test_forgotten_after_the_grace_time(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct call c;
    struct hand h;
    as_ns lost;

    conf.grace = 120 * AS_MS;
    begin_with(conf);
    hand_open(&h, "a");
    hand_join(&h, false);
    hand_close(&h);
    UNTIL(state_is("lost"));
    lost = as_loop_now(w.loop);
    submit(&c, 1);
    UNTIL(!model());
    /* one grace time, not the worker's and then the model's */
    assert_true(as_loop_now(w.loop) - lost < 2 * conf.grace);
    assert_int_equal(replicas(), 0);
    check_failed(&c, AS_EUNAVAILABLE);
    assert_false(as_simple_heartbeat(w.fleet, AS_STR("a"), NULL, 0));
    assert_int_equal(as_simple_leave(w.fleet, AS_STR("a"), AS_STR("m"), AS_STR("1"), 0),
                     AS_ENOTFOUND);
    end();
}

/* --- registrations --- */

static int leave(const struct hand *h, uint64_t epoch)
{
    return as_simple_leave(w.fleet, as_str_of(h->id), AS_STR("m"), AS_STR("1"), epoch);
}

static void test_unregistering(void **state AS_UNUSED)
{
    struct call c, late;
    struct taken t;
    struct hand h;

    begin_alone(&h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    assert_int_equal(leave(&h, h.epoch + 1), AS_ENOTFOUND);
    assert_int_equal(leave(&h, h.epoch), 0);
    assert_int_equal(leave(&h, 0), AS_ENOTFOUND); /* nobody can speak of it any more */
    assert_true(state_is("draining"));
    submit(&late, 2);
    hand_answer(&h, 0, &t);
    check_good(&c);  /* what was under way is finished */
    UNTIL(!model()); /* and the model is gone at once */
    check_failed(&late, AS_EUNAVAILABLE);
    UNTIL(ended(h.conn[0]));
    assert_int_equal(replicas(), 0);
    drop(&t);
    end_with(&h);
}

static void test_a_later_registration_replaces_the_earlier(void **state AS_UNUSED)
{
    struct call first, second;
    struct taken t;
    struct hand h;
    uint64_t epoch;

    begin_alone(&h, false);
    epoch = h.epoch;
    submit(&first, 1);
    hand_take(&h, 0, &t);
    hand_join(&h, false);
    assert_true(h.epoch > epoch);
    assert_int_equal(leave(&h, epoch), AS_ENOTFOUND); /* too late: that one has ended */
    assert_int_equal(replicas(), 2);
    hand_accept(&h, 1);
    submit(&second, 2);
    hand_serve(&h, 1);
    check_good(&second);
    hand_answer(&h, 0, &t);
    check_good(&first);
    UNTIL(replicas() == 1);
    assert_int_equal(shown.epoch, h.epoch);
    drop(&t);
    end_with(&h);
}

/* A word about what a dispatcher before this one has taken is never about what this one has. */
static void test_epochs_outlive_the_dispatcher(void **state)
{
    uint64_t first;
    struct hand h;

    begin_alone(&h, false);
    first = h.epoch;
    end_with(&h);
    tear_down(state);
    set_up(state);
    begin_alone(&h, false);
    assert_true(h.epoch > first);
    assert_int_equal(leave(&h, first), AS_ENOTFOUND);
    assert_int_equal(replicas(), 1);
    end_with(&h);
}

/* Nobody beats for the earlier one any more, and what it holds may take its time. */
static void test_what_is_replaced_is_not_asked_for_heartbeats(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct taken t;
    struct call c;
    struct hand h;
    as_ns end_of;

    conf.heartbeat_timeout = 30 * AS_MS;
    conf.grace = 30 * AS_MS;
    begin_alone_with(conf, &h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    hand_join(&h, false);
    end_of = as_loop_now(w.loop) + 5 * conf.grace;
    UNTIL((as_simple_heartbeat(w.fleet, AS_STR("a"), NULL, 0), as_loop_now(w.loop) > end_of));
    hand_answer(&h, 0, &t);
    check_good(&c);
    UNTIL(replicas() == 1);
    drop(&t);
    end_with(&h);
}

static void test_another_signature(void **state AS_UNUSED)
{
    struct as_tensor_spec x = {.name = AS_STR("x"), .dtype = AS_DT_UINT8, .ndim = AS_ANY_RANK};
    struct as_simple_registration other;
    struct hand a, b;

    begin_with(usual());
    hand_open(&a, "a");
    hand_open(&b, "b");
    hand_join(&a, false);
    hand_join(&b, false);
    other = offer_of(&a, false);
    other.model.has_inputs = true;
    other.model.inputs = &x;
    other.model.n_inputs = 1;
    assert_int_equal(hand_offer(&a, &other), AS_EEXISTS);
    assert_non_null(strstr(why, "model 'm:1': the model is served with other inputs"));
    assert_int_equal(replicas(), 2); /* and its former word stands */
    assert_int_equal(leave(&b, 0), 0);
    /* now it contradicts only itself */
    assert_int_equal(hand_offer(&a, &other), 0);
    UNTIL(replicas() == 1);
    assert_int_equal(model()->n_inputs, 1);
    for (int i = 0; i < 3; i++) /* the second was looked at, and refused */
        hand_accept(&a, i);
    exchange(&a, 2);
    end();
    hand_close(&a);
    hand_close(&b);
}

static void test_slots_of_its_own(void **state AS_UNUSED)
{
    struct call c[3];
    struct hand a, b;

    begin_with(usual());
    hand_open(&a, "a");
    hand_open(&b, "b");
    b.slots = 2;
    hand_join(&a, false);
    hand_join(&b, false);
    for (int i = 0; i < 3; i++)
        submit(&c[i], (uint8_t)i);
    hand_accept(&a, 0);
    hand_accept(&b, 0);
    hand_accept(&b, 1);
    hand_serve(&a, 0);
    hand_serve(&b, 0);
    hand_serve(&b, 1);
    for (int i = 0; i < 3; i++)
        check_good(&c[i]);
    end();
    hand_close(&a);
    hand_close(&b);
}

static void test_offers_that_are_refused(void **state AS_UNUSED)
{
    char nobody[128], outside[128], dots[160], link[128], file[128];
    const struct {
        const char *id, *address, *model, *version;
        uint32_t slots;
        int err;
        const char *why;
    } rows[] = {
        {"", NULL, "m", "1", 1, AS_EINVALID, "worker_id"},
        {"a b", NULL, "m", "1", 1, AS_EINVALID, "worker_id"},
        {"a/b", NULL, "m", "1", 1, AS_EINVALID, "worker_id"},
        {"a", NULL, "", "1", 1, AS_EINVALID, "model_name"},
        {"a", NULL, "m/../n", "1", 1, AS_EINVALID, "model_name"},
        {"a", NULL, "m", "1/2", 1, AS_EINVALID, "model_version"},
        {"a", NULL, "m", "1", 65536, AS_EINVALID, "max_ongoing_requests"},
        {"a", "/tmp/x", "m", "1", 1, AS_EINVALID, "worker_address: not unix:///PATH"},
        {"a", "unix://x", "m", "1", 1, AS_EINVALID, "not an absolute path"},
        {"a", "tcp://1.2.3.4:5", "m", "1", 1, AS_EINVALID, "worker_address"},
        {"a", nobody, "m", "1", 1, AS_EUNAVAILABLE, "there is no socket"},
        {"a", outside, "m", "1", 1, AS_EDENIED, "not below --worker-socket-dir"},
        {"a", dots, "m", "1", 1, AS_EINVALID, "segment"},
        {"a", link, "m", "1", 1, AS_EDENIED, "symlink"},
        {"a", file, "m", "1", 1, AS_EDENIED, "not a socket"},
    };
    struct hand h;

    begin_with(usual());
    hand_open(&h, "a");
    snprintf(nobody, sizeof(nobody), "unix://%s/nobody", w.dir);
    snprintf(outside, sizeof(outside), "unix:///tmp/elsewhere");
    snprintf(dots, sizeof(dots), "unix://%s/../a.sock", w.dir);
    snprintf(link, sizeof(link), "unix://%s/link", w.dir);
    assert_int_equal(symlink("a.sock", link + 7), 0);
    snprintf(file, sizeof(file), "unix://%s/file", w.dir);
    close(open(file + 7, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_simple_registration o = offer_of(&h, false);

        o.worker = as_str_of(rows[i].id);
        if (rows[i].address)
            o.address = as_str_of(rows[i].address);
        o.model.name = as_str_of(rows[i].model);
        o.model.version = as_str_of(rows[i].version);
        o.model.budget = rows[i].slots;
        assert_int_equal(hand_offer(&h, &o), rows[i].err);
        if (!strstr(why, rows[i].why))
            fail_msg("row %zu: %s", i, why);
        assert_int_equal(replicas(), 0);
    }
    turn();
    assert_int_equal(as_registry_count(w.client.registry), 0);
    end_with(&h);
}

static void test_a_full_backlog(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct call c[4];
    struct hand h;

    conf.simple_connect = 100 * AS_MS;
    begin_with(conf);
    hand_open(&h, "a");
    close(h.listener);
    hand_listen(&h, 0); /* one waits, the next is turned away */
    h.slots = 3;
    hand_join(&h, false);
    for (int i = 0; i < 2; i++)
        submit(&c[i], (uint8_t)i);
    for (int i = 0; i < 10; i++)
        turn();
    hand_accept(&h, 0);
    hand_serve(&h, 0);
    hand_accept(&h, 1); /* it was tried again */
    hand_serve(&h, 1);
    check_good(&c[0]);
    check_good(&c[1]);
    assert_true(state_is("ready"));
    end_with(&h);
}

static void test_a_worker_that_accepts_nobody(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct call c[3];
    struct hand h;

    conf.simple_connect = 60 * AS_MS;
    begin_with(conf);
    hand_open(&h, "a");
    close(h.listener);
    hand_listen(&h, 0);
    h.slots = 2;
    hand_join(&h, false);
    submit(&c[0], 0);
    submit(&c[1], 1);
    UNTIL(state_is("lost"));
    assert_true(logged("its backlog is full"));
    hand_accept(&h, 0);
    hand_serve(&h, 0);
    check_good(&c[0]);
    UNTIL(state_is("ready")); /* there is room again */
    hand_serve(&h, 0);
    check_good(&c[1]);
    end_with(&h);
}

/* Workers come and go while another serves: nothing of them stays. */
static void test_what_comes_and_goes_leaves_nothing(void **state AS_UNUSED)
{
    struct as_simple_registration o;
    struct hand stays, h;
    uint64_t live = 0;
    int n_fds = 0, fd;

    begin_with(usual());
    hand_open(&stays, "stays");
    hand_join(&stays, false);
    hand_accept(&stays, 0);
    hand_open(&h, "h");
    for (int i = 0; i < 600; i++) {
        char name[32];

        /* a model of its own, and one more replica of the other */
        snprintf(name, sizeof(name), "n%d", i % 3);
        o = offer_of(&h, false);
        o.model.name = as_str_of(name);
        assert_int_equal(hand_offer(&h, &o), 0);
        hand_join(&h, false);
        assert_int_equal(as_simple_leave(w.fleet, AS_STR("h"), as_str_of(name), AS_STR(""), 0), 0);
        assert_int_equal(leave(&h, 0), 0);
        while (take_conn(&h, 0) >= 0)
            hand_hang_up(&h, 0);
        UNTIL(replicas() == 1 && as_registry_count(w.client.registry) == 1);
        exchange(&stays, 0);
        for (int k = 0; k < 4; k++)
            turn();
        if (i == 100) {
            live = as_live_bytes();
            n_fds = dup(0);
            close(n_fds);
        }
    }
    assert_int_equal(as_live_bytes(), live);
    fd = dup(0); /* the lowest that is free */
    close(fd);
    assert_int_equal(fd, n_fds);
    end_with(&h);
    hand_close(&stays);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_worker_that_dies_and_comes_back),
        T(test_a_worker_that_dies_unseen),
        T(test_the_others_serve_on),
        T(test_a_missed_heartbeat),
        T(test_forgotten_after_the_grace_time),
        T(test_unregistering),
        T(test_a_later_registration_replaces_the_earlier),
        T(test_epochs_outlive_the_dispatcher),
        T(test_what_is_replaced_is_not_asked_for_heartbeats),
        T(test_another_signature),
        T(test_slots_of_its_own),
        T(test_offers_that_are_refused),
        T(test_a_full_backlog),
        T(test_a_worker_that_accepts_nobody),
        T(test_what_comes_and_goes_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
