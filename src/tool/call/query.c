#include "tool/call/query.h"

#include "tool/call/api_key.h"
#include "tool/call/encode.h"
#include "tool/tensor/number.h"
#include "tool/tensor/print.h"
#include "tool/tensor/sample_input.h"
#include "wire/name_check.h"
#include "wire/oip/oip_json_flat.h"
#include "wire/oip/oip_json_model.h"

#include <ctype.h>

#define METADATA_PATH     "/inference.GRPCInferenceService/ModelMetadata"
#define INFER_PATH        "/inference.GRPCInferenceService/ModelInfer"
#define STREAM_PATH       "/inference.GRPCInferenceService/ModelStreamInfer"
#define INFER_RESOURCE    "/infer" /* after the path of the model */
#define GENERATE_RESOURCE "/generate_stream"

/* --- parameters --- */

static int param_refused(const char *text, const char *what, struct as_buf *why)
{
    as_buf_printf(why, "--parameter '%.80s': %s", text, what);
    return AS_EINVALID;
}

/* Reads a value of the given type ("int64"); without one, guesses the type. */
static bool read_param(struct as_param *p, struct as_str type, struct as_str v)
{
    static const struct {
        const char *name;
        enum as_param_type type;
        enum as_dtype dtype;
    } rows[] = {{"bool", AS_PARAM_BOOL, AS_DT_BOOL},
                {"int64", AS_PARAM_INT64, AS_DT_INT64},
                {"uint64", AS_PARAM_UINT64, AS_DT_UINT64},
                {"double", AS_PARAM_DOUBLE, AS_DT_FP64}};
    bool digits = v.n && (isdigit((unsigned char)v.p[0]) || strchr("+-.", v.p[0]));
    bool word = as_str_eq(v, AS_STR("true")) || as_str_eq(v, AS_STR("false"));

    p->str = v;
    p->type = AS_PARAM_STRING;
    if (as_str_eq(type, AS_STR("string")))
        return as_name_check_utf8(v);
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        uint8_t bytes[8] = {0};

        if (type.n ? !as_str_eq(type, as_str_of(rows[i].name))
                   : !(rows[i].type == AS_PARAM_BOOL ? word : digits))
            continue;
        if (as_number_read(rows[i].dtype, v, bytes) == 0) {
            p->type = rows[i].type;
            memcpy(&p->u64, bytes, sizeof(bytes));
            return true;
        }
        if (type.n)
            return false;
    }
    return type.n == 0 && as_name_check_utf8(v);
}

static int add_param(struct as_query *r, const char *text, struct as_buf *why)
{
    const char *eq = strchr(text, '='), *colon;
    struct as_param *p = &r->params[r->n_params];
    struct as_str type = {NULL, 0};

    if (!eq || eq == text)
        return param_refused(text, "is not NAME=VALUE", why);
    p->name = (struct as_str){text, (size_t)(eq - text)};
    colon = memchr(text, ':', p->name.n);
    if (colon) {
        type = (struct as_str){colon + 1, (size_t)(eq - colon) - 1};
        p->name.n = (size_t)(colon - text);
    }
    if (!p->name.n || !as_name_check_utf8(p->name))
        return param_refused(text, "the name is empty or not UTF-8", why);
    if (!read_param(p, type, as_str_of(eq + 1)))
        return param_refused(text,
                             colon ? "the value is not of this type (bool, int64, uint64, "
                                     "double, string)"
                                   : "the value is not UTF-8",
                             why);
    r->n_params++;
    return 0;
}

/* --- metadata --- */

static int metadata_refused(const char *text, const char *what, struct as_buf *why)
{
    as_buf_printf(why, "--metadata '%.80s': %s", text, what);
    return AS_EINVALID;
}

