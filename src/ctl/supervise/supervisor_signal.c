/* Signals of the supervisor: who sent one (an operator, or the code that is served), and the
 * signalfds by which they are read. */
#include "ctl/supervise/supervisor_internal.h"
#include "io/process/process_ancestry.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Ctrl-C and hang-up of a terminal come from the kernel and have no sender. */
static bool is_kernel(const struct signalfd_siginfo *si)
{
    return si->ssi_code == SI_KERNEL;
}

static void describe_sender(const struct signalfd_siginfo *si, struct as_buf *who)
{
    struct as_process_ancestry_stat s;

    if (is_kernel(si))
        as_buf_str(who, "the terminal");
    else if (!si->ssi_pid)
        as_buf_printf(who, "a process outside of this PID namespace, uid %u", si->ssi_uid);
    else if (as_process_ancestry_read((pid_t)si->ssi_pid, &s))
        as_buf_printf(who, "pid %u (%s), uid %u", si->ssi_pid, s.command, si->ssi_uid);
    else
        as_buf_printf(who, "pid %u, which has ended, uid %u", si->ssi_pid, si->ssi_uid);
}

static bool is_worker_pid(void *ctx, pid_t pid)
{
    const struct as_supervisor *s = ctx;

    return as_workers_name_of_pid(s->workers, pid) != NULL;
}

const char *as_supervisor_signal_sender(const struct signalfd_siginfo *si, char out[AS_SENDER_MAX])
{
    struct as_buf who = {0};

    describe_sender(si, &who);
    as_log_quote(out, AS_SENDER_MAX, as_buf_slice(&who));
    as_buf_fini(&who);
    return out;
}

bool as_supervisor_refuses_signal(struct as_supervisor *s, const struct signalfd_siginfo *si)
{
    char from[AS_SENDER_MAX], replica[AS_CTL_NAME_MAX + 8];
    pid_t worker;

    if (is_kernel(si) || !si->ssi_pid || si->ssi_pid == (uint32_t)getpid())
        return false;
    worker = as_process_ancestry_find((pid_t)si->ssi_pid, is_worker_pid, s);
    if (!worker)
        return false;
    as_log_event(&s->log, AS_LOG_ERROR, "signal_refused",
                 "signal=%u from=%s replica=%s reason=\"the code that is served may not end "
                 "the server\"",
                 si->ssi_signo, as_supervisor_signal_sender(si, from),
                 as_log_quote(replica, sizeof(replica),
                              as_str_of(as_workers_name_of_pid(s->workers, worker))));
    return true;
}

void as_supervisor_print_drain(struct as_supervisor *s, const struct signalfd_siginfo *si,
                               as_ns delay)
{
    struct as_buf b = {0};

    if (si->ssi_signo != SIGINT)
        return;
    as_buf_str(&b, "Ending: ");
    if (delay)
        as_buf_printf(&b, "it serves on for %g s (--shutdown-delay), then ",
                      (double)delay / (double)AS_SEC);
    as_buf_printf(&b,
                  "requests that are under way are answered first, for at most %g s; Ctrl-C again "
                  "ends at once.",
                  (double)as_supervisor_option_ns(s, AS_OPT_DRAIN_TIMEOUT) / (double)AS_SEC);
    as_console_write(&s->console, NULL, as_buf_slice(&b));
    as_buf_fini(&b);
}

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool ignores_hangup(void)
{
    struct sigaction hup;

    return sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler == SIG_IGN;
}

void as_supervisor_look_for_terminal(struct as_supervisor *s)
{
    s->has_terminal = has_terminal();
}

bool as_supervisor_hangup_ends(const struct as_supervisor *s, const struct signalfd_siginfo *si)
{
    if (ignores_hangup())
        return false;
    return is_kernel(si) || (s->has_terminal && !has_terminal());
}

/* --- reload --- */

static void send_reload(const struct as_supervisor *s)
{
    as_channel_send(s->current->channel,
                    &(struct as_ctl_message){.type = AS_CTL_RELOAD, .number = s->reload.asked});
}

void as_supervisor_reload(struct as_supervisor *s, const struct signalfd_siginfo *si)
{
    char from[AS_SENDER_MAX];

    as_log_event(&s->log, AS_LOG_INFO, "reload", "from=%s", as_supervisor_signal_sender(si, from));
    s->reload.asked++;
    s->reload.next_needs = s->upgrade.stage == AS_UPGRADE_DISPATCHER;
    if (s->current->serving)
        send_reload(s);
}

void as_supervisor_reload_pending(struct as_supervisor *s)
{
    if (s->reload.done < s->reload.asked || s->reload.next_needs)
        send_reload(s);
    s->reload.next_needs = false;
}

/* --- the parent --- */

static void end_with_parent(struct as_supervisor *s)
{
    if (s->phase != STARTING && s->phase != SERVING)
        return; /* a second signal would end it at once */
    as_log_event(&s->log, AS_LOG_INFO, "parent_ended", "pid=%" PRIu64,
                 as_option_u64(s->conf->opts, AS_OPT_END_WITH));
    kill(getpid(), SIGTERM);
}

static void on_parent_end(struct as_sock *sock, int events AS_UNUSED)
{
    as_sock_watch(sock, 0);
    end_with_parent(AS_CONTAINER(sock, struct as_supervisor, parent));
}

/* A process that has ended is not our parent any more, whoever has its pid now; nor is it after an
 * upgrade, which keeps our own. */
int as_supervisor_watch_parent(struct as_supervisor *s)
{
    pid_t pid = (pid_t)as_option_u64(s->conf->opts, AS_OPT_END_WITH);
    int fd;

    if (!pid)
        return 0;
    fd = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (getppid() != pid) {
        if (fd >= 0)
            close(fd);
        end_with_parent(s);
        return 0;
    }
    if (fd < 0 || as_sock_open(&s->parent, s->loop, fd, on_parent_end) < 0)
        return AS_EIO;
    s->watches_parent = true;
    return 0;
}

/* --- signalfds --- */

/* The signals that end a server before it serves. SIGHUP is left out when it was ignored at the
 * start (nohup): the server is to outlive the terminal, and a blocked signal would be delivered by
 * the signalfd although it is ignored. */
static void init_end_signals(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGINT);
    if (!ignores_hangup())
        sigaddset(ret_set, SIGHUP);
}

static int block_signals(sigset_t *ret_set)
{
    sigset_t set;

    init_end_signals(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    /* Blocked before the first fork and read from a signalfd: there is no signal handler. Children
     * get the default mask back (io/process/proc). */
    sigaddset(&set, SIGCHLD);
    signal(SIGPIPE, SIG_IGN);
    *ret_set = set;
    return sigprocmask(SIG_BLOCK, &set, NULL);
}

int as_supervisor_signals(void)
{
    sigset_t set;

    if (block_signals(&set) < 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int as_supervisor_end_signals(void)
{
    sigset_t set;

    init_end_signals(&set);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int as_supervisor_signals_restore(int fd)
{
    sigset_t set;

    if (block_signals(&set) < 0)
        return -1;
    return signalfd(fd, &set, SFD_CLOEXEC | SFD_NONBLOCK) < 0 ? -1 : 0;
}
