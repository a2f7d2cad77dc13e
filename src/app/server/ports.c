#include "app/server/ports.h"

#include "app/server/port_in_use.h"
#include "conf/option/exit_code.h"
#include "ctl/state/token.h"
#include "io/process/runtime.h"
#include "io/socket/listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define HOST_ADDRESSES 3u     /* addresses that one --host may have */
#define STATUS_PORTS   100u   /* tried for the default status port */
#define KILLED_POLLS   500u   /* how often a port of a killed server is tried again, … */
#define KILLED_POLL_US 10000u /* … with this time between */

/* The option that says where, and of --listen its value: one of several. */
struct origin {
    enum as_option_id id;
    const char *place; /* NULL: another option */
};

static struct origin of_option(enum as_option_id id)
{
    return (struct origin){id, NULL};
}

/* Each text names the option to change. */
static int print_not_bound(struct origin o, const char *host, uint16_t port, int rc, int e)
{
    const char *key = as_option_key(o.id);
    bool is_guarded = o.id == AS_OPT_MANAGEMENT || o.id == AS_OPT_CONTROL; /* takes ADDRESS:PORT */
    enum as_option_id address = o.id == AS_OPT_STATUS_PORT ? AS_OPT_STATUS_HOST : AS_OPT_HOST;

    if (rc == AS_EEXISTS) {
        as_port_in_use_print(o.id, o.place, host, port);
        return AS_EXIT_CODE_BUSY;
    }
    if (rc == AS_EINVALID && o.place)
        fprintf(stderr,
                "anyserve: --listen %s: '%s' is not an address of this machine; 0.0.0.0 stands for "
                "all.\n",
                o.place, host);
    else if (rc == AS_EINVALID)
        fprintf(stderr,
                "anyserve: '%s' is not an address of this machine.\n"
                "  Choose one with --%s; 0.0.0.0 stands for all.\n",
                host, is_guarded ? key : as_option_key(address));
    else
        fprintf(stderr, "anyserve: cannot listen on %s port %u (--%s%s%s): %s\n", host, port, key,
                o.place ? " " : "", o.place ? o.place : "", strerror(e));
    return AS_EXIT_CODE_CONFIG;
}

/* After a server was killed, its port is free only when its dispatcher has ended, too. */
static bool wait_for_killed_server(const struct as_ports *p, uint16_t port)
{
    uint16_t server_port = (uint16_t)as_option_u64(p->opts, AS_OPT_PORT);
    char *base = as_runtime_base(as_option_str(p->opts, AS_OPT_RUNTIME_DIR));
    bool is_ending = as_port_in_use_is_ending(port, base, server_port);

    free(base);
    if (is_ending)
        usleep(KILLED_POLL_US);
    return is_ending;
}

static uint32_t count_kind(const struct as_handover *h, enum as_handover_kind kind)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < h->n; i++)
        n += h->kind[i] == kind;
    return n;
}

static int print_too_many(const char *place, enum as_handover_kind kind)
{
    fprintf(stderr,
            "anyserve: --listen %s is too much: a server listens for clients %s at most at %u "
            "addresses, with those of --port and --grpc-port; a name may have several.\n",
            place, kind == AS_HANDOVER_GRPC_TLS ? "by TLS" : "in clear text",
            AS_HANDOVER_LISTENERS);
    return AS_EXIT_CODE_USAGE;
}

/* *port is set to the port that was bound. */
static int listen_tcp(struct as_ports *p, struct origin o, const char *host, uint16_t *port,
                      enum as_handover_kind kind)
{
    int fds[HOST_ADDRESSES], e, n;