static int add_metadata(struct as_query *r, const char *text, struct as_buf *why)
{
    const char *eq = strchr(text, '=');
    struct as_http_header *h = &r->metadata[r->n_metadata];
    struct as_str value = as_str_of(eq ? eq + 1 : "");
    struct as_buf bin;
    char *key;

    if (r->n_metadata == AS_MODEL_CALL_METADATA)
        return metadata_refused(text, "too many metadata entries", why);
    if (!eq || eq == text)
        return metadata_refused(text, "is not KEY=VALUE", why);
    h->name = (struct as_str){text, (size_t)(eq - text)};
    key = as_arena_dup(&r->arena, h->name);
    AS_ASSERT(key);
    for (char *p = key; *p; p++) {
        *p = (char)tolower((unsigned char)*p);
        if (!isalnum((unsigned char)*p) && !strchr("-_.", *p))
            return metadata_refused(text, "a key has letters, digits, '-', '_' and '.' only", why);
    }
    h->name.p = key;
    if (r->protocol == AS_MODEL_CALL_GRPC
            ? as_grpc_is_reserved(h->name) || as_str_eq(h->name, AS_STR("user-agent"))
            : as_rest_call_is_reserved(h->name))
        return metadata_refused(text, "the protocol itself sets this key", why);
    if (r->protocol == AS_MODEL_CALL_GRPC && h->name.n > 4 &&
        memcmp(key + h->name.n - 4, "-bin", 4) == 0) {
        as_buf_init(&bin);
        as_grpc_put_bin(&bin, value);
        value = (struct as_str){as_arena_dup(&r->arena, as_buf_slice(&bin)), bin.n};
        as_buf_fini(&bin);
    }
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < 0x20 || value.p[i] > 0x7e)
            return metadata_refused(text,
                                    "the value is not plain ASCII; over gRPC keys that end in "
                                    "-bin take any bytes",
                                    why);
    }
    h->value = value;
    r->n_metadata++;
    return 0;
}

static bool has_metadata(const struct as_query *r, struct as_str name)
{
    for (uint32_t i = 0; i < r->n_metadata; i++) {
        if (as_str_eq(r->metadata[i].name, name))
            return true;
    }
    return false;
}

/* As `authorization: Bearer KEY`, or in the other field where --metadata has that one already. */
static int add_api_key(struct as_query *r, struct as_buf *why)
{
    bool other = has_metadata(r, AS_STR("authorization"));
    struct as_buf bearer = {0};
    struct as_str key;
    int rc = as_api_key_read(r->opts, &r->arena, &key, why);

    if (rc || !key.n)
        return rc;
    if (has_metadata(r, AS_STR("x-api-key"))) {
        if (!as_option_str(r->opts, AS_OPT_API_KEY_FILE)[0])
            return 0; /* the command line counts more than the environment */
        as_buf_printf(why, "--%s and --metadata x-api-key=… cannot be used together",
                      as_option_key(AS_OPT_API_KEY_FILE));
        return AS_EINVALID;
    }
    if (r->n_metadata == AS_MODEL_CALL_METADATA) {
        as_buf_str(why, "--metadata: too many metadata entries: there is no room for the API key");
        return AS_EINVALID;
    }
    if (!other) {
        as_buf_printf(&bearer, "Bearer %.*s", AS_STR_FMT(key));
        key = (struct as_str){as_arena_dup(&r->arena, as_buf_slice(&bearer)), bearer.n};
        AS_ASSERT(key.p);
        as_buf_fini(&bearer);
    }
    r->metadata[r->n_metadata++] =
        (struct as_http_header){other ? AS_STR("x-api-key") : AS_STR("authorization"), key};
    return 0;
}

/* --- inputs --- */

/* Sets the request that input i belongs to: the next one if the current one has this input already.
 */
static int assign_request(struct as_query *r, uint32_t i, struct as_buf *why)
{
    uint32_t place = i ? r->request_index[i - 1] : 0;

    for (uint32_t k = i; k-- > 0 && r->request_index[k] == place;) {
        if (!as_str_eq(r->forms[k].name, r->forms[i].name))
            continue;
        if (!r->stream) {
            as_buf_printf(why,
                          "input '%.*s' is given twice (allowed with --stream, where it begins "
                          "the next request)",
                          AS_STR_FMT(r->forms[i].name));
            return AS_EINVALID;
        }
        place++;
        break;
    }
    r->request_index[i] = place;
    r->n_requests = place + 1;
    return 0;
}

static int split_inputs(struct as_query *r, struct as_buf *why)
{
    const char *text;
    uint32_t n = 0;
    int rc = 0;

    while (as_option_item(r->opts, AS_OPT_INPUT, n))
        n++;
    r->forms = as_xalloc(n * sizeof(*r->forms));
    r->request_index = as_xalloc(n * sizeof(*r->request_index));
    r->n_requests = 1;
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct as_buf reason = {0};

        text = as_option_item(r->opts, AS_OPT_INPUT, i);
        rc = as_input_parse(text, &r->forms[i], &reason);
        if (rc)
            as_buf_printf(why, "--input %u: %.*s", i + 1, AS_STR_FMT(as_buf_slice(&reason)));
        else
            rc = assign_request(r, i, why);
        as_buf_fini(&reason);
    }
    r->n_inputs = n;
    return rc;
}

