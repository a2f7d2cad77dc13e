/* wire/h2/h2_rules.h — checks that a request is well-formed: HTTP's rules on its fields and its
 * length.
 *
 * nghttp2 can do these checks itself, at about 2,000 instructions for a gRPC call; they are
 * switched off there. Here the common fields cost one comparison each, bytes are checked eight at a
 * time, and only unusual fields go through nghttp2's own checks of characters. The results are
 * those of nghttp2 1.52, except that nghttp2 requires :authority or Host; t_h2_rules compares the
 * two. Source: RFC 9113 §8.1.1, §8.2, §8.3. No state except the struct; thread: any.
 */
#ifndef AS_WIRE_H2_RULES_H
#define AS_WIRE_H2_RULES_H

#include "base/str.h"

struct as_h2_rules { /* of one request; all 0: no field has come */
    uint8_t seen;    /* pseudo-headers and host that have come, one bit each */
    bool regular;    /* a regular field has come: no pseudo-header may follow */
    bool connect, options;
    bool web;                  /* the scheme is http or https: the rules for paths apply */
    bool slash, asterisk;      /* the path begins with /, or is * */
    bool has_length;           /* content-length has come */
    uint64_t length, received; /* bytes of the body: announced, received */
};

/* Checks the next field; trailer: of the block after the body. False: the request is malformed,
 * which is a stream error PROTOCOL_ERROR (RFC 9113 §8.1.1). The same holds for the functions below.
 */
bool as_h2_rules_field(struct as_h2_rules *r, struct as_str name, struct as_str value,
                       bool trailer);
/* Checks the complete head. */
bool as_h2_rules_head(struct as_h2_rules *r);
/* Counts n received bytes of the body. */
static inline bool as_h2_rules_data(struct as_h2_rules *r, size_t n)
{
    r->received += n;
    return !r->has_length || r->received <= r->length;
}
/* Checks the length at the end of the request. */
static inline bool as_h2_rules_end(const struct as_h2_rules *r)
{
    return !r->has_length || r->received == r->length;
}

#endif
