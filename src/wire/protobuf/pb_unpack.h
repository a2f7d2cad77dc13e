/* wire/protobuf/pb_unpack.h — an allocator for protobuf-c's generated code.
 *
 * The generated unpack functions return NULL both for a malformed message and for lack of memory.
 * This allocator records the latter, so that the caller can tell them apart: only the former is the
 * client's fault. One per call, on the stack. Pure.
 */
#ifndef AS_WIRE_PB_UNPACK_H
#define AS_WIRE_PB_UNPACK_H

#include "base/defs.h"

#include <protobuf-c/protobuf-c.h>

struct as_pb_unpack {
    ProtobufCAllocator allocator; /* pass it to the functions that unpack and free */
    bool out_of_memory;           /* an allocation failed */
};

static inline void *as_pb_unpack_alloc(void *unpack, size_t n)
{
    void *p = malloc(n ? n : 1);

    ((struct as_pb_unpack *)unpack)->out_of_memory |= !p;
    return p;
}

static inline void as_pb_unpack_free(void *unpack AS_UNUSED, void *p)
{
    free(p);
}

static inline ProtobufCAllocator *as_pb_unpack_init(struct as_pb_unpack *u)
{
    *u = (struct as_pb_unpack){.allocator = {as_pb_unpack_alloc, as_pb_unpack_free, u}};
    return &u->allocator;
}

#endif