static int check_stream(const struct as_query *r, struct as_buf *why)
{
    if (!r->stream || r->protocol == AS_MODEL_CALL_GRPC)
        return 0;
    if (r->protocol == AS_MODEL_CALL_HTTP_BINARY) {
        as_buf_str(why,
                   "--stream over REST is generate_stream, which is JSON: use --protocol http");
        return AS_EINVALID;
    }
    if (r->n_requests > 1) {
        as_buf_printf(
            why, "--input gives %u requests, but generate_stream takes one: use --protocol grpc",
            r->n_requests);
        return AS_EINVALID;
    }
    return 0;
}

int as_query_init(struct as_query *r, const struct as_option_set *o, struct as_buf *why)
{
    const char *text;
    int rc;

    *r = (struct as_query){.opts = o,
                           .protocol =
                               (enum as_model_call_protocol)as_option_u64(o, AS_OPT_PROTOCOL),
                           .stream = as_option_bool(o, AS_OPT_STREAM),
                           .model = as_str_of(o->args[0]),
                           .version = as_str_of(as_option_str(o, AS_OPT_MODEL_VERSION)),
                           .id = as_str_of(as_option_str(o, AS_OPT_ID))};
    as_arena_init(&r->arena, NULL, 0);
    as_rest_call_path(&r->path, r->model, r->version, "");
    r->model_path = r->path.n;
    as_buf_str(&r->path, r->stream ? GENERATE_RESOURCE : INFER_RESOURCE);
    rc = split_inputs(r, why);
    if (!rc)
        rc = check_stream(r, why);
    for (uint32_t i = 0; !rc && (text = as_option_item(o, AS_OPT_PARAMETER, i)); i++)
        rc = add_param(r, text, why);
    for (uint32_t i = 0; !rc && (text = as_option_item(o, AS_OPT_METADATA, i)); i++)
        rc = add_metadata(r, text, why);
    if (!rc)
        rc = add_api_key(r, why);
    while (!rc && (text = as_option_item(o, AS_OPT_OUTPUT, r->n_outputs)))
        r->outputs[r->n_outputs++] = (struct as_oip_requested_output){
            .name = as_str_of(text), .binary = r->protocol == AS_MODEL_CALL_HTTP_BINARY};
    return rc;
}

void as_query_fini(struct as_query *r)
{
    for (uint32_t i = 0; r->inputs && i < r->n_inputs; i++)
        as_input_fini(&r->inputs[i]);
    free(r->forms);
    free(r->request_index);
    free(r->inputs);
    free(r->tensors);
    as_buf_fini(&r->path);
    as_buf_fini(&r->message);
    as_buf_fini(&r->model_info_bytes);
    as_arena_fini(&r->arena);
}

void as_query_add_metadata(struct as_query *r, const char *name, const char *value)
{
    if (!has_metadata(r, as_str_of(name)) && r->n_metadata < AS_MODEL_CALL_METADATA)
        r->metadata[r->n_metadata++] = (struct as_http_header){as_str_of(name), as_str_of(value)};
}

bool as_query_needs_model(const struct as_query *r)
{
    if (r->stream &&
        r->protocol != AS_MODEL_CALL_GRPC) /* generate_stream has neither datatypes nor shapes */
        return true;
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        if (as_input_needs_model(&r->forms[i]))
            return true;
    }
    return false;
}

/* The fields that all calls of a command share. */
static struct as_model_call_request base_request(const struct as_query *r)
{
    return (struct as_model_call_request){.timeout = as_option_ns(r->opts, AS_OPT_TIMEOUT),
                                          .limit = as_option_u64(r->opts, AS_OPT_MAX_MESSAGE_BYTES),
                                          .metadata = r->metadata,
                                          .n_metadata = r->n_metadata};
}

static int read_model(struct as_query *r, struct as_unary *u)
{
    return r->protocol == AS_MODEL_CALL_GRPC
               ? as_oip_parse_model(r->model_info_bytes.p, r->model_info_bytes.n, &r->arena,
                                    &r->model_info)
               : as_oip_json_model_parse(u->json, r->model_info_bytes.p, r->model_info_bytes.n,
                                         &r->arena, &r->model_info);
}

