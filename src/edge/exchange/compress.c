#include "edge/exchange/compress.h"

#define FIRST_ROOM 4096u /* least room that is made at once */
#define GROWTH     4u    /* inflated, of what came in: usual for text; tensors rarely get there */

struct as_squeeze {
    struct as_list node; /* in the squeezer's line */
    struct as_squeezer *s;
    struct as_zip *zip;
    enum as_zip_format format;
    bool inflate;
    size_t limit;
    size_t in_total;
    struct as_account *payer;
    struct as_blob *blob;
    size_t room; /* bytes of blob, without the pad */
    size_t have; /* of them in use */
    as_squeeze_done done;
    void *arg;
    struct as_squeeze **owner;
    uint32_t n_in, at;
    size_t at_byte;
    struct as_http_piece in[];
};

/* --- memory --- */

static struct as_zip *take_zip(struct as_squeezer *s, enum as_zip_format f, bool inflate)
{
    struct as_zip *z = s->idle[inflate][f];

    s->idle[inflate][f] = NULL;
    if (z)
        as_zip_reset(z);
    else if (as_zip_new(&z, f, inflate))
        return NULL;
    return z;
}

static void give_zip(struct as_squeezer *s, struct as_squeeze *q)
{
    struct as_zip **idle = &s->idle[q->inflate][q->format];

    if (!*idle)
        *idle = q->zip;
    else
        as_zip_free(q->zip);
}

static void drop(struct as_squeeze *q)
{
    as_list_remove(&q->node);
    *q->owner = NULL;
    if (q->zip)
        give_zip(q->s, q);
    free(q);
}

void as_squeeze_cancel(struct as_squeeze *q)
{
    if (!q)
        return;
    as_blob_unref(q->blob);
    drop(q);
}

static void finish(struct as_squeeze *q, int err)
{
    struct as_squeezed r = {.err = err, .blob = q->blob, .n = q->have};
    as_squeeze_done done = q->done;
    void *arg = q->arg;

    if (!err)
        memset(q->blob->data + q->have, 0, AS_SQUEEZE_PAD);
    if (err) {
        as_blob_unref(q->blob);
        r = (struct as_squeezed){.err = err};
    }
    drop(q);
    done(arg, &r);
}

/* More room behind what there is; one byte above the limit at most, which shows that it is over. */
static int grow(struct as_squeeze *q)
{
    size_t old = q->room;
    size_t n = old ? 2 * old : AS_MAX(q->inflate ? GROWTH * q->in_total : q->limit, FIRST_ROOM);
    int err;

    n = AS_MIN(n, q->limit + 1);
    if (n <= old)
        return AS_ETOOBIG;
    err = q->blob ? as_blob_extend(&q->blob, n + AS_SQUEEZE_PAD)
                  : as_blob_take(q->payer, n + AS_SQUEEZE_PAD, &q->blob);
    if (!err)
        q->room = n;
    return err;
}

/* --- slices --- */

/* One call of zlib. 1: complete; 0: goes on; else why not. */
static int step(struct as_squeeze *q, size_t *left)
{
    const struct as_http_piece *piece = &q->in[q->at];
    const uint8_t *p = piece->p + q->at_byte;
    size_t n = AS_MIN(piece->n - q->at_byte, *left), given = n;
    bool last = q->at + 1 == q->n_in && q->at_byte + n == piece->n;
    size_t room = AS_MIN(q->room - q->have, *left), space = room;
    uint8_t *out = q->blob->data + q->have;
    enum as_zip_step r = as_zip_step(q->zip, &p, &n, last, &out, &room);

    q->have += space - room;
    q->at_byte += given - n;
    *left -= AS_MIN(*left, AS_MAX(space - room, given - n));
    while (q->at + 1 < q->n_in && q->at_byte == q->in[q->at].n) {
        q->at++;
        q->at_byte = 0;
    }
    if (r == AS_ZIP_BAD)
        return AS_EINTERNAL;
    if (r == AS_ZIP_STARVED)
        return AS_ENOMEM;
    if (q->have > q->limit)
        return AS_ETOOBIG;
    return r == AS_ZIP_END;
}

/* Works on q for at most `n` bytes. True: it is over and gone. */
static bool slice(struct as_squeeze *q, size_t n)
{
    size_t left = n;

    while (left) {
        int r = q->have < q->room ? 0 : grow(q);

        if (!r)
            r = step(q, &left);
        if (r) {
            q->s->spent += n - left;
            finish(q, r == 1 ? 0 : r);
            return true;
        }
    }
    q->s->spent += n;
    return false;
}

static size_t allowance(const struct as_squeezer *s)
{
    return s->spent < AS_SQUEEZE_TURN ? AS_MIN(AS_SQUEEZE_TURN - s->spent, AS_SQUEEZE_SLICE) : 0;
}

static void on_turn(struct as_task *t)
{
    struct as_squeezer *s = AS_CONTAINER(t, struct as_squeezer, turn);
    struct as_list *first;
    size_t n;

    s->spent = 0;
    while ((n = allowance(s)) && (first = as_list_pop(&s->line))) {
        struct as_squeeze *q = AS_LIST_ENTRY(first, struct as_squeeze, node);

        if (!slice(q, n))
            as_list_push(&s->line, &q->node);
    }
    if (s->spent)
        as_loop_next(s->loop, &s->turn);
}

void as_squeeze_start(struct as_squeezer *s, struct as_account *payer, enum as_zip_format f,
                      bool inflate, const struct as_http_piece *in, uint32_t n_in, size_t limit,
                      as_squeeze_done done, void *arg, struct as_squeeze **ret_q)
{
    struct as_squeeze *q = malloc(sizeof(*q) + n_in * sizeof(*in));
    struct as_zip *zip = q ? take_zip(s, f, inflate) : NULL;
    size_t n;

    AS_ASSERT(n_in > 0);
    if (!zip) {
        free(q);
        *ret_q = NULL;
        done(arg, &(struct as_squeezed){.err = AS_ENOMEM});
        return;
    }
    *q = (struct as_squeeze){.s = s,
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
    as_loop_next(s->loop, &s->turn);
    /* who comes late does not overtake */
    n = as_list_empty(&s->line) ? allowance(s) : 0;
    if (!n || !slice(q, n))
        as_list_push(&s->line, &q->node);
}

/* --- life --- */

void as_squeezer_init(struct as_squeezer *s, struct as_loop *loop)
{
    *s = (struct as_squeezer){.loop = loop};
    as_list_init(&s->line);
    as_task_init(&s->turn, on_turn);
}

void as_squeezer_fini(struct as_squeezer *s)
{
    AS_ASSERT(as_list_empty(&s->line));
    for (int way = 0; way < 2; way++) {
        for (int f = 0; f < AS_ZIP_FORMATS; f++)
            as_zip_free(s->idle[way][f]);
    }
    as_task_cancel(&s->turn);
}
