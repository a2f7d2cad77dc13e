/* wire/frame/body.h — the payload body of a call: the bytes that carry arguments or a result.
 *
 * docs/protocol/link.md, section 16, is the specification. A body has serialized data, buffers
 * outside of it (so that arrays are not copied by the serializer), and parts: whole bodies of other
 * answers that are passed on without being decoded. A reader checks every count, length, offset and
 * padding byte before it uses one; a body has exactly one encoding. Pure.
 */
#ifndef AS_WIRE_FRAME_BODY_H
#define AS_WIRE_FRAME_BODY_H

#include "base/memory/arena.h"

#define AS_BODY_FIXED   24u   /* bytes of the fixed part, and of the smallest body */
#define AS_BODY_ALIGN   64u   /* buffers and parts start at multiples of it */
#define AS_BODY_BUFFERS 4096u /* buffers of a body */
#define AS_BODY_PARTS   256u  /* parts of a body */
#define AS_BODY_METHOD  1024u /* bytes of a method's name */
#define AS_BODY_DEPTH   8u    /* parts within parts: a body without parts has depth 1 */

/* Checks n bytes at p, with all parts. `answer`: the body of an answer, which has no method and may
 * have the flag EXCEPTION; a part is an answer without that flag. 0; AS_EPROTO with a reason in
 * *ret_why (static text). */
int as_body_check(const uint8_t *p, uint64_t n, bool answer, const char **ret_why);

/* As as_body_check, and gives the view: slices point to p, arrays are in the arena. Also
 * AS_ENOMEM. */
int as_body_get(const uint8_t *p, uint64_t n, bool answer, struct as_arena *a,
                struct as_body *ret_b, const char **ret_why);

/* The method of a body that was checked; empty: __call__. */
struct as_str as_body_method(const uint8_t *p);

/* Whether as_body_check accepts what as_body_write would lay out. */
bool as_body_is_valid(const struct as_body *b, bool answer);
/* The size of the body when it is laid out; UINT64_MAX: a count, the method or the size is over its
 * limit. Parts are not looked into. */
uint64_t as_body_len(const struct as_body *b);
/* Lays it out at p, which has room for as_body_len bytes. */
void as_body_write(const struct as_body *b, uint8_t *p);
/* The bytes before the data: the fixed part, the lengths and the method. */
uint64_t as_body_head_len(const struct as_body *b);
void as_body_write_head(const struct as_body *b, uint8_t *p);

#endif
