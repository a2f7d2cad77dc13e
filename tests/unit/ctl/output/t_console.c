/* Specification of ctl/output/console: whole lines, and a slow reader that blocks nobody. */
#include "ctl/output/console.h"

#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

struct world {
    struct as_loop *loop;
    struct as_console console;
    int in; /* the reading end of stderr's pipe */
    struct as_buf got;
    struct as_timer turn;
};

static void on_turn(struct as_timer *t)
{
    as_loop_stop(t->loop);
}

static struct world *open_world(void)
{
    struct world *w = as_xalloc(sizeof(*w));
    int fd[2];

    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    fcntl(fd[0], F_SETFL, O_NONBLOCK); /* the writing end stays blocking, as stderr is */
    w->in = fd[0];
    as_console_init(&w->console, w->loop, fd[1]);
    as_timer_init(&w->turn, w->loop, on_turn);
    return w;
}

static void read_output(struct world *w)
{
    ssize_t n;

    while ((n = read(w->in, as_buf_reserve(&w->got, 65536), 65536)) > 0)
        w->got.n += (size_t)n;
}

static void close_world(struct world *w)
{
    int fd = w->console.fd;

    as_console_close(&w->console);
    as_timer_close(&w->turn, NULL);
    as_loop_free(w->loop);
    close(fd);
    close(w->in);
    as_buf_fini(&w->got);
    free(w);
}

static void lines_carry_a_name(void **state AS_UNUSED)
{
    struct world *w = open_world();

    as_console_write(&w->console, "echo-0", AS_STR("hello"));
    as_console_write(&w->console, NULL, AS_STR("Ready"));
    read_output(w);
    assert_true(as_str_eq(as_buf_slice(&w->got), AS_STR("[echo-0] hello\nReady\n")));
    close_world(w);
}

static void log_lines_carry_the_time(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_log log = as_console_log(&w->console, AS_LOG_INFO);

    as_log_event(&log, AS_LOG_WARN, "worker_exit", "code=%d", 3);
    as_log_event(&log, AS_LOG_DEBUG, "unseen", "x=1");
    read_output(w);
    as_buf_add(&w->got, "", 1);
    assert_memory_equal(w->got.p, "[supervisor] time=20", 20);
    assert_non_null(strstr((char *)w->got.p, "Z level=warn event=worker_exit code=3\n"));
    assert_null(strstr((char *)w->got.p, "unseen"));
    close_world(w);
}

static void a_stalled_reader_costs_lines_not_time(void **state AS_UNUSED)
{
    struct world *w = open_world();
    char line[1000];
    uint32_t n = 0, got = 0;

    memset(line, 'x', sizeof(line));
    while (w->console.dropped == 0) { /* would hang here if it blocked */
        as_console_write(&w->console, NULL, (struct as_str){line, sizeof(line)});
        n++;
    }
    assert_true(w->console.out.n <= AS_CONSOLE_BUFFER + sizeof(line) + 1);
    assert_true(n > AS_CONSOLE_BUFFER / (sizeof(line) + 1));
    as_console_write(&w->console, NULL, (struct as_str){line, sizeof(line)});
    while (w->console.out.n || w->console.dropped) { /* its own timer tries again */
        read_output(w);
        as_timer_set(&w->turn, as_loop_now(w->loop) + 5 * AS_MS);
        as_loop_run(w->loop);
    }
    read_output(w);
    as_buf_add(&w->got, "", 1);
    for (const char *p = (char *)w->got.p; *p == 'x'; p += sizeof(line) + 1) {
        assert_int_equal(p[sizeof(line)], '\n'); /* every line is whole */
        got++;
    }
    assert_int_equal(got, n - 1);
    assert_non_null(strstr((char *)w->got.p, "\n[supervisor] time=20"));
    assert_non_null(strstr((char *)w->got.p, "Z level=warn event=lines_dropped lines=2 "
                                             "reason=\"stderr was not read\"\n"));
    close_world(w);
}

