/* Specification of edge/rest/openapi: the document is valid JSON and describes every path. */
#include "edge/rest/openapi.h"

#include "unit.h"
#include "wire/json/json.h"

static struct as_registry *with(struct as_registry *g, const char *name, const char *version,
                                const struct as_tensor_spec *inputs, uint32_t n)
{
    struct as_model m = {.name = as_str_of(name),
                         .version = as_str_of(version),
                         .platform = AS_STR("python"),
                         .has_inputs = n > 0,
                         .inputs = inputs,
                         .n_inputs = n};
    struct as_registry *next;
    const char *why;

    assert_int_equal(as_registry_with_model(g, &m, &next, &why), 0);
    as_registry_unref(g);
    return next;
}

static char *document_for(const struct as_registry *g, const struct as_exchange *x)
{
    struct as_buf b;

    as_buf_init(&b);
    as_openapi_put(&b, g, x);
    as_buf_add(&b, "", 1);
    return (char *)b.p;
}

static char *document(const struct as_registry *g)
{
    return document_for(g, NULL);
}

static void assert_json(char *text)
{
    struct as_json *j = as_json_new();
    size_t n = strlen(text);
    struct as_json_value root;
    struct as_arena a;
    uint8_t *padded = calloc(1, n + AS_JSON_PADDING);

    memcpy(padded, text, n);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_json_open(j, &a, padded, n, &root), 0);
    assert_int_equal(as_json_skip(j, &root), 0);
    assert_int_equal(as_json_expect_end(j), 0);
    as_json_close(j);
    as_json_free(j);
    as_arena_fini(&a);
    free(padded);
}

/* A line for each operation, "get /v2", in the order of the document. */
static void put_paths(struct as_buf *out, char *text)
{
    struct as_json *j = as_json_new();
    size_t n = strlen(text);
    uint8_t *padded = calloc(1, n + AS_JSON_PADDING);
    struct as_json_items top, paths, methods;
    struct as_json_value root;
    struct as_arena a;

    memcpy(padded, text, n);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_json_open(j, &a, padded, n, &root), 0);
    assert_int_equal(as_json_items(j, &root, &top), 0);
    while (as_json_next(j, &top) > 0) {
        if (!as_str_eq(top.key, AS_STR("paths"))) {
            assert_int_equal(as_json_skip(j, &top.value), 0);
            continue;
        }
        assert_int_equal(as_json_items(j, &top.value, &paths), 0);
        while (as_json_next(j, &paths) > 0) {
            struct as_str path = paths.key;

            assert_int_equal(as_json_items(j, &paths.value, &methods), 0);
            while (as_json_next(j, &methods) > 0) {
                as_buf_printf(out, "%.*s %.*s\n", AS_STR_FMT(methods.key), AS_STR_FMT(path));
                assert_int_equal(as_json_skip(j, &methods.value), 0);
            }
        }
    }
    as_buf_add(out, "", 1);
    as_json_close(j);
    as_json_free(j);
    as_arena_fini(&a);
    free(padded);
}

