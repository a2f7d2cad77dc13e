#include "edge/rest/landing_page.h"

#include "core/registry/registry.h"
#include "edge/exchange/key_access.h"
#include "edge/exchange/route.h"

enum page { PAGE_INDEX, PAGE_DOCS, PAGE_METRICS, PAGE_MODELS };

static const struct known_path {
    const char *path;
    enum page page;
} known_paths[] = {
    {"/", PAGE_INDEX},           {"/docs", PAGE_DOCS},         {"/metrics", PAGE_METRICS},
    {"/v2/models", PAGE_MODELS}, {"/v2/models/", PAGE_MODELS},
};

/* The page while it is written, as HTML or JSON. */
struct document {
    struct as_buf text;
    bool html;
    bool linked; /* it has at least one link */
};

static void put_escaped(struct as_buf *b, struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        switch (s.p[i]) {
        case '&':
            as_buf_str(b, "&amp;");
            break;
        case '<':
            as_buf_str(b, "&lt;");
            break;
        case '>':
            as_buf_str(b, "&gt;");
            break;
        case '"':
            as_buf_str(b, "&quot;");
            break;
        default:
            as_buf_add(b, &s.p[i], 1);
        }
    }
}

static void put_link(struct document *s, struct as_str href, struct as_str about)
{
    if (s->html) {
        as_buf_str(&s->text, "<li><a href=\"");
        put_escaped(&s->text, href);
        as_buf_str(&s->text, "\">");
        put_escaped(&s->text, about);
        as_buf_str(&s->text, "</a></li>\n");
    } else {
        as_buf_str(&s->text, s->linked ? ",{\"href\":" : "{\"href\":");
        as_buf_json(&s->text, href);
        as_buf_str(&s->text, ",\"about\":");
        as_buf_json(&s->text, about);
        as_buf_str(&s->text, "}");
    }
    s->linked = true;
}

/* --- the content --- */

static uint32_t count_models(const struct as_exchange *x)
{
    const struct as_registry *g = x->edge->client.registry;
    uint32_t n = 0;

    for (uint32_t i = 0; i < as_registry_count(g); i++)
        n += as_registry_is_first(g, i) && as_key_access_lists_model(x, as_registry_at(g, i)->name);
    return n;
}

/* Where the metrics are, if they are anywhere. */
static bool put_metrics_address(const struct as_exchange *x, struct as_buf *b)
{
    const struct as_edge_conf *conf = &x->edge->conf;

    if (conf->status_page) {
        as_buf_str(b, AS_REST_METRICS);
        return true;
    }
    if (!conf->status_port)
        return false;
    as_buf_str(b, conf->status_tls ? "https://" : "http://");
    as_buf_address(b, conf->status_host, (uint16_t)conf->status_port, true);
    as_buf_str(b, AS_REST_METRICS);
    return true;
}

static void put_about(const struct as_exchange *x, enum page page, struct as_buf *b)
{
    uint32_t n = count_models(x);

    switch (page) {
    case PAGE_DOCS:
        as_buf_str(b,
                   "There is no documentation to read here: /openapi.json describes this server, "
                   "for programs and for tools that make pages of it.");
        return;
    case PAGE_METRICS:
        as_buf_str(b,
                   "Metrics are not on the port of clients (--metrics-on-client-port) but on the "
                   "status port, ");
        if (put_metrics_address(x, b))
            as_buf_str(b, " (--status-host, --status-port).");
        else
            as_buf_str(b, "which is off: start the server with --status-port.");
        return;
    case PAGE_MODELS:
        as_buf_str(b, "Models are listed by POST /v2/repository/index; GET /v2/models/NAME "
                      "describes one.");
        return;
    case PAGE_INDEX:
    default:
        as_buf_printf(b,
                      "AnyServe " AS_VERSION " serves %u model%s by the Open Inference Protocol "
                      "(KServe v2), gRPC and REST on this port.",
                      n, n == 1 ? "" : "s");
    }
}

