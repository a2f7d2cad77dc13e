#include "edge/rest/openapi.h"

#include "edge/exchange/key_access.h"

/* Statuses that any request may get: malformed deadline or percent-encoding, an API key that is
 * missing, may not be used or has no quota left, incomplete or too large body, too many header
 * fields, too many requests, deadline exceeded. */
#define EVERYWHERE "400,401,403,408,413,429,431,503,504"
/* Statuses of requests with a body: unsupported content-encoding. */
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
                  ",\"data\":{\"$ref\":\"#/components/schemas/Data%s\"%s},"
                  "\"parameters\":{\"$ref\":\"#/components/schemas/Parameters\"}}}",
                  as_dtype_name(t->dtype),
                  /* only a scalar may be a single value */
                  t->ndim && t->ndim != AS_ANY_RANK ? ",\"type\":\"array\"" : "");
}

/* The schema of an InferRequest with the inputs of the signature. */
static void put_infer_request(struct as_buf *b, const struct as_model *m)
{
    as_buf_printf(b,
                  "{\"type\":\"object\",\"required\":[\"inputs\"],\"properties\":{"
                  "\"id\":{\"$ref\":\"#/components/schemas/Id\"},"
                  "\"parameters\":{\"$ref\":\"#/components/schemas/Parameters\"},"
                  "\"outputs\":{\"$ref\":\"#/components/schemas/RequestedOutputs\"},"
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

static bool is_infer(const struct as_rest_route *r)
{
    return r->doc.request && strcmp(r->doc.request, "InferRequest") == 0;
}

static void put_request(struct as_buf *b, const struct as_rest_route *r, const struct as_model *m)
{
    const struct as_rest_doc *doc = &r->doc;
    bool infer = is_infer(r);

    as_buf_printf(
        b, ",\"requestBody\":{%s\"required\":%s,\"content\":{\"application/json\":{\"schema\":",
        infer
            ? "\"description\":\"Bytes of tensors may follow the JSON, whose length is then in the "
              "header Inference-Header-Content-Length.\","
            : "",
        r->flags & AS_REST_OPTIONAL ? "false" : "true");
    if (infer && m && m->has_inputs)
        put_infer_request(b, m);
    else
        as_buf_printf(b, "{\"$ref\":\"#/components/schemas/%s\"}", doc->request);
    as_buf_str(b, "}");
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

/* Writes the statuses of a list like "400,503*" that are not `seen` yet, and marks them as seen. A
 * star: the body may be that of status 200. */
static void put_statuses(struct as_buf *b, const char *list, const char *schema, bool seen[600])
{
    while (*list) {
        char *end;
        unsigned long status = strtoul(list, &end, 10);
        bool star = *end == '*';

        AS_ASSERT(end != list && status < 600);
        if (!seen[status]) {
            as_buf_printf(b, ",\"%lu\":", status);
            if (star) {
                as_buf_str(b, "{\"description\":\"not now\"");
                put_content(b, schema, true);
                as_buf_str(b, "}");
            } else {
                as_buf_str(b, "{\"$ref\":\"#/components/responses/Refused\"}");
            }
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

/* References to the descriptions of the variables of a path. */
static void put_variables(struct as_buf *b, struct as_str path)
{
    static const char *const names[] = {"model", "version", "name"};
    bool any = false;

    for (size_t i = 0; i < AS_COUNT(names); i++) {
        char braced[16];
        size_t n = (size_t)snprintf(braced, sizeof(braced), "{%s}", names[i]);

        if (!memmem(path.p, path.n, braced, n))
            continue;
        as_buf_printf(b, "%s{\"$ref\":\"#/components/parameters/%s\"}",
                      any ? "," : ",\"parameters\":[", names[i]);
        any = true;
    }
    as_buf_str(b, any ? "]" : "");
}

/* What asks for no API key, with or without --api-keys: edge/exchange/key_access.c. */
static bool is_open(const struct as_rest_route *r)
{
    return r->label == AS_RESOURCE_LIVE || r->label == AS_RESOURCE_READY ||
           strcmp(r->path, "/-/healthz") == 0;
}

/* One operation; `suffix` makes its id unique. */
static void put_operation(struct as_buf *b, const struct as_rest_route *r, const struct as_model *m,
                          const char *suffix, struct as_str path)
{
    as_buf_printf(b, "\"%s\":{\"operationId\":\"%s", strcmp(r->method, "GET") ? "post" : "get",
                  r->doc.id);
    if (m) /* names need no escaping in JSON */
        as_buf_printf(b, ":%.*s", AS_STR_FMT(m->name));
    as_buf_printf(b, "%s\",\"summary\":\"%s\"%s", suffix, r->doc.summary,
                  is_open(r) ? ",\"security\":[]" : "");
    put_variables(b, path);
    if (r->doc.request)
        put_request(b, r, m);
    put_responses(b, r);
    as_buf_str(b, "}");
}

/* Writes a path and its methods, which are `first` and the following rows with the same pattern. m:
 * the model in place of {model} and {version}; NULL: the variables stay. */
static void put_path(struct as_buf *b, const struct as_rest_route *first, const struct as_model *m,
                     bool with_optional)
{
    const struct as_rest_table *t = &as_rest_tables[AS_INTERFACE_CLIENTS];
    const struct as_rest_route *end = t->rows + t->n;
    struct as_rest_match vars = {0};
    char suffix[AS_VERSION_MAX + 2] = "";
    struct as_buf path = {0};

    if (m) {
        vars.model = m->name;
        vars.version = m->version;
    }
    if (!as_route_put(&path, first->path, with_optional, &vars))
        return;
    if (with_optional && m)
        snprintf(suffix, sizeof(suffix), ":%.*s", AS_STR_FMT(m->version));
    else if (with_optional)
        snprintf(suffix, sizeof(suffix),
                 strstr(first->path, "{version}") ? ":{version}" : ":{name}");
    as_buf_printf(b, "%s\"%.*s\":{", b->p[b->n - 1] == '{' ? "" : ",", (int)path.n,
                  (const char *)path.p);
    for (const struct as_rest_route *r = first; r < end && !strcmp(r->path, first->path); r++) {
        as_buf_str(b, r == first ? "" : ",");
        put_operation(b, r, m, suffix, as_buf_slice(&path));
    }
    as_buf_str(b, "}");
    as_buf_fini(&path);
}

static bool is_shown(const struct as_exchange *x, const struct as_model *m)
{
    return !x || as_key_access_lists_model(x, m->name);
}

/* Writes paths for the models that declare their inputs: for the default version without a version,
 * and for each version if there are several. */
static void put_model_paths(struct as_buf *b, const struct as_rest_route *first,
                            const struct as_registry *g, const struct as_exchange *x)
{
    uint32_t n = as_registry_count(g), shown = 0;

    for (uint32_t i = 0; i < n && shown < AS_OPENAPI_MODELS; i++) {
        const struct as_model *m = as_registry_at(g, i), *by_default;

        if (!is_shown(x, m))
            continue;
        shown++;
        by_default = as_registry_is_first(g, i)
                         ? as_registry_find(g, m->name, (struct as_str){0}, NULL)
                         : NULL;
        if (by_default && by_default->has_inputs)
            put_path(b, first, by_default, false);
        if (m->has_inputs && as_registry_versions(g, m->name, NULL, 0) > 1)
            put_path(b, first, m, true);
    }
}

static void put_paths(struct as_buf *b, const struct as_registry *g, const struct as_exchange *x)
{
    const struct as_rest_table *t = &as_rest_tables[AS_INTERFACE_CLIENTS];

    as_buf_str(b, ",\"paths\":{");
    for (uint32_t i = 0; i < t->n; i++) {
        const struct as_rest_route *r = &t->rows[i];

        if (i && !strcmp(r->path, r[-1].path))
            continue;
        put_path(b, r, NULL, false);
        put_path(b, r, NULL, true);
        if (is_infer(r))
            put_model_paths(b, r, g, x);
    }
    as_buf_str(b, "}");
}

/* Most names of models that are listed as examples for {model}. */
#define EXAMPLES 10u

static void put_variable(struct as_buf *b, const char *before, const char *name, const char *what)
{
    as_buf_printf(b,
                  "%s\"%s\":{\"name\":\"%s\",\"in\":\"path\",\"required\":true,\"description\":"
                  "\"%s\",\"schema\":{\"type\":\"string\",\"minLength\":1",
                  before, name, name, what);
}

static void put_parameters(struct as_buf *b, const struct as_registry *g,
                           const struct as_exchange *x)
{
    uint32_t n = as_registry_count(g), shown = 0;
    const struct as_model *any = NULL;

    put_variable(b, "\"parameters\":{", "model", "the name of a model");
    for (uint32_t i = 0; i < n && shown < EXAMPLES; i++) {
        if (!is_shown(x, as_registry_at(g, i)))
            continue;
        any = any ? any : as_registry_at(g, i);
        if (as_registry_is_first(g, i))
            put_text(b, shown++ ? "," : ",\"examples\":[", as_registry_at(g, i)->name);
    }
    as_buf_str(b, shown ? "]}}" : "}}");
    put_variable(b, ",", "version", "one of the model's versions");
    if (any)
        put_text(b, ",\"examples\":[", any->version);
    as_buf_str(b, any ? "]}}" : "}}");
    put_variable(b, ",", "name", "the name of a shared memory region or of a repository");
    as_buf_str(b, "}}}");
}

/* A client sends its key in one of the two fields. */
#define SECURITY ",\"security\":[{\"bearer\":[]},{\"header\":[]}]"
#define SECURITY_SCHEMES                                                                           \
    ",\"securitySchemes\":{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":"   \
    "\"an API "                                                                                    \
    "key of this "                                                                                 \
    "server\"},\"header\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"x-api-key\","          \
    "\"description\":\"the same\"}}"

void as_openapi_put(struct as_buf *b, const struct as_registry *g, const struct as_exchange *x)
{
    bool keys = x && x->edge->conf.api_keys;
    uint32_t n = 0;

    for (uint32_t i = 0; i < as_registry_count(g); i++)
        n += is_shown(x, as_registry_at(g, i));

    as_buf_str(b,
               "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"AnyServe\",\"version\":\"" AS_VERSION
               "\",\"description\":\"Open Inference Protocol");
    if (n > AS_OPENAPI_MODELS)
        as_buf_printf(b, "; the signatures of %u of %u models and versions are described",
                      AS_OPENAPI_MODELS, n);
    as_buf_str(b, "\"}");
    if (keys)
        as_buf_str(b, SECURITY);
    put_paths(b, g, x);
    as_buf_str(b, ",\"components\":{");
    put_parameters(b, g, x);
    as_buf_str(b, ",\"responses\":{\"Refused\":{\"description\":\"refused\"");
    put_content(b, "Error", false);
    as_buf_printf(b, "}}%s,\"schemas\":{", keys ? SECURITY_SCHEMES : "");
    for (const struct as_openapi_schema *s = as_openapi_schemas; s->name; s++)
        as_buf_printf(b, "%s\"%s\":%s", s == as_openapi_schemas ? "" : ",", s->name, s->json);
    as_buf_str(b, "}}}");
}

void as_openapi_serve(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    struct as_buf b;

    as_buf_init(&b);
    as_openapi_put(&b, x->edge->client.registry, x);
    as_rest_json(x, 200, &b);
    as_buf_fini(&b);
}
