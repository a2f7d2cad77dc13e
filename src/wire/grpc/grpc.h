/* wire/grpc/grpc.h — gRPC over HTTP/2 on top of headers and body bytes: framing, timeouts, status.
 *
 * Compression of messages is in wire/http/gzip.h, the details of an error in
 * wire/grpc/grpc_details.h. Source of the rules: gRPC's PROTOCOL-HTTP2 and statuscodes documents
 * (reference notes §4.1). Pure; no HTTP/2 here.
 */
#ifndef AS_WIRE_GRPC_H
#define AS_WIRE_GRPC_H

#include "base/err.h"
#include "base/str.h"

#define AS_GRPC_PREFIX 5u /* flag byte and big-endian length before each message */

/* Takes a body apart into messages, however it is cut. Zero-initialise. */
struct as_grpc_reader {
    uint8_t prefix[AS_GRPC_PREFIX];
    uint8_t n_prefix;  /* bytes of the prefix so far */
    uint32_t messages; /* whole prefixes seen */
    uint64_t left;     /* bytes of the current message still to come */
};

enum as_grpc_step {
    AS_GRPC_MORE,    /* all input taken, nothing to report */
    AS_GRPC_MESSAGE, /* a prefix is complete: *ret_len is the size, *ret_compressed the flag */
    AS_GRPC_BYTES,   /* *ret_p, *ret_len: bytes of the current message */
    AS_GRPC_BAD      /* flag byte other than 0 or 1 */
};
/* Consumes from *p, *n (both advance); call until AS_GRPC_MORE. */
enum as_grpc_step as_grpc_read(struct as_grpc_reader *r, const uint8_t **p, size_t *n,
                               const uint8_t **ret_p, uint64_t *ret_len, bool *ret_compressed);
/* The body may end here: no half prefix, no half message. */
bool as_grpc_at_boundary(const struct as_grpc_reader *r);

void as_grpc_prefix(uint8_t out[AS_GRPC_PREFIX], uint32_t len);

/* "grpc-timeout" value: 1–8 digits and a unit of H M S m u n. 0 and nanoseconds (clamped below
 * AS_NEVER), else AS_EINVALID. */
int as_grpc_timeout(struct as_str value, as_ns *ret_timeout);

/* grpc-message: every byte outside 0x20–0x7e and '%', and a space at either end, as %XX, upper
 * case. At most `max` bytes are written, never half an escape, never part of a UTF-8 sequence.
 * Returns bytes written. */
#define AS_GRPC_MESSAGE_MAX 4096u
size_t as_grpc_encode_message(char *out, size_t max, struct as_str text);

/* application/grpc, application/grpc+proto, application/grpc;…: what we serve. */
bool as_grpc_is_content_type(struct as_str value);

/* Keys that metadata of a call does not include: pseudo headers, te, content-type, user-agent is
 * kept, grpc-* other than what a handler may want are reserved. */
bool as_grpc_is_reserved(struct as_str key);
static inline bool as_grpc_is_bin(struct as_str key) /* ends in "-bin": its values are base64 */
{
    return key.n > 4 && memcmp(key.p + key.n - 4, "-bin", 4) == 0;
}
/* The next of the values that a binary header's value joins by commas, without the blanks around
 * it; *rest loses it. False: there is none left. A value without a comma is one, also the empty. */
bool as_grpc_next_bin(struct as_str *rest, struct as_str *ret_value);
/* One value of a "-bin" key: base64 with or without padding; never writes more than
 * AS_GRPC_BIN_BYTES(value.n). 0 or AS_EINVALID. */
#define AS_GRPC_BIN_BYTES(n) ((n) / 4 * 3 + 2)
int as_grpc_decode_bin(struct as_str value, uint8_t *out, size_t *ret_n);
/* Base64 without padding: writes AS_GRPC_BIN_CHARS(n) characters. */
#define AS_GRPC_BIN_CHARS(n) (((n)*4 + 2) / 3)
void as_grpc_encode_bin(char *out, const uint8_t *p, size_t n);

#endif