static void put_models(struct document *s, const struct as_exchange *x)
{
    const struct as_registry *g = x->edge->client.registry;
    uint32_t n = as_registry_count(g), shown = 0;

    for (uint32_t i = 0; i < n && shown < AS_LANDING_PAGE_MODELS; i++) {
        struct as_str name = as_registry_at(g, i)->name;
        struct as_buf href = {0}, text = {0};

        if (!as_registry_is_first(g, i) || !as_key_access_lists_model(x, name))
            continue;
        as_buf_str(&href, "/v2/models/");
        as_buf_percent(&href, name);
        as_buf_printf(&text, "model %.*s", AS_STR_FMT(name));
        put_link(s, as_buf_slice(&href), as_buf_slice(&text));
        as_buf_fini(&href);
        as_buf_fini(&text);
        shown++;
    }
}

static void put_links(const struct as_exchange *x, enum page page, struct document *s)
{
    static const struct {
        const char *href, *about;
    } always[] = {
        {"/v2", "this server: version and extensions"},
        {"/v2/health/ready", "whether every model has a worker"},
        {"/v2/models/stats", "all models, and what became of their requests"},
        {"/openapi.json", "all that is answered here, as an OpenAPI document"},
    };
    struct as_buf metrics = {0};

    for (size_t i = 0; i < AS_COUNT(always); i++)
        put_link(s, as_str_of(always[i].href), as_str_of(always[i].about));
    if (put_metrics_address(x, &metrics))
        put_link(s, as_buf_slice(&metrics), AS_STR("metrics, for Prometheus"));
    as_buf_fini(&metrics);
    if (page == PAGE_INDEX || page == PAGE_MODELS)
        put_models(s, x);
}

/* --- the answer --- */

static void send_document(struct as_exchange *x, struct document *s, uint32_t status)
{
    static const struct as_http_header vary = {{"vary", 4}, {"accept", 6}};
    char *p = as_arena_dup(&x->arena, as_buf_slice(&s->text));
    struct as_http_piece piece = {(const uint8_t *)p, s->text.n, NULL};

    if (!p) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the answer");
        return;
    }
    as_rest_send(x, &(struct as_rest_reply){
                        .status = status,
                        .content_type = s->html ? AS_STR("text/html; charset=utf-8")
                                                : AS_STR("application/json"),
                        .extra = &vary,
                        .n_extra = 1,
                        .body = &piece,
                        .n_body = 1,
                    });
}

/* True: Accept lists text/html, and not application/json before it. */
static bool wants_html(const struct as_exchange *x)
{
    struct as_str accept = as_http_head_find(x->head, AS_STR("accept"));
    const char *html = accept.p ? memmem(accept.p, accept.n, "text/html", 9) : NULL;
    const char *json = accept.p ? memmem(accept.p, accept.n, "application/json", 16) : NULL;

    return html && (!json || html < json);
}

static void answer_page(struct as_exchange *x, enum page page)
{
    struct document s = {.html = wants_html(x)};
    struct as_buf what = {0};

    put_about(x, page, &what);
    if (s.html) {
        as_buf_str(&s.text, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                            "<title>AnyServe</title></head><body>\n<p>");
        put_escaped(&s.text, as_buf_slice(&what));
        as_buf_str(&s.text, "</p>\n<ul>\n");
    } else {
        as_buf_str(&s.text, page == PAGE_INDEX ? "{\"name\":\"anyserve\",\"version\":\"" AS_VERSION
                                                 "\",\"about\":"
                                               : "{\"error\":");
        as_buf_json(&s.text, as_buf_slice(&what));
        as_buf_str(&s.text, ",\"links\":[");
    }
    put_links(x, page, &s);
    as_buf_str(&s.text, s.html ? "</ul>\n</body></html>\n" : "]}");
    send_document(x, &s, page == PAGE_INDEX ? 200 : 404);
    as_buf_fini(&what);
    as_buf_fini(&s.text);
}

bool as_landing_page_answer(struct as_exchange *x, struct as_str path)
{
    bool is_got =
        as_str_eq(x->head->method, AS_STR("GET")) || as_str_eq(x->head->method, AS_STR("HEAD"));

    if (!is_got || x->edge->conf.interface != AS_INTERFACE_CLIENTS)
        return false;
    for (size_t i = 0; i < AS_COUNT(known_paths); i++) {
        if (as_str_eq(path, as_str_of(known_paths[i].path))) {
            answer_page(x, known_paths[i].page);
            return true;
        }
    }
    return false;
}
