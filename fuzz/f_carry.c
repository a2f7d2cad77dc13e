/* fuzz/f_carry.c — any bytes as the state of a running supervisor: refused with a sentence, or
 * read; in a dry read, as the next image makes it before anything is given up.
 *
 * The first byte says which format the rest has, and which part of it is restored.
 */
#include "base/err.h"
#include "ctl/supervise/supervisor.h"
#include "ctl/supervise/workers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define SENTENCE "the running supervisor's state cannot be read: "

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The state behind the line of one of the formats, or any bytes. */
static int make_file(const uint8_t *data, size_t size)
{
    const char *head = data[0] & 4   ? ""
                       : data[0] & 1 ? "anyserve-supervisor 1:3\n"
                                     : "anyserve-supervisor 1:4\n";
    int file = memfd_create("state", MFD_CLOEXEC);

    AS_ASSERT(file >= 0);
    AS_ASSERT(write(file, head, strlen(head)) == (ssize_t)strlen(head));
    AS_ASSERT(write(file, data + 1, size - 1) == (ssize_t)size - 1);
    return file;
}

static void read_conf(struct as_reexec_reader *in)
{
    struct as_supervisor_conf conf;

    as_supervisor_conf_restore(&conf, in);
    AS_ASSERT(conf.program && conf.address);
    /* numbers of another process's descriptors: none of ours is touched */
    AS_ASSERT(conf.app == -1 && conf.signal_fd == -1 && conf.listeners.n == 0);
    as_supervisor_conf_fini(&conf);
}

static void on_stopped(void *ctx AS_UNUSED)
{
    AS_ASSERT(0); /* nothing has run */
}

/* Replicas and their processes, what they printed last, deployments, spares. */
static void read_workers(struct as_reexec_reader *in)
{
    struct as_console console;
    struct as_workers *workers;
    struct as_loop *loop;
    struct as_log log = {.level = AS_LOG_ERROR};
    uint64_t oom_seen = 0;
    struct as_workers_conf conf = {.oom_seen = &oom_seen, .on_stopped = on_stopped};
    int rc = as_loop_new(&loop, 0);

    AS_ASSERT(rc == 0);
    as_console_init(&console, loop, -1);
    console.broken = true;
    rc = as_workers_new(&workers, loop, &conf, &console, &log);
    AS_ASSERT(rc == 0);
    as_workers_restore(workers, in, NULL, NULL);
    AS_ASSERT(!as_workers_owns_pid(workers, getpid()));
    as_workers_close(workers);
    as_console_close(&console);
    as_loop_free(loop);
    as_workers_free(workers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_reexec_reader in;
    struct as_buf err;
    int file, rc;

    if (!size)
        return 0;
    file = make_file(data, size);
    as_buf_init(&err);
    rc = as_reexec_reader_load(&in, file, true, &err);
    if (rc == 0) {
        if (data[0] & 2)
            read_conf(&in);
        else
            read_workers(&in);
        rc = in.failed ? AS_EPROTO : 0;
        as_reexec_reader_fini(&in);
    }
    /* one sentence, whatever is wrong behind it */
    AS_ASSERT(rc == 0 ? err.n == 0 : err.n > sizeof(SENTENCE));
    AS_ASSERT(rc == 0 || memcmp(err.p, SENTENCE, sizeof(SENTENCE) - 1) == 0);
    as_buf_fini(&err);
    close(file);
    return 0;
}
