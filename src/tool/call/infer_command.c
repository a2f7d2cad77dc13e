#include "tool/call/infer_command.h"

#include "conf/option/exit_code.h"
#include "io/loop/clock.h"
#include "tool/call/query.h"
#include "tool/call/target.h"
#include "tool/fault.h"
#include "tool/tensor/print.h"

#include <unistd.h>

enum { UNAVAILABLE = 14 };

struct infer {
    const struct as_option_set *opts;
    struct as_query query;
    struct as_target target;
    struct as_unary unary;
    as_ns connect_time, call_time;
    struct as_arena arena;
    struct as_oip_response answer;
    struct as_blob *answer_blob; /* bytes of large tensors; may be NULL */
    as_ns sent_at;               /* when the request of a stream was sent */
    uint32_t n_responses;        /* of the stream, so far */
    struct as_buf printed;       /* text of one response */
    int stream_code;             /* exit code: a response of the stream was an error */
    struct as_buf why;           /* error text */
};

static double ms(as_ns t)
{
    return (double)t / (double)AS_MS;
}

/* --- the call --- */

static int local_code(int rc)
{
    return rc == AS_ENOTFOUND ? AS_EXIT_CODE_NOT_FOUND : AS_EXIT_CODE_USAGE;
}

static int connect_server(struct infer *f)
{
    as_ns start = as_clock_now();
    int fd = as_target_connect(&f->target, f->opts, &f->why);

    if (fd < 0)
        return AS_EXIT_CODE_STATUS + UNAVAILABLE;
    if (as_unary_open(&f->unary, fd, f->target.tls, f->query.protocol, f->target.authority)) {
        as_buf_str(&f->why, "cannot add the connection to the event loop");
        return AS_EXIT_CODE_FAILED;
    }
    if (as_unary_wait_handshake(&f->unary, as_option_ns(f->opts, AS_OPT_CONNECT_TIMEOUT))) {
        as_buf_str(&f->why, f->unary.connection->why);
        return AS_EXIT_CODE_STATUS + UNAVAILABLE;
    }
    f->connect_time = as_clock_now() - start;
    return AS_EXIT_CODE_OK;
}

static void on_response(void *ctx, struct as_model_call *c);

static int call_model(struct infer *f)
{
    struct as_model_call_request q;
    uint32_t status;

    as_query_request(&f->query, &q);
    if (f->query.stream) {
        q.on_response = on_response;
        q.ctx = f;
    }
    f->sent_at = as_clock_now();
    status = as_unary_call(&f->unary, &q);
    f->call_time = f->unary.elapsed;
    if (status) {
        as_buf_str(&f->why, as_model_call_text(&f->unary.call));
        return AS_EXIT_CODE_STATUS + (int)status;
    }
    if (f->query.stream)
        return f->stream_code;
    return as_query_parse_response(&f->unary.call, &f->arena, &f->answer, &f->answer_blob, &f->why)
               ? AS_EXIT_CODE_FAILED
               : AS_EXIT_CODE_OK;
}

static int run_infer(struct infer *f)
{
    struct as_query *r = &f->query;
    uint32_t status;
    int code, rc;

    if (as_query_init(r, f->opts, &f->why) || as_target_choose(&f->target, f->opts, &f->why))
        return AS_EXIT_CODE_USAGE;
    code = connect_server(f);
    if (code)
        return code;
    /* without any input: the metadata names those that are missing */
    if (as_query_needs_model(r) || r->n_inputs == 0) {
        status = as_query_fetch_model(r, &f->unary, &f->why);
        if (status)
            return AS_EXIT_CODE_STATUS + (int)status;
    }
    rc = as_query_encode(r, false, &f->why);
    return rc ? local_code(rc) : call_model(f);
}

/* --- printing --- */

static void show_name(const struct as_oip_response *a, struct as_buf *b)
{
    if (!a->model.n) /* an error in a stream has no model */
        return;
    as_buf_printf(b, "model %.*s%s%.*s", AS_STR_FMT(a->model), a->version.n ? ":" : "",
                  AS_STR_FMT(a->version));
    if (a->id.n)
        as_buf_printf(b, ", id %.*s", AS_STR_FMT(a->id));
}

static void show_content(const struct infer *f, struct as_buf *b)
{
    const struct as_oip_response *a = &f->answer;
    uint64_t most = as_option_u64(f->opts, AS_OPT_MAX_VALUES);

    if (a->n_params) {
        as_buf_str(b, "parameters: ");
        as_print_params(b, a->params, a->n_params);
        as_buf_str(b, "\n");
    }
    for (uint32_t i = 0; i < a->n_outputs; i++) {
        const struct as_tensor *t = &a->outputs[i];

        as_buf_printf(b, "\n%.*s  ", AS_STR_FMT(t->name));
        as_print_type(b, t->dtype, t->shape, t->ndim);
        as_buf_str(b, "\n");
        as_print_values(b, t, most);
        as_buf_str(b, "\n");
    }
}

static void show_times(const struct infer *f, struct as_buf *b)
{
    as_buf_printf(b, ", %.2f ms (connect %.2f", ms(f->call_time), ms(f->connect_time));
    if (f->query.has_model_info)
        as_buf_printf(b, ", metadata %.2f", ms(f->query.model_info_time));
    as_buf_str(b, ")\n");
}

