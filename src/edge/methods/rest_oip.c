#include "edge/methods/rest_oip.h"

#include "edge/triton/extension.h"

static void put_pair(struct as_buf *b, const char *before, struct as_str value)
{
    as_buf_str(b, before);
    as_buf_json(b, value);
}

static void send_json(struct as_exchange *x, uint32_t status, struct as_buf *json)
{
    as_rest_json(x, status, json);
    as_buf_fini(json);
}

void as_rest_oip_server(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    struct as_str extensions[AS_EXTENSIONS];
    uint32_t n = as_extension_list(x->edge, extensions);
    struct as_buf b;

    as_buf_init(&b);
    as_buf_str(&b, "{\"name\":\"anyserve\",\"version\":\"" AS_VERSION "\",\"extensions\":[");
    for (uint32_t i = 0; i < n; i++)
        put_pair(&b, i ? "," : "", extensions[i]);
    as_buf_str(&b, "]}");
    send_json(x, 200, &b);
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
    bool ready = !x->edge->shutting_down && as_fleet_ready(x->edge->client.fleet);
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
    ready = !x->edge->shutting_down && !model->unloaded &&
            as_fleet_deployment_ready(x->edge->client.fleet, model->deployment);
    as_buf_init(&b);
    put_pair(&b, "{\"name\":", model->name);
    as_buf_printf(&b, ",\"ready\":%s}", ready ? "true" : "false");
    send_json(x, ready ? 200 : 503, &b);
}

/* --- metadata --- */

static void put_tensors(struct as_buf *b, const char *before, const struct as_tensor_spec *specs,
                        uint32_t n)
{
    as_buf_str(b, before);
    for (uint32_t i = 0; i < n; i++) {
        const struct as_tensor_spec *t = &specs[i];

        put_pair(b, i ? ",{\"name\":" : "{\"name\":", t->name);
        as_buf_printf(b, ",\"datatype\":\"%s\",\"shape\":[", as_dtype_name(t->dtype));
        for (uint32_t d = 0; t->ndim != AS_ANY_RANK && d < t->ndim; d++)
            as_buf_printf(b, "%s%ld", d ? "," : "", (long)t->shape[d]);
        as_buf_str(b, "]}");
    }
    as_buf_str(b, "]");
}

void as_rest_oip_model(struct as_exchange *x, const struct as_rest_match *m)
{
    const struct as_model *model = as_exchange_find_model(x, m->model, m->version);
    const struct as_model **all;
    struct as_buf b;
    uint32_t n;

    if (!model)
        return;
    n = as_registry_versions(x->registry, model->name, NULL, 0);
    all = as_arena_alloc(&x->arena, n * sizeof(struct as_model *), 8);
    if (!all) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the answer");
        return;
    }
    as_registry_versions(x->registry, model->name, all, n);
    as_buf_init(&b);
    put_pair(&b, "{\"name\":", model->name);
    as_buf_str(&b, ",\"versions\":[");
    for (uint32_t i = 0; i < n; i++)
        put_pair(&b, i ? "," : "", all[i]->version);
    put_pair(&b, "],\"platform\":", model->platform);
    put_tensors(&b, ",\"inputs\":[", model->inputs, model->n_inputs);
    put_tensors(&b, ",\"outputs\":[", model->outputs, model->n_outputs);
    as_buf_str(&b, "}");
    send_json(x, 200, &b);
}
