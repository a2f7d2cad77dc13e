/* crowd — random requests over gRPC and HTTP/1.1, many at once, each answer judged; see --help.
 *
 * Some clients lose patience, some send what must be refused. Every answer is compared with what
 * was asked (judge.c); the exit code is 1 if one was wrong. One thread. Prints one JSON object.
 */
#include "ask.h"

#include "io/loop/clock.h"
#include "io/socket/connect.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>

#define LOOK       AS_MS
#define STALL      (30 * AS_SEC)
#define THEME      2000u /* requests of one theme */
#define RESETS_MAX 200u  /* of one connection: servers cut off who resets too much */
#define SHOWN      5u    /* faults that are told in full */

struct lane { /* one connection */
    struct run *run;
    struct as_client_connection peer;
    enum as_model_call_protocol talk;
    struct call *calls;
    uint32_t n_calls, open, resets;
    bool is_ending; /* no more requests: it is opened again when the last is over */
};

struct call {
    struct lane *lane;
    struct ask ask;
    struct as_model_call talk;
    struct as_model_call_frame frame;
    uint32_t stream;
    bool is_open, is_cancelled;
    as_ns cancel_at;
};

struct run {
    struct as_loop *loop;
    struct as_json *json;
    struct as_timer look;
    struct as_connect_addr addr;
    struct as_rand rand;
    struct ask_theme theme;
    struct lane *lanes;
    uint32_t n_lanes;
    uint16_t port;
    uint64_t seed, calls, begun, ended;
    uint64_t right, refused, late, cancelled, wrong, reopened, rows;
    uint64_t fates[ASK_FATES], talks[3];
    as_ns moved_at; /* when a call ended last */
};

/* --- calls --- */

static void tell(struct run *r, const struct call *c, struct as_str why)
{
    if (r->wrong++ >= SHOWN)
        return;
    fprintf(stderr, "crowd: seed %" PRIu64 ", request %s to '%s' (%s, %u items) by %s: %.*s\n",
            r->seed, c ? c->ask.id : "-", c ? ask_model(&c->ask) : "-",
            c ? ask_fate_names[c->ask.fate] : "-", c ? c->ask.items : 0,
            c ? (const char *[]){"gRPC", "JSON", "binary data"}[c->lane->talk] : "-",
            AS_STR_FMT(why));
}

/* A new theme now and then: what waits then mixes with it. */
static bool start(struct call *c)
{
    struct lane *l = c->lane;
    struct run *r = l->run;
    struct as_model_call_request q;

    if (r->begun % THEME == 0)
        ask_draw_theme(&r->theme, &r->rand);
    ask_draw(&c->ask, &r->theme, &r->rand, l->talk, r->begun);
    ask_request(&c->ask, l->talk, &q);
    as_model_call_prepare(&c->frame, l->talk, &q, "crowd", false);
    as_model_call_begin(&c->talk, l->talk, r->json, q.limit);
    c->is_cancelled = false;
    c->cancel_at =
        c->ask.cancel_after == AS_NEVER ? AS_NEVER : as_clock_now() + c->ask.cancel_after;
    if (as_client_connection_request(&l->peer, &c->frame.request, c, &c->stream))
        return false;
    c->is_open = true;
    l->open++;
    r->begun++;
    return true;
}

static bool is_usable(const struct lane *l)
{
    if (l->is_ending || l->peer.ended)
        return false;
    return l->peer.h1 ? as_h1_client_usable(l->peer.h1) : as_h2_client_usable(l->peer.h2);
}

static void fill(struct lane *l)
{
    struct run *r = l->run;

    for (uint32_t i = 0; i < l->n_calls && r->begun < r->calls && is_usable(l); i++) {
        if (!l->calls[i].is_open && !start(&l->calls[i]))
            break;
    }
}

static void count(struct run *r, struct call *c, uint32_t status)
{
    if (c->is_cancelled)
        r->cancelled++;
    else if (status == 0)
        r->right++;
    else if (status == 4)
        r->late++;
    else
        r->refused++;
    if (status == 0)
        r->rows += c->ask.items;
    r->fates[c->ask.fate]++;
    r->talks[c->lane->talk]++;
}

