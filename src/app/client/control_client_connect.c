#include "app/client/control_client_connect.h"

#include "app/client/print.h"
#include "conf/option/exit_code.h"
#include "io/loop/clock.h"
#include "io/process/server_processes.h"
#include "io/socket/connect.h"
#include "io/socket/listen.h"
#include "tool/server/which_server.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_WAIT (5 * AS_SEC)

/* --- which server --- */

int as_control_client_print_no_server(const struct as_option_set *opts)
{
    struct as_runtime_search f;
    struct as_buf text = {0};

    as_which_server_find(&f, opts);
    as_buf_printf(&text, "no server on port %u in %s.", f.chosen.port, f.chosen.base);
    if (!f.n)
        as_buf_str(&text, "\n  No server runs there; --runtime-dir selects another folder.");
    as_runtime_put_servers(&f, &text);
    as_runtime_search_fini(&f);
    return as_print_error(&text, AS_EXIT_CODE_FAILED);
}

/* --- the connection --- */

as_ns as_control_client_answer_timeout(const struct as_option_set *opts,
                                       const struct as_control_client_request *q)
{
    return q->wait ? q->wait : as_option_ns(opts, AS_OPT_ANSWER_TIMEOUT);
}

/* The time until `end`, at most `wait`; at least a moment, so that what is there at once is read.
 */
static as_ns time_left(as_ns end, as_ns wait)
{
    as_ns now = as_clock_now();

    return end == AS_NEVER ? wait : AS_MIN(wait, end > now + AS_MS ? end - now : AS_MS);
}

/* Appends which process does not answer. */
static void write_silent_process(const struct as_control_client_conn *c, struct as_buf *out)
{
    struct as_server_processes f = {.n = 0};
    char *base;
    uint16_t port;

    if (c->remote[0]) {
        as_buf_str(out, c->name);
        return;
    }
    port = as_which_server_locate(c->opts, &base);
    as_server_processes_read(&f, base, port);
    as_server_processes_put_name(&f, c->role, out);
    as_buf_printf(out, " of the server on port %u", port);
    free(base);
}

/* Appends which processes of a server on this machine are stopped, if any. */
static void write_stopped_processes(const struct as_control_client_conn *c, struct as_buf *out)
{
    if (!c->remote[0])
        as_which_server_put_stopped(c->opts, out);
}

int as_control_client_print_silent(const struct as_control_client_conn *c,
                                   const struct as_control_client_request *q)
{
    struct as_buf b = {0};

    if (q->is_quiet)
        return AS_EXIT_CODE_FAILED;
    write_silent_process(c, &b);
    as_buf_str(&b, " did not answer within --answer-timeout (");
    as_option_print(&b, AS_OPT_ANSWER_TIMEOUT, c->opts);
    as_buf_str(&b, ")");
    write_stopped_processes(c, &b);
    return as_print_error(&b, AS_EXIT_CODE_FAILED);
}

int as_control_client_print_timeout(const struct as_option_set *opts, const char *what)
{
    const struct as_control_client_conn c = {.opts = opts,
                                             .remote = as_option_str(opts, AS_OPT_CONTROL)};
    struct as_buf b = {0};

    as_buf_str(&b, what);
    write_stopped_processes(&c, &b);
    return as_print_error(&b, AS_EXIT_CODE_TIMEOUT);
}

/* connect() waits for room in the queue of a server that accepts no connections; the timeout bounds
 * that wait. */
static int connect_unix(int fd, const struct sockaddr_un *sa, as_ns wait)
{
    const struct timeval t = {.tv_sec = (time_t)(wait / AS_SEC),
                              .tv_usec = (suseconds_t)(wait % AS_SEC / AS_US)};

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
    return connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0 ? 0 : errno;
}

static int open_unix(struct as_control_client_conn *c, const struct as_control_client_request *q,
                     as_ns end)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char path[AS_RUNTIME_PATH_MAX], *base;
    uint16_t port = as_which_server_locate(c->opts, &base);
    int rc = as_runtime_path(path, base, port, q->socket), e = ENOENT;

    free(base);
    c->role = strcmp(q->socket, AS_RUNTIME_CONTROL) == 0 ? "controller" : "dispatcher";
    snprintf(c->name, sizeof(c->name), "%s of the server on port %u", q->socket, port);
    snprintf(c->host, sizeof(c->host), "localhost");
    c->fd = rc < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd >= 0) {
        /* as_runtime_path bounds it by the size of sun_path */
        memcpy(sa.sun_path, path, strlen(path));
        e = connect_unix(c->fd, &sa, time_left(end, as_control_client_answer_timeout(c->opts, q)));
        if (!e)
            return AS_EXIT_CODE_OK;
        close(c->fd);
        c->fd = -1;
    }
    if (e == EAGAIN)
        return as_control_client_print_silent(c, q);
    return q->is_quiet ? AS_EXIT_CODE_FAILED : as_control_client_print_no_server(c->opts);
}

static int read_token(struct as_control_client_conn *c, struct as_buf *why)
{
    const char *file = as_option_str(c->opts, AS_OPT_CONTROL_TOKEN_FILE);

    if (file[0])
        return as_token_read(file, c->token, why) < 0 ? as_print_error(why, AS_EXIT_CODE_CONFIG)
                                                      : AS_EXIT_CODE_OK;
    as_buf_str(why, "--control needs --control-token-file: a file with the server's token");
    return as_print_error(why, AS_EXIT_CODE_USAGE);
}

static int open_tcp(struct as_control_client_conn *c, const struct as_control_client_request *q,
                    as_ns end)
{
    char host[AS_LISTEN_HOST_MAX], reason[160];
    struct as_buf why = {0};
    uint16_t port;
    int code = AS_EXIT_CODE_USAGE;

    snprintf(c->name, sizeof(c->name), "the control API at %s", c->remote);
    snprintf(c->host, sizeof(c->host), "%s", c->remote);
    if (strcmp(q->socket, AS_RUNTIME_CONTROL) != 0) {
        as_buf_str(&why, "--control reaches only the control API of a server, not its status page");
        as_print_error(&why, code);
    } else if (as_listen_parse_address(c->remote, host, &port) < 0 || !port) {
        as_buf_printf(&why, "--control '%s' is not ADDRESS:PORT, like gpu1:9001 or [::1]:9001",
                      c->remote);
        as_print_error(&why, code);
    } else {
        code = read_token(c, &why);
    }
    if (code == AS_EXIT_CODE_OK && as_connect_tcp(host, port, time_left(end, CONNECT_WAIT), &c->fd,
                                                  reason, sizeof(reason)) < 0) {
        as_buf_printf(&why, "cannot connect to %s: %s", c->remote, reason);
        code = q->is_quiet ? AS_EXIT_CODE_FAILED : as_print_error(&why, AS_EXIT_CODE_FAILED);
    }
    as_buf_fini(&why);
    return code;
}

int as_control_client_connect(struct as_control_client_conn *c, const struct as_option_set *opts,
                              const struct as_control_client_request *q, as_ns end)
{
    end = AS_MIN(end, as_control_client_deadline(opts));
    *c = (struct as_control_client_conn){
        .opts = opts, .fd = -1, .remote = as_option_str(opts, AS_OPT_CONTROL)};
    return c->remote[0] ? open_tcp(c, q, end) : open_unix(c, q, end);
}

void as_control_client_disconnect(struct as_control_client_conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    explicit_bzero(c->token, sizeof(c->token));
}
