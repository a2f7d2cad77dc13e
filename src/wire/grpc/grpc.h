/* wire/grpc/grpc.h — gRPC's framing of messages, timeouts, status texts and metadata keys.
 *
 * Works on header values and body bytes; HTTP/2 itself is elsewhere. Compression of messages is in
 * wire/http/gzip.h, the details of an error in wire/grpc/grpc_details.h.
 * Source of the rules: gRPC's PROTOCOL-HTTP2 and statuscodes documents (reference notes §4.1).
 * Pure.
 */
#ifndef AS_WIRE_GRPC_H
#define AS_WIRE_GRPC_H

#include "base/err.h"
#include "base/str.h"

#define AS_GRPC_PREFIX 5u /* flag byte and big-endian length before each message */

/* Splits a body into messages; the body may come in pieces of any size. Zero-initialise. */
struct as_grpc_reader {
    uint8_t prefix[AS_GRPC_PREFIX];
    uint8_t n_prefix;  /* bytes of the prefix that have come */
    uint32_t messages; /* complete prefixes that have come */
    uint64_t left;     /* missing bytes of the current message */
};

enum as_grpc_step {
    AS_GRPC_MORE,    /* all input is consumed, nothing to report */
    AS_GRPC_MESSAGE, /* a prefix is complete: *ret_len is the message's size, *ret_compressed its
                        flag */
    AS_GRPC_BYTES,   /* *ret_p, *ret_len: bytes of the current message */
    AS_GRPC_BAD      /* a flag byte other than 0 or 1 */
};
/* Consumes from *p, *n (both advance); call it until AS_GRPC_MORE. */
enum as_grpc_step as_grpc_read(struct as_grpc_reader *r, const uint8_t **p, size_t *n,
                               const uint8_t **ret_p, uint64_t *ret_len, bool *ret_compressed);
/* The body may end here: neither a prefix nor a message is incomplete. */
bool as_grpc_at_boundary(const struct as_grpc_reader *r);

void as_grpc_prefix(uint8_t out[AS_GRPC_PREFIX], uint32_t len);

/* Parses a "grpc-timeout": 1–8 digits and a unit (H M S m u n). 0 and nanoseconds (limited to less
 * than AS_NEVER), or AS_EINVALID. */
int as_grpc_timeout(struct as_str value, as_ns *ret_timeout);

/* Encodes a grpc-message: every byte outside 0x20–0x7e, '%', and a space at either end become %XX,
 * in upper case. Writes at most `max` bytes, never half an escape and never part of a UTF-8
 * sequence. Returns the number of bytes written. */
#define AS_GRPC_MESSAGE_MAX 4096u
size_t as_grpc_encode_message(char *out, size_t max, struct as_str text);

/* The supported types: application/grpc, application/grpc+proto, application/grpc;… */
bool as_grpc_is_content_type(struct as_str value);

/* Keys that are not part of a call's metadata: pseudo-headers, te, content-type and grpc-*, except
 * those that a handler may want. user-agent is part of it. */
bool as_grpc_is_reserved(struct as_str key);
/* The key ends in "-bin": its values are base64. */
static inline bool as_grpc_is_bin(struct as_str key)
{
    return key.n > 4 && memcmp(key.p + key.n - 4, "-bin", 4) == 0;
}
/* A binary header may join several values by commas: takes the next value, without white space
 * around it, off *rest. A value without a comma is one value, also if it is empty. False: no value
 * is left. */
bool as_grpc_next_bin(struct as_str *rest, struct as_str *ret_value);
/* Decodes one value of a "-bin" key: base64 with or without padding; writes at most
 * AS_GRPC_BIN_BYTES(value.n). 0 or AS_EINVALID. */
#define AS_GRPC_BIN_BYTES(n) ((n) / 4 * 3 + 2)
int as_grpc_decode_bin(struct as_str value, uint8_t *out, size_t *ret_n);
/* Encodes base64 without padding: writes AS_GRPC_BIN_CHARS(n) characters. */
#define AS_GRPC_BIN_CHARS(n) (((n)*4 + 2) / 3)
void as_grpc_encode_bin(char *out, const uint8_t *p, size_t n);

#endif