    n = as_listen_tcp(host, *port, fds, HOST_ADDRESSES, port, &e);
    for (unsigned i = 0; n == AS_EEXISTS && i < KILLED_POLLS; i++) {
        if (!wait_for_killed_server(p, *port))
            break;
        n = as_listen_tcp(host, *port, fds, HOST_ADDRESSES, port, &e);
    }
    if (n < 0)
        return print_not_bound(o, host, *port, n, e);
    if (o.place && count_kind(p->listeners, kind) + (uint32_t)n > AS_HANDOVER_LISTENERS) {
        for (int i = 0; i < n; i++)
            close(fds[i]);
        return print_too_many(o.place, kind);
    }
    for (int i = 0; i < n; i++)
        as_handover_add(p->listeners, kind, fds[i]);
    return AS_EXIT_CODE_OK;
}

/* Listens on a port of the options, and sets the option to the port that was bound. */
static int listen_port(struct as_ports *p, enum as_option_id id, const char *host,
                       enum as_handover_kind kind)
{
    uint16_t port = (uint16_t)as_option_u64(p->opts, id);
    int rc = listen_tcp(p, of_option(id), host, &port, kind);

    /* the dispatcher, the banner and the runtime folder use the real one */
    if (rc == AS_EXIT_CODE_OK)
        as_option_set_i64(p->opts, id, port);
    return rc;
}

static enum as_handover_kind status_kind(const struct as_ports *p)
{
    return as_option_bool(p->opts, AS_OPT_STATUS_TLS) ? AS_HANDOVER_STATUS_TLS : AS_HANDOVER_STATUS;
}

/* Listens on the default status port or, if it is in use, on the next free one. */
static int listen_any_status(struct as_ports *p)
{
    uint16_t first = (uint16_t)as_option_u64(p->opts, AS_OPT_STATUS_PORT), port = first;
    const char *host = as_option_str(p->opts, AS_OPT_STATUS_HOST);
    int fds[HOST_ADDRESSES], e, n = AS_EEXISTS;
    struct as_buf who = {0};

    for (uint16_t i = 0; n == AS_EEXISTS && i < STATUS_PORTS; i++)
        n = as_listen_tcp(host, (uint16_t)(first + i), fds, HOST_ADDRESSES, &port, &e);
    if (n == AS_EEXISTS) {
        fprintf(stderr,
                "anyserve: every port from %u to %u on %s is taken.\n"
                "  Choose one for the status page:  --status-port N   (off: no status port)\n",
                first, first + STATUS_PORTS - 1, host);
        return AS_EXIT_CODE_BUSY;
    }
    if (n < 0)
        return print_not_bound(of_option(AS_OPT_STATUS_PORT), host, first, n, e);
    for (int i = 0; i < n; i++)
        as_handover_add(p->listeners, status_kind(p), fds[i]);
    as_option_set_i64(p->opts, AS_OPT_STATUS_PORT, port);
    if (port != first) {
        as_port_in_use_write_holder(&who, first);
        fprintf(stderr, "anyserve: port %u is taken by %.*s; the status port is %u\n", first,
                AS_STR_FMT(as_buf_slice(&who)), port);
        as_buf_fini(&who);
    }
    return AS_EXIT_CODE_OK;
}

static int listen_status(struct as_ports *p)
{
    if (!p->opts->v[AS_OPT_STATUS_PORT].given)
        return listen_any_status(p);
    if (!as_option_u64(p->opts, AS_OPT_STATUS_PORT))
        return AS_EXIT_CODE_OK; /* off */
    return listen_port(p, AS_OPT_STATUS_PORT, as_option_str(p->opts, AS_OPT_STATUS_HOST),
                       status_kind(p));
}

/* A TCP listener whose clients must send a token. */
struct token_listener {
    enum as_option_id address, token;
    enum as_handover_kind kind;
    const char *who; /* the clients, for messages */
};

/* Listens on the address of the options, if any. The token file is checked before anything listens;
 * the process that serves there reads it itself. ret_bound: the address that was bound; empty: off.
 */
static int listen_guarded(struct as_ports *p, const struct token_listener *g,
                          struct as_buf *ret_bound, struct as_buf *err)
{
    const char *text = as_option_str(p->opts, g->address), *key = as_option_key(g->address);
    const char *file = as_option_str(p->opts, g->token);
    char host[AS_LISTEN_HOST_MAX], token[AS_TOKEN_MAX + 1];
    uint16_t port;
    int rc;