static void on_close(void *conn AS_UNUSED, void *call, uint32_t code, bool whole)
{
    struct call *c = call;
    struct lane *l = c->lane;
    struct run *r = l->run;
    uint32_t status = as_model_call_end(&c->talk, code, whole);
    struct as_buf why;

    as_buf_init(&why);
    c->is_open = false;
    l->open--;
    r->ended++;
    r->moved_at = as_clock_now();
    if (c->is_cancelled && !whole)
        r->cancelled++;
    else if (l->peer.ended && !whole)
        tell(r, c, as_str_of(l->peer.why));
    else if (ask_judge(&c->ask, &c->talk, status, &why))
        count(r, c, status);
    else
        tell(r, c, as_buf_slice(&why));
    as_buf_fini(&why);
    if (r->ended == r->calls)
        as_loop_stop(r->loop);
    else if (!l->peer.ended)
        fill(l);
}

static void on_field(void *conn AS_UNUSED, void *call, struct as_str name, struct as_str value,
                     bool trailer AS_UNUSED)
{
    as_model_call_field(&((struct call *)call)->talk, name, value);
}

static void on_data(void *conn AS_UNUSED, void *call, const uint8_t *p, size_t n)
{
    struct call *c = call;

    if (as_model_call_data(&c->talk, p, n))
        as_client_connection_reset(&c->lane->peer, c->stream);
}

static const struct as_http_client_ops ops = {on_field, on_data, on_close};

/* --- connections --- */

static bool open_lane(struct lane *l);

/* Its end: our own doing, or that of HTTP/1.1. Calls that it takes along are told on_close. */
static void on_closed(struct as_client_connection *p)
{
    struct lane *l = AS_CONTAINER(p, struct lane, peer);

    if (l->run->ended == l->run->calls)
        return;
    l->run->reopened++;
    if (open_lane(l))
        fill(l);
}

static bool open_lane(struct lane *l)
{
    int fd;

    l->is_ending = false;
    l->resets = 0;
    if (as_connect_start(&l->run->addr, &fd) ||
        as_client_connection_open(&l->peer, l->run->loop, fd, NULL, l->talk != AS_MODEL_CALL_GRPC,
                                  &ops, l)) {
        tell(l->run, NULL, AS_STR("no connection"));
        as_loop_stop(l->run->loop);
        return false;
    }
    l->peer.on_closed = on_closed;
    return true;
}

/* Who has lost patience leaves. */
static void cancel_due(struct lane *l, as_ns now)
{
    for (uint32_t i = 0; i < l->n_calls; i++) {
        struct call *c = &l->calls[i];

        if (!c->is_open || c->is_cancelled || c->cancel_at > now)
            continue;
        c->is_cancelled = true;
        l->is_ending = ++l->resets >= RESETS_MAX || l->is_ending;
        as_client_connection_reset(&l->peer, c->stream);
    }
    if (l->is_ending && !l->open && !l->peer.ended)
        as_client_connection_close(&l->peer);
}

static void on_look(struct as_timer *t)
{
    struct run *r = AS_CONTAINER(t, struct run, look);
    as_ns now = as_clock_now();

    for (uint32_t i = 0; i < r->n_lanes; i++) {
        cancel_due(&r->lanes[i], now);
        fill(&r->lanes[i]);
    }
    if (now - r->moved_at > STALL) {
        tell(r, NULL, AS_STR("nothing has ended for 30 s"));
        as_loop_stop(r->loop);
        return;
    }
    as_timer_set(t, as_loop_now(r->loop) + LOOK);
}

/* --- the command --- */

static const char help[] =
    "crowd [options]: random requests to model.py, each answer judged, as JSON\n"
    "  --port P                     of the server on 127.0.0.1 (8000)\n"
    "  --calls N                    (100000)\n"
    "  --seed N                     (1)\n"
    "  --grpc N, --streams N        connections of HTTP/2, and calls at once on each (8, 32)\n"
    "  --json N, --binary N         connections of HTTP/1.1 that speak so (48, 48)\n";

