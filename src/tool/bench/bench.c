#include "tool/bench/bench.h"

#include "conf/option/exit_code.h"
#include "tool/bench/bench_report.h"
#include "tool/bench/load_driver.h"
#include "tool/call/query.h"
#include "tool/call/target.h"
#include "tool/fault.h"
#include "tool/tensor/print.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#define OPEN_LOOP_STREAMS 1000u /* streams of a connection, unless --streams is given */
#define RESERVED_FILES    64u
#define COMPARE_MAX       ((size_t)64 << 20)

enum { UNKNOWN = 2, UNIMPLEMENTED = 12, UNAVAILABLE = 14 };

struct bench {
    const struct as_option_set *opts;
    struct as_query query;
    struct as_target target;
    struct as_bench_report_baseline baseline;
    bool has_baseline;
    uint32_t connections, streams;
    int *fds;
    struct as_load_driver_result result;
    struct as_buf answer; /* of the first call */
    struct as_buf why;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int n AS_UNUSED)
{
    interrupted = 1;
}

/* --- before the load --- */

static int read_baseline(struct bench *bench)
{
    const char *path = as_option_str(bench->opts, AS_OPT_COMPARE);
    struct as_buf b, reason;
    int code = AS_EXIT_CODE_OK;
    size_t n;
    FILE *f;

    if (!path[0])
        return AS_EXIT_CODE_OK;
    f = fopen(path, "rb");
    if (!f) {
        as_buf_printf(&bench->why, "cannot read %s: %s", path, strerror(errno));
        return AS_EXIT_CODE_NOT_FOUND;
    }
    as_buf_init(&b);
    as_buf_init(&reason);
    while (b.n < COMPARE_MAX && (n = fread(as_buf_reserve(&b, 65536), 1, 65536, f)) > 0)
        b.n += n;
    fclose(f);
    if (as_bench_report_parse(&b, &bench->baseline, &reason)) {
        as_buf_printf(&bench->why, "--compare: %s %.*s", path, AS_STR_FMT(as_buf_slice(&reason)));
        code = AS_EXIT_CODE_USAGE;
    }
    bench->has_baseline = code == AS_EXIT_CODE_OK;
    as_buf_fini(&reason);
    as_buf_fini(&b);
    return code;
}

static int check_options(struct bench *bench)
{
    const struct as_option_set *o = bench->opts;
    bool open = as_option_u64(o, AS_OPT_RATE) > 0;

    if (bench->query.stream &&
        bench->query.protocol == AS_MODEL_CALL_GRPC) /* requests gRPC statuses for errors */
        as_query_add_metadata(&bench->query, "triton_grpc_error", "true");

    bench->connections = (uint32_t)as_option_u64(o, AS_OPT_CONNECTIONS);
    bench->streams = (uint32_t)as_option_u64(o, AS_OPT_STREAMS);
    if (bench->query.protocol != AS_MODEL_CALL_GRPC) {
        if (bench->streams > 1) {
            as_buf_str(&bench->why,
                       "--streams: HTTP/1.1 allows one call at a time on a connection; "
                       "use --connections for more");
            return AS_EXIT_CODE_USAGE;
        }
        bench->streams = 1;
    }
    if (!bench->streams)
        bench->streams = open ? OPEN_LOOP_STREAMS : 1;
    if (!open && o->v[AS_OPT_ARRIVALS].given) {
        as_buf_str(&bench->why, "--arrivals needs --rate");
        return AS_EXIT_CODE_USAGE;
    }
    if (!open && as_option_bool(o, AS_OPT_POLL)) {
        as_buf_str(&bench->why, "--poll needs --rate");
        return AS_EXIT_CODE_USAGE;
    }
    if (bench->query.stream && as_option_bool(o, AS_OPT_SAME_ANSWERS)) {
        as_buf_str(&bench->why, "--same-answers and --stream cannot be used together");
        return AS_EXIT_CODE_USAGE;
    }
    if (as_option_u64(o, AS_OPT_REQUESTS) && o->v[AS_OPT_DURATION].given) {
        as_buf_str(&bench->why, "--requests and --duration cannot be used together");
        return AS_EXIT_CODE_USAGE;
    }
    return read_baseline(bench);
}

