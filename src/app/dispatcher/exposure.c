#include "app/dispatcher/exposure.h"

#include "io/socket/peer.h"

#include <sys/socket.h>

static bool is_beyond_loopback(int fd)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof(own);

    return getsockname(fd, (struct sockaddr *)&own, &n) == 0 && own.ss_family != AF_UNIX &&
           !as_peer_is_loopback((struct sockaddr *)&own);
}

static bool any_beyond_loopback(const int *fds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (is_beyond_loopback(fds[i]))
            return true;
    }
    return false;
}

struct as_status_page_exposure as_exposure_of(const struct as_dispatcher_fds *fds,
                                              const struct as_option_set *o)
{
    bool clear = any_beyond_loopback(fds->grpc, fds->n_grpc);
    bool tls = any_beyond_loopback(fds->grpc_tls, fds->n_grpc_tls);
    bool keys = as_option_str(o, AS_OPT_API_KEYS)[0],
         certificates = as_option_str(o, AS_OPT_TLS_CLIENT_CA)[0];

    bool status = any_beyond_loopback(fds->status, fds->n_status);
    bool status_tls = any_beyond_loopback(fds->status_tls, fds->n_status_tls);

    return (struct as_status_page_exposure){
        .beyond_loopback = clear || tls,
        .clear_text = clear,
        .anybody = !keys && (clear || (tls && !certificates)),
        .status_anybody =
            !as_option_bool(o, AS_OPT_STATUS_KEYS) && (status || (status_tls && !certificates)),
    };
}

void as_exposure_log(const struct as_status_page_exposure *e, const struct as_log *log)
{
    struct as_buf why = {0};

    as_status_page_describe_exposure(e, &why);
    if (why.n)
        as_log_event(log, AS_LOG_WARN, "open_to_others", "reason=\"%.*s\"",
                     AS_STR_FMT(as_buf_slice(&why)));
    as_buf_fini(&why);
}
