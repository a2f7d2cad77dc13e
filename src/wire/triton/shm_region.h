/* wire/triton/shm_region.h — messages about regions of shared memory that a client lends to the server.
 *
 * Source: messages SystemSharedMemory… and CudaSharedMemory… of proto/open_inference.proto. Those
 * that hold only a name are read by as_oip_parse_name_version. Small and cold: over protobuf-c's
 * generated code. Pure.
 */
#ifndef AS_WIRE_SHM_REGION_H
#define AS_WIRE_SHM_REGION_H

#include "base/memory/arena.h"
#include "base/buf.h"

struct as_shm_region {
    struct as_str name;
    struct as_str key;     /* of the POSIX shared memory object */
    uint64_t offset, size; /* bytes of the object that the region is */
};

/* SystemSharedMemoryRegisterRequest; the result lies in the arena. 0, AS_EPROTO (malformed, or not
 * UTF-8), AS_ENOMEM. */
int as_shm_region_parse(const uint8_t *p, size_t n, struct as_arena *a,
                        struct as_shm_region *ret_r);
/* SystemSharedMemoryStatusResponse, appended. CudaSharedMemoryStatusResponse of no region is the
 * same message: empty. `a` for what is needed meanwhile. 0 or AS_ENOMEM. */
int as_shm_region_put(const struct as_shm_region *rows, uint32_t n, struct as_arena *a,
                      struct as_buf *out);
/* An array of them as JSON, appended. */
void as_shm_region_json(const struct as_shm_region *rows, uint32_t n, struct as_buf *out);

#endif
