/* Specification of edge/exchange/compress: messages are processed in slices per turn, and charged
 * to an account. */
#include "edge/exchange/compress.h"

#include "unit.h"

struct bench { /* a loop that runs until `left` jobs are done */
    struct as_loop *loop;
    struct as_compressor s;
    struct as_budget budget;
    struct as_account *payer;
    int left;
    bool running;
};

struct job {
    struct bench *b;
    struct as_compress_job *q;
    struct as_compress_result r;
    uint64_t wakes; /* of the loop when it was done */
    int n_done;
};

static void set_up(struct bench *b, uint64_t limit)
{
    *b = (struct bench){.budget = {.limit = limit, .share = 100}};
    b->payer = as_account_new(&b->budget);
    assert_int_equal(as_loop_new(&b->loop, 0), 0);
    as_compressor_init(&b->s, b->loop);
}

static void tear_down(struct bench *b)
{
    assert_int_equal(as_budget_used(&b->budget), 0);
    as_account_unref(b->payer);
    as_compressor_fini(&b->s);
    as_loop_free(b->loop);
}

static void done(void *arg, const struct as_compress_result *r)
{
    struct job *j = arg;

    assert_null(j->q);
    j->r = *r;
    j->n_done++;
    j->wakes = j->b->loop->stat.wakes;
    if (--j->b->left == 0 && j->b->running)
        as_loop_stop(j->b->loop);
}

static void start(struct bench *b, struct job *j, bool inflate, struct as_str in, size_t limit)
{
    struct as_http_piece piece = {(const uint8_t *)in.p, in.n, NULL};

    *j = (struct job){.b = b};
    b->left++;
    as_compress_start(&b->s, b->payer, AS_GZIP_GZIP, inflate, &piece, 1, limit, done, j, &j->q);
}

static void wait_done(struct bench *b)
{
    b->running = true;
    if (b->left)
        as_loop_run(b->loop);
    b->running = false;
    assert_int_equal(b->left, 0);
}

static void drop(struct job *j)
{
    assert_int_equal(j->n_done, 1);
    as_blob_unref(j->r.blob);
}

/* n zero bytes as gzip; the caller drops the job. */
static struct as_str zeros(struct bench *b, struct job *j, size_t n)
{
    char *p = calloc(1, n);

    start(b, j, false, (struct as_str){p, n}, n);
    wait_done(b);
    assert_int_equal(j->r.err, 0);
    free(p);
    return (struct as_str){(char *)j->r.blob->data, j->r.n};
}

static void compressed_and_inflated_again(void **state AS_UNUSED)
{
    static const size_t sizes[] = {100, 5000, 65536, 3 << 20};
    struct bench b;

    set_up(&b, 1 << 30);
    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        struct job small, big;
        struct as_str in = zeros(&b, &small, sizes[i]);

        start(&b, &big, true, in, sizes[i]);
        wait_done(&b);
        assert_int_equal(big.r.err, 0);
        assert_int_equal(big.r.n, sizes[i]);
        assert_int_equal((uintptr_t)big.r.blob->data % AS_BLOB_ALIGN, 0);
        for (size_t k = 0; k < big.r.n + AS_COMPRESS_PAD; k++) /* the pad is zeros too */
            assert_int_equal(big.r.blob->data[k], 0);
        assert_true(as_budget_used(&b.budget) >= big.r.n);
        drop(&small);
        drop(&big);
    }
    tear_down(&b);
}

static void small_messages_are_done_at_once(void **state AS_UNUSED)
{
    struct job small, big;
    struct as_str in;
    struct bench b;

    set_up(&b, 1 << 30);
    in = zeros(&b, &small, 1000);
    start(&b, &big, true, in, 1000);
    assert_int_equal(big.n_done, 1); /* no turn of the loop was needed */
    drop(&small);
    drop(&big);
    tear_down(&b);
}

static void the_limit_is_exact(void **state AS_UNUSED)
{
    static const size_t sizes[] = {1, 4096, 100000};
    struct bench b;

    set_up(&b, 1 << 30);
    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        struct job fits, over;
        struct as_gzip *z;
        uint8_t out[4096], *to = out;
        size_t n = sizes[i], room = sizeof(out);
        uint8_t *text = calloc(1, n);
        const uint8_t *p = text;

        assert_int_equal(as_gzip_new(&z, AS_GZIP_GZIP, false), 0);
        assert_int_equal(as_gzip_step(z, &p, &n, true, &to, &room), AS_GZIP_END);
        as_gzip_free(z);
        free(text);
        start(&b, &fits, true, (struct as_str){(char *)out, sizeof(out) - room}, sizes[i]);
        start(&b, &over, true, (struct as_str){(char *)out, sizeof(out) - room}, sizes[i] - 1);
        wait_done(&b);
        assert_int_equal(fits.r.err, 0);
        assert_int_equal(over.r.err, AS_ETOOBIG);
        assert_null(over.r.blob);
        drop(&fits);
        drop(&over);
    }
    tear_down(&b);
}

