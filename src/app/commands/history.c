#include "app/commands/history.h"

#include "app/client/control_client.h"
#include "conf/exit_code.h"
#include "io/process/runtime.h"
#include "tool/server/record.h"

#include <time.h>

#define STATE_WIDTH   20 /* "current, rolled back" */
#define CHANGES_WIDTH 40
/* Bytes of the server's texts that are shown. */
#define CAUSE_MAX      200u
#define WHY_MAX        300u
#define KEYS_MAX       200u
#define NAME_MAX_SHOWN 128u /* no name is longer */

struct entry { /* a generation; the strings point into the record */
    int64_t generation, time_ms;
    bool current;
    struct as_str cause, state;
    struct as_buf changes; /* "shop/ranker: version,env; …" */
    struct as_buf reasons; /* a line for each change that has one */
};

static void put_name(struct as_buf *out, const char *before, struct as_str application,
                     struct as_str deployment)
{
    as_buf_str(out, before);
    as_record_line(out, application, NAME_MAX_SHOWN);
    as_buf_str(out, "/");
    as_record_line(out, deployment, NAME_MAX_SHOWN);
    as_buf_str(out, ": ");
}

static int read_change(struct as_record *r, struct as_json_value *v, struct entry *e)
{
    struct as_str application = {0}, deployment = {0}, step = {0}, keys = {0}, message = {0};
    const struct as_record_field fields[] = {{"application", AS_RECORD_STR, &application},
                                             {"deployment", AS_RECORD_STR, &deployment},
                                             {"step", AS_RECORD_STR, &step},
                                             {"keys", AS_RECORD_STR, &keys},
                                             {"message", AS_RECORD_STR, &message}};
    int err = as_record_read(r, v, fields, AS_COUNT(fields));
    bool is_scaled = as_str_eq(step, AS_STR("scaled")),
         is_reset = is_scaled && as_str_eq(keys, AS_STR("reset"));

    if (err)
        return err;
    put_name(&e->changes, e->changes.n ? "; " : "", application, deployment);
    as_buf_str(&e->changes, is_reset ? "scaled to num_replicas" : is_scaled ? "scaled to " : "");
    if (!is_reset)
        as_record_line(&e->changes, keys.n ? keys : step, KEYS_MAX);
    if (!message.n)
        return 0;
    put_name(&e->reasons, "            ", application, deployment);
    as_record_line(&e->reasons, message, WHY_MAX);
    as_buf_str(&e->reasons, "\n");
    return 0;
}

static int read_changes(struct as_record *r, struct as_json_value *v, struct entry *e)
{
    struct as_json_items it;
    int err = as_json_items(r->json, v, &it), more = 0;

    while (!err && (more = as_json_next(r->json, &it)) > 0)
        err = read_change(r, &it.value, e);
    return err ? err : more;
}

static void print_entry(const struct entry *e, struct as_buf *out)
{
    time_t at = (time_t)(e->time_ms / 1000);
    struct tm tm;
    char when[32], state[64];

    localtime_r(&at, &tm);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(state, sizeof(state), "%s%.*s",
             !e->current  ? ""
             : e->state.n ? "current, "
                          : "current",
             AS_STR_FMT(e->state));
    as_buf_printf(out, "%-10lld  %s  %-*s  %-*.*s  ", (long long)e->generation, when, STATE_WIDTH,
                  state[0] ? state : "-", CHANGES_WIDTH, AS_STR_FMT(as_buf_slice(&e->changes)));
    as_record_line(out, e->cause, CAUSE_MAX);
    as_buf_str(out, "\n");
    as_buf_add(out, e->reasons.p, e->reasons.n);
}

static int read_field(struct as_record *r, struct as_json_items *it, struct entry *e)
{
    if (as_str_eq(it->key, AS_STR("changes")))
        return read_changes(r, &it->value, e);
    if (as_str_eq(it->key, AS_STR("generation")))
        return as_json_i64(r->json, &it->value, &e->generation);
    if (as_str_eq(it->key, AS_STR("time_ms")))
        return as_json_i64(r->json, &it->value, &e->time_ms);
    if (as_str_eq(it->key, AS_STR("current")))
        return as_json_bool(r->json, &it->value, &e->current);
    if (as_str_eq(it->key, AS_STR("cause")))
        return as_json_string(r->json, &it->value, &e->cause);
    if (as_str_eq(it->key, AS_STR("state")) && it->value.type != AS_JSON_NULL)
        return as_json_string(r->json, &it->value, &e->state);
    return 0;
}

static int read_entry(struct as_record *r, struct as_json_value *v, struct as_buf *out)
{
    struct entry e = {0};
    struct as_json_items it;
    int err = as_json_items(r->json, v, &it), more = 0;

    as_buf_init(&e.changes);
    as_buf_init(&e.reasons);
    while (!err && (more = as_json_next(r->json, &it)) > 0)
        err = read_field(r, &it, &e);
    if (!err && !more)
        print_entry(&e, out);
    as_buf_fini(&e.changes);
    as_buf_fini(&e.reasons);
    return err ? err : more;
}

static int read_entries(struct as_record *r, struct as_json_value *v, struct as_buf *out)
{
    struct as_json_items it;
    int err = as_json_items(r->json, v, &it), more = 0;

    while (!err && (more = as_json_next(r->json, &it)) > 0)
        err = read_entry(r, &it.value, out);
    return err ? err : more;
}

/* Appends a table of the generations. AS_E…: the answer is not a list of generations. */
static int write_table(struct as_str answer, struct as_buf *out)
{
    struct as_json_value root;
    struct as_json_items it;
    struct as_record r;
    int err = as_record_open(&r, answer, &root), more = 0;

    as_buf_printf(out, "%-10s  %-19s  %-*s  %-*s  COMMAND\n", "GENERATION", "WHEN", STATE_WIDTH,
                  "STATE", CHANGES_WIDTH, "CHANGES");
    if (!err)
        err = as_json_items(r.json, &root, &it);
    while (!err && (more = as_json_next(r.json, &it)) > 0) {
        if (as_str_eq(it.key, AS_STR("generations")))
            err = read_entries(&r, &it.value, out);
    }
    as_record_close(&r);
    return err ? err : more;
}

int as_history_main(struct as_option_set *opts)
{
    struct as_control_client_request q = {
        .socket = AS_RUNTIME_CONTROL, .method = "GET", .target = "/api/serve/history"};
    struct as_control_client_answer a = {0};
    struct as_buf out = {0};
    int code;

    if (as_option_bool(opts, AS_OPT_JSON))
        return as_control_client_call_print(opts, &q);
    code = as_control_client_call(opts, &q, &a);
    if (code == AS_EXIT_CODE_OK && a.status != 200) {
        code = as_control_client_print_refused(&a);
    } else if (code == AS_EXIT_CODE_OK && write_table(a.body, &out) < 0) {
        fprintf(stderr, "anyserve: the server's answer cannot be read\n");
        code = AS_EXIT_CODE_FAILED;
    } else if (code == AS_EXIT_CODE_OK) {
        fwrite(out.p, 1, out.n, stdout);
        code = fflush(stdout) ? AS_EXIT_CODE_FAILED : AS_EXIT_CODE_OK;
    }
    as_control_client_answer_fini(&a);
    as_buf_fini(&out);
    return code;
}
