/* Specification of how core/dispatch/deployment reads large bodies: only if they may have ended a
 * worker, and one portion in each turn. deployment_world.h explains the log.
 */
#include "deployment_world.h"

#include "core/dispatch/deployment_internal.h"

#define PORTION AS_DEPLOYMENT_PORTION

/* Requests of that size, idempotent or not. */
static void large(struct world *w, const char *list, uint64_t size, bool idempotent)
{
    make_requests(w, list, idempotent, 0);
    for (; *list; list++)
        w->size[*list - 'a'] = size;
}

/* --- after a crash --- */

static void test_a_portion_is_read_in_a_turn(void **state AS_UNUSED)
{
    struct world *w = world_new();

    large(w, "abc", PORTION / 2, true);
    join(w, 'A', 4, 0);
    submit_all(w, "abc");
    w->n = 0;
    die(w, 'A', 'c', AS_LOSS_CRASHED);
    assert_int_equal(w->prints, 2);
    assert_int_equal(as_deployment_parked(w->d), 3);
    assert_int_equal(as_deployment_stat(w->d)->blamed, 0);
    expect(w, "");
    work(w);
    assert_int_equal(w->prints, 3);
    assert_int_equal(as_deployment_stat(w->d)->blamed, 3);
    assert_int_equal(as_deployment_suspects(w->d), 3);
    assert_false(w->works);
    expect(w, "");
    assert_int_equal(w->prints, 3); /* all three are known: none was read again */
    world_free(w);
}

static void test_one_body_may_take_several_turns(void **state AS_UNUSED)
{
    for (uint64_t more = 0; more < 2; more++) {
        struct world *w = world_new();

        large(w, "a", 2 * PORTION + more, true);
        join(w, 'A', 4, 0);
        join(w, 'B', 4, 0);
        submit_all(w, "a");
        w->n = 0;
        die(w, 'A', 'a', AS_LOSS_CRASHED);
        work(w);
        assert_int_equal(w->works, more);
        if (more) {
            expect(w, "");
            work(w);
        }
        expect(w, "a>B");
        world_free(w);
    }
}

/* Requests that have ended are released as soon as they are read; freeing memory is spread over
 * turns, too. */
static void test_ended_requests_are_released_when_they_are_read(void **state AS_UNUSED)
{
    struct world *w = world_new();

    large(w, "ab", PORTION, false);
    join(w, 'A', 4, 0);
    submit_all(w, "ab");
    w->n = 0;
    die(w, 'A', 'b', AS_LOSS_CRASHED);
    expect(w, "a=EMAYHAVERUN b=EMAYHAVERUN ~a");
    work(w);
    expect(w, "~b");
    assert_int_equal(as_deployment_stat(w->d)->blamed, 2);
    world_free(w);
}

static void test_a_client_may_leave_while_its_request_is_read(void **state AS_UNUSED)
{
    struct world *w = world_new();

    large(w, "abc", PORTION, true);
    req(w, 'b')->deadline = w->now + AS_MS;
    join(w, 'A', 4, 0);
    submit_all(w, "abc");
    w->n = 0;
    die(w, 'A', 'c', AS_LOSS_CRASHED);
    as_deployment_cancel(w->d, req(w, 'a'), w->now); /* read already */
    expect(w, "~a");
    w->now += AS_MS;
    as_deployment_expire(w->d, w->now); /* b's deadline; its body is read in this turn */
    expect(w, "b=EDEADLINE ~b");
    as_deployment_cancel(w->d, req(w, 'c'), w->now); /* still to be read */
    expect(w, "");
    work(w);
    expect(w, "~c");
    assert_int_equal(as_deployment_stat(w->d)->blamed, 3);
    world_free(w);
}

static void test_a_deployment_may_go_while_bodies_are_read(void **state AS_UNUSED)
{
    struct world *w = world_new();

    large(w, "ab", PORTION, true);
    large(w, "cd", PORTION, false);
    join(w, 'A', 4, 0);
    submit_all(w, "abcd");
    w->n = 0;
    die(w, 'A', 'd', AS_LOSS_CRASHED);
    w->n = 0;
    as_deployment_free(w->d);
    w->log[w->n] = 0;
    assert_string_equal(w->log, "a=EUNAVAILABLE ~a b=EUNAVAILABLE ~b ~c ~d");
    free(w);
}

/* --- the cause is not known --- */

static void test_after_a_kill_memory_is_freed_over_several_turns(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    large(w, "abc", PORTION, false);
    join(w, 'A', 4, 0);
    submit_all(w, "abc");
    w->n = 0;
    verdict = die(w, 'A', 'c', AS_LOSS_PENDING);
    expect(w, "a=EMAYHAVERUN b=EMAYHAVERUN c=EMAYHAVERUN");
    as_deployment_verdict(w->d, verdict, AS_LOSS_KILLED, w->now);
    expect(w, "~a");
    work(w);
    work(w);
    expect(w, "~b ~c");
    assert_false(w->works);
    assert_int_equal(w->prints, 0);
    world_free(w);
}

