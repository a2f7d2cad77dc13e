/* wire/triton/shm_region.h — the messages of Triton's shared memory extension, with which a client
 * registers regions of shared memory.
 *
 * They are the messages SystemSharedMemory… and CudaSharedMemory… of proto/open_inference.proto.
 * Messages that contain only a name are parsed by as_oip_parse_name_version. Rarely requested, so
 * it uses protobuf-c's generated code. Pure.
 */
#ifndef AS_WIRE_SHM_REGION_H
#define AS_WIRE_SHM_REGION_H

#include "base/buf.h"
#include "base/memory/arena.h"

struct as_shm_region {
    struct as_str name;
    struct as_str key;     /* name of the POSIX shared memory object */
    uint64_t offset, size; /* the part of the object, in bytes */
};

/* Parses a SystemSharedMemoryRegisterRequest into the arena. 0, AS_EPROTO (malformed, or not
 * UTF-8), AS_ENOMEM. */
int as_shm_region_parse(const uint8_t *p, size_t n, struct as_arena *a,
                        struct as_shm_region *ret_r);
/* Appends a SystemSharedMemoryStatusResponse. With no rows it is empty, which is also a
 * CudaSharedMemoryStatusResponse without regions. As JSON: an array of the regions. `a` is for
 * temporary memory. 0 or AS_ENOMEM. */
int as_shm_region_put(const struct as_shm_region *rows, uint32_t n, struct as_arena *a, bool json,
                      struct as_buf *out);

#endif
