/* link/page: what the dispatcher sees of a live worker, and of a dead one. */
#include "frames.h"
#include "link/page.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct as_page *map(int fd)
{
    void *p = mmap(NULL, AS_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);

    assert_true(p != MAP_FAILED);
    return p;
}

static uint32_t lock_of(const struct as_page *p)
{
    return __atomic_load_n(&p->lock, __ATOMIC_ACQUIRE);
}

/* Sleeps until the word is no longer `seen`, at most 20 s. */
static void sleep_on(const struct as_page *p, uint32_t seen)
{
    struct timespec limit = {.tv_sec = 20};

    while (lock_of(p) == seen) {
        long r = syscall(SYS_futex, &p->lock, FUTEX_WAIT, seen, &limit, NULL, 0);

        assert_true(r == 0 || errno == EAGAIN || errno == EINTR);
    }
}

static void a_page_is_sealed_and_of_one_size(void **state AS_UNUSED)
{
    int want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct as_page_writer w;
    struct stat st;

    assert_int_equal(as_page_open(&w), 0);
    assert_int_equal(fcntl(w.fd, F_GET_SEALS) & want, want);
    assert_int_equal(fstat(w.fd, &st), 0);
    assert_int_equal(st.st_size, AS_PAGE_SIZE);
    assert_int_equal(ftruncate(w.fd, 0), -1);
    assert_int_equal(w.page->magic, AS_PAGE_MAGIC);
    assert_int_equal(w.page->version, AS_FRAME_VERSION);
    as_page_close(&w);
    assert_null(w.page);
    as_page_close(&w); /* twice is harmless */
}

static void starts_and_finishes_are_seen_by_the_reader(void **state AS_UNUSED)
{
    struct as_page_writer w;
    const struct as_page *r;

    assert_int_equal(as_page_open(&w), 0);
    r = map(w.fd);
    as_page_start(&w, 5, 100);
    assert_int_equal(r->last_started, 5);
    assert_int_equal(r->started, 1);
    assert_int_equal(r->clock, 100);
    as_page_start(&w, 3, 200); /* a capped model's stream that was passed over */
    assert_int_equal(r->last_started, 5);
    assert_int_equal(r->started, 2);
    as_page_finish(&w, 300);
    assert_int_equal(r->finished, 1);
    assert_int_equal(r->clock, 300);
    as_page_close(&w);
    munmap((void *)(uintptr_t)r, AS_PAGE_SIZE);
}

static void the_lock_names_the_owner_and_asks_for_a_wake(void **state AS_UNUSED)
{
    struct as_page_writer w;
    const struct as_page *r;

    assert_int_equal(as_page_open(&w), 0);
    r = map(w.fd);
    assert_int_equal(lock_of(r), (uint32_t)gettid() | FUTEX_WAITERS);
    as_page_close(&w);
    assert_int_equal(lock_of(r), 0); /* gone in order, not dead */
    munmap((void *)(uintptr_t)r, AS_PAGE_SIZE);
}

static void child_opens_and_sleeps(int out)
{
    struct as_page_writer w;
    int told = as_page_open(&w) == 0 ? w.fd : -1;

    (void)!write(out, &told, sizeof(told));
    for (;;)
        pause();
}

/* The child's page, opened through /proc: its number in the child is what it told. */
static const struct as_page *page_of_child(pid_t pid, int in)
{
    const struct as_page *p;
    char path[64];
    int n = -1, fd;

    assert_int_equal(read(in, &n, sizeof(n)), sizeof(n));
    assert_true(n >= 0);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, n);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    p = map(fd);
    close(fd);
    return p;
}

static void a_sleeper_on_the_lock_wakes_when_the_process_is_killed(void **state AS_UNUSED)
{
    const struct as_page *p;
    uint32_t seen;
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0)
        child_opens_and_sleeps(ends[1]);
    p = page_of_child(pid, ends[0]);
    seen = lock_of(p);
    assert_int_equal(seen, (uint32_t)pid | FUTEX_WAITERS);
    kill(pid, SIGKILL);
    sleep_on(p, seen);
    assert_true(lock_of(p) & FUTEX_OWNER_DIED);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    munmap((void *)(uintptr_t)p, AS_PAGE_SIZE);
    close(ends[0]);
    close(ends[1]);
}

static void *open_page(void *arg)
{
    assert_int_equal(as_page_open(arg), 0);
    return NULL;
}

static void the_end_of_the_owning_thread_counts_as_death(void **state AS_UNUSED)
{
    struct as_page_writer w;
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, open_page, &w), 0);
    pthread_join(t, NULL);
    sleep_on(w.page, lock_of(w.page) & FUTEX_OWNER_DIED ? 0 : lock_of(w.page));
    assert_true(lock_of(w.page) & FUTEX_OWNER_DIED);
    as_page_forked(&w);
}

static void a_forked_child_neither_owns_nor_ends_the_lock(void **state AS_UNUSED)
{
    struct as_page_writer w;
    uint32_t seen;
    int status;
    pid_t pid;

    assert_int_equal(as_page_open(&w), 0);
    seen = lock_of(w.page);
    pid = fork();
    if (pid == 0) {
        as_page_forked(&w);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(lock_of(w.page), seen);
    as_page_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_sealed_and_of_one_size),
        cmocka_unit_test(starts_and_finishes_are_seen_by_the_reader),
        cmocka_unit_test(the_lock_names_the_owner_and_asks_for_a_wake),
        cmocka_unit_test(a_sleeper_on_the_lock_wakes_when_the_process_is_killed),
        cmocka_unit_test(the_end_of_the_owning_thread_counts_as_death),
        cmocka_unit_test(a_forked_child_neither_owns_nor_ends_the_lock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