static void a_server_without_models(void **state AS_UNUSED)
{
    struct as_registry *g = as_registry_new();
    char *text = document(g);
    struct as_buf paths;

    assert_json(text);
    as_buf_init(&paths);
    put_paths(&paths, text);
    assert_string_equal((char *)paths.p,
                        "post /v2/models/{model}/infer\n"
                        "post /v2/models/{model}/versions/{version}/infer\n"
                        "get /v2\n"
                        "get /v2/\n"
                        "get /v2/health/live\n"
                        "get /v2/health/ready\n"
                        "get /v2/models/{model}\n"
                        "get /v2/models/{model}/versions/{version}\n"
                        "get /v2/models/{model}/ready\n"
                        "get /v2/models/{model}/versions/{version}/ready\n"
                        "post /v2/models/{model}/generate\n"
                        "post /v2/models/{model}/versions/{version}/generate\n"
                        "post /v2/models/{model}/generate_stream\n"
                        "post /v2/models/{model}/versions/{version}/generate_stream\n"
                        "get /v2/models/{model}/config\n"
                        "get /v2/models/{model}/versions/{version}/config\n"
                        "get /v2/models/{model}/stats\n"
                        "get /v2/models/{model}/versions/{version}/stats\n"
                        "get /v2/models/stats\n"
                        "post /v2/repository/index\n"
                        "post /v2/repository/models/{model}/load\n"
                        "post /v2/repository/{name}/models/{model}/load\n"
                        "post /v2/repository/models/{model}/unload\n"
                        "post /v2/repository/{name}/models/{model}/unload\n"
                        "get /v2/systemsharedmemory/status\n"
                        "get /v2/systemsharedmemory/region/{name}/status\n"
                        "post /v2/systemsharedmemory/region/{name}/register\n"
                        "post /v2/systemsharedmemory/unregister\n"
                        "post /v2/systemsharedmemory/region/{name}/unregister\n"
                        "get /v2/cudasharedmemory/status\n"
                        "get /v2/cudasharedmemory/region/{name}/status\n"
                        "post /v2/cudasharedmemory/region/{name}/register\n"
                        "post /v2/cudasharedmemory/unregister\n"
                        "post /v2/cudasharedmemory/region/{name}/unregister\n"
                        "get /v2/trace/setting\n"
                        "post /v2/trace/setting\n"
                        "get /v2/models/{model}/trace/setting\n"
                        "post /v2/models/{model}/trace/setting\n"
                        "get /v2/models/{model}/versions/{version}/trace/setting\n"
                        "post /v2/models/{model}/versions/{version}/trace/setting\n"
                        "get /v2/logging\n"
                        "post /v2/logging\n"
                        "get /openapi.json\n"
                        "get /v2/openapi.json\n"
                        "get /-/routes\n"
                        "get /-/healthz\n");
    as_buf_fini(&paths);
    free(text);
    as_registry_unref(g);
}

static void each_signature_has_its_paths(void **state AS_UNUSED)
{
    static const int64_t shape[] = {-1, 28};
    const struct as_tensor_spec inputs[] = {
        {.name = AS_STR("a \"quoted\" name"), .dtype = AS_DT_FP32, .ndim = 2, .shape = shape},
        {.name = AS_STR("any"), .dtype = AS_DT_BYTES, .ndim = AS_ANY_RANK},
    };
    struct as_registry *g = as_registry_new();
    char *text;

    g = with(g, "team/m", "2", inputs, 2);
    g = with(g, "team/m", "10", inputs + 1, 1);
    g = with(g, "alone", "1", inputs + 1, 1);
    g = with(g, "undeclared", "1", NULL, 0);
    text = document(g);
    assert_json(text);
    assert_non_null(strstr(text, "\"/v2/models/team/m/infer\":{\"post\":{"));
    assert_non_null(strstr(text, "\"/v2/models/team/m/versions/2/infer\":{\"post\":{"));
    assert_non_null(strstr(text, "\"/v2/models/team/m/versions/10/infer\":{\"post\":{"));
    assert_non_null(strstr(text, "\"operationId\":\"infer:team/m:2\""));
    /* one version needs one path; what declares nothing, and all else, is the same for every model
     */
    assert_non_null(strstr(text, "\"/v2/models/alone/infer\":{\"post\":{"));
    assert_null(strstr(text, "/v2/models/alone/versions"));
    assert_null(strstr(text, "/v2/models/undeclared"));
    assert_null(strstr(text, "/v2/models/team/m/ready"));
    assert_non_null(strstr(text, "\"examples\":[\"alone\",\"team/m\",\"undeclared\"]"));
    assert_non_null(strstr(text, "{\"const\":\"a \\\"quoted\\\" name\"}"));
    assert_non_null(strstr(text, "\"prefixItems\":[{\"type\":\"integer\",\"minimum\":0},"
                                 "{\"const\":28}]"));
    free(text);
    as_registry_unref(g);
}

