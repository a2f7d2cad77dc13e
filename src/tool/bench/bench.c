#include "tool/bench/bench.h"

#include "conf/exit_code.h"
#include "tool/bench/load_driver.h"
#include "tool/fault.h"
#include "tool/tensor/print.h"
#include "tool/call/query.h"
#include "tool/bench/bench_report.h"
#include "tool/call/target.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#define OPEN_LOOP_STREAMS 1000u /* streams of a connection, unless --streams is given */
#define RESERVED_FILES    64u
#define COMPARE_MAX       ((size_t)64 << 20)

enum { UNKNOWN = 2, UNAVAILABLE = 14 };

struct bench {
    const struct as_option_set *opts;
    struct as_query query;
    struct as_target target;
    struct as_bench_report_baseline baseline;
    bool has_baseline;
    uint32_t connections, streams;
    int *fds;
    struct as_load_driver_result result;
    struct as_buf why;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int n)
{
    (void)n;
    interrupted = 1;
}

/* --- before the load --- */

static int read_baseline(struct bench *t)
{
    const char *path = as_option_str(t->opts, AS_OPT_COMPARE);
    struct as_buf b, reason;
    int code = AS_EXIT_CODE_OK;
    size_t n;
    FILE *f;

    if (!path[0])
        return AS_EXIT_CODE_OK;
    f = fopen(path, "rb");
    if (!f) {
        as_buf_printf(&t->why, "cannot read %s: %s", path, strerror(errno));
        return AS_EXIT_CODE_NOT_FOUND;
    }
    as_buf_init(&b);
    as_buf_init(&reason);
    while (b.n < COMPARE_MAX && (n = fread(as_buf_reserve(&b, 65536), 1, 65536, f)) > 0)
        b.n += n;
    fclose(f);
    if (as_bench_report_parse(&b, &t->baseline, &reason)) {
        as_buf_printf(&t->why, "--compare: %s %.*s", path, AS_STR_FMT(as_buf_slice(&reason)));
        code = AS_EXIT_CODE_USAGE;
    }
    t->has_baseline = code == AS_EXIT_CODE_OK;
    as_buf_fini(&reason);
    as_buf_fini(&b);
    return code;
}

static int check_shape(struct bench *t)
{
    const struct as_option_set *o = t->opts;
    bool open = as_option_u64(o, AS_OPT_RATE) > 0;

    if (t->query.stream &&
        t->query.protocol == AS_MODEL_CALL_GRPC) /* requests gRPC statuses for errors */
        as_query_add_metadata(&t->query, "triton_grpc_error", "true");

    t->connections = (uint32_t)as_option_u64(o, AS_OPT_CONNECTIONS);
    t->streams = (uint32_t)as_option_u64(o, AS_OPT_STREAMS);
    if (t->query.protocol != AS_MODEL_CALL_GRPC) {
        if (t->streams > 1) {
            as_buf_str(&t->why, "--streams: HTTP/1.1 allows one call at a time on a connection; "
                                "use --connections for more");
            return AS_EXIT_CODE_USAGE;
        }
        t->streams = 1;
    }
    if (!t->streams)
        t->streams = open ? OPEN_LOOP_STREAMS : 1;
    if (!open && o->v[AS_OPT_ARRIVALS].given) {
        as_buf_str(&t->why, "--arrivals needs --rate");
        return AS_EXIT_CODE_USAGE;
    }
    if (as_option_u64(o, AS_OPT_REQUESTS) && o->v[AS_OPT_DURATION].given) {
        as_buf_str(&t->why, "--requests and --duration cannot be used together");
        return AS_EXIT_CODE_USAGE;
    }
    return read_baseline(t);
}

/* A response of a stream: keeps the text of the first error. */
static void on_response(void *ctx, struct as_model_call *c)
{
    struct bench *t = ctx;
    struct as_str text;
    struct as_arena a;

    as_arena_init(&a, NULL, 0);
    if (!t->why.n && as_model_call_is_error(c, &a, &text))
        as_buf_add(&t->why, text.p, text.n);
    as_arena_fini(&a);
}