uint32_t as_query_fetch_model(struct as_query *r, struct as_unary *u, struct as_buf *why)
{
    struct as_model_call_request q = base_request(r);
    struct as_buf message = {0};
    uint32_t status;

    if (r->protocol == AS_MODEL_CALL_GRPC) {
        as_oip_put_name_version(&message, r->model, r->version);
        q.path = AS_STR(METADATA_PATH);
        q.message = as_buf_slice(&message);
    } else {
        q.method = AS_STR("GET");
        q.path = as_buf_slice(&r->path);
        q.path.n = r->model_path;
    }
    status = as_unary_call(u, &q);
    as_buf_fini(&message);
    r->model_info_time = u->elapsed;
    if (status) {
        as_buf_str(why, as_model_call_text(&u->call));
        return status;
    }
    r->model_info_bytes =
        *as_model_call_message(&u->call); /* the slices of model_info point into it */
    as_buf_init(as_model_call_message(&u->call));
    if (read_model(r, u)) {
        as_buf_str(why, "the model's metadata cannot be parsed");
        return as_err_grpc(AS_EINTERNAL);
    }
    r->has_model_info = true;
    return 0;
}

static void print_spec(struct as_buf *b, const struct as_tensor_spec *s)
{
    as_print_type(b, s->dtype, s->shape, s->ndim ? s->ndim : AS_ANY_RANK);
}

/* The input is not declared. Only for inputs without a datatype: one with a datatype is sent. */
static int unknown_input(const struct as_query *r, const struct as_input_form *f,
                         struct as_buf *why)
{
    as_buf_printf(why, "model '%.*s' has no input '%.*s'; it takes", AS_STR_FMT(r->model),
                  AS_STR_FMT(f->name));
    for (uint32_t i = 0; i < r->model_info.n_inputs; i++) {
        const struct as_tensor_spec *s = &r->model_info.inputs[i];

        as_buf_printf(why, "%s %.*s ", i ? "," : "", AS_STR_FMT(s->name));
        print_spec(why, s);
    }
    return AS_EINVALID;
}

static bool is_given(const struct as_query *r, struct as_str name)
{
    for (uint32_t i = 0; i < r->n_given; i++) {
        if (as_str_eq(r->forms[i].name, name))
            return true;
    }
    return false;
}

/* Appends sample inputs for declared inputs that were not given. */
static int add_sample_inputs(struct as_query *r, struct as_buf *why)
{
    uint64_t size = as_option_u64(r->opts, AS_OPT_ANY_SIZE);
    struct as_rand rand = {as_option_u64(r->opts, AS_OPT_SEED)};
    int rc = 0;

    for (uint32_t i = 0; r->has_model_info && i < r->model_info.n_inputs && !rc; i++) {
        const struct as_tensor_spec *s = &r->model_info.inputs[i];

        if (!is_given(r, s->name))
            rc = as_sample_input_make(s, size, &rand, &r->inputs[r->n_inputs++], why);
    }
    if (rc == 0 && r->n_inputs == 0)
        as_buf_printf(why,
                      "model '%.*s' declares no inputs: give one with --input NAME:DTYPE=VALUE",
                      AS_STR_FMT(r->model));
    return rc ? rc : r->n_inputs ? 0 : AS_EINVALID;
}

/* Collects the tensors of one request: of each input the last value up to it. Returns how many. */
static uint32_t collect_tensors(struct as_query *r, uint32_t place)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n_inputs; i++) {
        uint32_t k = 0;

        if (i < r->n_given && r->request_index[i] > place) /* sample inputs are in every request */
            continue;
        while (k < n && !as_str_eq(r->tensors[k].name, r->inputs[i].tensor.name))
            k++;
        r->tensors[k] = r->inputs[i].tensor;
        n = AS_MAX(n, k + 1);
    }
    return n;
}

/* Of several requests, each has its number as id: "1", or "ID-1". */
static struct as_str request_id(struct as_query *r, uint32_t place)
{
    struct as_str id = r->id;
    struct as_buf b = {0};

    if (r->n_requests == 1)
        return id;
    as_buf_printf(&b, "%.*s%s%u", AS_STR_FMT(id), id.n ? "-" : "", place + 1);
    id = (struct as_str){as_arena_dup(&r->arena, as_buf_slice(&b)), b.n};
    as_buf_fini(&b);
    AS_ASSERT(id.p);
    return id;
}

static int encode_requests(struct as_query *r, struct as_buf *why)
{
    int rc = 0;

    r->tensors = as_xalloc(r->n_inputs * sizeof(*r->tensors));
    for (uint32_t i = 0; i < r->n_requests && !rc; i++) {
        struct as_oip_request q = {.head = {.model = r->model,
                                            .version = r->version,
                                            .id = request_id(r, i),
                                            .outputs = r->tensors,
                                            .n_outputs = collect_tensors(r, i),
                                            .params = r->params,
                                            .n_params = r->n_params},
                                   .outputs = r->outputs,
                                   .n_outputs = r->n_outputs};

        if (r->protocol == AS_MODEL_CALL_GRPC)
            rc = as_encode_grpc(&r->message, &q, r->stream, why);
        else if (r->stream)
            rc = as_encode_generate(&r->message, &q, r->model_info.inputs, r->model_info.n_inputs,
                                    why);
        else
            rc = as_encode_rest(&r->message, &q, r->protocol == AS_MODEL_CALL_HTTP_BINARY,
                                &r->json_len, why);
    }
    return rc;
}

