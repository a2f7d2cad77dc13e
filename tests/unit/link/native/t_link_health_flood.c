/* Workers that flood the dispatcher: they do not read the replies to their frames, send pings
 * without end, or never leave their socket empty. */
#include "base/memory/live.h"
#include "link_world.h"

#define MIB       ((size_t)1 << 20)
#define PINGS     1000u
#define FAST_PING (20 * AS_MS)

static struct as_outq flood;

/* The same frames again and again, as many as the socket takes now. */
static void pour(struct hand *h, const uint8_t *bytes, size_t n)
{
    static size_t at;
    ssize_t k;

    while (h->fd >= 0 &&
           (k = send(h->fd, bytes + at % n, n - at % n, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
        at += (size_t)k;
}

/* What was put into `flood`, in one piece. */
static uint8_t *bytes_of_flood(size_t *ret_n)
{
    struct iovec iov[64];
    int k = as_outq_iov(&flood, iov, 64);
    uint8_t *p = malloc(flood.bytes);

    *ret_n = 0;
    for (int i = 0; i < k; i++) {
        memcpy(p + *ret_n, iov[i].iov_base, iov[i].iov_len);
        *ret_n += iov[i].iov_len;
    }
    assert_int_equal(*ret_n, flood.bytes);
    as_outq_fini(&flood);
    return p;
}

static uint8_t *pings(size_t *ret_n)
{
    for (uint64_t i = 0; i < PINGS; i++)
        as_frame_put_ping(&flood, AS_FRAME_PING, i);
    return bytes_of_flood(ret_n);
}

/* Pours until the link has ended; the most that the process holds on the way. */
static size_t pour_until_the_end(struct hand *h, const uint8_t *bytes, size_t n)
{
    size_t most = 0;

    as_timer_set(&w.watch, as_loop_now(w.loop) + PATIENCE);
    while (!w.gone) {
        pour(h, bytes, n);
        turn();
        most = AS_MAX(most, as_live_bytes());
    }
    as_timer_set(&w.watch, AS_NEVER);
    return most;
}

static void one_that_pings_and_does_not_read_is_ended(void **state AS_UNUSED)
{
    struct hand *h;
    size_t n, before;
    uint8_t *bytes = pings(&n);

    begin(usual());
    h = join(0, "t0", false, &no_options);
    before = as_live_bytes();
    assert_true(pour_until_the_end(h, bytes, n) < before + 4 * MIB);
    assert_int_equal(w.killed, 1);
    assert_non_null(strstr(w.why, "does not read"));
    free(bytes);
    end();
}

static void one_that_reads_may_ping_as_it_likes(void **state AS_UNUSED)
{
    uint32_t pongs = 0;
    struct hand *h;
    size_t n;
    uint8_t *bytes = pings(&n);

    begin(usual());
    h = join(0, "t0", false, &no_options);
    while (pongs < 100 * PINGS) {
        pour(h, bytes, n);
        turn();
        while (hand_reads(h))
            pongs += h->f.type == AS_FRAME_PONG;
    }
    assert_int_equal(w.gone + w.killed, 0);
    free(bytes);
    end();
}

/* Its parts are taken, and credit is granted again for them. */
static void one_that_streams_and_does_not_read_is_ended(void **state AS_UNUSED)
{
    static const int64_t shape[] = {4};
    static const uint8_t values[4];
    struct as_tensor t = {.name = AS_STR("y"),
                          .dtype = AS_DT_UINT8,
                          .ndim = 1,
                          .shape = shape,
                          .data = values,
                          .nbytes = sizeof(values)};
    struct as_msg msg = {.tensors = &t, .n_tensors = 1};
    struct hand *h;
    size_t n, before;
    uint8_t *bytes;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    submit();
    start(h, 1);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(as_frame_put_msg(&flood, AS_FRAME_DATA, h->streams[0],
                                          &(struct as_frame_msg){.more = true}, &msg, NULL),
                         0);
    bytes = bytes_of_flood(&n);
    before = as_live_bytes();
    assert_true(pour_until_the_end(h, bytes, n) < before + 4 * MIB);
    assert_int_equal(w.killed, 1);
    assert_non_null(strstr(w.why, "does not read"));
    assert_true(w.q[0].parts > AS_LINK_REPLY_BACKLOG_MAX / 64);
    free(bytes);
    end();
}

/* One that reads, too: each may be worth a line of the log. */
static void models_are_registered_as_often_as_there_can_be_some(void **state AS_UNUSED)
{
    struct as_frame_register r = model(false);
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options); /* the first one */
    for (uint32_t i = 1; i < AS_DEPLOYMENT_MODELS_MAX; i++) {
        assert_int_equal(as_frame_put_register(&h->out, &r), 0);
        expect(h, AS_FRAME_REGISTERED);
    }
    assert_int_equal(w.killed, 0);
    assert_int_equal(as_frame_put_register(&h->out, &r), 0);
    UNTIL(w.killed);
    assert_non_null(strstr(w.why, "REGISTER"));
    end();
}

static struct as_fleet_conf pinging(as_ns timeout)
{
    struct as_fleet_conf conf = usual();

    conf.ping_interval = FAST_PING;
    conf.ping_timeout = timeout;
    return conf;
}

/* Says something, whatever it is, in every turn. */
static void talk(struct hand *h)
{
    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 2, .prefetch = 8});
}

