/* link/call/payload: fingerprints, whatever the portions in which they are computed, samples, and
 * comparing parameters. */
#include "link/call/payload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define SEED  77
#define LARGE 100000

static uint8_t bytes[3][LARGE];

struct message {
    struct as_tensor t[3];
    int64_t shape[3][2];
    struct as_param p;
    struct as_payload payload;
};

/* Three tensors, the second one empty, and a parameter. */
static void make(struct message *m)
{
    static const size_t sizes[] = {LARGE, 0, 300};

    memset(m, 0, sizeof(*m));
    for (uint32_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < LARGE; k++)
            bytes[i][k] = (uint8_t)(k * 7 + i);
        m->shape[i][0] = 1;
        m->shape[i][1] = (int64_t)sizes[i];
        m->t[i] = (struct as_tensor){.name = AS_STR("x"),
                                     .dtype = AS_DT_UINT8,
                                     .ndim = 2,
                                     .shape = m->shape[i],
                                     .data = bytes[i],
                                     .nbytes = sizes[i]};
    }
    m->p = (struct as_param){.name = AS_STR("k"), .type = AS_PARAM_STRING, .str = AS_STR("v")};
    m->payload.msg =
        (struct as_msg){.tensors = m->t, .n_tensors = 3, .params = &m->p, .n_params = 1};
}

/* In portions of that size; how many it took. */
static uint32_t print(const struct message *m, uint64_t portion, struct as_fingerprint *ret_p)
{
    struct as_payload_hasher h;
    uint32_t n = 0;
    uint64_t left;

    memset(&h, 0xa5, sizeof(h));
    do {
        left = portion;
    } while (!as_payload_fingerprint(&h, &m->payload, SEED, n++ == 0, &left, ret_p));
    return n;
}

static void a_fingerprint_is_the_same_in_any_portions(void **state AS_UNUSED)
{
    static const uint64_t portions[] = {1 << 20, 100000, 4096, 257, 63};
    struct as_fingerprint whole, p;
    struct message m;

    make(&m);
    assert_int_equal(print(&m, UINT64_MAX, &whole), 1);
    for (size_t i = 0; i < AS_COUNT(portions); i++) {
        print(&m, portions[i], &p);
        assert_true(p.hi == whole.hi && p.lo == whole.lo);
    }
}

static void no_more_is_read_than_allowed(void **state AS_UNUSED)
{
    uint64_t size, left;
    struct as_payload_hasher h;
    struct as_fingerprint p;
    struct message m;

    make(&m);
    size = as_payload_size(&m.payload);
    assert_int_equal(size, LARGE + 300);
    left = 1000;
    assert_false(as_payload_fingerprint(&h, &m.payload, SEED, true, &left, &p));
    assert_int_equal(left, 0);
    /* what a small request costs beside its bytes is counted, too */
    left = size;
    assert_false(as_payload_fingerprint(&h, &m.payload, SEED, true, &left, &p));
    left = size + 1000;
    assert_true(as_payload_fingerprint(&h, &m.payload, SEED, true, &left, &p));
    assert_true(left < 1000 && left > 0);
}

static void whatever_a_handler_sees_makes_another_one(void **state AS_UNUSED)
{
    struct as_fingerprint was, is;
    struct message m;

#define DIFFERS(change)                                                                            \
    do {                                                                                           \
        make(&m);                                                                                  \
        change;                                                                                    \
        print(&m, 1000, &is);                                                                      \
        assert_true(is.hi != was.hi && is.lo != was.lo);                                           \
    } while (0)

    make(&m);
    print(&m, 1000, &was);
    DIFFERS(bytes[0][0] ^= 1);
    DIFFERS(bytes[0][LARGE - 1] ^= 1);
    DIFFERS(bytes[2][299] ^= 1);
    DIFFERS(m.t[1].name = AS_STR("y"));
    DIFFERS(m.t[1].dtype = AS_DT_INT8);
    DIFFERS(m.shape[1][0] = 2);
    DIFFERS(m.p.str = AS_STR("w"));
    DIFFERS(m.payload.msg.n_params = 0);
    DIFFERS(m.payload.msg.n_tensors = 2);
    /* bytes that run from one tensor into the next */
    DIFFERS(m.t[1].data = bytes[2]; m.t[1].nbytes = 300; m.t[2].nbytes = 0);
    /* the id and the metadata are the client's own */
    make(&m);
    m.payload.msg.id = AS_STR("other");
    print(&m, 1000, &is);
    assert_true(is.hi == was.hi && is.lo == was.lo);
}

static void a_sample_is_of_all_but_most_bytes(void **state AS_UNUSED)
{
    uint32_t seen = 0;
    struct message m;
    uint64_t was;

    make(&m);
    was = as_payload_sample(&m.payload, SEED);
    assert_true(as_payload_sample(&m.payload, SEED) == was);
    assert_true(as_payload_sample(&m.payload, SEED + 1) != was);
    m.t[0].nbytes--; /* another place for each piece */
    assert_true(as_payload_sample(&m.payload, SEED) != was);
    make(&m);
    m.p.str = AS_STR("w");
    assert_true(as_payload_sample(&m.payload, SEED) != was);
    make(&m);
    bytes[2][150] ^= 1; /* a small tensor is read whole */
    assert_true(as_payload_sample(&m.payload, SEED) != was);
    make(&m);
    for (size_t i = 0; i < LARGE; i++) {
        bytes[0][i] ^= 1;
        seen += as_payload_sample(&m.payload, SEED) != was;
        bytes[0][i] ^= 1;
    }
    assert_int_equal(seen, 16 * 64);
}