static uint32_t call_once(struct bench *t, struct as_unary *u)
{
    struct as_model_call_request q;
    uint32_t status;

    as_query_request(&t->query, &q);
    if (t->query.stream) {
        q.on_response = on_response;
        q.ctx = t;
    }
    status = as_unary_call(u, &q);
    if (status) {
        t->why.n = 0;
        as_buf_str(&t->why, as_model_call_text(&u->call));
    }
    return status ? status : t->why.n ? UNKNOWN : 0;
}

/* Makes one call like those of the load, so that an error of the caller is reported once. */
static int try_once(struct bench *t)
{
    int fd = as_target_connect(&t->target, t->opts, &t->why), rc;
    struct as_unary u;
    uint32_t status;

    if (fd < 0)
        return AS_EXIT_CODE_STATUS + UNAVAILABLE;
    if (as_unary_open(&u, fd, t->query.protocol, t->target.authority)) {
        as_buf_str(&t->why, "cannot add the connection to the event loop");
        return AS_EXIT_CODE_FAILED;
    }
    status = as_query_fetch_model(&t->query, &u, &t->why);
    rc = status ? 0 : as_query_encode(&t->query, true, &t->why);
    if (!status && !rc) {
        status = call_once(t, &u);
    }
    as_unary_close(&u);
    if (rc)
        return rc == AS_ENOTFOUND ? AS_EXIT_CODE_NOT_FOUND : AS_EXIT_CODE_USAGE;
    return status ? AS_EXIT_CODE_STATUS + (int)status : AS_EXIT_CODE_OK;
}

static int connect_all(struct bench *t)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < t->connections + RESERVED_FILES) {
        files.rlim_cur = AS_MIN(files.rlim_max, (rlim_t)(t->connections + RESERVED_FILES));
        setrlimit(RLIMIT_NOFILE, &files);
    }
    t->fds = as_xalloc(t->connections * sizeof(*t->fds));
    for (uint32_t i = 0; i < t->connections; i++) {
        t->fds[i] = as_target_connect(&t->target, t->opts, &t->why);
        if (t->fds[i] >= 0)
            continue;
        as_buf_printf(&t->why, "\n  It was connection %u of %u.", i + 1, t->connections);
        while (i-- > 0)
            close(t->fds[i]);
        return AS_EXIT_CODE_STATUS + UNAVAILABLE;
    }
    return AS_EXIT_CODE_OK;
}

/* --- the load --- */

static void show_progress(void *ctx, const struct as_tally *t, double seconds)
{
    struct bench *b = ctx;

    fprintf(stderr, "\r\x1b[K");
    if (seconds <= 0)
        fprintf(stderr, "warming up");
    else
        fprintf(stderr, "%.0f s  %.0f answers/s  p50 %.3f  p99 %.3f ms  %llu failed", seconds,
                (double)t->in_window / seconds,
                (double)as_loghist_quantile(&t->latency.h, .5) / 1e6,
                (double)as_loghist_quantile(&t->latency.h, .99) / 1e6,
                (unsigned long long)as_tally_failed(t));
    if (seconds > 0 && b->query.stream)
        fprintf(stderr, "  %.0f responses/s", (double)t->responses_in_window / seconds);
    fflush(stderr);
}