/* The time is over and bodies are being read when the cause is reported. */
static void test_the_cause_may_be_reported_while_bodies_are_read(void **state AS_UNUSED)
{
    static const enum as_loss losses[] = {AS_LOSS_KILLED, AS_LOSS_CRASHED};

    for (size_t i = 0; i < AS_COUNT(losses); i++) {
        bool crashed = losses[i] == AS_LOSS_CRASHED;
        struct world *w = world_new();
        uint64_t verdict;

        large(w, "ab", PORTION, true);
        join(w, 'A', 4, 0);
        join(w, 'B', 4, 0);
        as_replica_drain(rep(w, 'B'), true, w->now);
        submit_all(w, "ab");
        as_replica_drain(rep(w, 'B'), false, w->now);
        w->n = 0;
        verdict = die(w, 'A', 'b', AS_LOSS_PENDING);
        w->now += 25 * AS_MS;
        as_deployment_expire(w->d, w->now);
        assert_int_equal(w->prints, 1);
        expect(w, "");
        as_deployment_verdict(w->d, verdict, losses[i], w->now);
        if (crashed)
            work(w);
        expect(w, crashed ? "a>B" : "a>B b>B");
        assert_int_equal(as_deployment_stat(w->d)->blamed, crashed ? 2 : 0);
        world_free(w);
    }
}

static void test_a_late_report_finds_the_fingerprints(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    large(w, "a", PORTION + 1, true);
    join(w, 'A', 4, 0);
    join(w, 'B', 4, 0);
    submit_all(w, "a");
    w->n = 0;
    verdict = die(w, 'A', 'a', AS_LOSS_PENDING);
    w->now += 25 * AS_MS;
    as_deployment_expire(w->d, w->now);
    work(w);
    expect(w, "a>B");
    assert_true(done(w, 'a'));
    as_deployment_verdict(w->d, verdict, AS_LOSS_CRASHED, w->now);
    assert_int_equal(as_deployment_stat(w->d)->blamed, 1);
    assert_int_equal(w->prints, 1);
    world_free(w);
}

/* --- is it like one that ended a worker? --- */

/* a (fingerprint 7) has ended A, and is in quarantine at B; C serves the others. */
static struct world *suspected(uint64_t size)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 7);
    make_requests(w, "c", true, 8);
    for (char c = 'a'; c <= 'c'; c++) {
        w->size[c - 'a'] = size;
        w->sample[c - 'a'] = 1;
    }
    for (char r = 'A'; r <= 'C'; r++)
        join(w, r, 4, 0);
    submit_all(w, "a");
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    while (w->works)
        work(w);
    w->now++;
    w->n = 0;
    w->prints = 0;
    return w;
}

static void test_another_sample_is_another_request(void **state AS_UNUSED)
{
    struct world *w = suspected(10);

    w->sample['c' - 'a'] = 2;
    submit_all(w, "c");
    expect(w, "c>C");
    assert_int_equal(w->prints, 0);
    world_free(w);
}

static void test_what_fits_a_turn_is_compared_at_once(void **state AS_UNUSED)
{
    for (uint64_t more = 0; more < 2; more++) {
        struct world *w = suspected(PORTION + more);

        submit_all(w, "c");
        assert_int_equal(w->works, more);
        if (more) { /* until it is compared it waits as a suspect */
            assert_int_equal(as_deployment_suspects(w->d), 1);
            expect(w, "");
            work(w);
        }
        expect(w, "c>C");
        assert_int_equal(as_deployment_suspects(w->d), 0);
        world_free(w);
    }
}

static void test_a_copy_is_found_over_several_turns(void **state AS_UNUSED)
{
    struct world *w = suspected(PORTION + 1);

    submit_all(w, "b");
    work(w);
    expect(w, "");
    assert_int_equal(as_deployment_suspects(w->d), 1); /* a is in quarantine */
    assert_true(done(w, 'a'));
    assert_ptr_equal(req(w, 'b')->blame, NULL);
    assert_int_equal(req(w, 'b')->state, AS_REQ_SENT);
    world_free(w);
}

static void test_a_copy_of_poison_is_refused_when_it_is_read(void **state AS_UNUSED)
{
    struct world *w = suspected(PORTION + 1);

    die(w, 'B', 'a', AS_LOSS_CRASHED);
    while (w->works)
        work(w);
    expect(w, "a=EPOISON ~a");
    w->now++;
    submit_all(w, "bc"); /* only one is read at a time */
    work(w);
    expect(w, "b=EPOISON ~b");
    work(w);
    expect(w, "c>C");
    world_free(w);
}

