/* wire/h2/h2_rules.h — is a request well-formed? HTTP's rules on its fields and its length.
 *
 * nghttp2 can judge this by itself, at about 2,000 instructions for a gRPC call. It is told not to:
 * here the fields that nearly every request has cost a comparison each, bytes are looked at eight
 * at a time, and only what is unusual is given to nghttp2's own checks of characters. The verdicts
 * are nghttp2's (1.52), but that it wants :authority or Host: t_h2_rules compares the two.
 * Source: RFC 9113 §8.1.1, §8.2, §8.3. No state but the struct; thread: any.
 */
#ifndef AS_WIRE_H2_RULES_H
#define AS_WIRE_H2_RULES_H

#include "base/str.h"

struct as_h2_rules { /* of one request; all 0: nothing has come */
    uint8_t seen;    /* pseudo-headers and host, one bit each */
    bool regular;    /* pseudo-headers may not come any more */
    bool connect, options;
    bool web;              /* the scheme is http or https: rules for the path */
    bool slash, asterisk;  /* what the path begins with, or is */
    bool has_length;       /* content-length was there */
    uint64_t length, came; /* bytes of the body: announced, received */
};

/* The next field; trailer: of the block behind the body. False: the request is malformed, a stream
 * error PROTOCOL_ERROR (RFC 9113 §8.1.1); so below. */
bool as_h2_rules_field(struct as_h2_rules *r, struct as_str name, struct as_str value,
                       bool trailer);
/* The head is complete. */
bool as_h2_rules_head(struct as_h2_rules *r);
/* n bytes of the body have come. */
static inline bool as_h2_rules_data(struct as_h2_rules *r, size_t n)
{
    r->came += n;
    return !r->has_length || r->came <= r->length;
}
/* The client has ended its side. */
static inline bool as_h2_rules_end(const struct as_h2_rules *r)
{
    return !r->has_length || r->came == r->length;
}

#endif
