#include "wire/triton/shm_region.h"

#include "base/err.h"
#include <open_inference.pb-c.h>
#include "wire/json/json.h"
#include "wire/name_check.h"
#include "wire/protobuf/pb_pack.h"
#include "wire/protobuf/pb_unpack.h"

int as_shm_region_parse(const uint8_t *p, size_t n, struct as_arena *a, struct as_shm_region *ret_r)
{
    struct as_pb_unpack mem;
    ProtobufCAllocator *allocator = as_pb_unpack_init(&mem);
    Inference__SystemSharedMemoryRegisterRequest *q =
        inference__system_shared_memory_register_request__unpack(allocator, n, p);
    struct as_shm_region r;
    int err = 0;

    if (!q)
        return mem.out_of_memory ? AS_ENOMEM : AS_EPROTO;
    r = (struct as_shm_region){as_str_of(q->name), as_str_of(q->key), q->offset, q->byte_size};
    if (!as_name_check_utf8(r.name) || !as_name_check_utf8(r.key))
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

/* A map entry with the message that it points to. */
struct region_entry {
    Inference__SystemSharedMemoryStatusResponse__RegionsEntry entry;
    Inference__SystemSharedMemoryStatusResponse__RegionStatus value;
};

static bool fill_region_row(void *row, const void *from, struct as_arena *a)
{
    const struct as_shm_region *r = from;
    struct region_entry *e = row;

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

    m.n_regions = n;
    m.regions = (Inference__SystemSharedMemoryStatusResponse__RegionsEntry **)as_pb_pack_rows(
        rows, n, sizeof(*rows), sizeof(struct region_entry), fill_region_row, a);
    return m.regions ? as_pb_pack(&m.base, out) : AS_ENOMEM;
}

void as_shm_region_json(const struct as_shm_region *rows, uint32_t n, struct as_buf *out)
{
    as_json_put_open(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        as_json_put_open(out, '{');
        as_json_put_member_string(out, "name", rows[i].name);
        as_json_put_member_string(out, "key", rows[i].key);
        as_json_put_member_u64(out, "offset", rows[i].offset);
        as_json_put_member_u64(out, "byte_size", rows[i].size);
        as_json_put_close(out, '}');
    }
    as_json_put_close(out, ']');
}
