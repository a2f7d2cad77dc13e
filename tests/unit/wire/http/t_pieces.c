/* Specification of wire/http/pieces: pieces are sent in order, wherever the cuts lie. */
#include "wire/http/pieces.h"

#include "unit.h"

#include <string.h>

static struct as_http_piece part_of(struct as_blob *b, size_t at, size_t n)
{
    return (struct as_http_piece){b->data + at, n, b};
}

static void push(struct as_http_pieces *q, struct as_blob *b, size_t at, size_t n,
                 const struct as_http_piece *fixed)
{
    assert_true(as_http_pieces_reserve(q, 1, fixed));
    q->p[q->n++] = part_of(as_blob_ref(b), at, n);
}

/* Sends n bytes, and checks that they are those of `b` from *at on. */
static void expect(struct as_http_pieces *q, struct as_blob *b, size_t *at, size_t n)
{
    struct as_outq out;
    struct iovec iov[8];
    size_t got = 0;

    as_outq_init(&out);
    as_http_pieces_send(q, &out, n, true);
    assert_int_equal(out.bytes, n);
    for (int i = 0, k = as_outq_iov(&out, iov, 8); i < k; i++) {
        assert_memory_equal(iov[i].iov_base, b->data + *at + got, iov[i].iov_len);
        got += iov[i].iov_len;
    }
    assert_int_equal(got, n);
    *at += n;
    as_outq_fini(&out);
}

/* Room is made behind pieces that are partly sent: by moving them, and by more memory. */
static void pieces_are_sent_in_order(void **state AS_UNUSED)
{
    enum { SIZE = 7, COUNT = 200 };
    struct as_blob *b = as_blob_new(SIZE * COUNT);
    struct as_http_piece fixed[2];
    struct as_http_pieces q = {.p = fixed, .cap = 2};
    size_t sent = 0;

    for (size_t i = 0; i < b->n; i++)
        b->data[i] = (uint8_t)(i * 31);
    for (size_t i = 0; i < COUNT; i++) {
        push(&q, b, i * SIZE, SIZE, fixed);
        if (i % 3)
            expect(&q, b, &sent, AS_MIN((i + 1) * SIZE - sent, (size_t)9));
    }
    expect(&q, b, &sent, b->n - sent);
    assert_int_equal(q.n, 0);
    free(q.p);
    as_blob_unref(b);
}

static void what_is_dropped_is_released(void **state AS_UNUSED)
{
    struct as_blob *b = as_blob_new(16);
    struct as_http_pieces q = {0};
    size_t sent = 0;

    push(&q, b, 0, 8, NULL);
    push(&q, b, 8, 8, NULL);
    expect(&q, b, &sent, 3);
    as_http_pieces_drop(&q, true);
    assert_int_equal(q.n + q.at, 0);
    push(&q, b, 0, 16, NULL);
    sent = 0;
    expect(&q, b, &sent, 16);
    free(q.p);
    as_blob_unref(b); /* the last reference: checked by ASan */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_sent_in_order),
        cmocka_unit_test(what_is_dropped_is_released),
    };

    return cmocka_run_group_tests_name("pieces", tests, NULL, NULL);
}
