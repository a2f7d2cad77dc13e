#include "app/client/server_process.h"

#include "app/client/control_client.h"
#include "conf/option/exit_code.h"
#include "io/loop/clock.h"
#include "io/process/proc.h"
#include "io/process/server_processes.h"
#include "tool/server/which_server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* The process that listens on the server's socket, from the kernel: the supervisor, which made the
 * socket. pid -1: errno. Does not block: the process that accepts may be stopped and the queue be
 * full (EAGAIN). */
static struct ucred find_listening_process(const struct as_server_process *f, const char *name)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char path[AS_RUNTIME_PATH_MAX];
    struct ucred who = {.pid = -1};
    socklen_t n = sizeof(who);
    int fd;

    if (as_runtime_path(path, f->base, f->port, name) < 0)
        return who;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return who;
    memcpy(sa.sun_path, path, strlen(path));
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0) {
        int e = errno;

        who.pid = -1;
        close(fd);
        errno = e;
        return who;
    }
    close(fd);
    return who;
}

/* Does the process belong to the user who made the socket? This protects root, who may use the
 * folders of other users: the maker of the socket may have ended, and its pid may be another user's
 * process by now. */
static bool is_owned_by(const struct as_server_process *f, uid_t uid)
{
    struct pollfd ended = {.fd = f->fd, .events = POLLIN};
    long real_uid = as_proc_status_number(f->pid, "\nUid:");

    /* the process has not ended: so /proc/PID was of the process that the pidfd is of */
    return real_uid == (long)uid && poll(&ended, 1, 0) == 0;
}

void as_server_process_print_stopped(const struct as_server_process *o)
{
    struct as_server_processes f;
    struct as_buf b = {0};

    as_server_processes_read(&f, o->base, o->port);
    if (as_server_processes_put_stopped(&f, &b))
        fprintf(stderr, "anyserve: the server on port %u cannot continue:%.*s\n", o->port,
                AS_STR_FMT(as_buf_slice(&b)));
    as_buf_fini(&b);
}

/* The order proves that the pidfd is the server's: first the kernel names the process that listens
 * on the socket, then the pidfd is opened, and only then is the server's lock checked, which a
 * server releases when it ends. */
int as_server_process_find(struct as_server_process *ret_o, const struct as_option_set *opts)
{
    struct ucred who;

    ret_o->fd = -1;
    ret_o->port = as_which_server_locate(opts, &ret_o->base);
    who = find_listening_process(ret_o, AS_RUNTIME_CONTROL);
    if (who.pid < 0 && errno == EAGAIN)
        who = find_listening_process(ret_o, AS_RUNTIME_STATUS);
    if (who.pid < 0 && errno == EAGAIN) {
        fprintf(stderr, "anyserve: no process of the server on port %u answers\n", ret_o->port);
        as_server_process_print_stopped(ret_o);
        return AS_EXIT_CODE_FAILED;
    }
    ret_o->pid = who.pid;
    if (ret_o->pid > 0)
        ret_o->fd = (int)syscall(SYS_pidfd_open, ret_o->pid, 0);
    if (ret_o->fd >= 0 && is_owned_by(ret_o, who.uid) &&
        as_runtime_is_running(ret_o->base, ret_o->port))
        return AS_EXIT_CODE_OK;
    if (ret_o->fd >= 0)
        errno = ESRCH; /* another process has its pid */
    if (ret_o->pid <= 0 || !as_runtime_is_running(ret_o->base, ret_o->port))
        return as_control_client_print_no_server(opts);
    fprintf(stderr, "anyserve: cannot open the server's process %d: %s\n", (int)ret_o->pid,
            strerror(errno));
    return AS_EXIT_CODE_FAILED;
}

void as_server_process_fini(struct as_server_process *o)
{
    if (o->fd >= 0)
        close(o->fd);
    free(o->base);
}

int as_server_process_signal(const struct as_server_process *o, int signo)
{
    if (syscall(SYS_pidfd_send_signal, o->fd, signo, NULL, 0) == 0 || errno == ESRCH)
        return AS_EXIT_CODE_OK;
    fprintf(stderr, "anyserve: cannot signal the server's process %d: %s\n", (int)o->pid,
            strerror(errno));
    return AS_EXIT_CODE_FAILED;
}

bool as_server_process_wait_end(const struct as_server_process *o, as_ns deadline)
{
    struct pollfd p = {.fd = o->fd, .events = POLLIN};

    for (;;) {
        as_ns now = as_clock_now();
        as_ns left = deadline > now ? deadline - now : 0;
        /* at most an hour: poll takes an int of ms */
        int ms = (int)AS_MIN((left + AS_MS - 1) / AS_MS, (as_ns)3600000);

        if (poll(&p, 1, ms) > 0)
            return true;
        if (left == 0)
            return false;
    }
}
