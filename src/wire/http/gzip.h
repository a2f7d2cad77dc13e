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

enum as_zip_format { AS_ZIP_NONE, AS_ZIP_GZIP, AS_ZIP_DEFLATE, AS_ZIP_FORMATS };

/* What we can read, as the value of grpc-accept-encoding. */
#define AS_ZIP_ACCEPTED "identity,deflate,gzip"

/* The format of a grpc-encoding value; "" and "identity" are AS_ZIP_NONE. AS_EUNIMPLEMENTED. */
int as_zip_format_of(struct as_str name, enum as_zip_format *ret_f);
struct as_str as_zip_name(enum as_zip_format f); /* "identity", "gzip", "deflate" */
/* A list as in grpc-accept-encoding names the format. */
bool as_zip_is_accepted(struct as_str list, enum as_zip_format f);

/* The same of HTTP's accept-encoding: names in any case, "*", weights; "q=0" is a refusal
 * (RFC 9110, 12.5.3). An empty list wants nothing. */
bool as_zip_is_wanted(struct as_str list, enum as_zip_format f);

struct as_zip;

/* f is not AS_ZIP_NONE. AS_ENOMEM. */
int as_zip_new(struct as_zip **ret_z, enum as_zip_format f, bool inflate);
void as_zip_free(struct as_zip *z);
void as_zip_reset(struct as_zip *z); /* before each message but the first */

enum as_zip_step {
    AS_ZIP_MORE,   /* all input is taken; the message goes on */
    AS_ZIP_FULL,   /* the room is used up; there may be more */
    AS_ZIP_END,    /* the message is complete and so was the input */
    AS_ZIP_BAD,    /* inflate: no such stream, a wrong checksum, bytes behind its end or too few */
    AS_ZIP_STARVED /* inflate: out of memory for its window */
};
/* Consumes from *p, *n and writes to *out, *room; all four advance. `last`: the input ends behind
 * these bytes. After END, BAD and STARVED only reset or free. */
enum as_zip_step as_zip_step(struct as_zip *z, const uint8_t **p, size_t *n, bool last,
                             uint8_t **out, size_t *room);

#endif
