/* wire/http/gzip.h — gzip and deflate of single messages, a slice at a time.
 *
 * One object compresses or decompresses one format, for one message after the other; no state is
 * shared between messages (gRPC's compression document demands this). "deflate" is the zlib format
 * (RFC 1950), "gzip" is RFC 1952 with one member. With slices the caller bounds the memory, by the
 * room that it gives, and the time that one call takes.
 * Pure; only as_gzip_new allocates, except for the window, which zlib allocates at the first slice.
 */
#ifndef AS_WIRE_GZIP_H
#define AS_WIRE_GZIP_H

#include "base/err.h"
#include "base/str.h"

enum as_gzip_format { AS_GZIP_NONE, AS_GZIP_GZIP, AS_GZIP_DEFLATE, AS_GZIP_FORMATS };

/* The formats that we can decompress, as a value of grpc-accept-encoding. */
#define AS_GZIP_GRPC_ACCEPT "identity,deflate,gzip"

/* The format of a grpc-encoding; "" and "identity" are AS_GZIP_NONE. 0 or AS_EUNIMPLEMENTED. */
int as_gzip_format_of(struct as_str name, enum as_gzip_format *ret_f);
struct as_str as_gzip_name(enum as_gzip_format f); /* "identity", "gzip", "deflate" */
/* A list in the form of grpc-accept-encoding contains the format. */
bool as_gzip_in_grpc_list(struct as_str list, enum as_gzip_format f);

/* An accept-encoding of HTTP allows the format: names in any case, "*", and weights, where "q=0" is
 * a refusal (RFC 9110 §12.5.3). An empty list allows no format. */
bool as_gzip_in_accept_encoding(struct as_str list, enum as_gzip_format f);

struct as_gzip;

/* f is not AS_GZIP_NONE. 0 or AS_ENOMEM. */
int as_gzip_new(struct as_gzip **ret_z, enum as_gzip_format f, bool inflate);
void as_gzip_free(struct as_gzip *z);
void as_gzip_reset(struct as_gzip *z); /* call it before each message except the first */

enum as_gzip_step {
    AS_GZIP_MORE,     /* all input is consumed; the message is not complete */
    AS_GZIP_FULL,     /* the output room is used up; there may be more output */
    AS_GZIP_END,      /* the message is complete, and all input is consumed */
    AS_GZIP_BAD,      /* inflate: malformed, a wrong checksum, cut short, or bytes after the end */
    AS_GZIP_NO_MEMORY /* inflate: out of memory for the window */
};
/* Consumes input at *p, *n and writes to *out, *room; all four advance. `last`: the input ends with
 * these bytes. After END, BAD and NO_MEMORY only reset or free may follow. */
enum as_gzip_step as_gzip_step(struct as_gzip *z, const uint8_t **p, size_t *n, bool last,
                               uint8_t **out, size_t *room);

#endif
