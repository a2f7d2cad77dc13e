#include "app/server/early_dispatcher.h"

#include "ctl/supervise/service.h"
#include "io/process/proc.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEVEL_WARN 1 /* --log-level warn: its start and end are not logged */

void as_early_dispatcher_init(struct as_early_dispatcher *e)
{
    *e = (struct as_early_dispatcher){-1, -1, -1};
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The listeners without that of the control API, whose clients wait for the controller. */
static void choose_handover_fds(const struct as_handover *all, int control,
                                struct as_handover *ret_h)
{
    ret_h->n = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        if (all->kind[i] != AS_HANDOVER_API)
            as_handover_add(ret_h, all->kind[i], all->fd[i]);
    }
    as_handover_add(ret_h, AS_HANDOVER_CONTROL, control);
    as_handover_add(ret_h, AS_HANDOVER_LOG, STDERR_FILENO);
}

static int spawn(const struct as_option_set *opts, const struct as_handover *h,
                 struct as_proc *ret_p)
{
    struct as_option_set own = *opts;
    struct as_proc_spec spec = {.path = "/proc/self/exe",
                                .in = -1,
                                .out = -1,
                                .err = -1,
                                .fds = h->fd,
                                .n_fds = h->n,
                                .group = true,
                                .death_signal = SIGKILL};
    char **argv;
    int e, rc;

    as_option_set_i64(&own, AS_OPT_THREADS, 1);
    as_option_set_i64(&own, AS_OPT_LOG_KEEP, 0); /* the server's dispatcher has the journal */
    own.v[AS_OPT_LOG_LEVEL].i = AS_MIN(own.v[AS_OPT_LOG_LEVEL].i, LEVEL_WARN);
    own.v[AS_OPT_LOG_LEVEL].given = true;
    argv = as_service_argv("dispatcher", &own, AS_SCOPE_DISPATCHER, h, NULL);
    spec.argv = (const char *const *)argv;
    rc = as_proc_spawn(ret_p, &spec, &e);
    as_option_argv_free(argv);
    return rc;
}

void as_early_dispatcher_start(struct as_early_dispatcher *e, const struct as_option_set *opts,
                               const struct as_handover *listeners)
{
    struct as_handover h;
    struct as_proc p;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        return; /* clients wait in the backlog */
    choose_handover_fds(listeners, pair[1], &h);
    if (as_ctl_send(pair[0], &(struct as_ctl_message){.type = AS_CTL_ADMIT}) == 0 &&
        spawn(opts, &h, &p) == 0) {
        e->pid = p.pid;
        e->pidfd = p.pidfd;
        e->control = pair[0];
    } else {
        close(pair[0]);
    }
    close(pair[1]);
}

/* Kills by the pidfd: the process may have been reaped with orphans, and its pid be in use again.
 */
void as_early_dispatcher_fini(struct as_early_dispatcher *e)
{
    if (e->pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, e->pidfd, SIGKILL, NULL, 0u);
    if (e->pid > 0)
        (void)waitpid((pid_t)e->pid, NULL, 0);
    close_fd(&e->pidfd);
    close_fd(&e->control);
    as_early_dispatcher_init(e);
}

/* One that does not hear of it would go on accepting connections, and answer 503: it is killed. */
void as_early_dispatcher_yield(struct as_early_dispatcher *e)
{
    const struct as_ctl_message yield = {.type = AS_CTL_YIELD, .number = 1};

    if (e->control >= 0 && as_ctl_send(e->control, &yield) < 0)
        as_early_dispatcher_fini(e);
}
