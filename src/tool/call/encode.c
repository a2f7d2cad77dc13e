#include "tool/call/encode.h"

#include "wire/grpc/grpc.h"
#include "wire/oip/oip_json_flat.h"

static int too_large(struct as_buf *why)
{
    as_buf_printf(why, "the message is over %d bytes: use smaller inputs", INT32_MAX);
    return AS_ETOOBIG;
}

int as_encode_grpc(struct as_buf *out, const struct as_oip_request *r, bool framed,
                   struct as_buf *why)
{
    uint64_t n = as_oip_request_len(r);

    if (n > INT32_MAX)
        return too_large(why);
    if (framed) {
        as_grpc_prefix(as_buf_reserve(out, AS_GRPC_PREFIX), (uint32_t)n);
        out->n += AS_GRPC_PREFIX;
    }
    as_oip_put_request(as_buf_reserve(out, (size_t)n), r);
    out->n += (size_t)n;
    return 0;
}

int as_encode_rest(struct as_buf *out, const struct as_oip_request *r, bool binary,
                   size_t *ret_json_len, struct as_buf *why)
{
    struct as_oip_json_request j = {.r = *r, .binary = binary, .binary_output = binary};
    char reason[256];
    uint64_t n;
    int rc = as_oip_json_request_max(&j, &n, reason, sizeof(reason));

    if (rc) {
        as_buf_str(why, reason);
        return rc;
    }
    for (uint32_t i = 0; binary && i < r->head.n_outputs; i++)
        n += r->head.outputs[i].nbytes;
    if (n > INT32_MAX)
        return too_large(why);
    out->n += as_oip_json_put_request(as_buf_reserve(out, (size_t)n), &j);
    *ret_json_len = out->n;
    for (uint32_t i = 0; binary && i < r->head.n_outputs; i++)
        as_buf_add(out, r->head.outputs[i].data, r->head.outputs[i].nbytes);
    return 0;
}

int as_encode_generate(struct as_buf *out, const struct as_oip_request *r,
                       const struct as_tensor_spec *inputs, uint32_t n_inputs, struct as_buf *why)
{
    char reason[512];
    int rc = 0;

    if (r->n_outputs) {
        as_buf_str(
            why,
            "--output: generate_stream returns all outputs; use --protocol grpc to select some");
        return AS_EINVALID;
    }
    for (uint32_t i = 0; !rc && i < r->head.n_outputs; i++) {
        const struct as_tensor *t = &r->head.outputs[i];

        rc = as_oip_json_flat_fits(t, as_tensor_spec_find(inputs, n_inputs, t->name), reason,
                                   sizeof(reason));
        if (!rc && ((r->head.id.n && as_str_eq(t->name, AS_STR("id"))) ||
                    (r->head.n_params && as_str_eq(t->name, AS_STR("parameters"))))) {
            snprintf(reason, sizeof(reason), "input '%.*s' has the same name as the member for %s",
                     AS_STR_FMT(t->name), t->name.n == 2 ? "--id" : "--parameter");
            rc = AS_EINVALID;
        }
    }
    if (!rc)
        rc = as_oip_json_flat_put(out, r, reason, sizeof(reason));
    if (rc)
        as_buf_printf(why, "%s; --protocol grpc has no such limit", reason);
    return rc ? rc : out->n > INT32_MAX ? too_large(why) : 0;
}
