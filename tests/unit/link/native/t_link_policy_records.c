/* link/fleet/policy/policy: how much a policy process is sent, and which records it may send.
 */
#include "policy_world.h"

static uint32_t reports(void)
{
    uint32_t n = 0;

    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &w.fleet->upstreams) {
        n += u->n_reports;
    }
    return n;
}

/* Models and statistics of h, as large as they may be. */
static void report_much(struct hand *h)
{
    static char text[AS_FRAME_REPORT_MAX];
    struct as_frame_report r = {AS_REPORT_MODEL_IDS, {text, sizeof(text)}};
    uint32_t had = reports();

    memset(text, 'x', sizeof(text));
    memcpy(text, "[\"", 2);
    memcpy(text + sizeof(text) - 2, "\"]", 2);
    as_frame_put_report(&h->out, &r);
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + sizeof(text) - 2, "\"}", 2);
    r.kind = AS_REPORT_ROUTING;
    as_frame_put_report(&h->out, &r);
    UNTIL(reports() == had + 2);
}

/* What replicas report is told when the process has read what it was sent before. */
static void news_of_replicas_wait_for_the_window(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h[2], *p;

    begin_with_policy();
    h[0] = join(0, "t0", true, &no_options);
    h[1] = join(1, "t1", true, &no_options);
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &w.fleet->upstreams) {
        AS_CONTAINER(u, struct as_link, up)->capabilities |= AS_CAP_CALLS; /* and so REPORT */
    }
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 2);
    report_much(h[0]);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    for (uint32_t i = 2; i <= 4; i++) {
        report_much(h[0]);
        report_much(h[1]);
        submit();
        UNTIL_TOLD(p, &t, t.n_ids == i);
    }
    assert_int_equal(t.n, 2 + 7);
    report_much(h[0]);
    report_much(h[1]);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 5);
    assert_int_equal(t.n, 2 + 8); /* 4 MiB are unread with that */
    send_event(p, AS_POLICY_READ, t.bytes);
    UNTIL(app()->policy->up->policy_read == t.bytes);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 6);
    assert_int_equal(t.n, 2 + 9);
    end();
}

/* ROUTE had all of the body. */
static void more_of_a_body_that_is_whole_is_nothing(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h, *p;

    begin_with_question(&h, &p, &t);
    send_event(p, AS_POLICY_MORE, t.ids[0]);
    UNTIL_TOLD(p, &t, t.bodies == 1);
    assert_int_equal(t.body_bytes, 0);
    choose(p, t.ids[0], t.numbers[0]);
    start(h, 1);
    end();
}

/* A process that reads nothing is asked no more, and costs no memory. */
static void unread_bytes_are_bounded(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h, *p;
    struct as_buf b = {0};

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    /* the bytes are not sent here: the process says that it has read less than it was sent */
    as_policy_put_event(&b, AS_POLICY_READ, &(struct as_policy_event){1ull << 40, 0});
    as_frame_put_policy(&p->out, as_buf_slice(&b));
    UNTIL(w.killed == 1);
    assert_non_null(strstr(w.why, "READ of bytes that were not sent"));
    submit();
    start(h, 1);
    as_buf_fini(&b);
    end();
}

static void hostile_records_end_the_process(void **state AS_UNUSED)
{
    static const char *const wrong[] = {"malformed CHOICE", "second READY", "malformed POLICY",
                                        "malformed record"};

    for (size_t i = 0; i < AS_COUNT(wrong); i++) {
        struct told t = {0};
        struct as_buf b = {0};
        struct hand *p;

        begin_with_policy();
        join(0, "t0", true, &no_options);
        p = join_policy(2, "p0", 0);
        UNTIL_TOLD(p, &t, t.n == 1);
        if (i == 0) {
            as_policy_put_event(&b, AS_POLICY_CHOICE, &(struct as_policy_event){1, 77});
        } else if (i == 1) {
            as_policy_put_ready(&b, &(struct as_policy_ready){0});
        } else if (i == 2) {
            as_policy_put_ready(&b, &(struct as_policy_ready){0});
            b.n -= 8;
            b.p[0] = 99; /* a kind of a later version, cut */
        } else {
            as_policy_put_choice(&b, &(struct as_policy_choice){.reason = AS_POLICY_NONE});
            b.p[0] = AS_POLICY_MORE;
            b.p[4] = 8;
            b.n -= 8;
        }
        as_frame_put_policy(&p->out, as_buf_slice(&b));
        UNTIL(w.killed == 1);
        assert_non_null(strstr(w.why, wrong[i]));
        as_buf_fini(&b);
        end();
    }
}

static void only_a_policy_process_may(void **state AS_UNUSED)
{
    struct as_buf b = {0};
    struct hand *h;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    as_policy_put_ready(&b, &(struct as_policy_ready){0});
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    UNTIL(w.killed == 1);
    assert_non_null(strstr(w.why, "no policy process"));
    as_buf_fini(&b);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(news_of_replicas_wait_for_the_window),
        cmocka_unit_test(more_of_a_body_that_is_whole_is_nothing),
        cmocka_unit_test(unread_bytes_are_bounded),
        cmocka_unit_test(hostile_records_end_the_process),
        cmocka_unit_test(only_a_policy_process_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
