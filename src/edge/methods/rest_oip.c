#include "edge/methods/rest_oip.h"

#include "edge/methods/metadata.h"

static void send_json(struct as_exchange *x, uint32_t status, struct as_buf *json)
{
    as_rest_json(x, status, json);
    as_buf_fini(json);
}

void as_rest_oip_server(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    as_metadata_server(x);
}

void as_rest_oip_live(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    struct as_buf b;

    as_buf_init(&b);
    as_buf_str(&b, "{\"live\":true}");
    send_json(x, 200, &b);
}

void as_rest_oip_ready(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    bool ready = as_edge_is_ready(x->edge);
    struct as_buf b;

    as_buf_init(&b);
    as_buf_printf(&b, "{\"ready\":%s,\"live\":true}", ready ? "true" : "false");
    send_json(x, ready ? 200 : 503, &b);
}

void as_rest_oip_model_ready(struct as_exchange *x, const struct as_rest_match *m)
{
    const struct as_model *model = as_exchange_find_any_model(x, m->model, m->version);
    struct as_buf b;
    bool ready;

    if (!model)
        return;
    ready = as_edge_is_model_ready(x->edge, model);
    as_buf_init(&b);
    as_json_put_open(&b, '{');
    as_json_put_member_string(&b, "name", model->name);
    as_json_put_member_bool(&b, "ready", ready);
    as_json_put_close(&b, '}');
    send_json(x, ready ? 200 : 503, &b);
}

void as_rest_oip_model(struct as_exchange *x, const struct as_rest_match *m)
{
    as_metadata_model(x, m->model, m->version);
}
