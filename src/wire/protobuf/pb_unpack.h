/* wire/protobuf/pb_unpack.h — memory for protobuf-c's generated code.
 *
 * Its unpack functions give NULL both for what is malformed and for want of memory. Through this
 * allocator the two can be told apart: the one is the client's fault, the other is not. One per
 * call, on the stack. Pure.
 */
#ifndef AS_WIRE_UNPACK_H
#define AS_WIRE_UNPACK_H

#include "base/defs.h"

#include <protobuf-c/protobuf-c.h>

struct as_pb_unpack {
    ProtobufCAllocator allocator; /* for the functions that unpack and free */
    bool out_of_memory;           /* an allocation was refused */
};

static inline void *as_pb_unpack_alloc(void *unpack, size_t n)
{
    void *p = malloc(n ? n : 1);

    ((struct as_pb_unpack *)unpack)->out_of_memory |= !p;
    return p;
}

static inline void as_pb_unpack_free(void *unpack, void *p)
{
    (void)unpack;
    free(p);
}

static inline ProtobufCAllocator *as_pb_unpack_init(struct as_pb_unpack *u)
{
    *u = (struct as_pb_unpack){.allocator = {as_pb_unpack_alloc, as_pb_unpack_free, u}};
    return &u->allocator;
}

#endif
