#include "edge/admin/status.h"

#include "edge/admin/status_page.h"
#include "edge/exchange/dispatch_query.h"
#include "io/loop/clock.h"

#define METRICS AS_STR("text/plain; version=0.0.4; charset=utf-8")
#define TEXT    AS_STR("text/plain; charset=utf-8")
#define JSON    AS_STR("application/json")

typedef void put_page(struct as_status_page *b, as_ns now, struct as_buf *out);
typedef bool put_probe(struct as_status_page *b, struct as_buf *out);

static void send_page(struct as_exchange *x, struct as_str type, put_page *put)
{
    struct as_buf out;

    as_buf_init(&out);
    put(x->edge->conf.status_page, as_loop_now(x->edge->loop), &out);
    as_rest_text(x, 200, type, &out);
    as_buf_fini(&out);
}

static void send_probe(struct as_exchange *x, struct as_str type, put_probe *put)
{
    struct as_buf out;
    bool ok;

    as_buf_init(&out);
    ok = put(x->edge->conf.status_page, &out);
    as_rest_text(x, ok ? 200 : 503, type, &out);
    as_buf_fini(&out);
}

static void send_format(struct as_exchange *x, struct as_str query, put_page *json, put_page *text)
{
    if (!query.n)
        send_page(x, JSON, json);
    else if (as_str_eq(query, AS_STR("format=text")))
        send_page(x, TEXT, text);
    else
        as_exchange_fail(x, AS_ENOTFOUND, "not found: the only query is format=text");
}

void as_status_metrics(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    send_page(x, METRICS, as_status_page_metrics);
}

struct metrics_query {
    struct as_dispatch_query query; /* must be first: x->pending.query points to it */
    struct as_status_page *page;
    struct as_buf out;
};

static void write_metrics(struct as_dispatch_query *query, struct as_fleet *f AS_UNUSED)
{
    struct metrics_query *q = AS_CONTAINER(query, struct metrics_query, query);

    as_status_page_metrics(q->page, as_clock_now(), &q->out);
}

static void send_metrics(struct as_dispatch_query *query)
{
    as_rest_text(query->x, 200, METRICS, &AS_CONTAINER(query, struct metrics_query, query)->out);
}

static void free_metrics(struct as_dispatch_query *query)
{
    as_buf_fini(&AS_CONTAINER(query, struct metrics_query, query)->out);
}

void as_status_client_metrics(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    struct metrics_query *q = calloc(1, sizeof(*q));

    if (!q) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the metrics");
        return;
    }
    as_buf_init(&q->out);
    q->page = x->edge->conf.status_page;
    q->query.fini = free_metrics;
    as_dispatch_query_send(x, &q->query, write_metrics, send_metrics);
}

void as_status_server(struct as_exchange *x, const struct as_rest_match *m)
{
    send_format(x, m->query, as_status_page_json, as_status_page_text);
}

void as_status_workers(struct as_exchange *x, const struct as_rest_match *m)
{
    send_format(x, m->query, as_status_page_workers_json, as_status_page_workers_text);
}

void as_status_health(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    send_probe(x, TEXT, as_status_page_health);
}

void as_status_routes(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    send_probe(x, JSON, as_status_page_routes);
}
