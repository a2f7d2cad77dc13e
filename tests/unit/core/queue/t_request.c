/* Specification of core/queue/request: the arrows of the state picture, and no others. */
#include "core/queue/request.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void test_a_new_request_waits_for_ever_with_default_priority(void **state AS_UNUSED)
{
    struct as_request q;

    as_request_init(&q);
    assert_int_equal(q.state, AS_REQ_NEW);
    assert_int_equal(q.priority, 1);
    assert_true(q.deadline == AS_NEVER);
    assert_true(q.heap_index == SIZE_MAX);
    assert_true(as_list_empty(&q.node));
    assert_true(as_request_ok(&q));
}

/* A move without an arrow is our bug: the process ends. */
static bool dies(enum as_request_state from, enum as_request_state to)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct as_request q;

        signal(SIGABRT, SIG_DFL);
        (void)!freopen("/dev/null", "w", stderr);
        as_request_init(&q);
        q.state = from;
        as_request_set_state(&q, to);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_only_the_arrows_of_the_picture_exist(void **state AS_UNUSED)
{
    static const char *const to[] = {
        [AS_REQ_NEW] = "QUEUED DONE",
        [AS_REQ_QUEUED] = "SENT DONE",
        [AS_REQ_SENT] = "QUEUED ABANDONED PARKED RETAINED DONE",
        [AS_REQ_ABANDONED] = "RETAINED DONE",
        [AS_REQ_PARKED] = "QUEUED RETAINED DONE",
        [AS_REQ_RETAINED] = "DONE",
        [AS_REQ_DONE] = "",
    };

    for (int a = AS_REQ_NEW; a <= AS_REQ_DONE; a++) {
        for (int b = AS_REQ_NEW; b <= AS_REQ_DONE; b++) {
            bool arrow = strstr(to[a], as_request_state_name((enum as_request_state)b)) != NULL;

            assert_int_equal(dies((enum as_request_state)a, (enum as_request_state)b), !arrow);
        }
    }
}

static void test_fields_must_fit_the_state(void **state AS_UNUSED)
{
    struct as_request q;

    as_request_init(&q);
    q.replica = (struct as_replica *)(void *)&q;
    assert_false(as_request_ok(&q)); /* bound and not SENT */
    q.state = AS_REQ_SENT;
    assert_false(as_request_ok(&q)); /* never sent */
    q.attempts = 1;
    assert_true(as_request_ok(&q));
    q.heap_index = 0;
    assert_false(as_request_ok(&q)); /* among the deadlines without one */
    q.deadline = 5;
    assert_true(as_request_ok(&q));
    q.priority = AS_PRIORITIES;
    assert_false(as_request_ok(&q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_request_waits_for_ever_with_default_priority),
        cmocka_unit_test(test_only_the_arrows_of_the_picture_exist),
        cmocka_unit_test(test_fields_must_fit_the_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
