/* wire/http/gzip.h — gzip and deflate of single messages, a slice at a time.
 *
 * One object holds the state of one direction and format; it is used for one message after the
 * other, each with a state of its own (gRPC's compression document: no context is shared between
 * messages). "deflate" is the zlib format (RFC 1950), "gzip" RFC 1952 with one member. Slices let
 * the caller bound memory, by the room that it gives, and the time until it is asked again.
 * Pure; memory is taken by new only, but for what zlib puts off until the first slice.
 */
#ifndef AS_WIRE_ZIP_H
#define AS_WIRE_ZIP_H

#include "base/err.h"
#include "base/str.h"

enum as_gzip_format { AS_GZIP_NONE, AS_GZIP_GZIP, AS_GZIP_DEFLATE, AS_GZIP_FORMATS };

/* What we can read, as the value of grpc-accept-encoding. */
#define AS_GZIP_GRPC_ACCEPT "identity,deflate,gzip"

/* The format of a grpc-encoding value; "" and "identity" are AS_GZIP_NONE. AS_EUNIMPLEMENTED. */
int as_gzip_format_of(struct as_str name, enum as_gzip_format *ret_f);
struct as_str as_gzip_name(enum as_gzip_format f); /* "identity", "gzip", "deflate" */
/* A list as in grpc-accept-encoding names the format. */
bool as_gzip_in_grpc_list(struct as_str list, enum as_gzip_format f);

/* The same of HTTP's accept-encoding: names in any case, "*", weights; "q=0" is a refusal
 * (RFC 9110, 12.5.3). An empty list wants nothing. */
bool as_gzip_in_accept_encoding(struct as_str list, enum as_gzip_format f);

struct as_gzip;

/* f is not AS_GZIP_NONE. AS_ENOMEM. */
int as_gzip_new(struct as_gzip **ret_z, enum as_gzip_format f, bool inflate);
void as_gzip_free(struct as_gzip *z);
void as_gzip_reset(struct as_gzip *z); /* before each message but the first */

enum as_gzip_step {
    AS_GZIP_MORE, /* all input is taken; the message goes on */
    AS_GZIP_FULL, /* the room is used up; there may be more */
    AS_GZIP_END,  /* the message is complete and so was the input */
    AS_GZIP_BAD,  /* inflate: no such stream, a wrong checksum, bytes behind its end or too few */
    AS_GZIP_NO_MEMORY /* inflate: out of memory for its window */
};
/* Consumes from *p, *n and writes to *out, *room; all four advance. `last`: the input ends behind
 * these bytes. After END, BAD and STARVED only reset or free. */
enum as_gzip_step as_gzip_step(struct as_gzip *z, const uint8_t **p, size_t *n, bool last,
                               uint8_t **out, size_t *room);

#endif
