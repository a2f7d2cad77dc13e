#include "tool/call/model_call.h"

#include "wire/oip/oip.h"
#include "wire/oip/oip_json_flat.h"

_Static_assert(AS_REST_CALL_TEXT == AS_MODEL_CALL_TEXT, "texts of one size");

void as_model_call_prepare(struct as_model_call_frame *f, enum as_model_call_protocol protocol,
                           const struct as_model_call_request *r, const char *authority, bool tls)
{
    struct as_str scheme = tls ? AS_STR("https") : AS_STR("http");
    uint32_t n;

    *f = (struct as_model_call_frame){.timeout = ""};
    AS_ASSERT(r->n_metadata <= AS_MODEL_CALL_METADATA);
    if (protocol == AS_MODEL_CALL_GRPC) {
        AS_ASSERT(r->message.n <= UINT32_MAX);
        if (r->timeout)
            as_grpc_put_timeout(f->timeout, r->timeout);
        n = as_grpc_call_fields(f->fields, scheme, r->path, as_str_of(authority),
                                AS_STR(AS_MODEL_CALL_AGENT), as_str_of(f->timeout));
        if (!r->framed) {
            as_grpc_prefix(f->prefix, (uint32_t)r->message.n);
            f->body[f->request.n_body++] =
                (struct as_str){(const char *)f->prefix, sizeof(f->prefix)};
        }
        f->body[f->request.n_body++] = r->message;
    } else {
        struct as_rest_call_head head = {.method = r->method,
                                         .scheme = scheme,
                                         .path = r->path,
                                         .authority = as_str_of(authority),
                                         .user_agent = AS_STR(AS_MODEL_CALL_AGENT)};

        if (r->has_binary_data) {
            snprintf(f->json_len, sizeof(f->json_len), "%zu", r->json_len);
            head.json_len = as_str_of(f->json_len);
        }
        if (r->message.n)
            head.content_type = r->has_binary_data ? AS_STR("application/octet-stream")
                                                   : AS_STR("application/json");
        n = as_rest_call_fields(f->fields, &head);
        f->body[0] = r->message;
        f->request.n_body = r->message.n ? 1 : 0;
    }
    for (uint32_t i = 0; i < r->n_metadata; i++)
        f->fields[n++] = r->metadata[i];
    f->request.headers = f->fields;
    f->request.n_headers = n;
    f->request.body = f->body;
}

void as_model_call_begin(struct as_model_call *c, enum as_model_call_protocol protocol,
                         struct as_json *json, size_t limit)
{
    c->protocol = protocol;
    c->json = json;
    c->on_response = NULL;
    c->expected = NULL;
    if (protocol == AS_MODEL_CALL_GRPC)
        as_grpc_call_begin(&c->grpc, limit);
    else
        as_rest_call_begin(&c->rest, limit);
}

static void on_message(void *ctx, struct as_grpc_call *g AS_UNUSED)
{
    struct as_model_call *c = ctx;

    c->on_response(c->ctx, c);
}

static void on_event(void *ctx, struct as_rest_call *r AS_UNUSED)
{
    struct as_model_call *c = ctx;

    c->on_response(c->ctx, c);
}

void as_model_call_expect_stream(struct as_model_call *c, as_model_call_on_response on_response,
                                 void *ctx)
{
    c->on_response = on_response;
    c->ctx = ctx;
    if (c->protocol == AS_MODEL_CALL_GRPC)
        as_grpc_call_expect_stream(&c->grpc, on_message, c);
    else
        as_rest_call_expect_stream(&c->rest, on_event, c);
}

void as_model_call_compare(struct as_model_call *c, const struct as_str *expected)
{
    c->expected = expected;
    if (c->protocol == AS_MODEL_CALL_GRPC)
        as_grpc_call_compare(&c->grpc, expected);
}

bool as_model_call_is_expected(struct as_model_call *c)
{
    if (c->protocol == AS_MODEL_CALL_GRPC)
        return as_grpc_call_is_expected(&c->grpc);
    return as_str_eq(as_buf_slice(&c->rest.body), *c->expected);
}

bool as_model_call_is_error(struct as_model_call *c, struct as_arena *a, struct as_str *ret_text)
{
    const struct as_buf *m = as_model_call_message(c);
    struct as_str text = {NULL, 0}, response;
    struct as_blob *blob = NULL;
    struct as_oip_response r;
    char why[8];

    if (c->protocol == AS_MODEL_CALL_GRPC) {
        if (as_oip_parse_stream_response(m->p, m->n, &text, &response) || !text.n)
            return false;
    } else {
        /* a fast check first: most events are no errors */
        if (!m->n || !memmem(m->p, m->n, "\"error\"", 7) ||
            as_oip_json_flat_parse(c->json, m->p, m->n, NULL, 0, a, &r, &blob, &text, why,
                                   sizeof(why)))
            return false;
        as_blob_unref(blob);
    }
    *ret_text = text;
    return text.p != NULL;
}

void as_model_call_fini(struct as_model_call *c)
{
    as_grpc_call_fini(&c->grpc);
    as_rest_call_fini(&c->rest);
}

void as_model_call_field(struct as_model_call *c, struct as_str name, struct as_str value)
{
    if (c->protocol == AS_MODEL_CALL_GRPC)
        as_grpc_call_field(&c->grpc, name, value);
    else
        as_rest_call_field(&c->rest, name, value);
}

int as_model_call_data(struct as_model_call *c, const uint8_t *p, size_t n)
{
    return c->protocol == AS_MODEL_CALL_GRPC ? as_grpc_call_data(&c->grpc, p, n)
                                             : as_rest_call_data(&c->rest, p, n);
}

uint32_t as_model_call_end(struct as_model_call *c, uint32_t code, bool whole)
{
    return c->protocol == AS_MODEL_CALL_GRPC ? as_grpc_call_end(&c->grpc, code, whole)
                                             : as_rest_call_end(&c->rest, c->json, whole);
}

struct as_buf *as_model_call_message(struct as_model_call *c)
{
    return c->protocol == AS_MODEL_CALL_GRPC ? &c->grpc.message : &c->rest.body;
}

char *as_model_call_text(struct as_model_call *c)
{
    return c->protocol == AS_MODEL_CALL_GRPC ? c->grpc.text : c->rest.text;
}