int as_query_encode(struct as_query *r, bool generate, struct as_buf *why)
{
    uint32_t n = r->n_given = r->n_inputs;
    bool stdin_used = false;
    int rc = 0;

    r->inputs = as_xalloc((n + r->model_info.n_inputs) * sizeof(*r->inputs));
    for (uint32_t i = 0; i < n && !rc; i++) {
        const struct as_tensor_spec *s =
            as_tensor_spec_find(r->model_info.inputs, r->model_info.n_inputs, r->forms[i].name);

        if (!s && r->has_model_info && r->model_info.n_inputs && as_input_needs_model(&r->forms[i]))
            rc = unknown_input(r, &r->forms[i], why);
        else
            rc = as_input_make(&r->forms[i], s, &stdin_used, &r->inputs[i], why);
    }
    if (!rc && generate)
        rc = add_sample_inputs(r, why);
    for (uint32_t i = 0; !generate && !rc && i < r->model_info.n_inputs; i++) {
        const struct as_tensor_spec *s = &r->model_info.inputs[i];

        if (!is_given(r, s->name)) {
            as_buf_printf(why, "input '%.*s' ", AS_STR_FMT(s->name));
            print_spec(why, s);
            as_buf_str(why, " is missing: give it with --input");
            rc = AS_EINVALID;
        }
    }
    return rc ? rc : encode_requests(r, why);
}

void as_query_request(const struct as_query *r, struct as_model_call_request *ret_q)
{
    *ret_q = base_request(r);
    ret_q->method = AS_STR("POST");
    ret_q->path = r->protocol != AS_MODEL_CALL_GRPC ? as_buf_slice(&r->path)
                  : r->stream                       ? AS_STR(STREAM_PATH)
                                                    : AS_STR(INFER_PATH);
    ret_q->message = as_buf_slice(&r->message);
    ret_q->framed = r->stream && r->protocol == AS_MODEL_CALL_GRPC;
    ret_q->has_binary_data = r->protocol == AS_MODEL_CALL_HTTP_BINARY;
    ret_q->json_len = r->json_len;
}

int as_query_parse_response(struct as_model_call *call, struct as_arena *a,
                            struct as_oip_response *ret_r, struct as_blob **ret_blob,
                            struct as_buf *why)
{
    const struct as_buf *m = as_model_call_message(call);
    char text[512];
    int rc;

    *ret_blob = NULL;
    if (call->protocol == AS_MODEL_CALL_GRPC)
        rc = as_oip_parse_response(m->p, m->n, a, ret_r, text, sizeof(text));
    else
        rc = as_oip_json_parse_response(call->json, m->p, (size_t)call->rest.json_len, m->n, a,
                                        ret_r, ret_blob, text, sizeof(text));
    if (rc)
        as_buf_printf(why, "the response cannot be parsed: %s", text);
    return rc;
}

static int read_message(const struct as_buf *m, struct as_arena *a, struct as_oip_response *ret_r,
                        struct as_str *ret_error, char *text, size_t cap)
{
    struct as_str response;

    snprintf(text, cap, "malformed ModelStreamInferResponse");
    if (as_oip_parse_stream_response(m->p, m->n, ret_error, &response))
        return AS_EPROTO;
    return response.p
               ? as_oip_parse_response((const uint8_t *)response.p, response.n, a, ret_r, text, cap)
               : 0;
}

int as_query_parse_stream_response(const struct as_query *r, struct as_model_call *call,
                                   struct as_arena *a, struct as_oip_response *ret_r,
                                   struct as_blob **ret_blob, struct as_str *ret_error,
                                   struct as_buf *why)
{
    const struct as_buf *m = as_model_call_message(call);
    char text[512];
    int rc;

    *ret_blob = NULL;
    *ret_error = AS_STR("");
    *ret_r = (struct as_oip_response){.n_outputs = 0};
    if (call->protocol == AS_MODEL_CALL_GRPC)
        rc = read_message(m, a, ret_r, ret_error, text, sizeof(text));
    else
        rc = as_oip_json_flat_parse(call->json, m->p, m->n, r->model_info.outputs,
                                    r->model_info.n_outputs, a, ret_r, ret_blob, ret_error, text,
                                    sizeof(text));
    if (rc)
        as_buf_str(why, text);
    return rc;
}
