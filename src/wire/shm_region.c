#include "wire/shm_region.h"

#include "base/err.h"
#include <open_inference.pb-c.h>
#include "wire/json.h"
#include "wire/names.h"
#include "wire/unpack.h"

int as_shm_region_parse(const uint8_t *p, size_t n, struct as_arena *a, struct as_shm_region *ret_r)
{
    struct as_unpack mem;
    ProtobufCAllocator *allocator = as_unpack_init(&mem);
    Inference__SystemSharedMemoryRegisterRequest *q =
        inference__system_shared_memory_register_request__unpack(allocator, n, p);
    struct as_shm_region r;
    int err = 0;

    if (!q)
        return mem.starved ? AS_ENOMEM : AS_EPROTO;
    r = (struct as_shm_region){as_str_of(q->name), as_str_of(q->key), q->offset, q->byte_size};
    if (!as_names_utf8(r.name) || !as_names_utf8(r.key))
        err = AS_EPROTO;
    r.name.p = as_arena_dup(a, r.name);
    r.key.p = as_arena_dup(a, r.key);
    if (!err && (!r.name.p || !r.key.p))
        err = AS_ENOMEM;
    inference__system_shared_memory_register_request__free_unpacked(q, allocator);
    if (!err)
        *ret_r = r;
    return err;
}

/* An entry of the map with the message that it points to. */
struct entry {
    Inference__SystemSharedMemoryStatusResponse__RegionsEntry entry;
    Inference__SystemSharedMemoryStatusResponse__RegionStatus value;
};

static bool fill(struct entry *e, const struct as_shm_region *r, struct as_arena *a)
{
    inference__system_shared_memory_status_response__regions_entry__init(&e->entry);
    inference__system_shared_memory_status_response__region_status__init(&e->value);
    e->value.name = as_arena_dup(a, r->name);
    e->value.key = as_arena_dup(a, r->key);
    e->value.offset = r->offset;
    e->value.byte_size = r->size;
    e->entry.key = e->value.name;
    e->entry.value = &e->value;
    return e->value.name && e->value.key;
}

int as_shm_region_put(const struct as_shm_region *rows, uint32_t n, struct as_arena *a,
                      struct as_buf *out)
{
    Inference__SystemSharedMemoryStatusResponse m =
        INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_RESPONSE__INIT;
    struct entry *e = as_arena_alloc(a, n * sizeof(*e) + 1, 8);
    uint8_t *p;

    m.n_regions = n;
    m.regions = as_arena_alloc(a, n * sizeof(void *) + 1, 8);
    if (!e || !m.regions)
        return AS_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (!fill(&e[i], &rows[i], a))
            return AS_ENOMEM;
        m.regions[i] = &e[i].entry;
    }
    p = as_buf_try_reserve(
        out, inference__system_shared_memory_status_response__get_packed_size(&m) + 1);
    if (!p)
        return AS_ENOMEM;
    out->n += inference__system_shared_memory_status_response__pack(&m, p);
    return 0;
}

void as_shm_region_json(const struct as_shm_region *rows, uint32_t n, struct as_buf *b)
{
    as_json_put_open(b, '[');
    for (uint32_t i = 0; i < n; i++) {
        as_json_put_open(b, '{');
        as_json_put_key(b, "name");
        as_json_put_string(b, rows[i].name);
        as_json_put_key(b, "key");
        as_json_put_string(b, rows[i].key);
        as_json_put_key(b, "offset");
        as_json_put_u64(b, rows[i].offset);
        as_json_put_key(b, "byte_size");
        as_json_put_u64(b, rows[i].size);
        as_json_put_close(b, '}');
    }
    as_json_put_close(b, ']');
}
