/* The worker library: bodies of every size, and how long their bytes stay. */
#include "worker_pair.h"

#include <malloc.h>

/* --- bodies --- */

static void bodies_of_many_frames_in_one_read_are_aligned(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, 4096, 20000, AS_FRAME_INLINE};
    struct pair *p = *state;
    uint64_t stream = 1, echoed = 1;

    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < AS_COUNT(sizes); i++, stream += 2)
            fake_ask(&p->d, stream, sizes[i]);
        fake_send(&p->d);
        for (size_t i = 0; i < AS_COUNT(sizes); i++) {
            struct as_worker_req *q = pair_next(p);

            assert_true(fake_body_ok(&as_worker_req_msg(q)->tensors[0],
                                     stream - 2 * (AS_COUNT(sizes) - i), sizes[i]));
            pair_echo(p, q);
        }
        as_worker_flush(p->w);
        for (size_t i = 0; i < AS_COUNT(sizes); i++, echoed += 2)
            fake_expect_echo(&p->d, echoed, sizes[i]);
    }
}

/* Writes what waits in pieces of `step` bytes; the worker reads after each. */
static struct as_worker_req *trickle(struct pair *p, size_t step)
{
    struct bytes b = bytes_of(&p->d.out);
    struct as_worker_req *q = NULL;

    for (size_t at = 0; at < b.n; at += step) {
        size_t n = AS_MIN(step, b.n - at);

        assert_null(q);
        for (size_t done = 0; done < n;) {
            ssize_t k = send(p->d.fd, b.p + at + done, n - done, MSG_DONTWAIT);

            done += k > 0 ? (size_t)k : 0;
            (void)as_worker_poll(p->w);
        }
        q = as_worker_next(p->w);
    }
    free(b.p);
    return q;
}

static void a_large_body_comes_in_frames_of_its_own(void **state)
{
    static const size_t steps[] = {1u << 22, 100000, 65536, 4096, 1021, 64};
    static const size_t sizes[] = {AS_FRAME_INLINE + 1, AS_FRAME_MAX - 16, AS_FRAME_MAX, 300000};
    struct pair *p = *state;
    uint64_t stream = 1;

    for (size_t i = 0; i < AS_COUNT(steps); i++) {
        for (size_t k = 0; k < AS_COUNT(sizes); k++, stream += 2) {
            struct as_worker_req *q;

            fake_ask(&p->d, stream, sizes[k]);
            q = trickle(p, steps[i]);
            assert_non_null(q);
            assert_true(fake_body_ok(&as_worker_req_msg(q)->tensors[0], stream, sizes[k]));
            as_worker_fail(p->w, q, 13, AS_STR(""));
            as_worker_flush(p->w);
            fake_expect_error(&p->d, stream);
        }
    }
}

static void small_frames_may_surround_a_large_body(void **state)
{
    struct pair *p = *state;
    const size_t large = (3u << 20) + 17;
    struct as_worker_req *q;

    fake_ask(&p->d, 1, 100);
    fake_ask(&p->d, 3, large);
    fake_ask(&p->d, 5, 200);
    q = trickle(p, 1u << 30);
    for (uint64_t stream = 1; stream <= 5; stream += 2) {
        size_t n = stream == 1 ? 100 : stream == 3 ? large : 200;

        assert_true(fake_body_ok(&as_worker_req_msg(q)->tensors[0], stream, n));
        as_worker_fail(p->w, q, 13, AS_STR(""));
        q = stream < 5 ? pair_next(p) : NULL;
    }
}

static void *echo_in_thread(void *arg)
{
    struct pair *p = arg;

    pair_echo(p, pair_next(p));
    while (as_worker_wait(p->w) == 0) /* until drained: what the socket does not take follows */
        (void)as_worker_next(p->w);
    return NULL;
}

static void a_large_answer_goes_out_as_the_socket_takes_it(void **state)
{
    struct pair *p = *state;
    const size_t large = 9u << 20;
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, echo_in_thread, p), 0);
    fake_ask(&p->d, 1, large);
    fake_send(&p->d);
    fake_expect_echo(&p->d, 1, large);
    as_frame_put_text(&p->d.out, AS_FRAME_DRAIN, (struct as_str){0});
    fake_send(&p->d);
    pthread_join(t, NULL);
}

