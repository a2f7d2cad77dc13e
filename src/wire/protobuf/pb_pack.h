/* wire/protobuf/pb_pack.h — answers of the small RPCs, written by protobuf-c's generated code.
 *
 * The counterpart of wire/protobuf/pb_unpack.h: repeated fields are made of rows of ours, and a
 * message goes to the end of a buffer. Pure.
 */
#ifndef AS_WIRE_PACK_H
#define AS_WIRE_PACK_H

#include "base/memory/arena.h"
#include "base/buf.h"

#include <protobuf-c/protobuf-c.h>

/* Makes one message, in memory that is not zeroed: `row` begins with it, and holds what it points
 * to. False: no memory. */
typedef bool as_pb_pack_fill(void *row, const void *from, struct as_arena *a);

/* A repeated field: pointers to n rows of `size` bytes (a multiple of 8), filled from an array of
 * ours with `stride` bytes each. NULL: no memory. */
void **as_pb_pack_rows(const void *from, uint32_t n, size_t stride, size_t size,
                       as_pb_pack_fill *fill, struct as_arena *a);

/* The message, appended. 0 or AS_ENOMEM. */
int as_pb_pack(const ProtobufCMessage *m, struct as_buf *out);

#endif