static void output_waits_for_a_full_disk(void **state AS_UNUSED)
{
    struct world *w = open_world();
    int there = dup(w->console.fd), full = open("/dev/full", O_WRONLY);

    assert_int_equal(dup2(full, w->console.fd), w->console.fd);
    as_console_write(&w->console, "echo-0", AS_STR("one"));
    as_console_write(&w->console, "echo-0", AS_STR("two"));
    assert_int_equal(dup2(there, w->console.fd), w->console.fd); /* the disk has room again */
    while (w->console.out.n) {
        as_timer_set(&w->turn, as_loop_now(w->loop) + 5 * AS_MS);
        as_loop_run(w->loop);
    }
    read_output(w);
    assert_true(as_str_eq(as_buf_slice(&w->got), AS_STR("[echo-0] one\n[echo-0] two\n")));
    close(there);
    close(full);
    close_world(w);
}

static void output_without_a_reader_is_dropped(void **state AS_UNUSED)
{
    struct world *w = open_world();

    close(w->in);
    as_console_write(&w->console, NULL, AS_STR("one"));
    as_console_write(&w->console, NULL, AS_STR("two"));
    assert_int_equal(w->console.out.n, 0);
    w->in = open("/dev/null", O_RDONLY);
    close_world(w);
}

/* A process that shares the descriptor has no buffer: what cannot be written is dropped. */
static void a_stalled_reader_does_not_stop_another_process(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_console_shared shared = {.fd = w->console.fd, .name = "dispatcher"};
    struct as_log log = as_console_shared_log(&shared, AS_LOG_INFO);
    char want[64], pad[1000];
    const char *told;
    uint32_t n = 0;

    memset(pad, 'x', sizeof(pad));
    pad[sizeof(pad) - 1] = 0;
    while (shared.dropped < 3) { /* would hang here if it blocked */
        as_log_event(&log, AS_LOG_INFO, "filled", "x=%s", pad);
        n++;
    }
    read_output(w);
    as_log_event(&log, AS_LOG_INFO, "read", "n=1");
    as_log_event(&log, AS_LOG_INFO, "read", "n=2");
    assert_int_equal(shared.dropped, 0);
    read_output(w);
    as_buf_add(&w->got, "", 1);
    for (const char *p = (char *)w->got.p; (p = strstr(p, "filled x=")); p++) {
        assert_memory_equal(p + 9, pad, sizeof(pad) - 1);
        assert_int_equal(p[9 + sizeof(pad) - 1], '\n');
        n--;
    }
    assert_int_equal(n, 3);
    snprintf(want, sizeof(want), "Z level=warn event=lines_dropped lines=3 ");
    told = strstr((char *)w->got.p, want);
    assert_non_null(told);
    told -= strlen("\n[dispatcher] time=2025-11-21T03:46:00.123");
    assert_memory_equal(told, "\n[dispatcher] time=20", 20);
    assert_non_null(strstr(told, "reason=\"stderr was not read\"\n[dispatcher] time=20"));
    assert_null(strstr(strstr(told, want) + strlen(want), "lines_dropped"));
    assert_true(strstr(told, "event=read n=1\n") < strstr(told, "event=read n=2\n"));
    close_world(w);
}

/* Several write at once: room that one has seen may be taken by another. */
static void *log_much(void *arg)
{
    struct as_log log = as_console_shared_log(arg, AS_LOG_INFO);

    for (uint32_t i = 0; i < 2000; i++)
        as_log_event(&log, AS_LOG_INFO, "filled", "n=%u", i);
    return NULL;
}

static void many_writers_and_a_stalled_reader(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_console_shared shared = {.fd = w->console.fd, .name = "dispatcher"};
    pthread_t threads[4];

    for (size_t i = 0; i < AS_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_much, &shared), 0);
    for (size_t i = 0; i < AS_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_true(shared.dropped > 0);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_carry_a_name),
        cmocka_unit_test(log_lines_carry_the_time),
        cmocka_unit_test(a_stalled_reader_costs_lines_not_time),
        cmocka_unit_test(a_stalled_reader_does_not_stop_another_process),
        cmocka_unit_test(many_writers_and_a_stalled_reader),
        cmocka_unit_test(output_waits_for_a_full_disk),
        cmocka_unit_test(output_without_a_reader_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