/* Waiting requests with the same fingerprint are found without blocking the loop. */
static void test_the_queue_is_checked_over_several_turns(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abd", true, 7);
    make_requests(w, "ce", true, 0);
    for (char c = 'a'; c <= 'e'; c++)
        w->size[c - 'a'] = PORTION;
    join(w, 'A', 1, 0);
    submit_all(w, "abcde");
    die(w, 'A', 'a', AS_LOSS_CRASHED); /* a was read: b to e are still to be compared */
    assert_int_equal(as_deployment_suspects(w->d), 5);
    assert_int_equal(w->prints, 1);
    w->n = 0;
    for (int i = 0; i < 4; i++)
        work(w);
    assert_false(w->works);
    assert_int_equal(w->prints, 5);
    assert_int_equal(as_deployment_suspects(w->d), 3);
    join(w, 'B', 2, 0);
    expect(w, "c>B e>B");
    world_free(w);
}

/* Those that wait for a replica of their own are refused in the order in which they came, however
 * many turns it takes to compare them. */
static void test_compared_suspects_keep_their_order(void **state AS_UNUSED)
{
    struct world *w = suspected(PORTION + 1);
    as_ns since = w->now;

    req(w, 'c')->kind = 7;
    submit_all(w, "b");
    w->now += AS_SEC;
    submit_all(w, "c");
    while (!w->prints)
        work(w);
    expect(w, ""); /* b is compared, and c is not yet */
    assert_int_equal(as_deployment_suspects(w->d), 2);
    w->now = since + 30 * AS_SEC;
    as_deployment_expire(w->d, w->now);
    expect(w, "b=ESUSPECT ~b");
    assert_int_equal(as_deployment_next_deadline(w->d), w->now + AS_SEC);
    while (w->works)
        work(w);
    w->now = since + 31 * AS_SEC;
    as_deployment_expire(w->d, w->now);
    expect(w, "c=ESUSPECT ~c");
    world_free(w);
}

static void test_a_client_may_leave_while_it_is_compared(void **state AS_UNUSED)
{
    struct world *w = suspected(PORTION + 1);

    submit_all(w, "bc");
    as_deployment_cancel(w->d, req(w, 'b'), w->now);
    expect(w, "~b");
    work(w);
    work(w);
    expect(w, "c>C");
    assert_false(w->works);
    world_free(w);
}

/* A body was partly read and is not needed any more: the next one starts at its first byte. */
static void test_what_goes_on_while_it_is_read_is_read_anew(void **state AS_UNUSED)
{
    struct world *w = world_new();
    uint64_t verdict;

    large(w, "a", PORTION + 1, true);
    join(w, 'A', 1, 0);
    submit_all(w, "a");
    w->n = 0;
    verdict = die(w, 'A', 'a', AS_LOSS_PENDING);
    w->now += 25 * AS_MS;
    as_deployment_expire(w->d, w->now); /* the report is late: a portion of a's body is read */
    assert_int_equal(w->prints, 0);
    as_deployment_verdict(w->d, verdict, AS_LOSS_KILLED, w->now);
    join(w, 'B', 1, 0);
    expect(w, "a>B");
    w->now++;
    die(w, 'B', 'a', AS_LOSS_CRASHED);
    assert_int_equal(w->prints, 0); /* two portions, from its first byte */
    work(w);
    assert_int_equal(w->prints, 1);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_portion_is_read_in_a_turn),
        cmocka_unit_test(test_one_body_may_take_several_turns),
        cmocka_unit_test(test_ended_requests_are_released_when_they_are_read),
        cmocka_unit_test(test_a_client_may_leave_while_its_request_is_read),
        cmocka_unit_test(test_a_deployment_may_go_while_bodies_are_read),
        cmocka_unit_test(test_after_a_kill_memory_is_freed_over_several_turns),
        cmocka_unit_test(test_the_cause_may_be_reported_while_bodies_are_read),
        cmocka_unit_test(test_a_late_report_finds_the_fingerprints),
        cmocka_unit_test(test_another_sample_is_another_request),
        cmocka_unit_test(test_what_fits_a_turn_is_compared_at_once),
        cmocka_unit_test(test_a_copy_is_found_over_several_turns),
        cmocka_unit_test(test_a_copy_of_poison_is_refused_when_it_is_read),
        cmocka_unit_test(test_the_queue_is_checked_over_several_turns),
        cmocka_unit_test(test_compared_suspects_keep_their_order),
        cmocka_unit_test(test_a_client_may_leave_while_it_is_compared),
        cmocka_unit_test(test_what_goes_on_while_it_is_read_is_read_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
