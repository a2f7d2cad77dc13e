#include "tool/server/which_server.h"

#include "conf/option/exit_code.h"
#include "io/process/resource_holder.h"
#include "io/process/server_processes.h"

void as_which_server_find(struct as_runtime_search *f, const struct as_option_set *opts)
{
    as_runtime_find(f, as_option_str(opts, AS_OPT_RUNTIME_DIR), opts->v[AS_OPT_PORT].given,
                    (uint16_t)as_option_u64(opts, AS_OPT_PORT));
}

uint16_t as_which_server_locate(const struct as_option_set *opts, char **ret_base)
{
    struct as_runtime_search f;

    as_which_server_find(&f, opts);
    *ret_base = as_str_dup(as_str_of(f.chosen.base));
    as_runtime_search_fini(&f);
    return f.chosen.port;
}

void as_which_server_put_stopped(const struct as_option_set *opts, struct as_buf *out)
{
    struct as_server_processes processes;
    char *base;
    uint16_t port = as_which_server_locate(opts, &base);

    as_server_processes_read(&processes, base, port);
    as_server_processes_put_stopped(&processes, out);
    free(base);
}

/* The options to type: --runtime-dir only where the port alone is ambiguous. */
static void put_choice(struct as_buf *b, const struct as_runtime_search *f,
                       const struct as_runtime_server *s)
{
    struct as_resource_holder h;
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->n; i++)
        n += f->servers[i].port == s->port;
    as_buf_printf(b, "\n  --port %u", s->port);
    if (n > 1)
        as_buf_printf(b, " --runtime-dir %s", s->base);
    if (as_resource_holder_of_folder(&h, s->base, s->port)) {
        as_buf_str(b, "   (");
        as_resource_holder_write(&h, b);
        as_buf_str(b, ")");
    }
}

static void print_choices(const struct as_option_set *opts, const struct as_runtime_search *f,
                          bool given)
{
    struct as_buf b = {0};

    for (uint32_t i = 0; i < f->n; i++) {
        if (as_runtime_matches(&f->servers[i], given, (uint16_t)as_option_u64(opts, AS_OPT_PORT)))
            put_choice(&b, f, &f->servers[i]);
    }
    fprintf(stderr, "anyserve: %u servers run here; choose one:%.*s\n", f->n_matching,
            AS_STR_FMT(as_buf_slice(&b)));
    as_buf_fini(&b);
}

/* The options name the server. */
static bool is_explicit(const struct as_option_set *opts)
{
    if (opts->scope & AS_SCOPE_IB) /* infer and bench call localhost, where a port has one server */
        return as_option_str(opts, AS_OPT_URL)[0] || opts->v[AS_OPT_PORT].given;
    return (opts->scope & AS_SCOPE_REMOTE) && as_option_str(opts, AS_OPT_CONTROL)[0];
}

int as_which_server_resolve(struct as_option_set *opts, bool is_quiet, char **ret_text)
{
    bool given = opts->v[AS_OPT_PORT].given;
    struct as_runtime_search f;
    int code = AS_EXIT_CODE_OK;

    *ret_text = NULL;
    if (is_explicit(opts))
        return AS_EXIT_CODE_OK;
    as_which_server_find(&f, opts);
    if (f.chosen_runs) {
        *ret_text = as_str_dup(as_str_of(f.chosen.base));
        as_option_set_str(opts, AS_OPT_RUNTIME_DIR, *ret_text);
        as_option_set_i64(opts, AS_OPT_PORT, f.chosen.port);
    } else if (f.n_matching > 1) {
        if (!is_quiet)
            print_choices(opts, &f, given);
        code = AS_EXIT_CODE_USAGE;
    }
    as_runtime_search_fini(&f);
    return code;
}