static void a_talker_is_pinged(void **state AS_UNUSED)
{
    uint32_t seen = 0;
    uint64_t opaque;
    struct hand *h;

    begin(pinging(3600 * AS_SEC));
    h = join(0, "t0", false, &no_options);
    as_timer_set(&w.watch, as_loop_now(w.loop) + PATIENCE);
    while (seen < 3) {
        talk(h);
        turn();
        while (hand_reads(h)) {
            if (h->f.type != AS_FRAME_PING)
                continue;
            assert_int_equal(as_frame_get_ping(&h->f, &opaque), 0);
            as_frame_put_ping(&h->out, AS_FRAME_PONG, opaque);
            seen++;
        }
    }
    as_timer_set(&w.watch, AS_NEVER);
    assert_int_equal(w.gone + w.killed, 0);
    end();
}

static void a_talker_that_does_not_answer_is_ended(void **state AS_UNUSED)
{
    struct hand *h;

    begin(pinging(5 * FAST_PING));
    h = join(0, "t0", false, &no_options);
    as_timer_set(&w.watch, as_loop_now(w.loop) + PATIENCE);
    while (!w.killed) {
        talk(h);
        turn();
        while (hand_reads(h))
            ;
    }
    as_timer_set(&w.watch, AS_NEVER);
    assert_non_null(strstr(w.why, "ping"));
    end();
}

/* The ping waits behind requests that the worker takes slowly: the time runs when it has it. */
static void a_worker_that_takes_its_requests_slowly_lives(void **state AS_UNUSED)
{
    static uint8_t large[1000000];
    static const int64_t shape[] = {sizeof(large)};
    as_ns timeout = AS_SEC, began;
    int little = 8192; /* so that it is seen when it takes a little */
    size_t taken = 0;
    struct as_upstream *u;
    struct hand *h;

    begin(pinging(timeout));
    h = join(0, "t0", false, &no_options);
    u = AS_LIST_ENTRY(w.fleet->upstreams.next, struct as_upstream, node);
    assert_int_equal(setsockopt(AS_CONTAINER(u, struct as_link, up)->transport->fd, SOL_SOCKET,
                                SO_SNDBUF, &little, sizeof(little)),
                     0);
    submit_bytes(large, shape);
    submit_bytes(large, shape);
    began = as_loop_now(w.loop);
    while (as_loop_now(w.loop) < began + 2 * timeout) {
        as_ns gone = as_loop_now(w.loop) - began;
        uint8_t some[4096];

        if (taken < gone / AS_MS * 200) { /* 200 KB in a second */
            ssize_t k = recv(h->fd, some, sizeof(some), MSG_DONTWAIT);

            taken += k > 0 ? (size_t)k : 0;
        }
        turn();
    }
    assert_int_equal(w.killed, 0);
    assert_true(taken < sizeof(large)); /* it has not come to its ping */
    UNTIL(w.killed);                    /* it takes nothing any more */
    end();
}

/* --- the end of a process whose socket somebody still fills --- */

static struct hand *filler;
static uint32_t fills;

/* Each frame that is read brings the next one. */
static void fill_again(struct as_fleet_client *c AS_UNUSED)
{
    struct as_frame_traffic t = {.flags = AS_FRAME_CANARY, .canary = 1 + fills % 2};

    if (!filler || fills == 1000)
        return;
    fills++;
    as_frame_put_traffic(&filler->out, &t);
    flush(filler);
}

static void what_comes_after_a_death_is_not_read(void **state AS_UNUSED)
{
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    w.client.on_registry = fill_again;
    filler = h;
    fills = 0;
    fill_again(&w.client);
    as_fleet_remove_process(w.fleet, AS_STR("t0"), AS_LOSS_KILLED);
    assert_in_range(fills, 2, 3); /* what it had said before counts */
    filler = NULL;
    w.client.on_registry = NULL;
    hand_close(h);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_pings_and_does_not_read_is_ended),
        cmocka_unit_test(one_that_reads_may_ping_as_it_likes),
        cmocka_unit_test(one_that_streams_and_does_not_read_is_ended),
        cmocka_unit_test(models_are_registered_as_often_as_there_can_be_some),
        cmocka_unit_test(a_talker_is_pinged),
        cmocka_unit_test(a_talker_that_does_not_answer_is_ended),
        cmocka_unit_test(a_worker_that_takes_its_requests_slowly_lives),
        cmocka_unit_test(what_comes_after_a_death_is_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
