/* Specification of tool/bench/load_driver against servers in threads, which use the real server
 * session: every call is counted once; a stall shows in open-loop latencies; errors, calls without
 * a response and lost connections are reported. */
#include "tool/bench/load_driver.h"

#include "base/err.h"
#include "io/loop/clock.h"
#include "unit.h"
#include "wire/h2/h2.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- a server on one end of a socket pair --- */

struct server {
    int fd;
    pthread_t thread;
    uint32_t n;        /* requests so far */
    uint32_t stall_at; /* this request is answered `stall` late, and all later ones wait */
    as_ns stall;
    uint32_t silent_after; /* these and later ones are never answered; 0: none */
    uint32_t close_after;  /* the connection ends with this one; 0: never */
    uint32_t refuse_each;  /* every n-th request is refused; 0: none */
    uint32_t max_streams;
    struct as_h2 *h;
    bool stop;
    uint32_t id[4096];
};

static void answer(struct server *s, uint32_t stream, const char *status)
{
    static const struct as_http_header head = {{"content-type", 12}, {"application/grpc", 16}};
    const struct as_http_header tail[] = {{{"grpc-status", 11}, as_str_of(status)},
                                          {{"grpc-message", 12}, {"as%20told", 9}}};
    static const struct as_http_piece piece = {(const uint8_t *)"\0\0\0\0\2ok", 7, NULL};

    as_h2_answer(s->h, stream,
                 &(struct as_http_answer){.status = 200,
                                          .headers = &head,
                                          .n_headers = 1,
                                          .body = &piece,
                                          .n_body = 1,
                                          .trailers = tail,
                                          .n_trailers = 2});
}

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct server *s = conn;

    (void)head;
    s->id[s->n % AS_COUNT(s->id)] = stream;
    if (s->n + 1 == s->stall_at)
        usleep((useconds_t)(s->stall / AS_US)); /* the behaviour under test */
    return &s->id[s->n++ % AS_COUNT(s->id)];
}

static void on_data(void *conn, void *req, const uint8_t *p, size_t n)
{
    struct server *s = conn;

    (void)p;
    as_h2_consume(s->h, *(uint32_t *)req, n);
}

static void on_end(void *conn, void *req)
{
    struct server *s = conn;

    if (s->silent_after && s->n > s->silent_after)
        return;
    s->stop = s->stop || (s->close_after && s->n >= s->close_after);
    if (!s->stop)
        answer(s, *(uint32_t *)req, s->refuse_each && s->n % s->refuse_each == 0 ? "8" : "0");
}

static void on_close(void *conn, void *req, uint32_t code)
{
    (void)conn;
    (void)req;
    (void)code;
}

static void *serve(void *arg)
{
    static const struct as_http_ops ops = {
        .on_request = on_request, .on_data = on_data, .on_end = on_end, .on_close = on_close};
    struct server *s = arg;
    const struct as_h2_conf conf = {.max_streams = s->max_streams ? s->max_streams : 1000,
                                    .stream_window = 65535,
                                    .conn_window = 1 << 20,
                                    .max_header_list = 8192,
                                    .max_headers = 100};
    struct as_outq q;
    uint8_t in[65536];
    size_t have = 0, at = 0, taken = 0;
    ssize_t n;

    as_outq_init(&q);
    AS_ASSERT(as_h2_new(&s->h, &conf, &ops, s, as_clock_now()) == 0);
    do {
        struct iovec v[16];
        int k;

        as_h2_send(s->h, &q, 1 << 20);
        while ((k = as_outq_iov(&q, v, 16)) > 0) {
            ssize_t sent = writev(s->fd, v, k);

            if (sent < 0)
                break;
            as_outq_drop(&q, (size_t)sent);
        }
        at += taken; /* it may accept less than all bytes */
        if (at == have) {
            n = read(s->fd, in, sizeof(in));
            have = n > 0 ? (size_t)n : 0;
            at = 0;
        }
    } while (have && as_h2_recv(s->h, in + at, have - at, as_clock_now(), &taken) == 0 && !s->stop);
    as_h2_free(s->h);
    as_outq_fini(&q);
    close(s->fd);
    return NULL;
}

/* Runs a load with one connection per server. */
static int run_load(struct server *servers, uint32_t n, struct as_load_driver_conf *conf,
                    struct as_load_driver_result *r)
{
    int fds[8], rc;

    for (uint32_t i = 0; i < n; i++) {
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        servers[i].fd = pair[0];
        fds[i] = pair[1];
        assert_int_equal(pthread_create(&servers[i].thread, NULL, serve, &servers[i]), 0);
    }
    conf->fds = fds;
    conf->connections = n;
    conf->request.limit = 1000;
    conf->request.path = AS_STR("/s/m");
    conf->request.message = AS_STR("question");
    conf->authority = "h";
    rc = as_load_driver_run(conf, r);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(servers[i].thread, NULL);
    return rc;
}