static void show(const struct infer *f, struct as_buf *b)
{
    show_name(&f->answer, b);
    show_times(f, b);
    show_content(f, b);
}

/* The members of a response, without the closing brace. */
static void show_json_content(const struct infer *f, struct as_buf *b)
{
    const struct as_oip_response *a = &f->answer;

    as_buf_str(b, "{\"model_name\":");
    as_buf_json(b, a->model);
    as_buf_str(b, ",\"model_version\":");
    as_buf_json(b, a->version);
    as_buf_str(b, ",\"id\":");
    as_buf_json(b, a->id);
    as_buf_str(b, ",\"parameters\":{");
    as_print_json_params(b, a->params, a->n_params);
    as_buf_str(b, "},\"outputs\":[");
    for (uint32_t i = 0; i < a->n_outputs; i++) {
        as_buf_str(b, i ? "," : "");
        as_print_json_tensor(b, &a->outputs[i]);
    }
    as_buf_str(b, "]");
}

static void show_json(const struct infer *f, struct as_buf *b)
{
    show_json_content(f, b);
    as_buf_printf(b, ",\"timing_ms\":{\"connect\":%.3f,", ms(f->connect_time));
    if (f->query.has_model_info)
        as_buf_printf(b, "\"metadata\":%.3f,", ms(f->query.model_info_time));
    as_buf_printf(b, "\"call\":%.3f}}\n", ms(f->call_time));
}

/* --- streams: each response is printed as it comes --- */

static void show_response(const struct infer *f, as_ns after, struct as_str error, struct as_buf *b)
{
    if (as_option_bool(f->opts, AS_OPT_JSON)) {
        show_json_content(f, b);
        if (error.n) {
            as_buf_str(b, ",\"error\":");
            as_buf_json(b, error);
        }
        as_buf_printf(b, ",\"after_ms\":%.3f}\n", ms(after));
        return;
    }
    as_buf_printf(b, "%sresponse %u after %.2f ms%s", f->n_responses > 1 ? "\n" : "",
                  f->n_responses, ms(after), f->answer.model.n ? ", " : "");
    show_name(&f->answer, b);
    as_buf_str(b, "\n");
    if (error.n)
        as_buf_printf(b, "error: %.*s\n", AS_STR_FMT(error));
    show_content(f, b);
    as_print_sanitize(b);
}

/* After the last response. Not printed as JSON: scripts see the end of the output. */
static void show_end(const struct infer *f, struct as_buf *b)
{
    as_buf_printf(b, "%s%u response%s", f->n_responses ? "\n" : "", f->n_responses,
                  f->n_responses == 1 ? "" : "s");
    show_times(f, b);
}

static void on_response(void *ctx, struct as_model_call *c)
{
    struct infer *f = ctx;
    as_ns after = as_clock_now() - f->sent_at;
    struct as_str error;
    struct as_buf why = {0};
    int rc;

    f->n_responses++;
    as_arena_reset(&f->arena);
    as_blob_unref(f->answer_blob);
    rc = as_query_parse_stream_response(&f->query, c, &f->arena, &f->answer, &f->answer_blob,
                                        &error, &why);
    if ((rc || error.n) && !f->stream_code) {
        struct as_str text = rc ? as_buf_slice(&why) : error;

        as_buf_printf(&f->why, "response %u %s: %.*s", f->n_responses,
                      rc ? "cannot be parsed" : "is an error", AS_STR_FMT(text));
        f->stream_code = AS_EXIT_CODE_FAILED;
    }
    as_buf_fini(&why);
    if (rc)
        return;
    f->printed.n = 0;
    show_response(f, after, error, &f->printed);
    fwrite(f->printed.p, 1, f->printed.n, stdout);
    fflush(stdout);
}

int as_infer_command_main(struct as_option_set *opts)
{
    struct infer *f = as_xalloc(sizeof(*f));
    bool json = as_option_bool(opts, AS_OPT_JSON);
    struct as_buf b = {0};
    int code;

    f->opts = opts;
    as_arena_init(&f->arena, NULL, 0);
    code = run_infer(f);
    as_target_explain(opts, code, &f->why);
    if (code)
        as_fault_write(&b, "infer", code, as_buf_slice(&f->why), json);
    else if (f->query.stream && !json)
        show_end(f, &b);
    else if (!f->query.stream && json)
        show_json(f, &b);
    else if (!f->query.stream)
        show(f, &b);
    if (!json)
        as_print_sanitize(&b);
    if (b.n)
        fwrite(b.p, 1, b.n, code && !json ? stderr : stdout);
    if (fflush(stdout) != 0 && !code)
        code = AS_EXIT_CODE_FAILED;
    as_unary_close(&f->unary);
    as_query_fini(&f->query);
    as_target_fini(&f->target);
    as_arena_fini(&f->arena);
    as_blob_unref(f->answer_blob);
    as_buf_fini(&f->printed);
    as_buf_fini(&f->why);
    as_buf_fini(&b);
    free(f);
    return code;
}
