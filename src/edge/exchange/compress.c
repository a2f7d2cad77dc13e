#include "edge/exchange/compress.h"

#define FIRST_ROOM 4096u /* least size of a first result buffer */
#define GROWTH     4u    /* first buffer, as a multiple of the compressed size: usual for text */

struct as_compress_job {
    struct as_list node; /* in the compressor's queue */
    struct as_compressor *s;
    struct as_gzip *zip;
    enum as_gzip_format format;
    bool inflate;
    size_t limit;
    size_t in_total;
    struct as_account *payer;
    struct as_blob *blob;
    size_t room; /* bytes of blob, without the pad */
    size_t used; /* of them */
    as_compress_done done;
    void *arg;
    struct as_compress_job **owner;
    uint32_t n_in, at;
    size_t at_byte;
    struct as_http_piece in[];
};

/* --- memory --- */

static struct as_gzip *borrow_zip(struct as_compressor *s, enum as_gzip_format f, bool inflate)
{
    struct as_gzip *z = s->idle[inflate][f];

    s->idle[inflate][f] = NULL;
    if (z)
        as_gzip_reset(z);
    else if (as_gzip_new(&z, f, inflate))
        return NULL;
    return z;
}

static void return_zip(struct as_compressor *s, struct as_compress_job *q)
{
    struct as_gzip **idle = &s->idle[q->inflate][q->format];

    if (!*idle)
        *idle = q->zip;
    else
        as_gzip_free(q->zip);
}

static void free_job(struct as_compress_job *q)
{
    as_list_remove(&q->node);
    *q->owner = NULL;
    if (q->zip)
        return_zip(q->s, q);
    free(q);
}

void as_compress_cancel(struct as_compress_job *q)
{
    if (!q)
        return;
    as_blob_unref(q->blob);
    free_job(q);
}

static void finish_job(struct as_compress_job *q, int err)
{
    struct as_compress_result r = {.err = err, .blob = q->blob, .n = q->used};
    as_compress_done done = q->done;
    void *arg = q->arg;

    if (!err)
        memset(q->blob->data + q->used, 0, AS_COMPRESS_PAD);
    if (err) {
        as_blob_unref(q->blob);
        r = (struct as_compress_result){.err = err};
    }
    free_job(q);
    done(arg, &r);
}

/* Grows the result buffer, to at most one byte above the limit: a byte there shows that the result
 * is too large. */
static int grow_output(struct as_compress_job *q)
{
    size_t old = q->room;
    size_t n = old ? 2 * old : AS_MAX(q->inflate ? GROWTH * q->in_total : q->limit, FIRST_ROOM);
    int err;

    n = AS_MIN(n, q->limit + 1);
    if (n <= old)
        return AS_ETOOBIG;
    err = q->blob ? as_blob_grow(&q->blob, n + AS_COMPRESS_PAD)
                  : as_blob_new_charged(q->payer, n + AS_COMPRESS_PAD, &q->blob);
    if (!err)
        q->room = n;
    return err;
}

/* --- slices --- */

/* One call of zlib. 1: complete; 0: more to do; else an error. */
static int run_zlib(struct as_compress_job *q, size_t *left)
{
    const struct as_http_piece *piece = &q->in[q->at];
    const uint8_t *p = piece->p + q->at_byte;
    size_t n = AS_MIN(piece->n - q->at_byte, *left), given = n;
    bool last = q->at + 1 == q->n_in && q->at_byte + n == piece->n;
    size_t room = AS_MIN(q->room - q->used, *left), space = room;
    uint8_t *out = q->blob->data + q->used;
    enum as_gzip_step r = as_gzip_step(q->zip, &p, &n, last, &out, &room);

    q->used += space - room;
    q->at_byte += given - n;
    *left -= AS_MIN(*left, AS_MAX(space - room, given - n));
    while (q->at + 1 < q->n_in && q->at_byte == q->in[q->at].n) {
        q->at++;
        q->at_byte = 0;
    }
    if (r == AS_GZIP_BAD)
        return AS_EINTERNAL;
    if (r == AS_GZIP_NO_MEMORY)
        return AS_ENOMEM;
    if (q->used > q->limit)
        return AS_ETOOBIG;
    return r == AS_GZIP_END;
}

/* Processes at most n bytes of q. True: q is finished and freed. */
static bool run_slice(struct as_compress_job *q, size_t n)
{
    size_t left = n;

    while (left) {
        int r = q->used < q->room ? 0 : grow_output(q);

        if (!r)
            r = run_zlib(q, &left);
        if (r) {
            q->s->spent += n - left;
            finish_job(q, r == 1 ? 0 : r);
            return true;
        }
    }
    q->s->spent += n;
    return false;
}

static size_t turn_allowance(const struct as_compressor *s)
{
    return s->spent < AS_COMPRESS_TURN_BYTES
               ? AS_MIN(AS_COMPRESS_TURN_BYTES - s->spent, AS_COMPRESS_SLICE_BYTES)
               : 0;
}

static void on_turn(struct as_task *t)
{
    struct as_compressor *s = AS_CONTAINER(t, struct as_compressor, turn);
    struct as_list *first;
    size_t n;

    s->spent = 0;
    while ((n = turn_allowance(s)) && (first = as_list_pop(&s->queue))) {
        struct as_compress_job *q = AS_LIST_ENTRY(first, struct as_compress_job, node);

        if (!run_slice(q, n))
            as_list_push(&s->queue, &q->node);
    }
    if (s->spent)
        as_loop_defer_next_turn(s->loop, &s->turn);
}

void as_compress_start(struct as_compressor *s, struct as_account *payer, enum as_gzip_format f,
                       bool inflate, const struct as_http_piece *in, uint32_t n_in, size_t limit,
                       as_compress_done done, void *arg, struct as_compress_job **ret_q)
{
    struct as_compress_job *q = malloc(sizeof(*q) + n_in * sizeof(*in));
    struct as_gzip *zip = q ? borrow_zip(s, f, inflate) : NULL;
    size_t n;

    AS_ASSERT(n_in > 0);
    if (!zip) {
        free(q);
        *ret_q = NULL;
        done(arg, &(struct as_compress_result){.err = AS_ENOMEM});
        return;
    }
    *q = (struct as_compress_job){.s = s,
                                  .payer = payer,
                                  .zip = zip,
                                  .format = f,
                                  .inflate = inflate,
                                  .limit = limit,
                                  .done = done,
                                  .arg = arg,
                                  .owner = ret_q,
                                  .n_in = n_in};
    memcpy(q->in, in, n_in * sizeof(*in));
    for (uint32_t i = 0; i < n_in; i++)
        q->in_total += in[i].n;
    as_list_init(&q->node);
    *ret_q = q;
    as_loop_defer_next_turn(s->loop, &s->turn);
    /* jobs that wait come first */
    n = as_list_empty(&s->queue) ? turn_allowance(s) : 0;
    if (!n || !run_slice(q, n))
        as_list_push(&s->queue, &q->node);
}

/* --- life --- */

void as_compressor_init(struct as_compressor *s, struct as_loop *loop)
{
    *s = (struct as_compressor){.loop = loop};
    as_list_init(&s->queue);
    as_task_init(&s->turn, on_turn);
}

void as_compressor_fini(struct as_compressor *s)
{
    AS_ASSERT(as_list_empty(&s->queue));
    for (int way = 0; way < 2; way++) {
        for (int f = 0; f < AS_GZIP_FORMATS; f++)
            as_gzip_free(s->idle[way][f]);
    }
    as_task_cancel(&s->turn);
}
