/* bench/load_headers.h — header blocks of answers, decoded by nghttp2's inflater.
 *
 * A block of table references only changes no table, so its meaning is remembered until one that
 * does change it comes along: the usual answer then costs a memcmp.
 */
#ifndef AS_BENCH_LOAD_HEADERS_H
#define AS_BENCH_LOAD_HEADERS_H

#include "base/str.h"

#include <nghttp2/nghttp2.h>

#define AS_LOAD_NO_STATUS (-1)

struct as_load_head {
    int http_status;   /* AS_LOAD_NO_STATUS: none, as in trailers */
    int grpc_status;   /* AS_LOAD_NO_STATUS: none */
    bool is_grpc;      /* content-type application/grpc… */
    char message[160]; /* grpc-message as sent, cut; kept only if grpc-status is not 0 */
};

struct as_load_headers {
    nghttp2_hd_inflater *inflater;
    uint32_t n_memo;
    struct {
        uint8_t n, block[64];
        struct as_load_head head;
    } memo[4];
};

void as_load_headers_init(struct as_load_headers *h);
void as_load_headers_fini(struct as_load_headers *h);

/* NULL: the block is broken. The result lives until the next call. */
const struct as_load_head *as_load_headers_decode(struct as_load_headers *h, const uint8_t *p,
                                                  size_t n);

#endif
