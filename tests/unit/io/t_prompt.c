/* Specification of io/loop/prompt: a thread that asks for a short slice has one, as have the
 * threads that it starts; 0 resets it. */
#include "io/loop/prompt.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct sched_attr of sched_setattr(2), whose header conflicts with pthread.h. */
struct attr {
    uint32_t size, sched_policy;
    uint64_t sched_flags;
    int32_t sched_nice;
    uint32_t sched_priority;
    uint64_t sched_runtime, sched_deadline, sched_period;
};

static struct attr attributes(void)
{
    struct attr a = {0};

    assert_int_equal(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0), 0);
    return a;
}

static void *note(void *arg)
{
    *(struct attr *)arg = attributes();
    return NULL;
}

static void a_slice_is_set_inherited_and_reset(void **state AS_UNUSED)
{
    struct attr before = attributes(), after, of_thread;
    int err = as_prompt_set_slice(AS_PROMPT_SLICE);
    pthread_t thread;

    after = attributes();
    assert_int_equal(after.sched_policy, before.sched_policy);
    assert_int_equal(after.sched_nice, before.sched_nice);
    if (err) { /* a kernel that knows no slices says nothing of them, or does not change them */
        assert_int_equal(err, AS_EUNIMPLEMENTED);
        assert_true(after.sched_runtime == before.sched_runtime);
        return;
    }
    assert_true(after.sched_runtime == AS_PROMPT_SLICE);
    assert_int_equal(pthread_create(&thread, NULL, note, &of_thread), 0);
    pthread_join(thread, NULL);
    assert_true(of_thread.sched_runtime == AS_PROMPT_SLICE);
    assert_int_equal(as_prompt_set_slice(0), 0);
    assert_true(attributes().sched_runtime == before.sched_runtime);
}

static void other_policies_are_left_alone(void **state AS_UNUSED)
{
    struct attr a = attributes(), idle = a;

    idle.sched_policy = SCHED_IDLE;
    assert_int_equal(syscall(SYS_sched_setattr, 0, &idle, 0), 0);
    idle = attributes();
    assert_int_equal(as_prompt_set_slice(AS_PROMPT_SLICE), AS_EUNIMPLEMENTED);
    assert_int_equal(attributes().sched_policy, SCHED_IDLE);
    assert_true(attributes().sched_runtime == idle.sched_runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_is_set_inherited_and_reset),
        cmocka_unit_test(other_policies_are_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
