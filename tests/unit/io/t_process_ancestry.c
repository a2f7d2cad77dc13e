/* Specification of io/process/process_ancestry: the command and the ancestors of a process. */
#include "io/process/process_ancestry.h"

#include "unit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct asked {
    pid_t wanted, seen[128];
    int n;
};

static bool is_wanted(void *ctx, pid_t pid)
{
    struct asked *a = ctx;

    assert_true(a->n < 128);
    a->seen[a->n++] = pid;
    return pid == a->wanted;
}

static bool was_asked(const struct asked *a, pid_t pid)
{
    for (int i = 0; i < a->n; i++) {
        if (a->seen[i] == pid)
            return true;
    }
    return false;
}

/* Starts a child and its child, which has its own group and session and runs until it is killed. */
struct family {
    pid_t child, grandchild;
};

static void grow(struct family *f)
{
    int up[2];

    assert_int_equal(pipe(up), 0);
    f->child = fork();
    if (f->child == 0) {
        pid_t own;

        setpgid(0, 0);
        own = fork();
        if (own == 0) {
            setsid();
            own = getpid();
            prctl(PR_SET_NAME, "a) 1 (b");
            (void)!write(up[1], &own, sizeof(own));
        }
        for (;;)
            pause();
    }
    assert_int_equal(read(up[0], &f->grandchild, sizeof(f->grandchild)), sizeof(f->grandchild));
    close(up[0]);
    close(up[1]);
}

static void fell(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void a_process_descends_from_its_parents(void **state AS_UNUSED)
{
    struct family f;
    struct asked a = {0};

    grow(&f);
    a.wanted = getpid();
    assert_int_equal(as_process_ancestry_find(f.grandchild, is_wanted, &a), getpid());
    assert_int_equal(a.seen[0], f.grandchild);
    assert_int_equal(a.seen[1], f.child);
    assert_int_equal(a.seen[2], getpid());
    a = (struct asked){.wanted = f.child};
    assert_int_equal(as_process_ancestry_find(f.grandchild, is_wanted, &a), f.child);
    a = (struct asked){.wanted = f.grandchild};
    assert_int_equal(as_process_ancestry_find(f.child, is_wanted, &a), 0); /* not its children */
    assert_true(was_asked(&a, getppid()));
    fell(f.grandchild);
    fell(f.child);
}

/* A process whose parent has ended is a child of process 1 or of a subreaper. */
static void an_orphan_descends_from_its_group(void **state AS_UNUSED)
{
    struct asked a = {0};
    int up[2];
    pid_t leader, orphan, middle;

    assert_int_equal(pipe(up), 0);
    leader = fork();
    if (leader == 0) {
        setpgid(0, 0);
        middle = fork();
        if (middle == 0) {
            orphan = fork();
            if (orphan > 0)
                _exit(0);
            while (getppid() == middle)
                ;
            orphan = getpid();
            (void)!write(up[1], &orphan, sizeof(orphan));
        } else {
            waitpid(middle, NULL, 0);
        }
        for (;;)
            pause();
    }
    assert_int_equal(read(up[0], &orphan, sizeof(orphan)), sizeof(orphan));
    a.wanted = leader;
    assert_int_equal(as_process_ancestry_find(orphan, is_wanted, &a), leader);
    kill(orphan, SIGKILL);
    fell(leader);
    close(up[0]);
    close(up[1]);
}

static void a_command_may_have_any_character(void **state AS_UNUSED)
{
    struct as_process_ancestry_stat s;
    struct asked a = {.wanted = getpid()};
    struct family f;

    grow(&f);
    assert_true(as_process_ancestry_read(f.grandchild, &s));
    assert_string_equal(s.command, "a) 1 (b");
    assert_int_equal(s.parent, f.child);
    assert_int_equal(as_process_ancestry_find(f.grandchild, is_wanted, &a), getpid());
    fell(f.grandchild);
    fell(f.child);
}

static void a_process_that_has_ended_has_no_ancestors(void **state AS_UNUSED)
{
    struct as_process_ancestry_stat s;
    struct asked a = {.wanted = getpid()};
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    assert_false(as_process_ancestry_read(pid, &s));
    assert_int_equal(as_process_ancestry_find(pid, is_wanted, &a), 0);
    assert_int_equal(a.n, 1); /* the process itself is asked about, whether it runs or not */
    assert_int_equal(as_process_ancestry_find(0, is_wanted, &a), 0);
    assert_int_equal(as_process_ancestry_find(-1, is_wanted, &a), 0);
    assert_int_equal(a.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_descends_from_its_parents),
        cmocka_unit_test(an_orphan_descends_from_its_group),
        cmocka_unit_test(a_command_may_have_any_character),
        cmocka_unit_test(a_process_that_has_ended_has_no_ancestors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
