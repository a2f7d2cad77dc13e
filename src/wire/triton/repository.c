#include "wire/triton/repository.h"

#include "base/err.h"
#include <open_inference.pb-c.h>
#include "wire/name_check.h"
#include "wire/protobuf/pb_unpack.h"
#include "wire/triton/message_json.h"

int as_repository_parse_index(const uint8_t *p, size_t n, bool *ret_only_ready)
{
    struct as_pb_unpack mem;
    ProtobufCAllocator *allocator = as_pb_unpack_init(&mem);
    Inference__RepositoryIndexRequest *q =
        inference__repository_index_request__unpack(allocator, n, p);

    if (!q)
        return mem.out_of_memory ? AS_ENOMEM : AS_EPROTO;
    *ret_only_ready = q->ready;
    inference__repository_index_request__free_unpacked(q, allocator);
    return 0;
}

static bool is_true(const Inference__ModelRepositoryParameter *v)
{
    return v &&
           v->parameter_choice_case ==
               INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM &&
           v->bool_param;
}

static int read_change(const Inference__RepositoryModelLoadRequest *q, struct as_arena *a,
                       struct as_repository_change *c)
{
    struct as_str *keys = as_arena_alloc(a, q->n_parameters * sizeof(*keys) + 1, 8);
    int err = keys ? as_name_check_copy(a, q->model_name, &c->model) : AS_ENOMEM;

    for (size_t i = 0; !err && i < q->n_parameters; i++) {
        err = as_name_check_copy(a, q->parameters[i]->key, &keys[i]);
        if (!err && as_str_eq(keys[i], AS_STR("unload_dependents")))
            c->dependents = is_true(q->parameters[i]->value);
    }
    c->parameters = keys;
    c->n_parameters = (uint32_t)q->n_parameters;
    return err;
}

int as_repository_parse_change(const uint8_t *p, size_t n, struct as_arena *a,
                               struct as_repository_change *ret_c)
{
    struct as_repository_change c = {0};
    struct as_pb_unpack mem;
    ProtobufCAllocator *allocator = as_pb_unpack_init(&mem);
    Inference__RepositoryModelLoadRequest *q =
        inference__repository_model_load_request__unpack(allocator, n, p);
    int err;

    if (!q)
        return mem.out_of_memory ? AS_ENOMEM : AS_EPROTO;
    err = read_change(q, a, &c);
    inference__repository_model_load_request__free_unpacked(q, allocator);
    if (!err)
        *ret_c = c;
    return err;
}

static bool fill_index_row(void *row, const void *from, struct as_arena *a)
{
    Inference__RepositoryIndexResponse__ModelIndex *m = row;
    const struct as_repository_row *r = from;

    inference__repository_index_response__model_index__init(m);
    m->name = as_arena_dup(a, r->name);
    m->version = as_arena_dup(a, r->version);
    m->state = (char *)(uintptr_t)r->state;
    m->reason = (char *)(uintptr_t)r->reason;
    return m->name && m->version;
}

int as_repository_put_index(const struct as_repository_row *rows, uint32_t n, struct as_arena *a,
                            bool json, struct as_buf *out)
{
    Inference__RepositoryIndexResponse m = INFERENCE__REPOSITORY_INDEX_RESPONSE__INIT;

    m.n_models = n;
    m.models = (Inference__RepositoryIndexResponse__ModelIndex **)as_pb_pack_rows(
        rows, n, sizeof(*rows), sizeof(Inference__RepositoryIndexResponse__ModelIndex),
        fill_index_row, a);
    if (!m.models)
        return AS_ENOMEM;
    if (!json)
        return as_pb_pack(&m.base, out);
    as_message_json_list((void *const *)m.models, n, out);
    return 0;
}
