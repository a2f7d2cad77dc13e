/* link/native/link_state: each event in each state, on a real link. */
#include "link_world.h"

#include <signal.h>

/* Where a link stands when the event comes. Of the last three the socket has ended. */
enum place {
    HELLO,
    OPEN,
    DRIVING,
    READY,
    DRAINING,
    LEAVING,
    CONDEMNED,
    KILLED,
    CONDEMNED_LOST,
    KILLED_LOST,
    LOST,
    PLACES
};

enum event {
    SAYS_HELLO,
    SAYS_DRIVERS_HELLO,
    REGISTERS,
    GRANTS,
    ASKS_TO_DRAIN,
    SAYS_GOODBYE,
    PINGS,
    LIES, /* an answer to a stream that is not open */
    CLOSES,
    TIME_PASSES, /* the timer of the state */
    IS_SILENT,   /* has not answered a ping */
    DIES,
    IS_STOPPED, /* the dispatcher ends */
    EVENTS
};

#define _  AS_LINK_STATES /* stays what it is */
#define X  AS_LINK_ENDED
#define NO (-1) /* that event cannot come */
#define D  AS_LINK_DRAINING
#define B  AS_LINK_LEAVING
#define C  AS_LINK_CONDEMNED
#define K  AS_LINK_KILLED
#define L  AS_LINK_LOST

/* With an open request, a process of ours, and a signal that makes it print its stacks. */
static const int after[PLACES][EVENTS] = {
    /*        HELLO driver's REGISTER CREDIT DRAIN GOODBYE PING lie closes timer silent dies stop */
    [HELLO] = {AS_LINK_OPEN, AS_LINK_DRIVER, X, X, X, X, X, X, X, X, NO, X, X},
    [OPEN] = {X, X, _, AS_LINK_READY, X, X, X, X, X, X, NO, X, X},
    [DRIVING] = {X, X, X, X, _, X, _, X, X, NO, NO, X, X},
    [READY] = {X, X, _, _, D, B, _, X, L, NO, C, X, X},
    [DRAINING] = {X, X, _, _, _, B, _, X, L, NO, C, X, X},
    [LEAVING] = {X, X, _, _, _, _, _, X, X, NO, C, X, X},
    [CONDEMNED] = {X, X, _, _, _, _, _, X, _, K, _, X, X},
    [KILLED] = {X, X, _, _, _, _, _, X, _, X, _, X, X},
    [CONDEMNED_LOST] = {NO, NO, NO, NO, NO, NO, NO, NO, NO, K, _, X, X},
    [KILLED_LOST] = {NO, NO, NO, NO, NO, NO, NO, NO, NO, X, _, X, X},
    [LOST] = {NO, NO, NO, NO, NO, NO, NO, NO, NO, X, _, X, X},
};

static const enum as_link_state state_at[PLACES] = {
    AS_LINK_HELLO, AS_LINK_OPEN, AS_LINK_DRIVER, AS_LINK_READY, D, B, C, K, C, K, L};

static uint16_t seen[AS_LINK_STATES]; /* moves that an event has caused */

struct world {
    bool ours; /* a process of ours */
    bool busy; /* it has an open request */
    bool dumps;
};

static struct as_link *the_link(void)
{
    struct as_upstream *u = AS_LIST_ENTRY(w.fleet->upstreams.next, struct as_upstream, node);

    return AS_CONTAINER(u, struct as_link, up);
}

static void fire(struct as_link *l)
{
    assert_true(l->timer.at != AS_NEVER);
    as_timer_set(&l->timer, AS_NEVER);
    l->timer.fire(&l->timer);
}

static void say_drivers_hello(struct hand *h)
{
    struct as_frame_hello hello = {.lo = 1,
                                   .hi = 1,
                                   .capabilities = AS_CAP_CALLS | AS_CAP_DRIVER,
                                   .max_message = 1 << 20,
                                   .token = AS_STR("drive")};

    as_frame_put_hello(&h->out, &hello);
}

static void feed(struct as_link *l, struct hand *h, enum event e, const struct world *k)
{
    struct as_frame_credit credit = {.slots = 3, .prefetch = 8};
    struct as_frame_register r = model(false);

    if (e == SAYS_HELLO)
        say_hello(h, k->ours ? "t0" : "join");
    else if (e == SAYS_DRIVERS_HELLO)
        say_drivers_hello(h);
    else if (e == REGISTERS)
        assert_int_equal(as_frame_put_register(&h->out, &r), 0);
    else if (e == GRANTS)
        as_frame_put_credit(&h->out, 0, &credit);
    else if (e == ASKS_TO_DRAIN)
        as_frame_put_text(&h->out, AS_FRAME_DRAIN, (struct as_str){0});
    else if (e == SAYS_GOODBYE)
        as_frame_put_text(&h->out, AS_FRAME_GOODBYE, (struct as_str){0});
    else if (e == PINGS)
        as_frame_put_ping(&h->out, AS_FRAME_PING, 7);
    else if (e == LIES)
        as_frame_put_end(&h->out, 999, 0);
    else if (e == CLOSES)
        hand_close(h);
    if (e <= CLOSES) {
        flush(h);
        as_link_drain_socket(l);
    } else if (e == TIME_PASSES) {
        fire(l);
    } else if (e == IS_SILENT) {
        as_link_kill_unresponsive(l);
    } else if (e == DIES) {
        as_link_on_death(l);
    } else {
        l->up.ops->stop(&l->up);
    }
}

