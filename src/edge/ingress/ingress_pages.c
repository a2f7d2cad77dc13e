/* The pages of the server about its applications, as Ray Serve has them. */
#include "edge/ingress/ingress.h"

#include "edge/exchange/key_access.h"

#define NOT_POPULATED "Route table is not populated yet."

static const struct as_routes *routes_of(const struct as_exchange *x)
{
    return x->edge->client.routes;
}

static void send_text(struct as_exchange *x, uint32_t status, const char *text)
{
    if (status == 503)
        as_ingress_refuse(x, status, as_str_of(text), AS_SEC);
    else
        as_ingress_reply(x, status, as_str_of(text));
}

void as_ingress_routes_page(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    const struct as_routes *all = routes_of(x);
    struct as_buf json = {0};
    bool any = false;

    if (x->edge->client.models_pending && !as_routes_count(all)) {
        send_text(x, 503, NOT_POPULATED);
        return;
    }
    as_buf_str(&json, "{");
    for (uint32_t i = 0; i < as_routes_count(all); i++) {
        const struct as_route *r = as_routes_at(all, i);

        if (!as_key_access_lists_application(x, as_id_application(r->deployment)))
            continue;
        as_buf_str(&json, any ? "," : "");
        any = true;
        as_buf_json(&json, r->prefix);
        as_buf_str(&json, ":");
        as_buf_json(&json, as_id_application(r->deployment));
    }
    as_buf_str(&json, "}");
    as_rest_json(x, 200, &json);
    as_buf_fini(&json);
}

void as_ingress_health_page(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    if (x->edge->shutting_down || x->edge->draining)
        send_text(x, 503, "This node is being drained.");
    else if (x->edge->client.models_pending && !as_routes_count(routes_of(x)))
        send_text(x, 503, NOT_POPULATED);
    else
        send_text(x, 200, "success");
}
