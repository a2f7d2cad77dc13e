/* tests/sweep/fault.c — preloaded into a server: makes the n-th allocation or system call of one of
 * its processes fail.
 *
 * $SWEEP_PAGE names the shared page (page.h). Every call that anyserve, libuv, nghttp2 and the
 * worker library make by name is here, as far as the kernel could refuse it: what cannot fail with
 * a valid argument (close, clock_gettime, epoll_wait but for EINTR, reads of an eventfd) is not
 * counted. Children between fork and exec are left alone.
 */
#include "page.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

static struct sweep_page *page; /* NULL: this process is not the one */

/* --- who is it --- */

static bool has_role(const char *role)
{
    char line[4096];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    long n = fd < 0 ? 0 : syscall(SYS_read, fd, line, sizeof(line) - 1);
    bool worker = false, describes = false, early = false;
    const char *second = NULL;

    if (fd >= 0)
        syscall(SYS_close, fd);
    if (n <= 0)
        return false;
    line[n] = 0;
    for (const char *p = line; p < line + n; p += strlen(p) + 1) {
        worker = worker || strcmp(p, "anyserve.worker") == 0;
        describes = describes || strncmp(p, "--describe", 10) == 0;
        /* the dispatcher that answers until the server starts: app/server/early_dispatcher */
        early = early || strcmp(p, "--log-level=warn") == 0;
        if (!second && p > line)
            second = p;
    }
    if (worker)
        return !describes && strcmp(role, "worker") == 0;
    return !early && second && strcmp(second, role) == 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SWEEP_PAGE");
    uint32_t nobody = 0;
    struct sweep_page *p;
    void *warm[2];
    int fd;

    if (!path)
        return;
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    p = (void *)syscall(SYS_mmap, NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (p == MAP_FAILED || !has_role(p->role))
        return;
    p->starts++;
    backtrace(warm, 2); /* loads what it needs */
    if (atomic_compare_exchange_strong(&p->pid, &nobody, (uint32_t)getpid()))
        page = p;
}

/* --- the n-th --- */

static void note(struct sweep_page *p, const char *call, int error)
{
    void *at[SWEEP_FRAMES + 2];
    int n = backtrace(at, SWEEP_FRAMES + 2);

    snprintf(p->call, sizeof(p->call), "%s", call);
    p->error = (uint32_t)error;
    p->n_frames = 0;
    for (int i = 2; i < n; i++) { /* not ourselves */
        const char *name;
        Dl_info info;

        if (!dladdr(at[i], &info) || !info.dli_fname)
            continue;
        name = strrchr(info.dli_fname, '/');
        snprintf(p->module[p->n_frames], sizeof(p->module[0]), "%s",
                 name ? name + 1 : info.dli_fname);
        p->frames[p->n_frames++] = (uint64_t)((char *)at[i] - (char *)info.dli_fbase);
    }
}

static __attribute__((noinline)) bool hit(enum sweep_kind kind, const char *call, int error)
{
    struct sweep_page *p = page;
    uint32_t n;

    if (!p || atomic_load(&p->kind) != kind || atomic_load(&p->pid) != (uint32_t)getpid())
        return false;
    n = atomic_fetch_add(&p->seen, 1) + 1;
    if (n != atomic_load(&p->at))
        return false;
    atomic_store(&p->kind, SWEEP_NOTHING); /* once; and what the note takes is not counted */
    note(p, call, error);
    atomic_store(&p->fired, 1);
    errno = error;
    return true;
}

/* --- allocations --- */

#ifndef SWEEP_NO_ALLOC
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    return hit(SWEEP_ALLOC, "malloc", ENOMEM) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    return hit(SWEEP_ALLOC, "calloc", ENOMEM) ? NULL : __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
    return hit(SWEEP_ALLOC, "realloc", ENOMEM) ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    return hit(SWEEP_ALLOC, "aligned_alloc", ENOMEM) ? NULL : __libc_memalign(align, n);
}

