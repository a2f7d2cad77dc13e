/* Answers of our own to requests of applications: plain texts. The ids of requests. */
#include "edge/ingress/ingress.h"

#include "wire/name_check.h"

#include <string.h>
#include <time.h>

/* --- request ids --- */

/* A request id in the form of a UUID. */
static struct as_str make_id(char out[AS_UUID_LEN + 1])
{
    as_random_uuid(out);
    return (struct as_str){out, AS_UUID_LEN};
}

bool as_ingress_set_id(struct as_ingress *g)
{
    struct as_str id = as_http_head_find(g->x->head, AS_STR("x-request-id"));

    bool own = id.n && id.n <= AS_INGRESS_ID_MAX && as_name_check_line(id);

    g->open.id = own ? id : make_id(g->id);
    g->x->request_id = g->open.id;
    return !own;
}

/* --- texts --- */

/* retry: AS_NEVER: none is named */
static void send_text(struct as_exchange *x, uint32_t status, struct as_str text, as_ns retry)
{
    struct as_http_header extra[3];
    struct as_rest_reply r = {.status = status,
                              .content_type = AS_STR("text/plain; charset=utf-8"),
                              .extra = extra,
                              .n_body = 1};
    char *copy = as_arena_dup(&x->arena, text);
    struct as_http_piece body = {(const uint8_t *)copy, copy ? text.n : 0, NULL};
    char number[24], made[AS_UUID_LEN + 1];
    struct as_str id;

    if (x->answer.item)
        id = as_ingress_of(x)->open.id;
    else
        id = as_http_head_find(x->head, AS_STR("x-request-id"));
    if (!id.n || id.n > AS_INGRESS_ID_MAX)
        id = make_id(made);
    r.body = &body;
    extra[r.n_extra++] = (struct as_http_header){AS_STR("x-request-id"), id};
    if (retry != AS_NEVER) {
        size_t n = (size_t)snprintf(number, sizeof(number), "%lu",
                                    (unsigned long)((retry + AS_SEC - 1) / AS_SEC));

        extra[r.n_extra++] = (struct as_http_header){AS_STR("retry-after"), {number, n}};
    }
    if (status == 426) /* of a websocket's handshake: which version is served */
        extra[r.n_extra++] = (struct as_http_header){AS_STR("sec-websocket-version"), AS_STR("13")};
    as_rest_send(x, &r);
}

void as_ingress_reply(struct as_exchange *x, uint32_t status, struct as_str text)
{
    send_text(x, status, text, AS_NEVER);
}

void as_ingress_refuse(struct as_exchange *x, uint32_t status, struct as_str text, as_ns retry)
{
    send_text(x, status, text, retry);
}

void as_ingress_log_fault(struct as_ingress *g, const char *what)
{
    struct as_edge *e = g->x->edge;
    char id[2 * AS_INGRESS_ID_MAX + 80], path[300]; /* quoting doubles a quotation mark */
    uint64_t skipped;

    if (as_edge_may_log(e, AS_EDGE_LOG_ANSWER, &skipped))
        as_log_event(e->log, AS_LOG_WARN, "bad_answer",
                     "deployment=%.*s request_id=%s path=%s reason=\"%s\" skipped=%lu",
                     AS_STR_FMT(as_id_shown(g->x->call.route->deployment)),
                     as_log_quote(id, sizeof(id), g->open.id),
                     as_log_quote(path, sizeof(path), g->open.path), what, skipped);
}

struct as_str as_ingress_date(void)
{
    static _Thread_local char text[32];
    static _Thread_local time_t of;
    static _Thread_local size_t n;
    static const char days[] = "SunMonTueWedThuFriSat",
                      months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = time(NULL);
    struct tm t;

    if (now != of || !n) {
        gmtime_r(&now, &t);
        n = (size_t)snprintf(text, sizeof(text), "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
                             days + (size_t)3 * (unsigned)t.tm_wday, (unsigned)t.tm_mday % 100,
                             months + (size_t)3 * (unsigned)t.tm_mon,
                             (unsigned)(t.tm_year + 1900) % 10000, (unsigned)t.tm_hour % 100,
                             (unsigned)t.tm_min % 100, (unsigned)t.tm_sec % 100);
        of = now;
    }
    return (struct as_str){text, n};
}