    if (!text[0] && file[0])
        as_buf_printf(err, "--%s is for --%s, which is not given", as_option_key(g->token), key);
    else if (text[0] && !file[0])
        as_buf_printf(err, "--%s needs --%s: a file with the token that %s must send", key,
                      as_option_key(g->token), g->who);
    if (err->n)
        return AS_EXIT_CODE_USAGE;
    if (!text[0])
        return AS_EXIT_CODE_OK;
    if (as_listen_parse_address(text, host, &port) < 0) {
        as_buf_printf(
            err, "--%s '%s' is not ADDRESS:PORT, like 127.0.0.1:9000, localhost:0 or [::1]:9000",
            key, text);
        return AS_EXIT_CODE_USAGE;
    }
    if (as_token_read(file, token, err) < 0)
        return AS_EXIT_CODE_CONFIG;
    explicit_bzero(token, sizeof(token));
    rc = listen_tcp(p, of_option(g->address), host, &port, g->kind);
    if (rc == AS_EXIT_CODE_OK)
        as_buf_address(ret_bound, host, port, false);
    return rc;
}

static int listen_token_ports(struct as_ports *p, struct as_buf *err)
{
    static const struct token_listener management = {
        AS_OPT_MANAGEMENT, AS_OPT_MANAGEMENT_TOKEN_FILE, AS_HANDOVER_MANAGEMENT, "workers"};
    static const struct token_listener control = {AS_OPT_CONTROL, AS_OPT_CONTROL_TOKEN_FILE,
                                                  AS_HANDOVER_API, "whoever asks there"};
    int rc = listen_guarded(p, &management, &p->management, err);

    return rc == AS_EXIT_CODE_OK ? listen_guarded(p, &control, &p->control, err) : rc;
}

/* --- TLS, and further listeners --- */

/* Reads the files before anything listens; the dispatcher reads them itself. */
static int check_certificates(struct as_ports *p, struct as_buf *err)
{
    if (as_tls_conf_read(&p->tls, p->opts, err))
        return AS_EXIT_CODE_USAGE;
    return as_tls_conf_check(&p->tls, AS_TLS_EXPIRY_ERROR, err) ? AS_EXIT_CODE_CONFIG
                                                                : AS_EXIT_CODE_OK;
}

/* 0: another process accepts connections at this path; else the errno of connect(2). ECONNREFUSED:
 * nobody does, and the socket was left behind. Others do not tell: we may not connect, or the
 * socket is of another kind. */
static int try_connect(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int e = 0;

    memcpy(sa.sun_path, path, strlen(path) + 1); /* as_listen_spec_parse has checked its length */
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        e = errno;
    if (fd >= 0)
        close(fd);
    return e == EAGAIN ? 0 : e; /* so many connect that its backlog is full */
}

/* A socket that nobody accepts from was left behind by a server that was killed; anything else at
 * its path is not ours. */
static int listen_unix(struct as_ports *p, const char *path, enum as_handover_kind kind,
                       struct as_buf *err)
{
    struct stat st;
    bool exists = lstat(path, &st) == 0;
    int fd, e = exists ? try_connect(path) : ENOENT;

    if (exists && !S_ISSOCK(st.st_mode)) {
        as_buf_printf(err, "--listen unix:%s: it exists, and is not a socket", path);
        return AS_EXIT_CODE_CONFIG;
    }
    if (!e) {
        as_buf_printf(err, "--listen unix:%s: another process accepts connections there", path);
        return AS_EXIT_CODE_BUSY;
    }
    if (exists && e != ECONNREFUSED) {
        as_buf_printf(
            err,
            "--listen unix:%s: a socket is there that another process may use (%s); remove "
            "it if none does",
            path, strerror(e));
        return AS_EXIT_CODE_BUSY;
    }
    if (as_listen_unix(path, &fd, &e) < 0) {
        as_buf_printf(err, "--listen unix:%s: %s", path, strerror(e));
        return AS_EXIT_CODE_CONFIG;
    }
    as_handover_add(p->listeners, kind, fd);
    as_buf_printf(&p->more, "unix:%s\n", path);
    return AS_EXIT_CODE_OK;
}

