#include "app/local.h"

#include "ctl/exit_code.h"
#include "io/runtime.h"
#include "wire/json.h"

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

static bool send_all(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static bool send_request(int fd, const struct as_local_request *q)
{
    struct as_buf b;
    bool sent;

    as_buf_init(&b);
    as_buf_printf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", q->method,
                  q->target);
    if (q->body.n)
        as_buf_printf(&b, "Content-Length: %zu\r\n", q->body.n);
    as_buf_str(&b, "\r\n");
    if (q->body.n)
        as_buf_add(&b, q->body.p, q->body.n);
    sent = send_all(fd, b.p, b.n);
    as_buf_fini(&b);
    return sent;
}

/* Sends the request and reads to the end of the connection. 0 or an errno. */
static int exchange(int fd, const struct as_local_request *q, struct as_buf *answer)
{
    if (!send_request(fd, q))
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
static int talk(int fd, uint16_t port, const struct as_local_request *q, struct as_local_answer *a)
{
    int e = exchange(fd, q, &a->bytes);

    if (e) {
        fprintf(stderr, "anyserve: the server on port %u does not answer: %s\n", port, strerror(e));
        return AS_CODE_FAILED;
    }
    as_buf_add(&a->bytes, "", 1); /* the header is searched as text */
    if (body_of((struct as_str){(char *)a->bytes.p, a->bytes.n - 1}, &a->status, &a->body))
        return AS_CODE_OK;
    fprintf(stderr, "anyserve: %s of the server on port %u gave no whole answer\n", q->socket,
            port);
    return AS_CODE_FAILED;
}

int as_local_ask(const struct as_option_set *opts, const struct as_local_request *q,
                 struct as_local_answer *ret_a)
{
    char *base = as_runtime_base(as_option_str(opts, AS_OPT_RUNTIME_DIR));
    char path[AS_RUNTIME_PATH_MAX];
    uint16_t ports[PORTS_MAX], port;
    uint32_t n = as_runtime_ports(base, ports, PORTS_MAX);
    int fd = -1, code;

    *ret_a = (struct as_local_answer){0};
    port = as_runtime_choose(opts->v[AS_OPT_PORT].given, (uint16_t)as_option_u64(opts, AS_OPT_PORT),
                             ports, n);
    if (as_runtime_path(path, base, port, q->socket) == 0)
        fd = connect_to(path);
    code = fd < 0 ? not_found(base, port, ports, n) : talk(fd, port, q, ret_a);
    if (fd >= 0)
        close(fd);
    free(base);
    return code;
}

void as_local_fini(struct as_local_answer *a)
{
    as_buf_fini(&a->bytes);
}

/* {"error": text} as the text alone. */
static void print_error(const struct as_local_request *q, const struct as_local_answer *a)
{
    struct as_str text = a->body;
    struct as_arena arena;
    struct as_json *j = as_json_new();
    struct as_json_value root;
    struct as_json_items it;
    struct as_buf padded;

    as_arena_init(&arena, NULL, 0);
    as_buf_init(&padded);
    memset(as_buf_reserve(&padded, a->body.n + AS_JSON_PADDING), 0, a->body.n + AS_JSON_PADDING);
    memcpy(padded.p, a->body.p, a->body.n);
    if (j && as_json_open(j, &arena, padded.p, a->body.n, &root) == 0 &&
        as_json_items(j, &root, &it) == 0 && it.object && as_json_next(j, &it) > 0 &&
        as_str_eq(it.key, AS_STR("error")))
        as_json_string(j, &it.value, &text);
    fprintf(stderr, "anyserve: %s answered %u: %.*s\n", q->socket, a->status, AS_STR_FMT(text));
    if (j)
        as_json_close(j);
    as_json_free(j);
    as_arena_fini(&arena);
    as_buf_fini(&padded);
}

int as_local_print(const struct as_local_request *q, const struct as_local_answer *a)
{
    if (a->status != 200) {
        print_error(q, a);
        return AS_CODE_FAILED;
    }
    fwrite(a->body.p, 1, a->body.n, stdout);
    if (a->body.n && a->body.p[a->body.n - 1] != '\n')
        fputc('\n', stdout);
    return fflush(stdout) == 0 ? AS_CODE_OK : AS_CODE_FAILED;
}