static void a_large_answer_may_have_many_tensors(void **state)
{
    static uint8_t bytes[64 * 200];
    const int64_t shape[] = {sizeof(bytes)};
    struct as_tensor t[20];
    struct as_msg msg = {.tensors = t, .n_tensors = AS_COUNT(t)};
    struct pair *p = *state;
    struct as_frame_msg m;
    struct as_arena a;
    const char *why;
    char names[AS_COUNT(t)][8];
    uint64_t got = 0;

    for (uint32_t i = 0; i < AS_COUNT(t); i++) {
        snprintf(names[i], sizeof(names[i]), "out%u", i);
        t[i] = (struct as_tensor){.name = as_str_of(names[i]),
                                  .dtype = AS_DT_UINT8,
                                  .ndim = 1,
                                  .shape = shape,
                                  .data = bytes,
                                  .nbytes = sizeof(bytes)};
    }
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7);
    fake_ask(&p->d, 1, 100);
    fake_send(&p->d);
    assert_int_equal(as_worker_answer(p->w, pair_next(p), &msg), 0);
    as_worker_flush(p->w);
    fake_expect(&p->d, AS_FRAME_DATA);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_msg(&p->d.f, &a, &m, &msg, &why), 0);
    assert_int_equal(msg.n_tensors, AS_COUNT(t));
    assert_int_equal(m.body_len, AS_COUNT(t) * sizeof(bytes));
    while (got < m.body_len) {
        fake_expect(&p->d, AS_FRAME_DATA);
        for (uint32_t i = 0; i < p->d.f.n; i++)
            assert_int_equal(p->d.f.p[i], bytes[(got + i) % sizeof(bytes)]);
        got += p->d.f.n;
    }
    as_arena_fini(&a);
}

/* --- memory --- */

static void held_bytes_stay_when_the_buffer_is_used_on(void **state)
{
    struct pair *p = *state;
    void *holds[8];
    struct as_tensor kept[8];
    uint64_t stream = 1;

    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 10; k++, stream += 2) {
            struct as_worker_req *q = pair_start(p, stream, 30000);

            if (k == 5) {
                kept[i] = as_worker_req_msg(q)->tensors[0];
                holds[i] = as_worker_req_hold(q);
            }
            as_worker_fail(p->w, q, 13, AS_STR(""));
        }
    }
    for (int i = 0; i < 8; i++) {
        assert_true(fake_body_ok(&kept[i], (uint64_t)(i * 20 + 11), 30000));
        as_worker_release_hold(holds[i]);
    }
}

static void many_small_holds_do_not_pin_many_buffers(void **state)
{
    /* Each hold is alone in what was read at once; without copying out, 2000 × 256 KiB stay. */
    struct pair *p = *state;
    enum { N = 2000 };
    static void *holds[N];
    static const uint8_t *data[N];
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    size_t after;

    for (uint64_t i = 0; i < N; i++) {
        struct as_worker_req *q;

        fake_ask(&p->d, 4 * i + 1, 100);
        fake_ask(&p->d, 4 * i + 3, 60000);
        fake_send(&p->d);
        q = pair_next(p);
        holds[i] = as_worker_req_hold(q);
        data[i] = as_worker_req_msg(q)->tensors[0].data;
        as_worker_fail(p->w, q, 13, AS_STR(""));
        as_worker_fail(p->w, pair_next(p), 13, AS_STR(""));
        as_worker_flush(p->w);
        fake_expect_error(&p->d, 4 * i + 1);
        fake_expect_error(&p->d, 4 * i + 3);
    }
    after = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_true(after < before + (32u << 20)); /* 16 MiB of buffers, then the bodies alone */
    for (uint64_t i = 0; i < N; i++) {
        struct as_tensor t = {.data = data[i], .nbytes = 100};

        assert_true(fake_body_ok(&t, 4 * i + 1, 100));
        as_worker_release_hold(holds[i]);
    }
}

static void a_hold_outlives_the_worker(void **state AS_UNUSED)
{
    struct pair p;
    struct as_worker_req *q;
    struct as_tensor t;
    void *hold;

    fake_init(&p.d);
    p.w = pair_worker(&p.d, 1);
    assert_int_equal(fake_connect(&p.d, p.w), 0);
    q = pair_start(&p, 1, 5000);
    hold = as_worker_req_hold(q);
    t = as_worker_req_msg(q)->tensors[0];
    as_worker_fail(p.w, q, 13, AS_STR(""));
    as_worker_free(p.w);
    fake_fini(&p.d);
    assert_true(fake_body_ok(&t, 1, 5000));
    as_worker_release_hold(hold);
}

#define PAIRED(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIRED(bodies_of_many_frames_in_one_read_are_aligned),
        PAIRED(a_large_body_comes_in_frames_of_its_own),
        PAIRED(small_frames_may_surround_a_large_body),
        PAIRED(a_large_answer_goes_out_as_the_socket_takes_it),
        PAIRED(a_large_answer_may_have_many_tensors),
        PAIRED(held_bytes_stay_when_the_buffer_is_used_on),
        PAIRED(many_small_holds_do_not_pin_many_buffers),
        cmocka_unit_test(a_hold_outlives_the_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
