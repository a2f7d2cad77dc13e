/* Specification of io/loop/helper: jobs run beside the loop, in order, and are done in a later
 * turn. */
#include "base/err.h"
#include "io/loop/helper.h"
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define JOBS 50u

static struct {
    struct as_loop *loop;
    struct as_helper helper;
    uint32_t worked, done, order[JOBS];
    pthread_t thread;
    bool inside;              /* as_helper_submit has not returned yet */
    uint32_t refused, refuse; /* threads that could not be started; so many of the next ones fail */
} at;

/* Replaces the system's function, as tests/sweep does. */
int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (at.refuse) {
        at.refuse--;
        at.refused++;
        return EAGAIN;
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(t, attr, run, arg);
}

struct job {
    struct as_helper_job job;
    uint32_t number;
};

static struct job jobs[JOBS];

static void work(struct as_helper_job *j)
{
    at.order[at.worked++] = AS_CONTAINER(j, struct job, job)->number;
    at.thread = pthread_self();
}

static void done(struct as_helper_job *j AS_UNUSED)
{
    assert_false(at.inside);
    if (++at.done == JOBS)
        as_loop_stop(at.loop);
}

static int up(void **state AS_UNUSED)
{
    memset(&at, 0, sizeof(at));
    as_loop_new(&at.loop, 0);
    return as_helper_open(&at.helper, at.loop);
}

static int down(void **state AS_UNUSED)
{
    as_helper_close(&at.helper);
    as_loop_free(at.loop);
    return 0;
}

static void give_all(void)
{
    at.inside = true;
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){.job = {.work = work, .done = done}, .number = i};
        as_helper_submit(&at.helper, &jobs[i].job);
    }
    at.inside = false;
}

static void jobs_run_in_order_and_are_done_in_a_later_turn(void **state AS_UNUSED)
{
    give_all();
    as_loop_run(at.loop);
    assert_int_equal(at.done, JOBS);
    assert_int_equal(at.worked, JOBS);
    for (uint32_t i = 0; i < JOBS; i++)
        assert_int_equal(at.order[i], i);
    assert_false(pthread_equal(at.thread, pthread_self()));
}

/* The first job blocks the thread, so that the others are cancelled before they run. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void work_gated(struct as_helper_job *j)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    work(j);
}

static void a_cancelled_job_is_done_without_work(void **state AS_UNUSED)
{
    pthread_mutex_lock(&gate);
    jobs[0] = (struct job){.job = {.work = work_gated, .done = done}};
    as_helper_submit(&at.helper, &jobs[0].job);
    for (uint32_t i = 1; i < JOBS; i++) {
        jobs[i] = (struct job){.job = {.work = work, .done = done}, .number = i};
        as_helper_submit(&at.helper, &jobs[i].job);
        if (i > 1)
            as_helper_cancel(&jobs[i].job);
    }
    pthread_mutex_unlock(&gate);
    as_loop_run(at.loop);
    assert_int_equal(at.done, JOBS);
    assert_int_equal(at.worked, 2);
    assert_int_equal(at.order[1], 1);
}

static void a_helper_without_jobs_closes(void **state AS_UNUSED)
{
    assert_false(at.helper.started);
}

static void without_a_thread_the_loop_does_the_work(void **state AS_UNUSED)
{
    at.refuse = JOBS;
    give_all();
    assert_int_equal(at.refused, JOBS);
    assert_false(at.helper.started);
    assert_int_equal(at.worked, JOBS);
    assert_int_equal(at.done, 0); /* still done in a later turn */
    as_loop_run(at.loop);
    assert_int_equal(at.done, JOBS);
    for (uint32_t i = 0; i < JOBS; i++)
        assert_int_equal(at.order[i], i);
    assert_true(pthread_equal(at.thread, pthread_self()));
}

static void starting_the_thread_is_tried_again(void **state AS_UNUSED)
{
    at.refuse = 2;
    give_all();
    assert_int_equal(at.refused, 2);
    assert_true(at.helper.started);
    as_loop_run(at.loop);
    assert_int_equal(at.done, JOBS);
    for (uint32_t i = 0; i < JOBS; i++)
        assert_int_equal(at.order[i], i);
    assert_false(pthread_equal(at.thread, pthread_self()));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        T(jobs_run_in_order_and_are_done_in_a_later_turn),
        T(a_cancelled_job_is_done_without_work),
        T(a_helper_without_jobs_closes),
        T(without_a_thread_the_loop_does_the_work),
        T(starting_the_thread_is_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
