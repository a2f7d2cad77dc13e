#include "wire/triton/shm_region.h"

#include "base/err.h"
#include <open_inference.pb-c.h>
#include "wire/json/json.h"
#include "wire/name_check.h"
#include "wire/protobuf/pb_unpack.h"
#include "wire/triton/message_json.h"

int as_shm_region_parse(const uint8_t *p, size_t n, struct as_arena *a, struct as_shm_region *ret_r)
{
    struct as_pb_unpack mem;
    ProtobufCAllocator *allocator = as_pb_unpack_init(&mem);
    Inference__SystemSharedMemoryRegisterRequest *q =
        inference__system_shared_memory_register_request__unpack(allocator, n, p);
    struct as_shm_region r;
    int err;

    if (!q)
        return mem.out_of_memory ? AS_ENOMEM : AS_EPROTO;
    r = (struct as_shm_region){.offset = q->offset, .size = q->byte_size};
    err = as_name_check_copy(a, q->name, &r.name);
    if (!err)
        err = as_name_check_copy(a, q->key, &r.key);
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

int as_shm_region_put(const struct as_shm_region *rows, uint32_t n, struct as_arena *a, bool json,
                      struct as_buf *out)
{
    Inference__SystemSharedMemoryStatusResponse m =
        INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_RESPONSE__INIT;

    m.n_regions = n;
    m.regions = (Inference__SystemSharedMemoryStatusResponse__RegionsEntry **)as_pb_pack_rows(
        rows, n, sizeof(*rows), sizeof(struct region_entry), fill_region_row, a);
    if (!m.regions)
        return AS_ENOMEM;
    if (!json)
        return as_pb_pack(&m.base, out);
    as_json_put_open(out, '[');
    for (uint32_t i = 0; i < n; i++)
        as_message_json(&m.regions[i]->value->base, out);
    as_json_put_close(out, ']');
    return 0;
}
