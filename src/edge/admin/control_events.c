#include "edge/admin/control_events.h"

#include "base/err.h"
#include "wire/json/json.h"

/* Least time between two comparisons: many replicas that start change something in every turn. */
#define MIN_INTERVAL (20 * AS_MS)

#define HEARTBEAT ":\n\n"

/* One object as JSON in a snapshot's text; the first `key` bytes identify it. */
struct line {
    size_t at, n, key;
};

struct snapshot { /* all objects at one time */
    struct as_buf text;
    struct line *lines;
    uint32_t n, cap;
};

struct as_control_events {
    struct as_loop *loop;
    const struct as_control *api;
    struct as_control_events_conf conf;
    const struct as_log *log;
    struct as_list listeners;
    struct snapshot last; /* the state that the listeners have */
    as_ns last_published;
    struct as_task publish_task;
    struct as_timer delay_timer; /* a comparison after MIN_INTERVAL */
    struct as_timer heartbeat_timer;
};

struct listener { /* in the exchange's arena */
    struct as_list node;
    struct as_exchange *x;
    struct as_control_events *events;
    size_t snapshot_bytes; /* bytes of the first events */
    bool disconnected;     /* reset; on_gone follows */
};

/* --- snapshots --- */

static const char *const kinds[] = {
    [AS_SERVED_APPLICATION] = "application",
    [AS_SERVED_DEPLOYMENT] = "deployment",
    [AS_SERVED_REPLICA] = "replica",
};

static void put_row(struct as_buf *b, const struct as_served *r, size_t *ret_key)
{
    size_t from = b->n;

    /* not as_json_put_open: it would put a comma before all objects but the first */
    as_buf_str(b, "{");
    as_json_put_member_text(b, "kind", kinds[r->kind]);
    as_json_put_member_string(b, "application", r->application);
    if (r->kind != AS_SERVED_APPLICATION)
        as_json_put_member_string(b, "deployment", r->deployment);
    if (r->kind == AS_SERVED_REPLICA)
        as_json_put_member_string(b, "replica", r->replica);
    *ret_key = b->n - from;
    as_json_put_member_string(b, "status", r->status);
    as_json_put_member_string(b, "message", r->message);
    if (r->kind == AS_SERVED_DEPLOYMENT) {
        as_json_put_member_u64(b, "target_num_replicas", r->target);
        as_json_put_member_u64(b, "num_replicas", r->declared);
        as_json_put_member_bool(b, "rolled_back", r->rolled_back);
        as_json_put_member_u64(b, "generation", r->generation);
    }
    if (r->kind == AS_SERVED_REPLICA) {
        as_json_put_member_u64_or_null(b, "pid", r->pid, 0);
        as_json_put_member_u64_or_null(b, "rank", r->rank, AS_RANK_NONE);
        as_json_put_member_u64(b, "starts", r->starts);
    }
    as_buf_str(b, "}");
}

static void add_row(void *arg, const struct as_served *r)
{
    struct snapshot *p = arg;
    struct line l = {.at = p->text.n};

    put_row(&p->text, r, &l.key);
    l.n = p->text.n - l.at;
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 64;
        p->lines = as_xrealloc(p->lines, p->cap * sizeof(*p->lines));
    }
    p->lines[p->n++] = l;
}

static struct as_str line_of(const struct snapshot *p, uint32_t i)
{
    return (struct as_str){(const char *)p->text.p + p->lines[i].at, p->lines[i].n};
}

static struct as_str key_of(const struct snapshot *p, uint32_t i)
{
    return (struct as_str){(const char *)p->text.p + p->lines[i].at, p->lines[i].key};
}

static void fini_snapshot(struct snapshot *p)
{
    as_buf_fini(&p->text);
    free(p->lines);
    *p = (struct snapshot){0};
}

/* --- events --- */

static void put_event(struct as_buf *out, struct as_str json)
{
    as_buf_str(out, "data: ");
    as_buf_add(out, json.p, json.n);
    as_buf_str(out, "\n\n");
}

