#include "link/call/route_key.h"

#define XXH_INLINE_ALL
#define XXH_STATIC_LINKING_ONLY
#include "base/err.h"
#include "wire/json/json_text.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define MODEL_HEADER   AS_STR("serve-multiplexed-model-id")
#define MODEL_METADATA AS_STR("multiplexed-model-id")
#define SESSION_RECORD AS_STR("serve-session-id")
#define GRPC_RECORD    AS_STR("anyserve-grpc")

uint64_t as_route_key(struct as_str id, uint64_t seed)
{
    uint64_t h = XXH3_64bits_withSeed(id.p, id.n, seed);

    return h ? h : 1;
}

/* name is in lower case, and may have '_' for '-'. */
static bool is_named(struct as_str name, struct as_str as)
{
    if (name.n != as.n)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] != as.p[i] && !(name.p[i] == '_' && as.p[i] == '-'))
            return false;
    }
    return true;
}

/* The session in the metadata of a call of a gRPC service: lines, of which the first two are the
 * method and the peer, then names and values in turn. */
static void find_grpc_session(struct as_str block, struct as_str header, struct as_str *ret)
{
    struct as_str name = {0};

    for (size_t n = 0; block.n; n++) {
        const char *end = memchr(block.p, '\n', block.n);
        struct as_str line = {block.p, end ? (size_t)(end - block.p) : block.n};
        size_t used = line.n + (end != NULL);

        if (n >= 2 && n % 2 == 0)
            name = line;
        else if (n >= 2 && is_named(name, header))
            *ret = line;
        block.p += used;
        block.n -= used;
    }
}

struct as_route_ids as_route_find_ids(const struct as_payload *p, struct as_str session_header)
{
    bool is_http = p->kind == AS_FRAME_HTTP, is_call = p->kind == AS_FRAME_CALL,
         is_tensors = !is_http && !is_call;
    const struct as_meta *meta = is_http ? p->http->meta : p->msg.meta;
    uint32_t n = is_http ? p->http->n_meta : p->msg.n_meta;
    struct as_str session = is_call ? SESSION_RECORD : session_header, of_service = {0};
    struct as_route_ids ids = {0};

    for (uint32_t i = 0; i < n; i++) {
        const struct as_meta *m = &meta[i];

        if (is_named(m->key, MODEL_HEADER) || (is_tensors && is_named(m->key, MODEL_METADATA)))
            ids.model = m->value;
        else if (is_named(m->key, session))
            ids.session = m->value;
        else if (is_call && as_str_eq(m->key, GRPC_RECORD))
            find_grpc_session(m->value, session_header, &of_service);
    }
    if (!ids.session.n)
        ids.session = of_service;
    return ids;
}

static void read_members(struct as_json *j, struct as_json_value *root, uint64_t seed,
                         uint64_t *keys, uint32_t *ret_n)
{
    struct as_json_items it;

    if (as_json_items(j, root, &it))
        return;
    while (as_json_next(j, &it) > 0) {
        struct as_str id;

        if (it.value.type == AS_JSON_STRING && as_json_string(j, &it.value, &id) == 0 && id.n)
            keys[(*ret_n)++] = as_route_key(id, seed);
    }
}

int as_route_read_models(struct as_str json, uint64_t seed, uint64_t **ret_keys, uint32_t *ret_n)
{
    struct as_json_value root;
    struct as_json_text t;
    uint32_t n = 0;
    /* a text that is not empty takes three bytes and a comma */
    uint64_t *keys = json.n >= 5 ? as_xalloc((json.n / 4 + 1) * sizeof(*keys)) : NULL;

    int err = as_json_text_open(&t, json, &root);

    if (!err && keys)
        read_members(t.json, &root, seed, keys, &n);
    as_json_text_close(&t);
    if (!t.json) {
        free(keys);
        return AS_ENOMEM;
    }
    *ret_keys = keys;
    *ret_n = n;
    return 0;
}