static int listen_more(struct as_ports *p, const char *text, struct as_buf *err)
{
    struct as_listen_spec spec;
    enum as_handover_kind kind;
    int rc;

    if (as_listen_spec_parse(&spec, text, as_option_str(p->opts, AS_OPT_HOST), err))
        return AS_EXIT_CODE_USAGE;
    if (spec.tls && !p->tls.server.n) {
        as_buf_printf(err, "--listen %s needs a certificate: --tls-cert FILE", text);
        return AS_EXIT_CODE_USAGE;
    }
    kind = spec.tls ? AS_HANDOVER_GRPC_TLS : AS_HANDOVER_GRPC;
    if (count_kind(p->listeners, kind) == AS_HANDOVER_LISTENERS)
        return print_too_many(text, kind);
    if (!spec.host[0])
        return listen_unix(p, spec.path, kind, err);
    rc = listen_tcp(p, (struct origin){AS_OPT_LISTEN, text}, spec.host, &spec.port, kind);
    if (rc == AS_EXIT_CODE_OK) {
        as_buf_str(&p->more, spec.tls ? "https://" : "http://");
        as_buf_address(&p->more, spec.host, spec.port, true);
        as_buf_str(&p->more, "\n");
    }
    return rc;
}

static int listen_all_more(struct as_ports *p, struct as_buf *err)
{
    const char *text;

    while ((text = as_option_item(p->opts, AS_OPT_LISTEN, p->n_more))) {
        int rc = listen_more(p, text, err);

        if (rc != AS_EXIT_CODE_OK)
            return rc;
        p->n_more++;
    }
    return AS_EXIT_CODE_OK;
}

void as_ports_remove_sockets(const struct as_option_set *opts, uint32_t n)
{
    struct as_buf err = {0};
    struct as_listen_spec spec;
    const char *text;

    for (uint32_t i = 0; i < n && (text = as_option_item(opts, AS_OPT_LISTEN, i)); i++) {
        /* another process may have made one of its own there: it is removed only if nobody listens,
         * and ours is closed. Its inode does not tell, since an upgrade forgets it. */
        if (as_listen_spec_parse(&spec, text, "", &err) == 0 && spec.path[0] &&
            try_connect(spec.path) == ECONNREFUSED)
            unlink(spec.path);
    }
    as_buf_fini(&err);
}

int as_ports_listen(struct as_ports *p, struct as_option_set *opts, struct as_handover *listeners,
                    struct as_buf *err)
{
    const char *host = as_option_str(opts, AS_OPT_HOST);
    enum as_handover_kind kind;
    int rc;

    p->opts = opts;
    p->listeners = listeners;
    rc = check_certificates(p, err);
    if (rc != AS_EXIT_CODE_OK)
        return rc;
    kind = p->tls.server.n ? AS_HANDOVER_GRPC_TLS : AS_HANDOVER_GRPC;
    rc = listen_port(p, AS_OPT_PORT, host, kind);
    if (rc == AS_EXIT_CODE_OK && as_option_u64(opts, AS_OPT_GRPC_PORT))
        rc = listen_port(p, AS_OPT_GRPC_PORT, host, kind);
    if (rc == AS_EXIT_CODE_OK)
        rc = listen_all_more(p, err);
    if (rc == AS_EXIT_CODE_OK)
        rc = listen_status(p);
    return rc == AS_EXIT_CODE_OK ? listen_token_ports(p, err) : rc;
}

void as_ports_fini(struct as_ports *p)
{
    as_buf_fini(&p->management);
    as_buf_fini(&p->control);
    as_buf_fini(&p->more);
}