/* A response of a stream: keeps the text of the first error. */
static void on_response(void *ctx, struct as_model_call *c)
{
    struct bench *bench = ctx;
    struct as_str text;
    struct as_arena a;

    as_arena_init(&a, NULL, 0);
    if (!bench->why.n && as_model_call_is_error(c, &a, &text))
        as_buf_add(&bench->why, text.p, text.n);
    as_arena_fini(&a);
}

static uint32_t call_once(struct bench *bench, struct as_unary *u)
{
    struct as_model_call_request q;
    uint32_t status;

    as_query_request(&bench->query, &q);
    if (bench->query.stream) {
        q.on_response = on_response;
        q.ctx = bench;
    }
    status = as_unary_call(u, &q);
    if (status) {
        bench->why.n = 0;
        as_buf_str(&bench->why, as_model_call_text(&u->call));
    }
    return status ? status : bench->why.n ? UNKNOWN : 0;
}

/* A server without metadata will do if the command line describes the whole request. */
static uint32_t fetch_model(struct bench *bench, struct as_unary *u)
{
    uint32_t status = as_query_fetch_model(&bench->query, u, &bench->why);

    if (status != UNIMPLEMENTED || !bench->query.n_inputs || as_query_needs_model(&bench->query))
        return status;
    bench->why.n = 0;
    return 0;
}

/* Makes one call like those of the load, so that an error of the caller is reported once. */
static int make_first_call(struct bench *bench)
{
    int fd = as_target_connect(&bench->target, bench->opts, &bench->why), rc;
    struct as_unary u;
    uint32_t status;

    if (fd < 0)
        return AS_EXIT_CODE_STATUS + UNAVAILABLE;
    if (as_unary_open(&u, fd, bench->target.tls, bench->query.protocol, bench->target.authority)) {
        as_buf_str(&bench->why, "cannot add the connection to the event loop");
        return AS_EXIT_CODE_FAILED;
    }
    if (as_unary_wait_handshake(&u, as_option_ns(bench->opts, AS_OPT_CONNECT_TIMEOUT))) {
        as_buf_str(&bench->why, u.connection->why);
        as_unary_close(&u);
        return AS_EXIT_CODE_STATUS + UNAVAILABLE;
    }
    status = fetch_model(bench, &u);
    rc = status ? 0 : as_query_encode(&bench->query, true, &bench->why);
    if (!status && !rc)
        status = call_once(bench, &u);
    if (!status && !rc)
        as_buf_add(&bench->answer, as_model_call_message(&u.call)->p,
                   as_model_call_message(&u.call)->n);
    as_unary_close(&u);
    if (rc)
        return rc == AS_ENOTFOUND ? AS_EXIT_CODE_NOT_FOUND : AS_EXIT_CODE_USAGE;
    return status ? AS_EXIT_CODE_STATUS + (int)status : AS_EXIT_CODE_OK;
}