static struct as_load_driver_result result;

static void a_closed_loop_sends_the_requested_calls(void **state AS_UNUSED)
{
    static struct server s[3];
    struct as_load_driver_conf conf = {
        .streams = 4, .requests = 1000, .request.timeout = 10 * AS_SEC};

    assert_int_equal(run_load(s, 3, &conf, &result), 0);
    assert_int_equal(result.tally.status[0], 1000);
    assert_int_equal(as_tally_due(&result.tally), 1000);
    assert_int_equal(result.tally.in_window, 1000);
    assert_int_equal(s[0].n + s[1].n + s[2].n, 1000);
    assert_true(s[0].n >= 4 && s[1].n >= 4 && s[2].n >= 4);
    assert_true(result.measured > 0);
    assert_int_equal(result.lost, 0);
}

static void a_closed_loop_for_a_duration(void **state AS_UNUSED)
{
    static struct server s;
    struct as_load_driver_conf conf = {.streams = 2,
                                       .warmup = 300 * AS_MS,
                                       .duration = 300 * AS_MS,
                                       .request.timeout = 10 * AS_SEC};

    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_true(result.tally.status[0] > 0 &&
                result.tally.status[0] < s.n); /* without the warm-up */
    assert_int_equal(as_tally_due(&result.tally), result.tally.status[0]);
    assert_true(result.measured >= 300 * AS_MS);
    assert_int_equal(result.tally.unsent + result.tally.late, 0);
}

/* 1000 calls/s; the 50th takes 0.2 s. A closed loop would count one slow call; in an open loop
 * about 200 calls are due in that time. */
static void a_stall_delays_all_calls_that_are_due(void **state AS_UNUSED)
{
    static struct server s;
    uint64_t slow = 0;
    struct as_load_driver_conf conf = {
        .streams = 1000, .rate = 1000, .duration = 500 * AS_MS, .request.timeout = 10 * AS_SEC};

    s.stall_at = 50;
    s.stall = 200 * AS_MS;
    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_int_equal(as_tally_due(&result.tally), 500);
    assert_int_equal(result.tally.status[0], 500);
    for (uint32_t i = as_loghist_index(20 * AS_MS); i < AS_COUNT(result.tally.latency.h.bucket);
         i++)
        slow += result.tally.latency.h.bucket[i];
    assert_true(slow >= 150);
    assert_true(result.tally.latency.h.max >= 200 * AS_MS);
}

/* The same with one stream: calls wait in the client, which counts as latency, too. */
static void waiting_for_a_stream_counts_as_latency(void **state AS_UNUSED)
{
    static struct server s;
    struct as_load_driver_conf conf = {
        .streams = 1, .rate = 1000, .duration = 500 * AS_MS, .request.timeout = 10 * AS_SEC};

    s.stall_at = 50;
    s.stall = 200 * AS_MS;
    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_int_equal(as_tally_due(&result.tally), 500);
    assert_true(result.tally.late >= 150);
    assert_true(as_loghist_quantile(&result.tally.latency.h, .75) > 20 * AS_MS);
}

static void calls_never_sent_are_counted(void **state AS_UNUSED)
{
    static struct server s;
    struct as_load_driver_conf conf = {
        .streams = 1, .rate = 1000, .duration = 300 * AS_MS, .request.timeout = 10 * AS_SEC};

    s.stall_at = 1;
    s.stall = 350 * AS_MS;
    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_int_equal(as_tally_due(&result.tally), 300);
    assert_int_equal(result.tally.status[0], 1);
    assert_int_equal(result.tally.unsent, 299);
    assert_int_equal(result.tally.latency.h.n, 300);
}

static void poisson_arrivals_are_sent(void **state AS_UNUSED)
{
    static struct server s;
    struct as_load_driver_conf conf = {.streams = 100,
                                       .rate = 2000,
                                       .poisson = true,
                                       .seed = 3,
                                       .requests = 200,
                                       .request.timeout = 10 * AS_SEC};

    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_int_equal(result.tally.status[0], 200);
}

/* Not asleep between the calls; every call is sent at its time or later. */
static void the_driver_may_poll(void **state AS_UNUSED)
{
    static struct server s;
    struct as_load_driver_conf conf = {.streams = 1000,
                                       .rate = 1000,
                                       .poll = true,
                                       .warmup = 50 * AS_MS,
                                       .duration = 200 * AS_MS,
                                       .request.timeout = 10 * AS_SEC};

    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_int_equal(result.tally.status[0], 200);
    assert_int_equal(result.tally.delay.n, 200);
    assert_int_equal(result.sent, s.n); /* with those of the warm-up */
    assert_in_range(s.n, 201, 251);
}

