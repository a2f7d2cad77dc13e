#include "ctl/output/console.h"

#include "ctl/output/journal.h"
#include "ctl/output/log_file.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RETRY_INTERVAL (20 * AS_MS)
#define CLOSE_WAIT_MS  1000 /* ms */
#define DROPPED_LINE   "level=warn event=lines_dropped lines=%llu reason=\"stderr was not read\"\n"

/* Writes without blocking. The descriptor is shared with the shell and other processes, so it
 * cannot be made non-blocking; but a pipe that polls writable takes PIPE_BUF bytes at once. If
 * another process fills it in between, RWF_NOWAIT returns instead of waiting; a kernel without that
 * for pipes (before Linux 6.4) may block us then. EAGAIN: the reader is slow. */
static ssize_t write_at_once(int fd, int wait_ms, const struct iovec *iov, int n_iov)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    struct stat st;
    ssize_t n;

    if (poll(&p, 1, wait_ms) == 0) {
        errno = EAGAIN;
        return -1;
    }
    if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode)) {
        n = pwritev2(fd, iov, n_iov, -1, RWF_NOWAIT);
        if (n >= 0 || errno == EAGAIN)
            return n;
    }
    return writev(fd, iov, n_iov);
}

static void flush_output(struct as_console *c, int wait_ms)
{
    size_t at = 0;
    int e = errno; /* restored at the end: callers log their own errors */

    while (at < c->out.n && !c->broken) {
        struct iovec part = {c->out.p + at, AS_MIN(c->out.n - at, (size_t)PIPE_BUF)};
        ssize_t n = write_at_once(c->fd, wait_ms, &part, 1);

        if (n > 0) {
            at += (size_t)n;
            as_log_file_add_written(c->file, (size_t)n);
        } else if (errno == EAGAIN || errno == ENOSPC || errno == EDQUOT) {
            break; /* tried again later; a full disk may get room */
        } else if (errno != EINTR) {
            c->broken = true;
        }
    }
    as_buf_drop(&c->out, c->broken ? c->out.n : at);
    errno = e;
}

/* Reports dropped lines, without the bound of the buffer. */
static void write_drop_notice(struct as_console *c)
{
    char stamp[AS_CONSOLE_TIMESTAMP];

    if (c->dropped && c->out.n == 0) {
        as_buf_printf(&c->out, "[supervisor] time=%s " DROPPED_LINE, as_console_timestamp(stamp),
                      (unsigned long long)c->dropped);
        c->dropped = 0;
        flush_output(c, 0);
    }
}

static void on_retry(struct as_timer *t)
{
    struct as_console *c = AS_CONTAINER(t, struct as_console, retry);

    flush_output(c, 0);
    write_drop_notice(c);
    if (c->out.n)
        as_timer_set(&c->retry, as_loop_now(t->loop) + RETRY_INTERVAL);
}

void as_console_init(struct as_console *c, struct as_loop *loop, int fd)
{
    *c = (struct as_console){.fd = fd};
    as_timer_init(&c->retry, loop, on_retry);
}

void as_console_write(struct as_console *c, const char *name, struct as_str line)
{
    as_journal_write(c->journal, name ? name : "supervisor", AS_STR(""), line);
    if (c->broken)
        return;
    /* the newest lines are dropped: the oldest show how a failure began */
    if (c->out.n + line.n > AS_CONSOLE_BUFFER) {
        c->dropped++;
        return;
    }
    if (name)
        as_buf_printf(&c->out, "[%s] ", name);
    as_buf_add(&c->out, line.p, line.n);
    as_buf_str(&c->out, "\n");
    flush_output(c, 0);
    if (c->out.n && !c->closed)
        as_timer_set(&c->retry, as_loop_now(c->retry.loop) + RETRY_INTERVAL);
}

void as_console_close(struct as_console *c)
{
    flush_output(c, CLOSE_WAIT_MS);
    write_drop_notice(c);
    as_buf_fini(&c->out);
    c->closed = c->broken = true;
    as_timer_close(&c->retry, NULL);
}

static void console_sink(void *ctx, enum as_log_level level AS_UNUSED, const char *line, size_t n)
{
    char stamp[AS_CONSOLE_TIMESTAMP];
    struct as_buf b = {0};

    as_buf_printf(&b, "time=%s ", as_console_timestamp(stamp));
    as_buf_add(&b, line, n > 0 ? n - 1 : 0); /* the console adds the newline */
    /* through the same buffer as all lines, so that they do not interleave */
    as_console_write(ctx, "supervisor", as_buf_slice(&b));
    as_buf_fini(&b);
}

struct as_log as_console_log(struct as_console *c, enum as_log_level level)
{
    return (struct as_log){.level = level, .sink = console_sink, .ctx = c};
}

const char *as_console_timestamp(char out[AS_CONSOLE_TIMESTAMP])
{
    struct timespec ts;
    struct tm tm;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    n = strftime(out, AS_CONSOLE_TIMESTAMP, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, AS_CONSOLE_TIMESTAMP - n, ".%03uZ", (unsigned)(ts.tv_nsec / 1000000) % 1000);
    return out;
}

/* One call with at most PIPE_BUF bytes, so that lines of other processes do not interleave.
 * AS_EAGAIN: the reader is slow. Other errors (nobody reads, the disk is full) are ignored: nothing
 * can be done about them. */
static int write_shared_line(const struct as_console_shared *s, const char *head, size_t k,
                             const char *line, size_t n)
{
    struct iovec iov[] = {{(void *)(uintptr_t)head, k}, {(void *)(uintptr_t)line, n}};

    return write_at_once(s->fd, 0, iov, AS_COUNT(iov)) < 0 && errno == EAGAIN ? AS_EAGAIN : 0;
}

/* Reports the lines that were dropped before this one. */
static int write_shared_drop_notice(struct as_console_shared *s, const char *head, size_t k)
{
    uint64_t n = __atomic_exchange_n(&s->dropped, 0, __ATOMIC_RELAXED);
    char line[128];
    int rc;

    if (!n)
        return 0;
    rc = write_shared_line(
        s, head, k, line,
        (size_t)snprintf(line, sizeof(line), DROPPED_LINE, (unsigned long long)n));
    if (rc)
        __atomic_add_fetch(&s->dropped, n, __ATOMIC_RELAXED);
    return rc;
}

/* Any thread: each line is one write. The journal also has the lines that stderr does not take. */
static void shared_sink(void *ctx, enum as_log_level level AS_UNUSED, const char *line, size_t n)
{
    struct as_console_shared *s = ctx;
    char stamp[AS_CONSOLE_TIMESTAMP], head[64];
    int k = snprintf(head, sizeof(head), "[%.24s] ", s->name), all;
    int e = errno; /* restored at the end: callers log their own errors */

    all = k + snprintf(head + k, sizeof(head) - (size_t)k, "time=%s ", as_console_timestamp(stamp));
    as_journal_write(s->journal, s->name, (struct as_str){head + k, (size_t)(all - k)},
                     (struct as_str){line, n > 0 ? n - 1 : 0});
    if (write_shared_drop_notice(s, head, (size_t)all) ||
        write_shared_line(s, head, (size_t)all, line, n))
        __atomic_add_fetch(&s->dropped, 1, __ATOMIC_RELAXED);
    errno = e;
}

struct as_log as_console_shared_log(struct as_console_shared *shared, enum as_log_level level)
{
    return (struct as_log){.level = level, .sink = shared_sink, .ctx = shared};
}
