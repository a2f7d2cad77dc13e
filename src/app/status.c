#include "app/status.h"

#include "ctl/exit_code.h"
#include "ctl/runtime_dir.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PORTS_MAX   256u
#define ANSWER_MAX  ((size_t)64 << 20)
#define ANSWER_WAIT 10 /* seconds without a byte */

/* Says what would have been found, since a forgotten --port is the likely reason. */
static int not_found(const char *base, uint16_t port, const uint16_t *ports, uint32_t n)
{
    fprintf(stderr, "anyserve: no server on port %u in %s.\n", port, base);
    if (n == 0)
        fprintf(stderr, "  No server runs there; another place is chosen with --runtime-dir.\n");
    else
        fprintf(stderr, "  Running there, to be chosen with --port:");
    for (uint32_t i = 0; i < n; i++)
        fprintf(stderr, " %u%s", ports[i], i + 1 == n ? "\n" : "");
    return AS_CODE_FAILED;
}

/* Through the folder's socket, not the TCP port: works with --status-port off, and proves whose
 * server it is. */
static int connect_to(const char *path)
{
    struct timeval wait = {.tv_sec = ANSWER_WAIT};
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    /* as_runtime_path bounds it by the size of sun_path */
    memcpy(sa.sun_path, path, strlen(path));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Sends the request and reads to the end of the connection. 0 or an errno. */
static int ask(int fd, const char *target, struct as_buf *answer)
{
    char request[256];
    int n = snprintf(request, sizeof(request),
                     "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target);

    if (send(fd, request, (size_t)n, MSG_NOSIGNAL) != n)
        return errno ? errno : EIO;
    while (answer->n < ANSWER_MAX) {
        ssize_t k = recv(fd, as_buf_reserve(answer, 65536), 65536, 0);

        if (k == 0)
            return 0;
        if (k > 0)
            answer->n += (size_t)k;
        else if (errno != EINTR)
            return errno;
    }
    return EMSGSIZE;
}

/* The body of an answer that came whole; its length in the header is checked when there is one. */
static bool body_of(struct as_str answer, unsigned *ret_status, struct as_str *ret_body)
{
    static const char length[] = "\r\ncontent-length:";
    const char *end = answer.n ? memmem(answer.p, answer.n, "\r\n\r\n", 4) : NULL;
    uint64_t want;

    if (!end || answer.n < 12 || memcmp(answer.p, "HTTP/1.1 ", 9) != 0)
        return false;
    *ret_status = (unsigned)strtoul(answer.p + 9, NULL, 10);
    *ret_body = (struct as_str){end + 4, answer.n - (size_t)(end + 4 - answer.p)};
    for (const char *p = answer.p; p < end; p++) {
        /* names of header fields have no case */
        if (strncasecmp(p, length, sizeof(length) - 1) != 0)
            continue;
        p += sizeof(length) - 1;
        p += strspn(p, " ");
        return as_str_u64((struct as_str){p, strspn(p, "0123456789")}, &want) == 0 &&
               want == ret_body->n;
    }
    return true;
}

/* Half an answer is no answer: scripts read this. */
static int print_answer(struct as_str answer, const char *path)
{
    struct as_str body;
    unsigned status;

    if (!body_of(answer, &status, &body)) {
        fprintf(stderr, "anyserve: %s gave no whole answer\n", path);
        return AS_CODE_FAILED;
    }
    if (status != 200) {
        fprintf(stderr, "anyserve: %s answered %u: %.*s\n", path, status, AS_STR_FMT(body));
        return AS_CODE_FAILED;
    }
    fwrite(body.p, 1, body.n, stdout);
    if (body.n && body.p[body.n - 1] != '\n')
        fputc('\n', stdout);
    return fflush(stdout) == 0 ? AS_CODE_OK : AS_CODE_FAILED;
}

int as_status_main(const struct as_option_set *opts, const char *page)
{
    char target[64];
    char *base = as_runtime_base(as_option_str(opts, AS_OPT_RUNTIME_DIR));
    char path[AS_RUNTIME_PATH_MAX];
    uint16_t ports[PORTS_MAX], port;
    uint32_t n = as_runtime_ports(base, ports, PORTS_MAX);
    struct as_buf answer;
    int fd = -1, e, code;

    snprintf(target, sizeof(target), "%s%s", page,
             as_option_bool(opts, AS_OPT_JSON) ? "" : "?format=text");
    as_buf_init(&answer);
    port = as_runtime_choose(opts->v[AS_OPT_PORT].given, (uint16_t)as_option_u64(opts, AS_OPT_PORT),
                             ports, n);
    if (as_runtime_path(path, base, port, AS_RUNTIME_STATUS) == 0)
        fd = connect_to(path);
    if (fd < 0) {
        code = not_found(base, port, ports, n);
    } else if ((e = ask(fd, target, &answer)) != 0) {
        fprintf(stderr, "anyserve: the server on port %u does not answer: %s\n", port, strerror(e));
        code = AS_CODE_FAILED;
    } else {
        as_buf_add(&answer, "", 1); /* the header is searched as text */
        code = print_answer((struct as_str){(char *)answer.p, answer.n - 1}, path);
    }
    if (fd >= 0)
        close(fd);
    as_buf_fini(&answer);
    free(base);
    return code;
}
