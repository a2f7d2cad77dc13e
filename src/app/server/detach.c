#include "app/server/detach.h"

#include "conf/option/exit_code.h"
#include "ctl/output/log_file.h"
#include "ctl/state/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* This process acts as the server's service manager, which is notified when the server is ready
 * (io/socket/notify.h). */
struct watch {
    int ready; /* the datagram socket of $NOTIFY_SOCKET */
    int pidfd, signals;
    int log;     /* server.log */
    off_t shown; /* how much of it was copied to stderr */
    pid_t pid;
};

static void add_system_error(struct as_buf *err, const char *what, const char *name)
{
    as_buf_printf(err, "cannot %s %s: %s", what, name, strerror(errno));
}

static int open_log(const char *folder, const struct as_option_set *opts, char **ret_path,
                    struct as_buf *err)
{
    int fd;

    *ret_path = as_str_format("%s/" AS_LOG_FILE, folder);
    as_log_file_rotate(*ret_path, as_option_u64(opts, AS_OPT_LOG_FILE_SIZE),
                       (uint32_t)as_option_u64(opts, AS_OPT_LOG_FILES));
    fd = open(*ret_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        add_system_error(err, "open", *ret_path);
    return fd;
}

/* The kernel chooses an abstract name, so no file is left behind. */
static int open_notify_socket(char name[128], struct as_buf *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t n = sizeof(a);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(sa_family_t)) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) < 0) {
        add_system_error(err, "make", "a socket");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    snprintf(name, 128, "@%.*s", (int)(n - offsetof(struct sockaddr_un, sun_path) - 1),
             a.sun_path + 1);
    return fd;
}

static void show_log(struct watch *w)
{
    char part[4096];
    struct stat st;
    ssize_t n;

    if (fstat(w->log, &st) == 0 && st.st_size < w->shown)
        w->shown = 0; /* the file was rotated */
    while ((n = pread(w->log, part, sizeof(part), w->shown)) > 0) {
        fwrite(part, 1, (size_t)n, stderr);
        w->shown += n;
    }
}

static bool is_ready(const struct watch *w)
{
    char said[512];
    ssize_t n;

    while ((n = recv(w->ready, said, sizeof(said) - 1, 0)) > 0) {
        said[n] = 0;
        if (strstr(said, "READY=1"))
            return true;
    }
    return false;
}

/* A Ctrl-C is meant for the server, which has left the terminal. */
static void forward_signal(const struct watch *w)
{
    struct signalfd_siginfo si;

    if (read(w->signals, &si, sizeof(si)) == sizeof(si))
        kill(w->pid, (int)si.ssi_signo);
}

static int wait_ready(struct watch *w)
{
    struct pollfd p[] = {{.fd = w->ready, .events = POLLIN},
                         {.fd = w->pidfd, .events = POLLIN},
                         {.fd = w->signals, .events = POLLIN}};
    int status;

    for (;;) {
        /* a file cannot be polled: it is read every 100 ms */
        if (poll(p, AS_COUNT(p), 100) < 0 && errno != EINTR)
            return AS_EXIT_CODE_SYSTEM;
        show_log(w);
        if (p[0].revents && is_ready(w))
            return AS_DETACHED;
        if (p[2].revents)
            forward_signal(w);
        if (p[1].revents && waitpid(w->pid, &status, 0) == w->pid) {
            show_log(w);
            return WIFEXITED(status) ? WEXITSTATUS(status) : AS_EXIT_CODE_SIGNAL + WTERMSIG(status);
        }
    }
}

/* In the new process: leaves the terminal, whose end would otherwise end the server. */
static void become_background(int log, const char *manager)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    setsid();
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (null > STDERR_FILENO)
        close(null);
    close(log);
    setenv("NOTIFY_SOCKET", manager, 1);
}

/* Called before the fork, so that a Ctrl-C right after it does not end this process alone. The
 * server blocks these signals, too (ctl/supervise/supervisor.h). */
static int watch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int watch_server(struct watch *w, const char *path)
{
    int code;

    w->pidfd = (int)syscall(SYS_pidfd_open, w->pid, 0);
    if (w->pidfd < 0) {
        fprintf(stderr, "anyserve: process %d was started, but cannot be watched: %s\n",
                (int)w->pid, strerror(errno));
        return AS_EXIT_CODE_SYSTEM;
    }
    code = wait_ready(w);
    if (code == AS_DETACHED)
        fprintf(stderr, "anyserve: runs in the background, pid %d; its log is %s\n", (int)w->pid,
                path);
    return code;
}

int as_detach(const char *folder, const struct as_option_set *opts, struct as_buf *err)
{
    struct watch w = {.pidfd = -1, .signals = -1};
    char manager[128], *path;
    int code;

    if (as_state_dir_make(folder, err) < 0)
        return AS_EXIT_CODE_CONFIG;
    w.log = open_log(folder, opts, &path, err);
    if (w.log < 0) {
        free(path);
        return AS_EXIT_CODE_CONFIG;
    }
    w.shown = lseek(w.log, 0, SEEK_END);
    w.ready = open_notify_socket(manager, err);
    if (w.ready < 0) {
        close(w.log);
        free(path);
        return AS_EXIT_CODE_SYSTEM;
    }
    w.signals = watch_signals();
    fflush(NULL);
    w.pid = fork();
    if (w.pid == 0) {
        close(w.ready);
        if (w.signals >= 0)
            close(w.signals);
        become_background(w.log, manager);
        free(path);
        return 0;
    }
    if (w.pid < 0)
        add_system_error(err, "start", "a process");
    code = w.pid < 0 ? AS_EXIT_CODE_SYSTEM : watch_server(&w, path);
    free(path);
    return code;
}
