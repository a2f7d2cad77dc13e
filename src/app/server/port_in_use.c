#include "app/server/port_in_use.h"

#include "io/process/resource_holder.h"
#include "io/process/server_processes.h"

#include <string.h>
#include <unistd.h>

static void put_holder(struct as_buf *out, const struct as_resource_holder *h)
{
    as_buf_str(out, " (");
    as_resource_holder_write(h, out);
    as_buf_str(out, ")");
}

static void put_who(struct as_buf *out, const struct as_resource_holder *h)
{
    if (!h) {
        as_buf_str(out, "another program");
        return;
    }
    if (h->is_server)
        as_buf_printf(out, "the server on port %u", h->port);
    else
        as_buf_printf(out, "another program: %s", h->program);
    put_holder(out, h);
}

void as_port_in_use_write_holder(struct as_buf *out, uint16_t port)
{
    struct as_resource_holder h;

    put_who(out, as_resource_holder_of_port(&h, port) ? &h : NULL);
}

/* Each text names the option to change. */
void as_port_in_use_print(enum as_option_id id, const char *place, const char *host, uint16_t port)
{
    bool takes_address = id == AS_OPT_MANAGEMENT || id == AS_OPT_CONTROL || id == AS_OPT_LISTEN;
    const char *zero = id == AS_OPT_PORT          ? "   (0: any free port)"
                       : id == AS_OPT_STATUS_PORT ? "   (off: no status port)"
                                                  : "";
    struct as_resource_holder h;
    bool known = as_resource_holder_of_port(&h, port);
    struct as_buf b = {0};

    if (known && h.is_server && id == AS_OPT_PORT && h.port == port) {
        as_buf_printf(&b, "anyserve: a server runs on port %u already", port);
        put_holder(&b, &h);
    } else {
        as_buf_str(&b, "anyserve: ");
        if (id == AS_OPT_LISTEN)
            as_buf_printf(&b, "--listen %s: ", place);
        as_buf_printf(&b, "port %u on %s is taken by ", port, host);
        put_who(&b, known ? &h : NULL);
    }
    as_buf_printf(&b, ".\n  Choose another one:     --%s %sN%s\n", as_option_key(id),
                  takes_address ? "ADDRESS:" : "", zero);
    if (known && h.is_server)
        as_buf_printf(
            &b,
            "  Look at it, or end it:  anyserve status --port %u, anyserve shutdown --port "
            "%u\n",
            h.port, h.port);
    else
        as_buf_printf(&b, "  See who has it:         ss -ltnp 'sport = :%u'\n", port);
    fprintf(stderr, "%.*s", AS_STR_FMT(as_buf_slice(&b)));
    as_buf_fini(&b);
}

bool as_port_in_use_is_ending(uint16_t port, const char *runtime_dir, uint16_t server_port)
{
    char lock[AS_RUNTIME_PATH_MAX];
    struct as_resource_holder h;

    /* a server that ends in order removes the file */
    if (as_runtime_path(lock, runtime_dir, server_port, AS_RUNTIME_LOCK) != 0 ||
        access(lock, F_OK) != 0 || as_runtime_is_running(runtime_dir, server_port))
        return false;
    /* the descriptors of a process that is being ended cannot be read: it is not found */
    return !as_resource_holder_of_port(&h, port) ||
           strcmp(h.program, AS_SERVER_PROCESSES_DISPATCHER) == 0;
}