static void put_gone(struct as_buf *out, struct as_str key)
{
    as_buf_str(out, "data: ");
    as_buf_add(out, key.p, key.n);
    as_buf_str(out, ",\"status\":\"GONE\"}\n\n");
}

static void put_all(const struct snapshot *p, struct as_buf *out)
{
    for (uint32_t i = 0; i < p->n; i++)
        put_event(out, line_of(p, i));
    put_event(out, AS_STR("{\"kind\":\"synced\"}"));
}

/* Finds the index of a key, from `from` on and around: the order of two snapshots hardly differs.
 * UINT32_MAX: not found. */
static uint32_t find_key(const struct snapshot *p, struct as_str key, uint32_t from)
{
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = (from + k) % p->n;

        if (as_str_eq(key_of(p, i), key))
            return i;
    }
    return UINT32_MAX;
}

static void put_changes(const struct snapshot *before, const struct snapshot *after,
                        struct as_buf *out)
{
    bool *kept = as_xalloc(before->n + 1);
    uint32_t at = 0;

    for (uint32_t i = 0; i < after->n; i++) {
        uint32_t old = find_key(before, key_of(after, i), at);

        if (old != UINT32_MAX) {
            kept[old] = true;
            at = old + 1;
        }
        if (old == UINT32_MAX || !as_str_eq(line_of(before, old), line_of(after, i)))
            put_event(out, line_of(after, i));
    }
    for (uint32_t i = 0; i < before->n; i++) {
        if (!kept[i])
            put_gone(out, key_of(before, i));
    }
    free(kept);
}

/* --- listeners --- */

static void cut_off(struct listener *l, const char *why)
{
    l->disconnected = true;
    as_log_event(l->events->log, AS_LOG_WARN, "listener_cut_off", "reason=\"%s\"", why);
    as_conn_reset(l->x->conn, l->x->stream);
    as_conn_schedule_flush(l->x->conn);
}

static void write_listener(struct listener *l, struct as_blob *blob)
{
    struct as_http_piece piece = {blob->data, blob->n, blob};

    as_conn_write(l->x->conn, l->x->stream, &piece);
    as_conn_schedule_flush(l->x->conn);
}

/* Unsent bytes of the answer, and of the connection's output. */
static size_t unsent_bytes(const struct listener *l)
{
    return as_conn_unsent(l->x->conn, l->x->stream) + l->x->conn->out.bytes;
}

static struct as_blob *blob_of(struct as_str text)
{
    struct as_blob *b = as_blob_new(text.n);

    if (b)
        memcpy(b->data, text.p, text.n);
    return b;
}

/* Sends the same bytes to all listeners. */
static void publish(struct as_control_events *e, struct as_str text)
{
    struct as_blob *blob = text.n ? blob_of(text) : NULL;

    AS_LIST_EACH_ENTRY(l, struct listener, node, &e->listeners) {
        if (l->disconnected || !text.n)
            continue;
        if (!blob)
            cut_off(l, "no memory for an event"); /* it would miss an event */
        else if (unsent_bytes(l) > l->snapshot_bytes + e->conf.max_unsent)
            cut_off(l, "it does not read (--max-event-bytes)");
        else
            write_listener(l, blob);
    }
    as_blob_unref(blob);
}

static void publish_changes(struct as_control_events *e)
{
    struct snapshot now = {0};
    struct as_buf out;

    e->last_published = as_loop_now(e->loop);
    as_timer_set(&e->delay_timer, AS_NEVER);
    as_buf_init(&out);
    e->api->each(e->api->ctx, add_row, &now);
    put_changes(&e->last, &now, &out);
    publish(e, as_buf_slice(&out));
    as_buf_fini(&out);
    fini_snapshot(&e->last);
    e->last = now;
}

static void on_turn(struct as_task *t)
{
    struct as_control_events *e = AS_CONTAINER(t, struct as_control_events, publish_task);

    if (!as_list_empty(&e->listeners))
        publish_changes(e);
}

static void on_delayed(struct as_timer *t)
{
    struct as_control_events *e = AS_CONTAINER(t, struct as_control_events, delay_timer);

    as_loop_defer(e->loop, &e->publish_task);
}

