#include "wire/protobuf/pb_pack.h"

#include "base/err.h"

void **as_pb_pack_rows(const void *from, uint32_t n, size_t stride, size_t size,
                       as_pb_pack_fill *fill, struct as_arena *a)
{
    void **at = as_arena_alloc(a, n * (sizeof(void *) + size) + 1, 8);

    for (uint32_t i = 0; at && i < n; i++) {
        at[i] = (uint8_t *)(at + n) + i * size;
        if (!fill(at[i], (const uint8_t *)from + i * stride, a))
            return NULL;
    }
    return at;
}

int as_pb_pack(const ProtobufCMessage *m, struct as_buf *out)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *p = as_buf_try_reserve(out, n + 1);

    if (!p)
        return AS_ENOMEM;
    out->n += protobuf_c_message_pack(m, p);
    return 0;
}
