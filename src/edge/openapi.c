#include "edge/openapi.h"

/* Any request may meet these: a deadline or percent-encoding that is malformed, a body that stops
 * or is too long, too many header fields, too many requests, a deadline that is over. */
#define EVERYWHERE "400,408,413,431,503,504"
/* A body may be compressed. */
#define WITH_BODY "415"

static void put_text(struct as_buf *b, const char *before, struct as_str s)
{
    as_buf_str(b, before);
    as_buf_json(b, s);
}

/* --- requests --- */

static void put_shape(struct as_buf *b, const struct as_tensor_spec *t)
{
    as_buf_str(b, "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0}");
    if (t->ndim != AS_ANY_RANK) {
        as_buf_printf(b, ",\"minItems\":%u,\"maxItems\":%u", t->ndim, t->ndim);
        if (t->ndim)
            as_buf_str(b, ",\"prefixItems\":[");
        for (uint32_t i = 0; i < t->ndim; i++) {
            if (t->shape[i] < 0)
                as_buf_printf(b, "%s{\"type\":\"integer\",\"minimum\":0}", i ? "," : "");
            else
                as_buf_printf(b, "%s{\"const\":%ld}", i ? "," : "", (long)t->shape[i]);
        }
        if (t->ndim)
            as_buf_str(b, "]");
    }
    as_buf_str(b, "}");
}

static void put_input(struct as_buf *b, const struct as_tensor_spec *t)
{
    put_text(b,
             "{\"type\":\"object\",\"required\":[\"name\",\"datatype\",\"shape\",\"data\"],"
             "\"properties\":{\"name\":{\"const\":",
             t->name);
    as_buf_printf(b, "},\"datatype\":{\"const\":\"%s\"},\"shape\":", as_dtype_name(t->dtype));
    put_shape(b, t);
    as_buf_printf(b,
                  ",\"data\":{\"$ref\":\"#/components/schemas/Data%s\"},"
                  "\"parameters\":{\"$ref\":\"#/components/schemas/Parameters\"}}}",
                  as_dtype_name(t->dtype));
}

/* An InferRequest whose inputs are those of the signature. */
static void put_infer_request(struct as_buf *b, const struct as_model *m)
{
    as_buf_printf(b,
                  "{\"type\":\"object\",\"required\":[\"inputs\"],\"properties\":{"
                  "\"id\":{\"type\":\"string\"},"
                  "\"parameters\":{\"$ref\":\"#/components/schemas/Parameters\"},"
                  "\"outputs\":{\"type\":\"array\",\"items\":"
                  "{\"$ref\":\"#/components/schemas/RequestedOutput\"}},"
                  "\"inputs\":{\"type\":\"array\",\"minItems\":%u,\"maxItems\":%u",
                  m->n_inputs, m->n_inputs);
    if (m->n_inputs)
        as_buf_str(b, ",\"items\":{\"oneOf\":[");
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        as_buf_str(b, i ? "," : "");
        put_input(b, &m->inputs[i]);
    }
    as_buf_str(b, m->n_inputs ? "]}}}}" : "}}}");
}

static void put_request(struct as_buf *b, const struct as_rest_doc *doc, const struct as_model *m)
{
    bool infer = strcmp(doc->request, "InferRequest") == 0;

    as_buf_str(
        b, ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":");
    if (infer && m && m->has_inputs)
        put_infer_request(b, m);
    else
        as_buf_printf(b, "{\"$ref\":\"#/components/schemas/%s\"}", doc->request);
    as_buf_str(b, "}");
    if (infer)
        as_buf_str(b, ",\"application/octet-stream\":{\"schema\":{\"description\":\"the JSON, "
                      "Inference-Header-Content-Length bytes of it, then binary tensors\"}}");
    as_buf_str(b, "}}");
}

/* --- responses --- */

static void put_content(struct as_buf *b, const char *schema, bool or_error)
{
    as_buf_str(b, ",\"content\":{\"application/json\":{\"schema\":");
    if (or_error)
        as_buf_printf(b,
                      "{\"anyOf\":[{\"$ref\":\"#/components/schemas/%s\"},"
                      "{\"$ref\":\"#/components/schemas/Error\"}]}",
                      schema);
    else
        as_buf_printf(b, "{\"$ref\":\"#/components/schemas/%s\"}", schema);
    as_buf_str(b, "}");
    if (strcmp(schema, "InferResponse") == 0)
        as_buf_str(b, ",\"application/octet-stream\":{}");
    as_buf_str(b, "}");
}

/* `list`: "400,503*"; the star says that the body may be the one of 200. Each status once: `seen`
 * has a bit for each hundred's number. */
static void put_statuses(struct as_buf *b, const char *list, const char *schema, bool seen[600])
{
    while (*list) {
        char *end;
        unsigned long status = strtoul(list, &end, 10);
        bool star = *end == '*';

        AS_ASSERT(end != list && status < 600);
        if (!seen[status]) {
            as_buf_printf(b, ",\"%lu\":{\"description\":\"%s\"", status,
                          star ? "not now" : "refused");
            put_content(b, star ? schema : "Error", star);
            as_buf_str(b, "}");
        }
        seen[status] = true;
        list = end + star;
        list += *list == ',';
    }
}