/* 64 MiB of zeros in 300 KiB: refused after as little memory as the limit allows. */
static void a_zip_bomb_uses_no_more_memory_than_the_limit(void **state AS_UNUSED)
{
    struct job small, bomb;
    struct as_str in;
    struct bench b;

    set_up(&b, 1 << 30);
    in = zeros(&b, &small, 64 << 20);
    b.budget.limit = b.budget.used + (1 << 20) + 1 + AS_COMPRESS_PAD; /* not a byte more */
    start(&b, &bomb, true, in, 1 << 20);
    wait_done(&b);
    assert_int_equal(bomb.r.err, AS_ETOOBIG);
    b.budget.limit = b.budget.used + (1 << 20);
    start(&b, &bomb, true, in, 64 << 20);
    wait_done(&b);
    assert_int_equal(bomb.r.err, AS_EFULL);
    drop(&small);
    tear_down(&b);
}

static void invalid_input_is_an_error(void **state AS_UNUSED)
{
    struct job a, c;
    struct bench b;

    set_up(&b, 1 << 20);
    start(&b, &a, true, AS_STR("this is no gzip at all"), 1000);
    start(&b, &c, true, AS_STR(""), 1000);
    wait_done(&b);
    assert_int_equal(a.r.err, AS_EINTERNAL);
    assert_int_equal(c.r.err, AS_EINTERNAL);
    tear_down(&b);
}

/* Large messages share the turns; a small one does not wait until all of them are done. */
static void messages_take_turns(void **state AS_UNUSED)
{
    struct job source, tiny_source, large[2], tiny;
    struct as_str in, tiny_in;
    struct bench b;

    set_up(&b, 1 << 30);
    in = zeros(&b, &source, 16 << 20);
    tiny_in = zeros(&b, &tiny_source, 100);
    start(&b, &large[0], true, in, 16 << 20);
    start(&b, &large[1], true, in, 16 << 20);
    start(&b, &tiny, true, tiny_in, 100);
    wait_done(&b);
    assert_true(large[0].wakes >= (16 << 20) / AS_COMPRESS_TURN_BYTES);
    assert_true(large[1].wakes - large[0].wakes < 4); /* both at the same pace */
    assert_true(tiny.wakes + 32 < large[0].wakes);
    drop(&large[0]);
    drop(&large[1]);
    drop(&tiny);
    drop(&tiny_source);
    drop(&source);
    tear_down(&b);
}

static void done_is_not_called_after_cancel(void **state AS_UNUSED)
{
    struct job source, gone, stays;
    struct as_str in;
    struct bench b;

    set_up(&b, 1 << 30);
    in = zeros(&b, &source, 4 << 20);
    start(&b, &gone, true, in, 4 << 20);
    start(&b, &stays, true, in, 4 << 20);
    assert_non_null(gone.q);
    as_compress_cancel(gone.q);
    assert_null(gone.q);
    b.left--;
    wait_done(&b);
    assert_int_equal(gone.n_done, 0);
    as_compress_cancel(NULL);
    drop(&stays);
    drop(&source);
    tear_down(&b);
}

static void pieces_are_one_message(void **state AS_UNUSED)
{
    const struct as_http_piece pieces[] = {
        {(const uint8_t *)"", 0, NULL},
        {(const uint8_t *)"aaaaaaaaaaaaaaaaaaaaaaaaaaa", 27, NULL},
        {(const uint8_t *)"", 0, NULL},
        {(const uint8_t *)"bbbbbbbbbbbbbbbbbbbbbbbbbbb", 27, NULL},
        {(const uint8_t *)"", 0, NULL}};
    struct job small = {0}, big;
    struct bench b;

    set_up(&b, 1 << 20);
    small.b = &b;
    b.left = 1;
    as_compress_start(&b.s, b.payer, AS_GZIP_GZIP, false, pieces, AS_COUNT(pieces), 53, done,
                      &small, &small.q);
    wait_done(&b);
    assert_int_equal(small.r.err, 0);
    start(&b, &big, true, (struct as_str){(char *)small.r.blob->data, small.r.n}, 100);
    wait_done(&b);
    assert_int_equal(big.r.n, 54);
    assert_memory_equal(big.r.blob->data, "aaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbb",
                        54);
    drop(&small);
    drop(&big);
    tear_down(&b);
}

/* For answers the limit is below their size: output that is not smaller is too big. */
static void output_that_is_not_smaller_is_too_big(void **state AS_UNUSED)
{
    uint8_t noise[200];
    struct job j;
    struct bench b;

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (uint8_t)(i * 167 + (i * i >> 3) * 31);
    set_up(&b, 1 << 20);
    start(&b, &j, false, (struct as_str){(char *)noise, sizeof(noise)}, sizeof(noise) - 1);
    wait_done(&b);
    assert_int_equal(j.r.err, AS_ETOOBIG);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_and_inflated_again),
        cmocka_unit_test(small_messages_are_done_at_once),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(a_zip_bomb_uses_no_more_memory_than_the_limit),
        cmocka_unit_test(invalid_input_is_an_error),
        cmocka_unit_test(messages_take_turns),
        cmocka_unit_test(done_is_not_called_after_cancel),
        cmocka_unit_test(pieces_are_one_message),
        cmocka_unit_test(output_that_is_not_smaller_is_too_big),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
