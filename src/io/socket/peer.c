#include "io/socket/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct diag_request {
    struct nlmsghdr head;
    struct inet_diag_req_v2 of;
};

bool as_peer_is_loopback(const struct sockaddr *a)
{
    const union address *u = (const union address *)(const void *)a;

    if (a->sa_family == AF_INET)
        return ntohl(u->v4.sin_addr.s_addr) >> 24 == 127;
    if (a->sa_family != AF_INET6)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(&u->v6.sin6_addr))
        return u->v6.sin6_addr.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&u->v6.sin6_addr);
}

/* Turns a mapped IPv4 address into a plain one: the socket at the other end may be one of IPv4. */
static void map_to_v4(union address *a)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    if (a->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
        return;
    v4.sin_port = a->v6.sin6_port;
    memcpy(&v4.sin_addr, &a->v6.sin6_addr.s6_addr[12], sizeof(v4.sin_addr));
    a->v4 = v4;
}

static void put_endpoint(const union address *a, __be32 ret_host[4], __be16 *ret_port)
{
    if (a->any.sa_family == AF_INET) {
        memcpy(ret_host, &a->v4.sin_addr, sizeof(a->v4.sin_addr));
        *ret_port = a->v4.sin_port;
    } else {
        memcpy(ret_host, &a->v6.sin6_addr, sizeof(a->v6.sin6_addr));
        *ret_port = a->v6.sin6_port;
    }
}

/* When the process has closed its end, the connection has no inode, and the kernel names root as
 * its user. A connection between the same ends that is still being opened is not ours. */
static bool has_process(const struct inet_diag_msg *m)
{
    switch (m->idiag_state) {
    case TCP_ESTABLISHED:
    case TCP_FIN_WAIT1:
    case TCP_FIN_WAIT2:
    case TCP_CLOSE_WAIT:
    case TCP_LAST_ACK:
    case TCP_CLOSING:
        return m->idiag_inode != 0;
    default:
        return false;
    }
}

/* Compares ports only: the family may differ, since a socket of IPv6 may use an address of IPv4. */
static bool is_reply_to(const struct inet_diag_msg *m, const struct diag_request *q)
{
    return m->id.idiag_sport == q->of.id.idiag_sport && m->id.idiag_dport == q->of.id.idiag_dport;
}

static int query_kernel(const struct diag_request *q, uid_t *ret_uid)
{
    int nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    uint8_t reply[1024] __attribute__((aligned(NLMSG_ALIGNTO))) = {0};
    struct nlmsghdr *head = (struct nlmsghdr *)(void *)reply;
    const struct inet_diag_msg *m = NLMSG_DATA(head);
    ssize_t n;

    if (nl < 0)
        return AS_EIO;
    n = send(nl, q, sizeof(*q), 0); /* the reply is ready when it returns */
    if (n == (ssize_t)sizeof(*q))
        n = recv(nl, reply, sizeof(reply), 0);
    close(nl);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof(*m)) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        !is_reply_to(m, q) || !has_process(m))
        return AS_EIO;
    *ret_uid = m->idiag_uid;
    return 0;
}

static int user_of_tcp(int fd, uid_t *ret_uid)
{
    union address peer = {0}, own = {0};
    socklen_t peer_len = sizeof(peer), own_len = sizeof(own);
    struct diag_request q = {
        .head = {.nlmsg_len = sizeof(q),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .of = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = UINT32_MAX},
    };

    if (getpeername(fd, &peer.any, &peer_len) || getsockname(fd, &own.any, &own_len))
        return AS_EIO; /* the peer has closed the connection */
    if (!as_peer_is_loopback(&peer.any))
        return AS_EDENIED;
    map_to_v4(&peer);
    map_to_v4(&own);
    q.of.sdiag_family = (uint8_t)peer.any.sa_family;
    q.of.id.idiag_cookie[0] = q.of.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    put_endpoint(&peer, q.of.id.idiag_src, &q.of.id.idiag_sport);
    put_endpoint(&own, q.of.id.idiag_dst, &q.of.id.idiag_dport);
    return query_kernel(&q, ret_uid);
}

int as_peer_user(int fd, uid_t *ret_uid)
{
    struct ucred who = {.uid = (uid_t)-1};
    int domain = 0;
    socklen_t n = sizeof(domain);

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n))
        return AS_EIO;
    if (domain != AF_UNIX)
        return user_of_tcp(fd, ret_uid);
    n = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) || who.uid == (uid_t)-1)
        return AS_EIO;
    *ret_uid = who.uid;
    return 0;
}

void as_peer_address(int fd, bool peer, char *out, size_t cap)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } a = {0};
    socklen_t n = sizeof(a);
    char host[INET6_ADDRSTRLEN];
    bool mapped;

    out[0] = 0;
    if (peer ? getpeername(fd, &a.any, &n) : getsockname(fd, &a.any, &n))
        return;
    if (a.any.sa_family == AF_INET) {
        if (inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof(host)))
            snprintf(out, cap, "%s:%u", host, ntohs(a.v4.sin_port));
    } else if (a.any.sa_family == AF_INET6) {
        mapped = IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr);
        if (inet_ntop(mapped ? AF_INET : AF_INET6, a.v6.sin6_addr.s6_addr + (mapped ? 12 : 0), host,
                      sizeof(host)))
            snprintf(out, cap, mapped ? "%s:%u" : "[%s]:%u", host, ntohs(a.v6.sin6_port));
    }
}