static void put_responses(struct as_buf *b, const struct as_rest_route *r)
{
    bool seen[600] = {false};

    as_buf_str(b, ",\"responses\":{\"200\":{\"description\":\"done\"");
    if (r->doc.response)
        put_content(b, r->doc.response, false);
    as_buf_str(b, "}");
    put_statuses(b, r->doc.statuses, r->doc.response, seen);
    put_statuses(b, EVERYWHERE, r->doc.response, seen);
    if (r->flags & AS_REST_BODY)
        put_statuses(b, WITH_BODY, r->doc.response, seen);
    as_buf_str(b, "}");
}

/* --- paths --- */

/* One operation; `suffix` makes its id unique; `named`: its path has the parameter {name}. */
static void put_operation(struct as_buf *b, const struct as_rest_route *r, const struct as_model *m,
                          const char *suffix, bool named)
{
    as_buf_printf(b, "\"%s\":{\"operationId\":\"%s", strcmp(r->method, "GET") ? "post" : "get",
                  r->doc.id);
    if (m) /* names hold nothing that JSON would have to escape */
        as_buf_printf(b, ":%.*s", AS_STR_FMT(m->name));
    as_buf_printf(b, "%s\",\"summary\":\"%s\"", suffix, r->doc.summary);
    if (named)
        as_buf_str(b, ",\"parameters\":[{\"name\":\"name\",\"in\":\"path\",\"required\":true,"
                      "\"schema\":{\"type\":\"string\",\"minLength\":1}}]");
    if (r->doc.request)
        put_request(b, &r->doc, m);
    put_responses(b, r);
    as_buf_str(b, "}");
}

/* A path and its methods: `first` and the rows that follow with the same pattern. `m`: what stands
 * for {model} and {version}. */
static void put_path(struct as_buf *b, const struct as_rest_route *first, const struct as_model *m,
                     bool with_optional)
{
    const struct as_rest_table *t = &as_rest_tables[AS_DOOR_CLIENTS];
    const struct as_rest_route *end = t->rows + t->n;
    struct as_rest_match vars = {0};
    char suffix[AS_VERSION_MAX + 2] = "";
    const char *bracket = strchr(first->path, '['), *name = strstr(first->path, "{name}");
    size_t before = b->n;

    if (m) {
        vars.model = m->name;
        vars.version = m->version;
    }
    as_buf_str(b, b->p[b->n - 1] == '{' ? "\"" : ",\"");
    if (!as_route_put(b, first->path, with_optional, &vars)) {
        b->n = before;
        return;
    }
    as_buf_str(b, "\":{");
    if (with_optional)
        snprintf(suffix, sizeof(suffix), ":%.*s", name ? 4 : (int)vars.version.n,
                 name ? "name" : vars.version.p);
    for (const struct as_rest_route *r = first; r < end && !strcmp(r->path, first->path); r++) {
        as_buf_str(b, r == first ? "" : ",");
        put_operation(b, r, m, suffix, name && (with_optional || !bracket || name < bracket));
    }
    as_buf_str(b, "}");
}

/* A path of models, for each of them: without a version as the default one answers, and with. */
static void put_model_paths(struct as_buf *b, const struct as_rest_route *first,
                            const struct as_registry *g)
{
    uint32_t n = AS_MIN(as_registry_count(g), AS_OPENAPI_MODELS);
    bool versions = strstr(first->path, "{version}");

    for (uint32_t i = 0; i < n; i++) {
        const struct as_model *m = as_registry_at(g, i);
        bool is_first = i == 0 || !as_str_eq(as_registry_at(g, i - 1)->name, m->name);

        if (is_first)
            put_path(b, first, as_registry_find(g, m->name, (struct as_str){0}, NULL), false);
        if (is_first || versions)
            put_path(b, first, m, true);
    }
}

static void put_paths(struct as_buf *b, const struct as_registry *g)
{
    const struct as_rest_table *t = &as_rest_tables[AS_DOOR_CLIENTS];

    as_buf_str(b, ",\"paths\":{");
    for (uint32_t i = 0; i < t->n; i++) {
        const struct as_rest_route *r = &t->rows[i];

        if (i && !strcmp(r->path, r[-1].path))
            continue;
        if (strstr(r->path, "{model}")) {
            put_model_paths(b, r, g);
        } else {
            put_path(b, r, NULL, false);
            put_path(b, r, NULL, true);
        }
    }
    as_buf_str(b, "}");
}

void as_openapi_put(struct as_buf *b, const struct as_registry *g)
{
    uint32_t n = as_registry_count(g);

    as_buf_str(b,
               "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"AnyServe\",\"version\":\"" AS_VERSION
               "\",\"description\":\"Open Inference Protocol");
    if (n > AS_OPENAPI_MODELS)
        as_buf_printf(b, "; %u of %u models and versions are described", AS_OPENAPI_MODELS, n);
    as_buf_str(b, "\"}");
    put_paths(b, g);
    as_buf_str(b, ",\"components\":{\"schemas\":{");
    for (const struct as_openapi_schema *s = as_openapi_schemas; s->name; s++)
        as_buf_printf(b, "%s\"%s\":%s", s == as_openapi_schemas ? "" : ",", s->name, s->json);
    as_buf_str(b, "}}}");
}

void as_openapi_serve(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    struct as_buf b;

    as_buf_init(&b);
    as_openapi_put(&b, x->edge->client.registry);
    as_rest_json(x, 200, &b);
    as_buf_fini(&b);
}