static void parse(struct run *r, int argc, char **argv, uint32_t lanes[3], uint32_t *streams)
{
    static const struct option options[] = {
        {"port", 1, 0, 'p'}, {"calls", 1, 0, 'c'},   {"seed", 1, 0, 's'},   {"grpc", 1, 0, 'g'},
        {"json", 1, 0, 'j'}, {"streams", 1, 0, 'n'}, {"binary", 1, 0, 'b'}, {0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        unsigned long n = optarg ? strtoul(optarg, NULL, 10) : 0;

        switch (c) {
        case 'p':
            r->port = (uint16_t)n;
            break;
        case 'c':
            r->calls = n;
            break;
        case 's':
            r->seed = n;
            break;
        case 'g':
            lanes[AS_MODEL_CALL_GRPC] = (uint32_t)n;
            break;
        case 'j':
            lanes[AS_MODEL_CALL_HTTP] = (uint32_t)n;
            break;
        case 'b':
            lanes[AS_MODEL_CALL_HTTP_BINARY] = (uint32_t)n;
            break;
        case 'n':
            *streams = (uint32_t)n;
            break;
        default:
            fputs(help, stderr);
            exit(2);
        }
    }
    if (!r->calls || !*streams || !(lanes[0] + lanes[1] + lanes[2])) {
        fputs(help, stderr);
        exit(2);
    }
}

static void find_server(struct run *r)
{
    char why[100];
    int fd;

    if (as_connect_tcp("127.0.0.1", r->port, 10 * AS_SEC, &fd, why, sizeof(why))) {
        fprintf(stderr, "crowd: no server on port %u: %s\n", r->port, why);
        exit(1);
    }
    as_connect_addr_of(fd, &r->addr);
    close(fd);
}

static void make_lanes(struct run *r, const uint32_t lanes[3], uint32_t streams)
{
    struct lane *l;

    r->lanes = as_xalloc((lanes[0] + lanes[1] + lanes[2]) * sizeof(*r->lanes));
    for (uint32_t talk = 0; talk < 3; talk++) {
        for (uint32_t i = 0; i < lanes[talk]; i++) {
            l = &r->lanes[r->n_lanes++];
            l->run = r;
            l->talk = (enum as_model_call_protocol)talk;
            l->n_calls = talk == AS_MODEL_CALL_GRPC ? streams : 1;
            l->calls = as_xalloc(l->n_calls * sizeof(*l->calls));
            for (uint32_t k = 0; k < l->n_calls; k++)
                l->calls[k].lane = l;
            if (open_lane(l))
                fill(l);
        }
    }
}

static void free_lanes(struct run *r)
{
    for (uint32_t i = 0; i < r->n_lanes; i++) {
        for (uint32_t k = 0; k < r->lanes[i].n_calls; k++) {
            ask_fini(&r->lanes[i].calls[k].ask);
            as_model_call_fini(&r->lanes[i].calls[k].talk);
        }
        free(r->lanes[i].calls);
    }
    free(r->lanes);
}

static void report(const struct run *r, as_ns took)
{
    printf("{\"calls\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"right\": %" PRIu64
           ", \"refused\": %" PRIu64 ", \"late\": %" PRIu64 ", \"cancelled\": %" PRIu64
           ", \"rows\": %" PRIu64 ", \"reopened\": %" PRIu64 ", \"seconds\": %.3f",
           r->ended, r->wrong, r->right, r->refused, r->late, r->cancelled, r->rows, r->reopened,
           (double)took / 1e9);
    printf(", \"grpc\": %" PRIu64 ", \"json\": %" PRIu64 ", \"binary\": %" PRIu64, r->talks[0],
           r->talks[1], r->talks[2]);
    for (uint32_t i = 0; i < ASK_FATES; i++)
        printf(", \"%s\": %" PRIu64, ask_fate_names[i], r->fates[i]);
    printf("}\n");
}

int main(int argc, char **argv)
{
    static struct run r = {.port = 8000, .calls = 100000, .seed = 1};
    uint32_t lanes[3] = {8, 48, 48}, streams = 32;
    as_ns start_at;

    parse(&r, argc, argv, lanes, &streams);
    signal(SIGPIPE, SIG_IGN);
    r.rand.s = r.seed;
    find_server(&r);
    r.json = as_json_new();
    if (!r.json || as_loop_new(&r.loop, 0))
        return 1;
    as_timer_init(&r.look, r.loop, on_look);
    start_at = r.moved_at = as_clock_now();
    make_lanes(&r, lanes, streams);
    as_timer_set(&r.look, as_loop_now(r.loop) + LOOK);
    if (!r.wrong)
        as_loop_run(r.loop);
    report(&r, as_clock_now() - start_at);
    r.calls = r.ended; /* nothing is opened again */
    for (uint32_t i = 0; i < r.n_lanes; i++)
        as_client_connection_close(&r.lanes[i].peer);
    as_timer_close(&r.look, NULL);
    as_loop_free(r.loop);
    free_lanes(&r);
    as_json_free(r.json);
    return r.wrong != 0;
}