static int run_load(struct bench *t)
{
    const struct as_option_set *o = t->opts;
    bool show = isatty(STDERR_FILENO);
    struct sigaction old_int, old_term, act = {.sa_handler = on_signal};
    struct as_load_driver_conf conf = {.fds = t->fds,
                                       .connections = t->connections,
                                       .streams = t->streams,
                                       .rate = as_option_u64(o, AS_OPT_RATE),
                                       .poisson = as_option_u64(o, AS_OPT_ARRIVALS) == 1,
                                       .seed = as_option_u64(o, AS_OPT_SEED),
                                       .warmup = as_option_ns(o, AS_OPT_WARMUP),
                                       .duration = as_option_ns(o, AS_OPT_DURATION),
                                       .requests = as_option_u64(o, AS_OPT_REQUESTS),
                                       .protocol = t->query.protocol,
                                       .stream = t->query.stream,
                                       .authority = t->target.authority,
                                       .interrupted = &interrupted,
                                       .progress = show ? show_progress : NULL,
                                       .ctx = t};
    int rc;

    as_query_request(&t->query, &conf.request);
    interrupted = 0;
    sigaction(SIGINT, &act, &old_int);
    sigaction(SIGTERM, &act, &old_term);
    rc = as_load_driver_run(&conf, &t->result);
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    if (show)
        fprintf(stderr, "\r\x1b[K");
    if (rc == AS_EUNAVAILABLE) {
        as_buf_printf(&t->why, "every connection was lost: %s", t->result.why);
        return AS_EXIT_CODE_STATUS + UNAVAILABLE;
    }
    if (rc)
        as_buf_str(&t->why, as_err_text(rc));
    return rc ? AS_EXIT_CODE_FAILED : AS_EXIT_CODE_OK;
}

/* --- the result --- */

static int print_report(struct bench *t)
{
    const struct as_option_set *o = t->opts;
    const struct as_tally *tally = &t->result.tally;
    const struct as_bench_report_baseline *baseline = t->has_baseline ? &t->baseline : NULL;
    struct as_bench_report r = {.model = t->query.model,
                                .address = t->target.authority,
                                .connections = t->connections,
                                .streams = t->streams,
                                .rate = as_option_u64(o, AS_OPT_RATE),
                                .poisson = as_option_u64(o, AS_OPT_ARRIVALS) == 1,
                                .stream = t->query.stream,
                                .request_bytes = t->query.message.n,
                                .seconds = (double)t->result.measured / (double)AS_SEC,
                                .warmup = (double)as_option_ns(o, AS_OPT_WARMUP) / (double)AS_SEC,
                                .protocol = as_option_str(o, AS_OPT_PROTOCOL),
                                .lost = t->result.lost,
                                .reopened = t->result.reopened,
                                .why_reopened = t->result.why_reopened,
                                .why_lost = t->result.why,
                                .interrupted = t->result.interrupted,
                                .tally = tally};
    struct as_buf b;
    bool good = tally->status[0] == as_tally_due(tally) && !t->result.lost;

    as_buf_init(&b);
    if (as_option_bool(o, AS_OPT_JSON)) {
        as_bench_report_json(&b, &r, baseline);
    } else {
        as_bench_report_text(&b, &r, baseline, as_option_bool(o, AS_OPT_HISTOGRAM));
        as_print_sanitize(&b);
    }
    fwrite(b.p, 1, b.n, stdout);
    as_buf_fini(&b);
    return fflush(stdout) == 0 && good ? AS_EXIT_CODE_OK : AS_EXIT_CODE_FAILED;
}

static int run_bench(struct bench *t)
{
    int code;

    if (as_query_init(&t->query, t->opts, &t->why) ||
        as_target_choose(&t->target, t->opts, &t->why))
        return AS_EXIT_CODE_USAGE;
    code = check_shape(t);
    if (code)
        return code;
    code = try_once(t);
    if (!code)
        code = connect_all(t);
    if (!code)
        code = run_load(t);
    return code;
}

int as_bench_main(struct as_option_set *opts)
{
    struct bench *t = as_xalloc(sizeof(*t));
    bool json = as_option_bool(opts, AS_OPT_JSON);
    struct as_buf b;
    int code;

    t->opts = opts;
    code = run_bench(t);
    as_target_explain(opts, code, &t->why);
    if (code) {
        as_buf_init(&b);
        as_fault_write(&b, "bench", code, as_buf_slice(&t->why), json);
        if (!json)
            as_print_sanitize(&b);
        fwrite(b.p, 1, b.n, json ? stdout : stderr);
        as_buf_fini(&b);
    } else {
        code = print_report(t);
    }
    as_query_fini(&t->query);
    free(t->fds);
    as_buf_fini(&t->why);
    free(t);
    return code;
}
