/* wire/protobuf/pb_pack.h — writes the answers of small RPCs with protobuf-c's generated code.
 *
 * The counterpart of wire/protobuf/pb_unpack.h: converts an array of structs into a repeated field,
 * and appends a message to a buffer. Pure.
 */
#ifndef AS_WIRE_PB_PACK_H
#define AS_WIRE_PB_PACK_H

#include "base/buf.h"
#include "base/memory/arena.h"

#include <protobuf-c/protobuf-c.h>

/* Converts one element into a message, in memory that is not zeroed: `row` begins with the message,
 * and contains what it points to. False: out of memory. */
typedef bool as_pb_pack_fill(void *row, const void *from, struct as_arena *a);

/* Makes a repeated field: an array of pointers to n rows of `size` bytes (a multiple of 8), each
 * converted from an element of `from`, whose elements are `stride` bytes apart. NULL: out of
 * memory. */
void **as_pb_pack_rows(const void *from, uint32_t n, size_t stride, size_t size,
                       as_pb_pack_fill *fill, struct as_arena *a);

/* Appends the message. 0 or AS_ENOMEM. */
int as_pb_pack(const ProtobufCMessage *m, struct as_buf *out);

#endif
