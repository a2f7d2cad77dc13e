#include "io/loop/fd_io.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* segments of one system call; more are written by the next one */
#define FLUSH_IOVS 64
/* of one message; the kernel closes any more. */
#define DESCRIPTORS 4u

static int64_t io_result(ssize_t k)
{
    if (k > 0)
        return k;
    if (k == 0)
        return AS_EOF;
    return errno == EAGAIN ? AS_EAGAIN : AS_EIO;
}

uint32_t as_fd_io_descriptors(struct msghdr *m, int *fds, uint32_t cap)
{
    uint32_t n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        size_t count;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && n < cap; i++)
            memcpy(&fds[n++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
    return n;
}

/* Keeps the first descriptor; a peer may send more. */
static int take_descriptor(struct msghdr *m)
{
    int fds[DESCRIPTORS];
    uint32_t n = as_fd_io_descriptors(m, fds, DESCRIPTORS);

    for (uint32_t i = 1; i < n; i++)
        close(fds[i]);
    return n ? fds[0] : -1;
}

int64_t as_fd_io_read(int fd, const struct iovec *iov, int n, int *ret_fd)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int) * DESCRIPTORS)];
    } control;
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n};
    ssize_t k;

    if (ret_fd) {
        *ret_fd = -1;
        m.msg_control = control.buf;
        m.msg_controllen = sizeof(control.buf);
    }
    do { /* recv is cheaper */
        k = n == 1 && !ret_fd ? recv(fd, iov[0].iov_base, iov[0].iov_len, MSG_DONTWAIT)
                              : recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (k < 0 && errno == EINTR);
    if (k >= 0 && ret_fd)
        *ret_fd = take_descriptor(&m);
    return io_result(k);
}

int as_fd_io_flush(int fd, struct as_outq *q, int pass, uint64_t *calls)
{
    union {
        struct cmsghdr header;
        char buf[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};

    if (q->broken)
        return AS_ENOMEM;
    memcpy(CMSG_DATA(&control.header), &pass, sizeof(int));
    while (q->bytes) {
        struct iovec iov[FLUSH_IOVS];
        struct msghdr m = {.msg_iov = iov};
        ssize_t k;

        m.msg_iovlen = (size_t)as_outq_iov(q, iov, FLUSH_IOVS);
        if (pass >= 0) {
            m.msg_control = control.buf;
            m.msg_controllen = sizeof(control.buf);
        }
        ++*calls;
        k = m.msg_iovlen == 1 && pass < 0 /* by far the most frequent case; send is cheaper */
                ? send(fd, iov[0].iov_base, iov[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                : sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (k >= 0) {
            as_outq_drop(q, (size_t)k);
            pass = -1;
        } else if (errno != EINTR) {
            return errno == EAGAIN ? AS_EAGAIN : AS_EIO;
        }
    }
    return 0;
}

size_t as_fd_io_readable(int fd)
{
    int n = 0;

    return ioctl(fd, FIONREAD, &n) < 0 || n < 0 ? 0 : (size_t)n;
}
