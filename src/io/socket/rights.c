#include "io/socket/rights.h"

#include "io/loop/fd_io.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr align;
    char buf[CMSG_SPACE(sizeof(int) * AS_RIGHTS_MAX)];
};

/* Errors that pass by themselves: the socket is full, memory is short, or too many of our
 * descriptors are in flight (ETOOMANYREFS). */
static bool is_transient(int e)
{
    return e == EAGAIN || e == ENOBUFS || e == ENOMEM || e == ETOOMANYREFS;
}

int as_rights_send(int sock, const void *p, size_t n, const int *fds, uint32_t n_fds)
{
    struct iovec iov = {(void *)(uintptr_t)p, n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    union control control;

    AS_ASSERT(n && n_fds <= AS_RIGHTS_MAX);
    if (n_fds) {
        struct cmsghdr *c;

        memset(&control, 0, sizeof(control));
        m.msg_control = control.buf;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    while (sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        if (errno != EINTR)
            return is_transient(errno) ? AS_EAGAIN : AS_EOF;
    }
    return 0;
}

int64_t as_rights_receive(int sock, void *p, size_t cap, int fds[AS_RIGHTS_MAX],
                          uint32_t *ret_n_fds, bool *ret_lost)
{
    struct iovec iov = {p, cap};
    union control control; /* has room for AS_RIGHTS_MAX; the kernel closes any more */
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.buf,
                       .msg_controllen = sizeof(control.buf)};
    ssize_t n;

    do {
        n = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return is_transient(errno) ? AS_EAGAIN : AS_EOF;
    *ret_n_fds = as_fd_io_descriptors(&m, fds, AS_RIGHTS_MAX);
    *ret_lost = m.msg_flags & MSG_CTRUNC;
    return n == 0 ? AS_EOF : n;
}