void as_control_events_changed(struct as_control_events *e)
{
    as_ns now;

    if (as_list_empty(&e->listeners) || e->delay_timer.at != AS_NEVER)
        return;
    now = as_loop_now(e->loop);
    if (now >= e->last_published + MIN_INTERVAL)
        as_loop_defer(e->loop, &e->publish_task);
    else
        as_timer_set(&e->delay_timer, e->last_published + MIN_INTERVAL);
}

static void on_heartbeat(struct as_timer *t)
{
    struct as_control_events *e = AS_CONTAINER(t, struct as_control_events, heartbeat_timer);

    publish(e, AS_STR(HEARTBEAT));
    if (!as_list_empty(&e->listeners))
        as_timer_set(&e->heartbeat_timer, as_loop_now(e->loop) + e->conf.heartbeat);
}

static void on_drained(struct as_exchange *x AS_UNUSED)
{
}

static void on_gone(struct as_exchange *x)
{
    struct listener *l = x->answer.item;

    as_list_remove(&l->node);
    if (as_list_empty(&l->events->listeners))
        fini_snapshot(&l->events->last);
}

/* Adds a listener. Changes are published to the others first, so that all have the same state. */
static void send_snapshot(struct as_control_events *e, struct listener *l)
{
    struct as_blob *blob;
    struct as_buf out;

    publish_changes(e);
    as_buf_init(&out);
    put_all(&e->last, &out);
    blob = blob_of(as_buf_slice(&out));
    l->snapshot_bytes = out.n;
    as_buf_fini(&out);
    as_list_push(&e->listeners, &l->node);
    if (blob)
        write_listener(l, blob);
    else
        cut_off(l, "no memory for an event");
    as_blob_unref(blob);
    if (e->heartbeat_timer.at == AS_NEVER)
        as_timer_set(&e->heartbeat_timer, as_loop_now(e->loop) + e->conf.heartbeat);
}

void as_control_stream_events(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    static const struct as_exchange_answer_ops answer_ops = {.drained = on_drained,
                                                             .gone = on_gone};
    static const struct as_http_header headers[] = {
        {{"content-type", 12}, {"text/event-stream; charset=utf-8", 32}},
        {{"cache-control", 13}, {"no-cache", 8}},
    };
    struct as_http_answer a = {.status = 200, .headers = headers, .n_headers = AS_COUNT(headers)};
    struct listener *l;

    if (as_str_eq(x->head->method, AS_STR("HEAD"))) {
        as_rest_send(x, &(struct as_rest_reply){
                            .status = 200, .extra = headers, .n_extra = AS_COUNT(headers)});
        return;
    }
    l = as_exchange_alloc(x, sizeof(*l), 8, "the request");
    if (!l)
        return;
    *l = (struct listener){.x = x, .events = x->edge->conf.api->events};
    as_list_init(&l->node);
    if (!as_exchange_mark_answered(x, 200))
        return;
    x->answer.item = l;
    x->answer.ops = &answer_ops;
    as_conn_begin(x->conn, x->stream, &a);
    send_snapshot(l->events, l);
}

/* --- its life --- */

int as_control_events_new(struct as_control_events **ret_e, struct as_loop *loop,
                          const struct as_control *api, const struct as_control_events_conf *conf,
                          const struct as_log *log)
{
    struct as_control_events *e = as_xalloc(sizeof(*e));

    e->loop = loop;
    e->api = api;
    e->conf = *conf;
    e->log = log;
    as_list_init(&e->listeners);
    as_task_init(&e->publish_task, on_turn);
    as_timer_init(&e->delay_timer, loop, on_delayed);
    as_timer_init(&e->heartbeat_timer, loop, on_heartbeat);
    *ret_e = e;
    return 0;
}

void as_control_events_close(struct as_control_events *e)
{
    AS_ASSERT(as_list_empty(&e->listeners));
    as_task_cancel(&e->publish_task);
    as_timer_close(&e->delay_timer, NULL);
    as_timer_close(&e->heartbeat_timer, NULL);
}

void as_control_events_free(struct as_control_events *e)
{
    if (!e)
        return;
    fini_snapshot(&e->last);
    free(e);
}
