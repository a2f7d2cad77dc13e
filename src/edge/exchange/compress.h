/* edge/exchange/compress.h — compresses and inflates messages without blocking the loop.
 *
 * zlib takes about 3 ms per MiB. So messages are processed in slices: all messages of a loop
 * together get AS_COMPRESS_TURN_BYTES per turn of the loop, and take turns slice by slice. A small
 * message is done before as_compress_start returns if the turn has time left. The memory of the
 * result grows as it is produced, up to `limit`, and is charged to an account before it is
 * allocated. Thread: the loop's.
 */
#ifndef AS_EDGE_COMPRESS_H
#define AS_EDGE_COMPRESS_H

#include "base/container/list.h"
#include "base/memory/blob.h"
#include "io/loop/loop.h"
#include "wire/h2/h2.h"
#include "wire/http/gzip.h"

#define AS_COMPRESS_TURN_BYTES  (256u << 10) /* bytes read or written, whichever is more */
#define AS_COMPRESS_PAD         64u          /* zeros behind a result, for SIMD parsers */
#define AS_COMPRESS_SLICE_BYTES (64u << 10)  /* of one message, before the next one */

struct as_compress_job;

struct as_compressor { /* of one loop */
    struct as_loop *loop;
    struct as_list queue;
    struct as_task turn; /* the next turn; scheduled when this one has used some bytes */
    size_t spent;        /* bytes used in this turn */
    struct as_gzip *idle[2][AS_GZIP_FORMATS]; /* [inflate][format]: one kept for reuse */
};

void as_compressor_init(struct as_compressor *s, struct as_loop *loop);
void as_compressor_fini(struct as_compressor *s); /* the queue must be empty */

/* The result. err 0: `blob` holds n bytes and AS_COMPRESS_PAD zeros; it is charged, and owned by
 * the receiver. Otherwise there is no blob, and err is:
 *
 *   AS_EINTERNAL  the input is not of its format, or is truncated
 *   AS_ETOOBIG    the output is larger than `limit` bytes
 *   AS_EFULL      the account has no room
 *   AS_ENOMEM     out of memory */
struct as_compress_result {
    int err;
    struct as_blob *blob;
    size_t n;
};
typedef void (*as_compress_done)(void *arg, const struct as_compress_result *r);

/* Starts a job on the bytes of `in`. The array is copied, but the bytes and `payer` (NULL: nothing
 * is charged) must stay. *ret_q is the job while it is in progress, for cancelling, and is set to
 * NULL before `done` is called. `done` is called once, possibly before this returns. */
void as_compress_start(struct as_compressor *s, struct as_account *payer, enum as_gzip_format f,
                       bool inflate, const struct as_http_piece *in, uint32_t n_in, size_t limit,
                       as_compress_done done, void *arg, struct as_compress_job **ret_q);
void as_compress_cancel(struct as_compress_job *q); /* `done` will not be called; NULL is fine */

#endif