static void an_answer_must_be_the_expected_one(void **state AS_UNUSED)
{
    static const struct as_str answers[] = {{"ok", 2}, {"OK", 2}, {"okay", 4}, {"", 0}};

    for (size_t i = 0; i < AS_COUNT(answers); i++) {
        static struct server s;
        struct as_load_driver_conf conf = {
            .streams = 3, .requests = 20, .request.timeout = 10 * AS_SEC, .answer = &answers[i]};

        s = (struct server){.n = 0};
        assert_int_equal(run_load(&s, 1, &conf, &result), 0);
        assert_int_equal(result.tally.status[0], i == 0 ? 20 : 0);
        assert_int_equal(result.tally.status[15], i == 0 ? 0 : 20);
        assert_string_equal(result.tally.text[15],
                            i == 0 ? "" : "the answer is not that of the first call");
    }
}

static void errors_are_counted_by_status(void **state AS_UNUSED)
{
    static struct server s;
    struct as_load_driver_conf conf = {
        .streams = 3, .requests = 100, .request.timeout = 10 * AS_SEC};

    s.refuse_each = 10;
    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_int_equal(result.tally.status[0], 90);
    assert_int_equal(result.tally.status[8], 10);
    assert_string_equal(result.tally.text[8], "as told");
    assert_int_equal(result.tally.latency.h.n, 90);
}

static void an_unanswered_call_ends_at_its_deadline(void **state AS_UNUSED)
{
    static struct server s;
    struct as_load_driver_conf conf = {.streams = 5, .requests = 10, .request.timeout = AS_SEC};

    s.silent_after = 5;
    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_int_equal(result.tally.status[0], 5);
    assert_int_equal(result.tally.status[4], 5);
    assert_int_equal(as_tally_due(&result.tally), 10);
}

static void a_server_may_allow_fewer_streams(void **state AS_UNUSED)
{
    static struct server s;
    struct as_load_driver_conf conf = {
        .streams = 50, .requests = 200, .request.timeout = 10 * AS_SEC};

    s.max_streams = 2;
    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_int_equal(result.tally.status[0] + result.tally.status[14], 200);
    assert_true(result.tally.status[0] > 100);
}

static void a_lost_connection_does_not_stop_the_others(void **state AS_UNUSED)
{
    static struct server s[2];
    struct as_load_driver_conf conf = {
        .streams = 2, .requests = 400, .request.timeout = 10 * AS_SEC};

    s[1].close_after = 1; /* it gets at least two calls */
    assert_int_equal(run_load(s, 2, &conf, &result), 0);
    assert_int_equal(result.lost, 1);
    assert_true(strlen(result.why) > 0);
    assert_int_equal(as_tally_due(&result.tally), 400);
    assert_int_equal(result.tally.status[0], 398);
    assert_int_equal(result.tally.status[14], 2);
}

static void the_run_ends_without_connections(void **state AS_UNUSED)
{
    static struct server s[2];
    struct as_load_driver_conf conf = {
        .streams = 2, .warmup = 3600 * AS_SEC, .duration = AS_SEC, .request.timeout = 10 * AS_SEC};

    s[0].close_after = s[1].close_after = 3;
    assert_int_equal(run_load(s, 2, &conf, &result), AS_EUNAVAILABLE);
    assert_int_equal(result.lost, 2);
    conf.warmup = 0;
    conf.duration = 3600 * AS_SEC;
    s[0] = s[1] = (struct server){.close_after = 30};
    assert_int_equal(run_load(s, 2, &conf, &result), 0);
    assert_int_equal(result.lost, 2);
    assert_true(result.tally.status[0] > 0 && result.tally.status[14] > 0);
}

static void a_signal_ends_the_measurement(void **state AS_UNUSED)
{
    static volatile sig_atomic_t flag = 1;
    static struct server s;
    struct as_load_driver_conf conf = {.streams = 1,
                                       .duration = 3600 * AS_SEC,
                                       .request.timeout = 10 * AS_SEC,
                                       .interrupted = &flag};

    assert_int_equal(run_load(&s, 1, &conf, &result), 0);
    assert_true(result.interrupted);
    assert_int_equal(as_tally_due(&result.tally), result.tally.status[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_loop_sends_the_requested_calls),
        cmocka_unit_test(a_closed_loop_for_a_duration),
        cmocka_unit_test(a_stall_delays_all_calls_that_are_due),
        cmocka_unit_test(waiting_for_a_stream_counts_as_latency),
        cmocka_unit_test(calls_never_sent_are_counted),
        cmocka_unit_test(poisson_arrivals_are_sent),
        cmocka_unit_test(the_driver_may_poll),
        cmocka_unit_test(an_answer_must_be_the_expected_one),
        cmocka_unit_test(errors_are_counted_by_status),
        cmocka_unit_test(an_unanswered_call_ends_at_its_deadline),
        cmocka_unit_test(a_server_may_allow_fewer_streams),
        cmocka_unit_test(a_lost_connection_does_not_stop_the_others),
        cmocka_unit_test(the_run_ends_without_connections),
        cmocka_unit_test(a_signal_ends_the_measurement),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("drive", tests, NULL, NULL);
}