static struct as_link *reach(enum place to, const struct world *k)
{
    static const enum event on_the_way[PLACES] = {[DRAINING] = ASKS_TO_DRAIN,
                                                  [LEAVING] = SAYS_GOODBYE,
                                                  [CONDEMNED] = IS_SILENT,
                                                  [KILLED] = IS_SILENT,
                                                  [CONDEMNED_LOST] = IS_SILENT,
                                                  [KILLED_LOST] = IS_SILENT,
                                                  [LOST] = CLOSES};
    struct as_frame_options o = one_option(AS_FRAME_OPT_DUMP_SIGNAL, SIGWINCH);
    struct hand *h = &w.hand[0];
    struct as_link *l;

    if (to >= READY) {
        join(0, k->ours ? "t0" : "join", false, k->dumps ? &o : &no_options);
        if (k->busy)
            submit();
        if (k->busy)
            expect(h, AS_FRAME_OPEN);
    } else {
        connect_hand(0);
    }
    l = the_link();
    if (to == OPEN) {
        feed(l, h, SAYS_HELLO, k);
        feed(l, h, REGISTERS, k);
    } else if (to == DRIVING) {
        feed(l, h, SAYS_DRIVERS_HELLO, k);
    } else if (to > READY) {
        feed(l, h, on_the_way[to], k);
    }
    if (to == KILLED || to == KILLED_LOST)
        fire(l);
    if (to == CONDEMNED_LOST || to == KILLED_LOST)
        feed(l, h, CLOSES, k);
    assert_int_equal(l->state, state_at[to]);
    return l;
}

static int expected(enum place from, enum event e, const struct world *k)
{
    int to = after[from][e];

    if (e == CLOSES && to != NO && !k->busy)
        to = X; /* there is nothing to wait for */
    if (to == C && !k->ours)
        to = X; /* a worker that came by itself is not killed: its link ends */
    else if (to == C && !k->dumps)
        to = K;
    return to == _ ? (int)state_at[from] : to;
}

static void try_event(enum place from, enum event e, const struct world *k)
{
    int to = expected(from, e, k);
    bool killed = k->ours && from >= CONDEMNED && from < LOST;
    const struct as_replica *replica;
    struct as_link *l;
    const char *broken;

    if (to == NO)
        return;
    begin(usual());
    as_fleet_set_driver_token(w.fleet, AS_STR("drive"));
    l = reach(from, k);
    replica = l->up.replica;
    feed(l, &w.hand[0], e, k);
    broken = as_link_check(l);
    if (broken || (int)l->state != to)
        fail_msg("place %d, event %d: state %d, not %d; %s", from, e, l->state, to,
                 broken ? broken : "");
    if (l->state != state_at[from])
        seen[state_at[from]] |= (uint16_t)(1u << l->state);
    /* only a link that is READY gets requests; each that is to be killed is */
    assert_int_equal(replica && l->state != X ? ready_replicas() : 0,
                     replica && l->state == AS_LINK_READY ? 1 : 0);
    assert_true(w.killed >= (l->state == K || (killed && l->state == X) ? 1u : 0u));
    end();
}

static bool can_be(enum place from, const struct world *k)
{
    bool to_be_killed = from >= CONDEMNED && from < LOST;

    return (k->busy || from < CONDEMNED_LOST) && ((k->ours && k->dumps) || !to_be_killed);
}

static void each_event_in_each_state(void **state AS_UNUSED)
{
    for (int i = 0; i < 8; i++) {
        struct world k = {.ours = i & 1, .busy = i & 2, .dumps = i & 4};

        for (int from = 0; from < PLACES; from++) {
            for (int e = 0; can_be((enum place)from, &k) && e < EVENTS; e++)
                try_event((enum place)from, (enum event)e, &k);
        }
    }
}

/* Behind the test above: the table allows what some event causes, and nothing else. */
static void the_table_has_what_events_cause(void **state AS_UNUSED)
{
    seen[C] |= 1u << K; /* by its timer; without a signal it is CONDEMNED for no time */
    for (int from = 0; from < AS_LINK_STATES; from++) {
        for (int to = 0; to < AS_LINK_STATES; to++) {
            if (as_link_may_move((enum as_link_state)from, (enum as_link_state)to) !=
                    (bool)((unsigned)seen[from] >> to & 1u) &&
                !(to == K && from != C)) /* two moves at once */
                fail_msg("from %d to %d", from, to);
        }
    }
}

static void the_check_sees_what_is_wrong(void **state AS_UNUSED)
{
    struct world k = {.ours = true, .busy = true};
    char reason[] = "a reason";
    struct as_replica *replica;
    struct as_link *l;

    begin(usual());
    l = reach(READY, &k);
    assert_null(as_link_check(l));
    l->kill_reason = reason;
    assert_non_null(as_link_check(l));
    l->kill_reason = NULL;
    as_timer_set(&l->timer, as_loop_now(w.loop) + AS_SEC);
    assert_non_null(as_link_check(l));
    as_timer_set(&l->timer, AS_NEVER);
    replica = l->up.replica;
    l->up.replica = NULL;
    assert_non_null(as_link_check(l));
    l->up.replica = replica;
    for (int s = 0; s < AS_LINK_STATES; s++) {
        l->state = (enum as_link_state)s;
        if (s != D && s != B && s != X && s != AS_LINK_READY)
            assert_non_null(as_link_check(l));
    }
    l->state = AS_LINK_READY;
    assert_null(as_link_check(l));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_in_each_state),
        cmocka_unit_test(the_table_has_what_events_cause),
        cmocka_unit_test(the_check_sees_what_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
