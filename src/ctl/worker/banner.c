#include "ctl/worker/banner.h"

/* columns of a terminal; lists of models wrap there */
#define WIDTH  78u
#define MODELS 10u /* models that are listed; `anyserve status` has all */

/* The first `named` models of a deployment, wrapped at WIDTH. */
static void write_models(struct as_buf *b, const struct as_declared_deployment *d, uint32_t named)
{
    size_t column = WIDTH;

    for (uint32_t i = 0; i < named; i++) {
        size_t n = strlen(d->models[i].name);

        if (i > 0 && column + 2 + n > WIDTH) {
            as_buf_str(b, "\n              ");
            column = 14;
        } else if (i > 0) {
            as_buf_str(b, "  ");
            column += 2;
        } else {
            column = 14;
        }
        as_buf_str(b, d->models[i].name);
        column += n;
    }
    if (named < d->n_models)
        as_buf_printf(b, "  and %u more", d->n_models - named);
    as_buf_str(b, "\n");
}

/* "and N more": the deployments that are not listed. */
static void write_omitted(struct as_buf *b, const struct as_declared *app, uint32_t from)
{
    uint32_t models = 0;

    for (uint32_t i = from; i < app->n; i++)
        models += app->deployments[i].n_models;
    if (from < app->n)
        as_buf_printf(b, "  and %u more deployment%s with %u model%s\n", app->n - from,
                      app->n - from == 1 ? "" : "s", models, models == 1 ? "" : "s");
}

static const char *scheme(bool tls)
{
    return tls ? "https" : "http";
}

/* Further addresses of clients, one on a line. */
static void write_more(struct as_buf *b, const char *line)
{
    while (*line) {
        size_t n = strcspn(line, "\n");

        as_buf_printf(b, "              %.*s  the same\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static void write_addresses(struct as_buf *b, const struct as_banner *v)
{
    as_buf_str(b, "  address     ");
    as_buf_address(b, v->host, v->port, false);
    as_buf_printf(b, "  gRPC and REST (KServe v2), HTTP/1.1 and HTTP/2%s\n",
                  v->tls ? ", by TLS" : "");
    if (v->grpc_port) {
        as_buf_str(b, "              ");
        as_buf_address(b, v->host, v->grpc_port, false);
        as_buf_str(b, "  the same\n");
    }
    write_more(b, v->more ? v->more : "");
    if (v->route) {
        as_buf_printf(b, "  route       %s://", scheme(v->tls));
        as_buf_address(b, v->host, v->port, true);
        as_buf_printf(b, "%s  HTTP requests to the application\n", v->route);
    }
    if (v->status_port) {
        as_buf_printf(b, "  status      %s://", scheme(v->status_tls));
        as_buf_address(b, v->status_host, v->status_port, true);
        as_buf_str(b, "/status and /metrics\n");
    }
    if (v->management)
        as_buf_printf(b, "  management  %s  workers register there\n", v->management);
    if (v->control)
        as_buf_printf(b, "  control     %s  deployments are changed there\n", v->control);
}

/* A command to paste: a call that fits the code's signature, or else one for the model's metadata.
 */
static void write_call(struct as_buf *b, const struct as_banner *v)
{
    /* as_declared_parse refuses an application without a model, and a model without a version */
    const char *model = v->app->deployments[0].models[0].name;
    size_t name = strcspn(model, ":");

    if (v->app->call && !v->app->call[0]) {
        as_buf_printf(b,
                      "\n  Call it from Python, where ANYSERVE_PORT is %u:\n"
                      "    serve.get_app_handle(\"default\").remote(…).result()\n\n",
                      v->port);
        return;
    }
    as_buf_str(b, "\n  Call it:\n    ");
    if (v->app->call)
        as_buf_printf(b, "%s --url ", v->app->call);
    else
        as_buf_printf(b, "curl '%s://", scheme(v->tls));
    as_buf_address(b, v->host, v->port, true);
    if (!v->app->call)
        as_buf_printf(b, "/v2/models/%.*s/versions/%s'", (int)name, model, model + name + 1);
    else if (v->tls)
        as_buf_str(b, " --tls --ca FILE");
    as_buf_str(b, "\n\n");
}

void as_banner_write(struct as_buf *b, const struct as_banner *v)
{
    uint32_t left = MODELS;

    if (v->summary)
        as_buf_printf(b, "AnyServe %s serves %s", v->version, v->summary);
    else if (v->target)
        as_buf_printf(b, "AnyServe %s serves %s\n\n", v->version, v->target);
    else
        as_buf_printf(b, "AnyServe %s serves the workers that join\n\n", v->version);
    for (uint32_t i = 0; i < v->app->n; i++) {
        const struct as_declared_deployment *d = &v->app->deployments[i];
        uint32_t n = v->replicas ? v->replicas[i] : v->workers;
        uint32_t named = AS_MIN(d->n_models, left);

        if (!named) {
            write_omitted(b, v->app, i);
            break;
        }
        left -= named;
        as_buf_printf(b, "  deployment  %s, %u replica%s\n  models      ", d->name, n,
                      n == 1 ? "" : "s");
        write_models(b, d, named);
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