static struct as_fingerprint print_once(const struct as_payload *p)
{
    struct as_payload_hasher h;
    struct as_fingerprint f;
    uint64_t left = UINT64_MAX;

    assert_true(as_payload_fingerprint(&h, p, SEED, true, &left, &f));
    return f;
}

static bool same_hashes(const struct as_payload *x, const struct as_payload *y)
{
    struct as_fingerprint a = print_once(x), b = print_once(y);

    return a.hi == b.hi && a.lo == b.lo && as_payload_sample(x, SEED) == as_payload_sample(y, SEED);
}

static bool differs(const struct as_payload *x, const struct as_payload *y)
{
    struct as_fingerprint a = print_once(x), b = print_once(y);

    return a.hi != b.hi && a.lo != b.lo && as_payload_sample(x, SEED) != as_payload_sample(y, SEED);
}

/* Which tensor it is of, type, name and value count, and nothing else. */
static void parameters_of_tensors_are_compared(void **state AS_UNUSED)
{
    static const struct as_tensor_param is = {{.name = {"k", 1}, .type = AS_PARAM_INT64, .i64 = 1},
                                              1};
    struct as_tensor_param a[2] = {is, is}, b[5] = {is, is, is, is, is};
    struct as_payload x = {.tensor_params = {a, 1}}, y = {.tensor_params = {b, 1}};
    uint64_t was = as_payload_batch_key(&x, SEED);

    assert_true(same_hashes(&x, &y) && as_payload_can_batch(&x, &y));
    assert_true(as_payload_batch_key(&y, SEED) == was);
    assert_true(as_payload_batch_key(&y, SEED + 1) != was);
    b[0].tensor = 0;
    b[1].param.name = AS_STR("l");
    b[2].param.i64 = 2;
    b[3].param.type = AS_PARAM_UINT64;
    b[4].param =
        (struct as_param){.name = AS_STR("k"), .type = AS_PARAM_STRING, .str = AS_STR("1")};
    for (size_t i = 0; i < AS_COUNT(b); i++) {
        y.tensor_params.at = &b[i];
        assert_true(differs(&x, &y));
        assert_true(as_payload_batch_key(&y, SEED) != was);
        assert_false(as_payload_can_batch(&x, &y));
    }
    y.tensor_params = (struct as_tensor_params){a, 2};
    assert_false(as_payload_can_batch(&x, &y));
}

/* --- calls --- */

static struct as_payload call_of(const uint8_t *p, size_t n)
{
    return (struct as_payload){.kind = AS_FRAME_CALL, .body = {(const char *)p, n}};
}

/* Of a call the body counts, all of it, and nothing else. */
static void a_call_is_its_body(void **state AS_UNUSED)
{
    struct as_payload x = call_of(bytes[0], LARGE), y = x;
    static uint8_t other[LARGE];
    struct as_meta meta = {AS_STR("a"), AS_STR("b")};
    struct message m;

    make(&m);
    x = call_of(bytes[0], LARGE);
    assert_true(as_payload_size(&x) == LARGE);
    y.msg = (struct as_msg){.id = AS_STR("id"), .meta = &meta, .n_meta = 1};
    assert_true(same_hashes(&x, &y));
    memcpy(other, bytes[0], LARGE);
    y.body.p = (const char *)other;
    assert_true(same_hashes(&x, &y));
    x.body.n = y.body.n = 300; /* a sample reads all of so few bytes */
    other[299] ^= 1;
    assert_true(differs(&x, &y));
    y.body.n--;
    assert_true(differs(&x, &y));
    assert_true(differs(&x, &m.payload));
}

/* Of one that is still to be laid out: its data, and the method. */
static void a_call_in_pieces_is_its_data_and_method(void **state AS_UNUSED)
{
    struct as_body f = {.codec = AS_BODY_BYTES, .method = AS_STR("f")}, same = f, g = f;
    struct as_payload x = call_of(bytes[0], 100), y = x;

    g.method = AS_STR("g");
    x.pieces = &f;
    y.pieces = &same;
    assert_true(as_payload_size(&x) == 100);
    assert_true(same_hashes(&x, &y));
    y.pieces = &g;
    assert_true(differs(&x, &y));
    y.pieces = &same;
    y.body.n--;
    assert_true(differs(&x, &y));
}

static void calls_share_no_batch(void **state AS_UNUSED)
{
    struct as_payload x = call_of(bytes[0], 64), tensors = {0};

    assert_false(as_payload_can_batch(&x, &x));
    assert_false(as_payload_can_batch(&x, &tensors));
    assert_false(as_payload_can_batch(&tensors, &x));
    assert_true(as_payload_can_batch(&tensors, &tensors));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fingerprint_is_the_same_in_any_portions),
        cmocka_unit_test(no_more_is_read_than_allowed),
        cmocka_unit_test(whatever_a_handler_sees_makes_another_one),
        cmocka_unit_test(a_sample_is_of_all_but_most_bytes),
        cmocka_unit_test(parameters_of_tensors_are_compared),
        cmocka_unit_test(a_call_in_pieces_is_its_data_and_method),
        cmocka_unit_test(a_call_is_its_body),
        cmocka_unit_test(calls_share_no_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
