#include "app/commands/history.h"

#include "app/client/control_client.h"
#include "app/client/print.h"
#include "conf/option/exit_code.h"
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

static int read_change(struct as_json *j, struct as_json_items *it, void *ctx)
{
    struct entry *e = ctx;
    struct as_str application = {0}, deployment = {0}, step = {0}, keys = {0}, message = {0};
    const struct as_json_row fields[] = {{"application", AS_JSON_FIELD_STR, &application},
                                         {"deployment", AS_JSON_FIELD_STR, &deployment},
                                         {"step", AS_JSON_FIELD_STR, &step},
                                         {"keys", AS_JSON_FIELD_STR, &keys},
                                         {"message", AS_JSON_FIELD_STR, &message}};
    int err = as_json_read(j, &it->value, fields, AS_COUNT(fields));
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

static int read_entry(struct as_json *j, struct as_json_items *it, void *out)
{
    struct entry e = {0};
    struct as_json_list changes = {.each = read_change, .ctx = &e};
    const struct as_json_row fields[] = {{"changes", AS_JSON_FIELD_LIST, &changes},
                                         {"generation", AS_JSON_FIELD_I64, &e.generation},
                                         {"time_ms", AS_JSON_FIELD_I64, &e.time_ms},
                                         {"current", AS_JSON_FIELD_BOOL, &e.current},
                                         {"cause", AS_JSON_FIELD_STR, &e.cause},
                                         {"state", AS_JSON_FIELD_STR, &e.state}};
    int err = as_json_read(j, &it->value, fields, AS_COUNT(fields));

    if (!err)
        print_entry(&e, out);
    as_buf_fini(&e.changes);
    as_buf_fini(&e.reasons);
    return err;
}

/* Appends a table of the generations. AS_E…: the answer is not a list of generations. */
static int write_table(struct as_str answer, struct as_buf *out)
{
    struct as_json_list list = {.each = read_entry, .ctx = out};
    const struct as_json_row fields[] = {{"generations", AS_JSON_FIELD_LIST, &list}};
    struct as_json_text r;
    int err;

    as_buf_printf(out, "%-10s  %-19s  %-*s  %-*s  COMMAND\n", "GENERATION", "WHEN", STATE_WIDTH,
                  "STATE", CHANGES_WIDTH, "CHANGES");
    err = as_record_parse(&r, answer, fields, AS_COUNT(fields));
    as_json_text_close(&r);
    return err;
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
        code = as_print_result(&out);
    }
    as_control_client_answer_fini(&a);
    as_buf_fini(&out);
    return code;
}
