#include "app/server/ports.h"

#include "app/server/port_in_use.h"
#include "conf/option/exit_code.h"
#include "ctl/state/token.h"
#include "io/process/runtime.h"
#include "io/socket/listen.h"

#include <string.h>
#include <unistd.h>

#define HOST_ADDRESSES 3u     /* addresses that one --host may have */
#define STATUS_PORTS   100u   /* tried for the default status port */
#define KILLED_POLLS   500u   /* how often a port of a killed server is tried again, … */
#define KILLED_POLL_US 10000u /* … with this time between */

/* Each text names the option to change. */
static int print_not_bound(enum as_option_id id, const char *host, uint16_t port, int rc, int e)
{
    const char *key = as_option_key(id);
    bool is_guarded = id == AS_OPT_MANAGEMENT || id == AS_OPT_CONTROL; /* takes ADDRESS:PORT */
    enum as_option_id address = id == AS_OPT_STATUS_PORT ? AS_OPT_STATUS_HOST : AS_OPT_HOST;

    if (rc == AS_EEXISTS) {
        as_port_in_use_print(id, host, port);
        return AS_EXIT_CODE_BUSY;
    }
    if (rc == AS_EINVALID)
        fprintf(stderr,
                "anyserve: '%s' is not an address of this machine.\n"
                "  Choose one with --%s; 0.0.0.0 stands for all.\n",
                host, is_guarded ? key : as_option_key(address));
    else
        fprintf(stderr, "anyserve: cannot listen on %s port %u (--%s): %s\n", host, port, key,
                strerror(e));
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

/* *port is set to the port that was bound. */
static int listen_tcp(struct as_ports *p, enum as_option_id id, const char *host, uint16_t *port,
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
        return print_not_bound(id, host, *port, n, e);
    for (int i = 0; i < n; i++)
        as_handover_add(p->listeners, kind, fds[i]);
    return AS_EXIT_CODE_OK;
}

/* Listens on a port of the options, and sets the option to the port that was bound. */
static int listen_port(struct as_ports *p, enum as_option_id id, const char *host,
                       enum as_handover_kind kind)
{
    uint16_t port = (uint16_t)as_option_u64(p->opts, id);
    int rc = listen_tcp(p, id, host, &port, kind);

    /* the dispatcher, the banner and the runtime folder use the real one */
    if (rc == AS_EXIT_CODE_OK)
        as_option_set_i64(p->opts, id, port);
    return rc;
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
        return print_not_bound(AS_OPT_STATUS_PORT, host, first, n, e);
    for (int i = 0; i < n; i++)
        as_handover_add(p->listeners, AS_HANDOVER_STATUS, fds[i]);
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
                       AS_HANDOVER_STATUS);
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
    rc = listen_tcp(p, g->address, host, &port, g->kind);
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

int as_ports_listen(struct as_ports *p, struct as_option_set *opts, struct as_handover *listeners,
                    struct as_buf *err)
{
    const char *host = as_option_str(opts, AS_OPT_HOST);
    int rc;

    p->opts = opts;
    p->listeners = listeners;
    rc = listen_port(p, AS_OPT_PORT, host, AS_HANDOVER_GRPC);
    if (rc == AS_EXIT_CODE_OK && as_option_u64(opts, AS_OPT_GRPC_PORT))
        rc = listen_port(p, AS_OPT_GRPC_PORT, host, AS_HANDOVER_GRPC);
    if (rc == AS_EXIT_CODE_OK)
        rc = listen_status(p);
    return rc == AS_EXIT_CODE_OK ? listen_token_ports(p, err) : rc;
}

void as_ports_fini(struct as_ports *p)
{
    as_buf_fini(&p->management);
    as_buf_fini(&p->control);
}
