/* bench/load.c — load of ModelInfer calls over gRPC, in a closed or an open loop; see --help.
 *
 * One thread, one epoll. Every answer is checked (load_h2.h); the exit code is 1 if one was wrong.
 * Prints one JSON object. With --watch it also says what CPU time the named processes used, all
 * their threads together, between the end of the warm-up and the end of the measurement.
 */
#include "io/loop/clock.h"

#include "load_loop.h"
#include "load_options.h"

#include <dirent.h>

/* an answer that takes longer than this after the last call is reported as missing */
#define DRAIN_TIME (10 * AS_SEC)

/* What a run has shown. */
struct result {
    as_ns time;        /* measured, after the warm-up */
    uint64_t answered; /* in that time */
    uint64_t left_out; /* open loop: due in that time and never sent */
    as_ns cpu_before[AS_LOAD_WATCH_MAX], cpu_after[AS_LOAD_WATCH_MAX];
};

/* CPU time of all threads of a process; the main thread's file alone would miss the others. */
static as_ns cpu_of(int pid)
{
    char path[300];
    as_ns sum = 0;
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        unsigned long long ns = 0;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/task/%.32s/schedstat", pid, e->d_name);
        if (e->d_name[0] == '.' || !(f = fopen(path, "r")))
            continue;
        if (fscanf(f, "%llu", &ns) == 1)
            sum += ns;
        fclose(f);
    }
    if (d)
        closedir(d);
    return sum;
}

static void watch(const struct as_load_command *c, as_ns *ret_cpu)
{
    for (uint32_t i = 0; i < c->n_watch; i++)
        ret_cpu[i] = cpu_of(c->watch[i]);
}

static void put_us(struct as_buf *b, const char *name, as_ns v)
{
    as_buf_printf(b, "\"%s_us\": %.2f, ", name, (double)v / 1e3);
}

/* One line, so that bench/run.py reads it with json.loads and people can too. */
static void report(const struct as_load_command *c, const struct result *r,
                   const struct as_load_tally *t, const struct as_load_schedule *schedule)
{
    double seconds = (double)r->time / (double)AS_SEC;
    struct as_buf b;

    as_buf_init(&b);
    as_buf_printf(&b, "{\"connections\": %u, \"streams\": %u, \"payload\": %zu, ", c->connections,
                  c->shape.streams, c->shape.payload);
    as_buf_printf(&b, "\"seconds\": %.4f, \"ok\": %lu, \"failed\": %lu, \"total\": %lu, ", seconds,
                  t->ok, t->failed, t->finished);
    as_buf_printf(&b, "\"per_second\": %.1f, ", (double)r->answered / seconds);
    put_us(&b, "p50", as_loghist_quantile(&t->hist, .5));
    put_us(&b, "p90", as_loghist_quantile(&t->hist, .9));
    put_us(&b, "p99", as_loghist_quantile(&t->hist, .99));
    put_us(&b, "p999", as_loghist_quantile(&t->hist, .999));
    put_us(&b, "max", t->hist.max);
    if (c->shape.is_open) {
        as_buf_printf(&b, "\"offered_per_second\": %.1f, \"left_out\": %lu, ",
                      (double)(schedule->late.n + r->left_out) / seconds, r->left_out);
        put_us(&b, "late_p50", as_loghist_quantile(&schedule->late, .5));
        put_us(&b, "late_p99", as_loghist_quantile(&schedule->late, .99));
    }
    as_buf_str(&b, "\"cpu_us\": {");
    for (uint32_t i = 0; i < c->n_watch; i++)
        as_buf_printf(&b, "%s\"%d\": %.4f", i ? ", " : "", c->watch[i],
                      (double)(r->cpu_after[i] - r->cpu_before[i]) / 1e3 /
                          (double)AS_MAX(r->answered, 1));
    as_buf_str(&b, "}, \"fault\": ");
    as_buf_json(&b, as_str_of(t->first_fault));
    printf("%.*s}\n", AS_STR_FMT(as_buf_slice(&b)));
    as_buf_fini(&b);
}

/* The warm-up's calls are made and checked, but not counted: the first fill caches, pools and HPACK
 * tables on both sides. */
static void measure_closed(const struct as_load_command *c, struct as_load_loop *l,
                           struct result *ret)
{
    struct as_load_tally *t = l->tally;
    uint64_t finished;
    as_ns start;

    if (!c->requests) {
        as_load_loop_run(l, l->now + (as_ns)(c->warmup * (double)AS_SEC), UINT64_MAX);
        t->hist = (struct as_loghist){0};
        t->ok = 0;
    }
    finished = t->finished;
    watch(c, ret->cpu_before);
    start = l->now = as_clock_now();
    as_load_loop_run(l, c->requests ? AS_NEVER : start + (as_ns)(c->seconds * (double)AS_SEC),
                     c->requests ? c->requests : UINT64_MAX);
    watch(c, ret->cpu_after);
    l->now = as_clock_now();
    ret->time = l->now - start;
    ret->answered = t->finished - finished;
}

static void measure_open(const struct as_load_command *c, struct as_load_loop *l,
                         struct as_load_schedule *s, struct result *ret)
{
    struct as_load_tally *t = l->tally;
    as_ns start, end;
    uint64_t finished;

    as_arrival_schedule_init(&s->times, l->now, c->rate, c->is_poisson, c->seed);
    s->due = as_arrival_schedule_next(&s->times);
    /* The warm-up is part of the schedule: what it leaves behind, the measured time begins with. */
    start = l->now + (as_ns)(c->warmup * (double)AS_SEC);
    end = start + (as_ns)(c->seconds * (double)AS_SEC);
    t->count_from = start;
    as_load_loop_run_open(l, s, start);
    watch(c, ret->cpu_before);
    finished = t->finished;
    as_load_loop_run_open(l, s, end);
    watch(c, ret->cpu_after);
    ret->answered = t->finished - finished;
    ret->time = end - start;
    ret->left_out = as_load_loop_catch_up(l, s, end, end + DRAIN_TIME);
}

int main(int argc, char **argv)
{
    static struct as_load_tally tally, measured;
    static struct as_load_schedule schedule;
    struct result result = {0};
    struct as_load_command command;
    struct as_load_shape shape;
    struct as_load_loop loop;
    char authority[100];

    as_load_command_parse(&command, argc, argv);
    snprintf(authority, sizeof(authority), "%.60s:%.8s", command.host, command.port);
    command.shape.authority = authority;
    tally.start_max = command.requests ? command.requests : UINT64_MAX;
    as_load_shape_init(&shape, &command.shape);
    as_load_loop_init(&loop, command.host, command.port, command.connections, &shape, &tally);
    if (command.shape.is_open)
        measure_open(&command, &loop, &schedule, &result);
    else
        measure_closed(&command, &loop, &result);
    /* What is in flight must be answered too, and rightly; in a closed loop it does not count. */
    measured = tally;
    tally.start_max = tally.started; /* no new ones from here on */
    as_load_loop_run(&loop, loop.now + DRAIN_TIME, tally.started);
    if (!command.shape.is_open) {
        tally.hist = measured.hist;
        tally.ok = measured.ok;
    }
    report(&command, &result, &tally, &schedule);
    if (tally.finished < tally.started)
        fprintf(stderr, "load: %lu calls were never answered\n", tally.started - tally.finished);
    if (tally.failed)
        fprintf(stderr, "load: %lu calls failed; the first: %s\n", tally.failed, tally.first_fault);
    as_load_loop_fini(&loop);
    as_load_shape_fini(&shape);
    return tally.failed || tally.finished < tally.started;
}