int posix_memalign(void **ret_p, size_t align, size_t n)
{
    if (hit(SWEEP_ALLOC, "posix_memalign", ENOMEM))
        return ENOMEM;
    *ret_p = __libc_memalign(align, n);
    return *ret_p ? 0 : ENOMEM;
}
#endif

/* --- system calls --- */

#define REAL(name)                                                                                 \
    static __typeof__(&name) real_##name;                                                          \
    if (!real_##name) {                                                                            \
        void *next = dlsym(RTLD_NEXT, #name);                                                      \
        memcpy(&real_##name, &next, sizeof(next));                                                 \
    }

#define FAILS(name, error) hit(SWEEP_CALL, name, error)
#define STOPS(name, error) hit(SWEEP_INTERRUPT, name, error)

/* A call that gives -1 with that error, and knows no interruption. */
#define SIMPLE(ret, name, error, params, args)                                                     \
    ret name params                                                                                \
    {                                                                                              \
        REAL(name)                                                                                 \
        return FAILS(#name, error) ? (ret)-1 : real_##name args;                                   \
    }

static mode_t type_of(int fd)
{
    struct stat st;

    return syscall(SYS_fstat, fd, &st) < 0 ? 0 : st.st_mode & S_IFMT;
}

static bool is_stream(int fd)
{
    int type = 0;
    socklen_t n = sizeof(type);
    mode_t t = type_of(fd);

    if (t == S_IFIFO)
        return true;
    return t == S_IFSOCK && syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 &&
           type == SOCK_STREAM;
}

static bool blocks(int fd)
{
    return !(syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK);
}

static bool one_byte(int fd, const char *call, size_t n)
{
    return n > 1 && page && is_stream(fd) && hit(SWEEP_SHORT, call, 0);
}

/* What a descriptor's kind may answer to a read or write; 0: nothing but EINTR. */
static int read_error(int fd)
{
    mode_t t = page ? type_of(fd) : 0;

    return t == S_IFSOCK ? (is_stream(fd) ? ECONNRESET : ENOMEM) : t == S_IFREG ? EIO : 0;
}

static int write_error(int fd)
{
    mode_t t = page ? type_of(fd) : 0;

    /* a pipe of one's own has a reader: only the log's may be gone */
    return t == S_IFSOCK ? ENOBUFS : t == S_IFIFO && fd <= 2 ? EPIPE : t == S_IFREG ? ENOSPC : 0;
}

static bool fails_io(int fd, const char *call, int error)
{
    mode_t t = page ? type_of(fd) : 0;
    bool again = (t == S_IFSOCK || t == S_IFIFO) && !blocks(fd); /* an eventfd has room for ever */

    return (error && FAILS(call, error)) || (t != S_IFREG && STOPS(call, again ? EAGAIN : EINTR));
}

static size_t sum(const struct iovec *iov, size_t n)
{
    size_t all = 0;

    for (size_t i = 0; i < n; i++)
        all += iov[i].iov_len;
    return all;
}

static struct iovec first_byte(const struct iovec *iov)
{
    while (!iov->iov_len)
        iov++;
    return (struct iovec){iov->iov_base, 1};
}

ssize_t read(int fd, void *p, size_t n)
{
    REAL(read)
    if (fails_io(fd, "read", read_error(fd)))
        return -1;
    return real_read(fd, p, one_byte(fd, "read", n) ? 1 : n);
}

ssize_t readv(int fd, const struct iovec *iov, int n)
{
    struct iovec one;

    REAL(readv)
    if (fails_io(fd, "readv", read_error(fd)))
        return -1;
    if (!one_byte(fd, "readv", sum(iov, (size_t)n)))
        return real_readv(fd, iov, n);
    one = first_byte(iov);
    return real_readv(fd, &one, 1);
}

ssize_t recv(int fd, void *p, size_t n, int flags)
{
    REAL(recv)
    if (fails_io(fd, "recv", read_error(fd)))
        return -1;
    return real_recv(fd, p, one_byte(fd, "recv", n) ? 1 : n, flags);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    struct msghdr short_m;
    struct iovec one;
    ssize_t n;

    REAL(recvmsg)
    if (fails_io(fd, "recvmsg", read_error(fd)))
        return -1;
    if (!one_byte(fd, "recvmsg", sum(m->msg_iov, m->msg_iovlen)))
        return real_recvmsg(fd, m, flags);
    one = first_byte(m->msg_iov);
    short_m = *m;
    short_m.msg_iov = &one;
    short_m.msg_iovlen = 1;
    n = real_recvmsg(fd, &short_m, flags);
    m->msg_controllen = short_m.msg_controllen;
    m->msg_flags = short_m.msg_flags;
    return n;
}

ssize_t write(int fd, const void *p, size_t n)
{
    REAL(write)
    if (fails_io(fd, "write", write_error(fd)))
        return -1;
    /* into a pipe the kernel writes so much in one piece or not at all */
    if (n <= PIPE_BUF && page && type_of(fd) == S_IFIFO)
        return real_write(fd, p, n);
    return real_write(fd, p, one_byte(fd, "write", n) ? 1 : n);
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
    REAL(send)
    if (fails_io(fd, "send", write_error(fd)))
        return -1;
    return real_send(fd, p, one_byte(fd, "send", n) ? 1 : n, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    struct msghdr short_m = *m;
    struct iovec one;

    REAL(sendmsg)
    if (fails_io(fd, "sendmsg", write_error(fd)))
        return -1;
    if (!one_byte(fd, "sendmsg", sum(m->msg_iov, m->msg_iovlen)))
        return real_sendmsg(fd, m, flags);
    one = first_byte(m->msg_iov);
    short_m.msg_iov = &one;
    short_m.msg_iovlen = 1;
    return real_sendmsg(fd, &short_m, flags);
}

int accept4(int fd, struct sockaddr *sa, socklen_t *n, int flags)
{
    REAL(accept4)
    return FAILS("accept4", EMFILE) || STOPS("accept4", EINTR) ? -1
                                                               : real_accept4(fd, sa, n, flags);
}

int epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
    REAL(epoll_ctl)
    if (op != EPOLL_CTL_DEL && FAILS("epoll_ctl", op == EPOLL_CTL_ADD ? ENOSPC : ENOMEM))
        return -1;
    return real_epoll_ctl(ep, op, fd, ev);
}

int epoll_wait(int ep, struct epoll_event *ev, int n, int timeout)
{
    REAL(epoll_wait)
    return STOPS("epoll_wait", EINTR) ? -1 : real_epoll_wait(ep, ev, n, timeout);
}

int epoll_pwait(int ep, struct epoll_event *ev, int n, int timeout, const sigset_t *set)
{
    REAL(epoll_pwait)
    return STOPS("epoll_pwait", EINTR) ? -1 : real_epoll_pwait(ep, ev, n, timeout, set);
}

int poll(struct pollfd *p, nfds_t n, int timeout)
{
    REAL(poll)
    return FAILS("poll", ENOMEM) || STOPS("poll", EINTR) ? -1 : real_poll(p, n, timeout);
}

/* clang-format off */
SIMPLE(int, epoll_create1, EMFILE, (int flags), (flags))
SIMPLE(int, eventfd, EMFILE, (unsigned n, int flags), (n, flags))
SIMPLE(int, timerfd_create, EMFILE, (int clock, int flags), (clock, flags))
SIMPLE(int, signalfd, EMFILE, (int fd, const sigset_t *set, int flags), (fd, set, flags))
SIMPLE(int, pipe2, EMFILE, (int fd[2], int flags), (fd, flags))
SIMPLE(int, socket, EMFILE, (int family, int type, int proto), (family, type, proto))
SIMPLE(int, socketpair, EMFILE, (int family, int type, int proto, int fd[2]), (family, type, proto, fd))
SIMPLE(int, bind, EADDRINUSE, (int fd, const struct sockaddr *sa, socklen_t n), (fd, sa, n))
SIMPLE(int, listen, EADDRINUSE, (int fd, int backlog), (fd, backlog))
SIMPLE(int, connect, ECONNREFUSED, (int fd, const struct sockaddr *sa, socklen_t n), (fd, sa, n))
SIMPLE(int, setsockopt, ENOBUFS, (int fd, int l, int o, const void *v, socklen_t n), (fd, l, o, v, n))
SIMPLE(int, getsockopt, ENOPROTOOPT, (int fd, int l, int o, void *v, socklen_t *n), (fd, l, o, v, n))
SIMPLE(int, getsockname, ENOBUFS, (int fd, struct sockaddr *sa, socklen_t *n), (fd, sa, n))
SIMPLE(int, memfd_create, EMFILE, (const char *name, unsigned flags), (name, flags))
SIMPLE(int, ftruncate64, ENOSPC, (int fd, off64_t n), (fd, n))
SIMPLE(int, mkdir, ENOSPC, (const char *path, mode_t mode), (path, mode))
SIMPLE(int, chmod, EPERM, (const char *path, mode_t mode), (path, mode))
SIMPLE(int, flock, EWOULDBLOCK, (int fd, int op), (fd, op))
SIMPLE(int, lstat64, ENOMEM, (const char *path, struct stat64 *st), (path, st))
SIMPLE(pid_t, fork, EAGAIN, (void), ())
SIMPLE(ssize_t, getrandom, ENOSYS, (void *p, size_t n, unsigned flags), (p, n, flags))
/* clang-format on */

int fcntl64(int fd, int op, ...)
{
    va_list ap;
    long arg;

    REAL(fcntl64)
    va_start(ap, op);
    arg = va_arg(ap, long);
    va_end(ap);
    if (op == F_DUPFD || op == F_DUPFD_CLOEXEC) {
        if (FAILS("fcntl(F_DUPFD)", EMFILE))
            return -1;
    } else if (op == F_ADD_SEALS && FAILS("fcntl(F_ADD_SEALS)", EBUSY)) {
        return -1;
    }
    return real_fcntl64(fd, op, arg);
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    REAL(open64)
    va_start(ap, flags);
    mode = va_arg(ap, mode_t);
    va_end(ap);
    return FAILS("open", EMFILE) ? -1 : real_open64(path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    REAL(openat64)
    va_start(ap, flags);
    mode = va_arg(ap, mode_t);
    va_end(ap);
    return FAILS("openat", EMFILE) ? -1 : real_openat64(dir, path, flags, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    REAL(fopen64)
    return FAILS("fopen", EMFILE) ? NULL : real_fopen64(path, mode);
}

void *mmap64(void *p, size_t n, int prot, int flags, int fd, off64_t at)
{
    REAL(mmap64)
    return FAILS("mmap", ENOMEM) ? MAP_FAILED : real_mmap64(p, n, prot, flags, fd, at);
}

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    REAL(pthread_create)
    return FAILS("pthread_create", EAGAIN) ? EAGAIN : real_pthread_create(t, attr, run, arg);
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_list)
{
    REAL(getaddrinfo)
    return FAILS("getaddrinfo", ENOMEM) ? EAI_MEMORY
                                        : real_getaddrinfo(host, service, hints, ret_list);
}

long syscall(long number, ...)
{
    va_list ap;
    long a[6];
    static long (*real)(long number, ...);

    if (!real) {
        void *next = dlsym(RTLD_NEXT, "syscall");

        memcpy(&real, &next, sizeof(next));
    }
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_pidfd_open && FAILS("pidfd_open", EMFILE))
        return -1;
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
