/* edge/exchange/compress.h — compressed messages of one loop: inflated and deflated a slice per
 * turn.
 *
 * zlib is slow next to everything else on the loop (about 3 ms per MiB), so a message is worked on
 * in slices, and all messages of a loop together get AS_COMPRESS_TURN_BYTES bytes of a turn; what
 * is left waits in line for the next one, first come first served slice by slice. A small message
 * is done before start returns when the turn has room. The result's memory grows with what is
 * found, up to `limit`, and is charged to an account before it is allocated. Thread: the loop's.
 */
#ifndef AS_EDGE_COMPRESS_H
#define AS_EDGE_COMPRESS_H

#include "base/memory/blob.h"
#include "base/list.h"
#include "io/loop/loop.h"
#include "wire/h2/h2.h"
#include "wire/http/gzip.h"

#define AS_COMPRESS_TURN_BYTES                                                                     \
    (256u << 10)                    /* bytes in or out, whichever is more, per turn of a loop */
#define AS_COMPRESS_PAD         64u /* zeros behind a result, for readers of whole vectors */
#define AS_COMPRESS_SLICE_BYTES (64u << 10) /* of one message before the next one's turn */

struct as_compress_job;

struct as_compressor { /* of one loop */
    struct as_loop *loop;
    struct as_list queue;
    struct as_task turn; /* begins the next turn; due when something was done in this one */
    size_t spent;        /* of this turn */
    struct as_gzip *idle[2][AS_GZIP_FORMATS]; /* [inflate]: one of each kind kept for the next */
};

void as_compressor_init(struct as_compressor *s, struct as_loop *loop);
void as_compressor_fini(struct as_compressor *s); /* nobody in line */

/* The outcome. err 0: `blob` holds n bytes, AS_COMPRESS_PAD zeros behind them; it is charged, and
 * the owner's from now on. Else nothing is held: AS_EINTERNAL  not a stream of its format, or cut
 * short AS_ETOOBIG    more than `limit` bytes AS_EFULL      the account has no room AS_ENOMEM no
 * memory */
struct as_compress_result {
    int err;
    struct as_blob *blob;
    size_t n;
};
typedef void (*as_compress_done)(void *arg, const struct as_compress_result *r);

/* Starts on the bytes of `in` (the array is copied, what it points to must stay; so must `payer`,
 * which may be NULL: nothing is charged). *ret_q, which may
 * be in the owner's hands, is the job for cancel while it is under way and NULL when `done` is
 * called, once; that may be before this returns. */
void as_compress_start(struct as_compressor *s, struct as_account *payer, enum as_gzip_format f,
                       bool inflate, const struct as_http_piece *in, uint32_t n_in, size_t limit,
                       as_compress_done done, void *arg, struct as_compress_job **ret_q);
void as_compress_cancel(struct as_compress_job *q); /* `done` is not called; NULL is fine */

#endif