/* At most AS_OPENAPI_MODELS signatures are described, and the document says so. */
static void the_number_of_signatures_is_limited(void **state AS_UNUSED)
{
    const struct as_tensor_spec any = {
        .name = AS_STR("x"), .dtype = AS_DT_FP32, .ndim = AS_ANY_RANK};
    struct as_registry *g = as_registry_new();
    char *text, version[16];

    for (uint32_t i = 0; i < AS_OPENAPI_MODELS; i++) {
        snprintf(version, sizeof(version), "%u", i);
        g = with(g, "m", version, &any, 1);
    }
    text = document(g);
    assert_non_null(strstr(text, "/versions/255/infer"));
    assert_null(strstr(text, "are described"));
    free(text);
    g = with(g, "m", "256", &any, 1);
    text = document(g);
    assert_json(text);
    assert_null(strstr(text, "/versions/256/infer"));
    assert_non_null(strstr(text, "the signatures of 256 of 257 models and versions are described"));
    free(text);
    as_registry_unref(g);
}

/* Only models that the key may use count: those that come after many others are described, too. */
static void the_limit_is_of_models_that_the_key_may_use(void **state AS_UNUSED)
{
    const struct as_tensor_spec any = {
        .name = AS_STR("x"), .dtype = AS_DT_FP32, .ndim = AS_ANY_RANK};
    const struct as_key_line line = {
        .name = AS_STR("a"), .models = AS_STR("mine"), .applications = AS_STR("*")};
    struct as_edge *e = calloc(1, sizeof(*e));
    struct as_exchange *x = calloc(1, sizeof(*x));
    struct as_registry *g = as_registry_new();
    char *text, version[16];

    e->conf.api_keys = true;
    x->edge = e;
    x->key = as_key_new(&line, NULL);
    for (uint32_t i = 0; i <= AS_OPENAPI_MODELS; i++) {
        snprintf(version, sizeof(version), "%u", i);
        g = with(g, "another", version, &any, 1);
    }
    for (uint32_t i = 0; i <= AS_OPENAPI_MODELS; i++) {
        snprintf(version, sizeof(version), "%u", i);
        g = with(g, "mine", version, &any, 1);
        if (i + 1 < AS_OPENAPI_MODELS)
            continue;
        text = document_for(g, x);
        assert_non_null(strstr(text, "/v2/models/mine/infer"));
        assert_non_null(strstr(text, "/v2/models/mine/versions/255/infer"));
        assert_null(strstr(text, "/v2/models/mine/versions/256/infer"));
        assert_null(strstr(text, "another"));
        assert_int_equal(
            strstr(text, "the signatures of 256 of 257 models and versions are described") != NULL,
            i == AS_OPENAPI_MODELS);
        free(text);
    }
    as_registry_unref(g);
    as_key_unref(x->key);
    free(x);
    free(e);
}

/* Every route has statuses, and a schema that exists. */
static void every_row_is_documented(void **state AS_UNUSED)
{
    const struct as_rest_table *t = &as_rest_tables[AS_INTERFACE_CLIENTS];

    for (uint32_t i = 0; i < t->n; i++) {
        const struct as_rest_doc *d = &t->rows[i].doc;
        const char *const wanted[] = {d->request, d->response};

        assert_non_null(d->id);
        assert_non_null(d->summary);
        assert_non_null(d->statuses);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(d->id, t->rows[k].doc.id);
        for (uint32_t k = 0; k < 2; k++) {
            const struct as_openapi_schema *s = as_openapi_schemas;

            while (wanted[k] && s->name && strcmp(s->name, wanted[k]) != 0)
                s++;
            assert_true(!wanted[k] || s->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_without_models),
        cmocka_unit_test(each_signature_has_its_paths),
        cmocka_unit_test(the_number_of_signatures_is_limited),
        cmocka_unit_test(the_limit_is_of_models_that_the_key_may_use),
        cmocka_unit_test(every_row_is_documented),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