static int connect_all(struct bench *bench)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur < bench->connections + RESERVED_FILES) {
        files.rlim_cur = AS_MIN(files.rlim_max, (rlim_t)(bench->connections + RESERVED_FILES));
        setrlimit(RLIMIT_NOFILE, &files);
    }
    bench->fds = as_xalloc(bench->connections * sizeof(*bench->fds));
    for (uint32_t i = 0; i < bench->connections; i++) {
        if (i && bench->target.tls) { /* the load driver connects when it can begin a handshake */
            bench->fds[i] = -1;
            continue;
        }
        bench->fds[i] = as_target_connect(&bench->target, bench->opts, &bench->why);
        if (bench->fds[i] >= 0)
            continue;
        as_buf_printf(&bench->why, "\n  It was connection %u of %u.", i + 1, bench->connections);
        while (i-- > 0)
            close(bench->fds[i]);
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

static int run_load(struct bench *bench)
{
    const struct as_option_set *o = bench->opts;
    bool show = isatty(STDERR_FILENO);
    struct sigaction old_int, old_term, act = {.sa_handler = on_signal};
    struct as_load_driver_conf conf = {.fds = bench->fds,
                                       .connections = bench->connections,
                                       .streams = bench->streams,
                                       .rate = as_option_u64(o, AS_OPT_RATE),
                                       .poisson = as_option_u64(o, AS_OPT_ARRIVALS) == 1,
                                       .poll = as_option_bool(o, AS_OPT_POLL),
                                       .seed = as_option_u64(o, AS_OPT_SEED),
                                       .warmup = as_option_ns(o, AS_OPT_WARMUP),
                                       .duration = as_option_ns(o, AS_OPT_DURATION),
                                       .requests = as_option_u64(o, AS_OPT_REQUESTS),
                                       .protocol = bench->query.protocol,
                                       .tls = bench->target.tls,
                                       .connect_timeout = as_option_ns(o, AS_OPT_CONNECT_TIMEOUT),
                                       .stream = bench->query.stream,
                                       .authority = bench->target.authority,
                                       .interrupted = &interrupted,
                                       .progress = show ? show_progress : NULL,
                                       .ctx = bench};
    const struct as_str answer = as_buf_slice(&bench->answer);
    int rc;

    if (as_option_bool(o, AS_OPT_SAME_ANSWERS))
        conf.answer = &answer;
    as_query_request(&bench->query, &conf.request);
    interrupted = 0;
    sigaction(SIGINT, &act, &old_int);
    sigaction(SIGTERM, &act, &old_term);
    rc = as_load_driver_run(&conf, &bench->result);
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    if (show)
        fprintf(stderr, "\r\x1b[K");
    if (rc == AS_EUNAVAILABLE) {
        as_buf_printf(&bench->why, "every connection was lost: %s", bench->result.why);
        return AS_EXIT_CODE_STATUS + UNAVAILABLE;
    }
    if (rc)
        as_buf_str(&bench->why, as_err_text(rc));
    return rc ? AS_EXIT_CODE_FAILED : AS_EXIT_CODE_OK;
}

/* --- the result --- */

static int print_report(struct bench *bench)
{
    const struct as_option_set *o = bench->opts;
    const struct as_tally *tally = &bench->result.tally;
    const struct as_bench_report_baseline *baseline = bench->has_baseline ? &bench->baseline : NULL;
    struct as_bench_report r = {.model = bench->query.model,
                                .address = bench->target.authority,
                                .connections = bench->connections,
                                .streams = bench->streams,
                                .rate = as_option_u64(o, AS_OPT_RATE),
                                .poisson = as_option_u64(o, AS_OPT_ARRIVALS) == 1,
                                .stream = bench->query.stream,
                                .request_bytes = bench->query.message.n,
                                .seconds = (double)bench->result.measured / (double)AS_SEC,
                                .warmup = (double)as_option_ns(o, AS_OPT_WARMUP) / (double)AS_SEC,
                                .protocol = as_option_str(o, AS_OPT_PROTOCOL),
                                .sent = bench->result.sent,
                                .lost = bench->result.lost,
                                .reopened = bench->result.reopened,
                                .why_reopened = bench->result.why_reopened,
                                .why_lost = bench->result.why,
                                .interrupted = bench->result.interrupted,
                                .tally = tally};
    struct as_buf b;
    bool good = tally->status[0] == as_tally_due(tally) && !bench->result.lost;

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

static int run_bench(struct bench *bench)
{
    int code;

    if (as_query_init(&bench->query, bench->opts, &bench->why) ||
        as_target_choose(&bench->target, bench->opts, &bench->why))
        return AS_EXIT_CODE_USAGE;
    code = check_options(bench);
    if (code)
        return code;
    code = make_first_call(bench);
    if (!code)
        code = connect_all(bench);
    if (!code)
        code = run_load(bench);
    return code;
}

int as_bench_main(struct as_option_set *opts)
{
    struct bench *bench = as_xalloc(sizeof(*bench));
    bool json = as_option_bool(opts, AS_OPT_JSON);
    struct as_buf b;
    int code;

    bench->opts = opts;
    code = run_bench(bench);
    as_target_explain(opts, code, &bench->why);
    if (code) {
        as_buf_init(&b);
        as_fault_write(&b, "bench", code, as_buf_slice(&bench->why), json);
        if (!json)
            as_print_sanitize(&b);
        fwrite(b.p, 1, b.n, json ? stdout : stderr);
        as_buf_fini(&b);
    } else {
        code = print_report(bench);
    }
    as_query_fini(&bench->query);
    as_target_fini(&bench->target);
    free(bench->fds);
    as_buf_fini(&bench->answer);
    as_buf_fini(&bench->why);
    free(bench);
    return code;
}
