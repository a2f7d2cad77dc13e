#include "ctl/banner.h"

/* a plain terminal; models wrap under each other beyond it */
#define WIDTH 78u

void as_banner_address(struct as_buf *b, const char *host, uint16_t port, bool local)
{
    /* all addresses are listened on; a client needs one that it can connect to */
    if (local && (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0))
        host = "127.0.0.1";
    as_buf_printf(b, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

/* The models of a deployment, wrapped under each other. */
static void write_models(struct as_buf *b, const struct as_app_deployment *d)
{
    size_t column = WIDTH;

    for (uint32_t i = 0; i < d->n_models; i++) {
        size_t n = strlen(d->models[i]);

        if (i > 0 && column + 2 + n > WIDTH) {
            as_buf_str(b, "\n              ");
            column = 14;
        } else if (i > 0) {
            as_buf_str(b, "  ");
            column += 2;
        } else {
            column = 14;
        }
        as_buf_str(b, d->models[i]);
        column += n;
    }
    as_buf_str(b, "\n");
}

static void write_addresses(struct as_buf *b, const struct as_banner *v)
{
    as_buf_str(b, "  address     ");
    as_banner_address(b, v->host, v->port, false);
    as_buf_str(b, "  gRPC and REST (KServe v2), HTTP/1.1 and HTTP/2\n");
    if (v->grpc_port) {
        as_buf_str(b, "              ");
        as_banner_address(b, v->host, v->grpc_port, false);
        as_buf_str(b, "  the same\n");
    }
    if (v->status_port)
        as_buf_printf(b, "  status      http://127.0.0.1:%u/status and /metrics\n", v->status_port);
    if (v->management)
        as_buf_printf(b, "  management  %s  workers register there\n", v->management);
    if (v->control)
        as_buf_printf(b, "  control     %s  what is served is changed there\n", v->control);
}

static void write_call(struct as_buf *b, const struct as_banner *v)
{
    /* as_app_parse lets no application without a model and no model without a version through */
    const char *model = v->app->deployments[0].models[0];

    as_buf_str(b, "\n  Call it (pip install tritonclient[grpc]; inputs as the model names them):\n"
                  "    import numpy as np, tritonclient.grpc as triton\n"
                  "    client = triton.InferenceServerClient(\"");
    as_banner_address(b, v->host, v->port, true);
    as_buf_printf(b,
                  "\")\n"
                  "    x = triton.InferInput(\"x\", [2], \"FP32\")\n"
                  "    x.set_data_from_numpy(np.float32([1, 2]))\n"
                  "    print(client.infer(\"%.*s\", [x]).get_response())\n\n",
                  (int)strcspn(model, ":"), model);
}

void as_banner_write(struct as_buf *b, const struct as_banner *v)
{
    if (v->summary)
        as_buf_printf(b, "AnyServe %s serves %s", v->version, v->summary);
    else if (v->target)
        as_buf_printf(b, "AnyServe %s serves %s\n\n", v->version, v->target);
    else
        as_buf_printf(b, "AnyServe %s serves the workers that join\n\n", v->version);
    for (uint32_t i = 0; i < v->app->n; i++) {
        const struct as_app_deployment *d = &v->app->deployments[i];
        uint32_t n = v->replicas ? v->replicas[i] : v->workers;

        as_buf_printf(b, "  deployment  %s, %u replica%s\n  models      ", d->name, n,
                      n == 1 ? "" : "s");
        write_models(b, d);
    }
    write_addresses(b, v);
    if (v->summary) {
        as_buf_printf(b, "  python      %s (%s)\n\n", v->python, v->python_why);
        return;
    }
    if (!v->target) {
        as_buf_printf(b, "  workers     %s, %s\n\n", v->link, v->registry);
        return;
    }
    as_buf_printf(b, "  python      %s (%s)\n", v->python, v->python_why);
    write_call(b, v);
}
