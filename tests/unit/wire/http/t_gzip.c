/* Specification of wire/http/gzip: gzip and deflate of messages, slice by slice. */
#include "wire/http/gzip.h"

#include "base/buf.h"
#include "unit.h"

static const enum as_gzip_format formats[] = {AS_GZIP_GZIP, AS_GZIP_DEFLATE};

/* Passes all of `in` through z, with at most `in_max` bytes in and `out_max` out at a time. */
static enum as_gzip_step run(struct as_gzip *z, struct as_str in, size_t in_max, size_t out_max,
                             struct as_buf *out)
{
    const uint8_t *p = (const uint8_t *)in.p;
    enum as_gzip_step r;
    size_t n = in.n;

    do {
        size_t part = AS_MIN(in_max, n), left = part, room = out_max;
        uint8_t *to = as_buf_reserve(out, out_max);

        r = as_gzip_step(z, &p, &left, part == n, &to, &room);
        out->n += out_max - room;
        n -= part - left;
    } while (r == AS_GZIP_FULL || r == AS_GZIP_MORE);
    return r;
}

static struct as_buf packed(enum as_gzip_format f, struct as_str text)
{
    struct as_buf out = {0};
    struct as_gzip *z;

    assert_int_equal(as_gzip_new(&z, f, false), 0);
    assert_int_equal(run(z, text, 1000, 1000, &out), AS_GZIP_END);
    as_gzip_free(z);
    return out;
}

static enum as_gzip_step unpack(enum as_gzip_format f, struct as_str in, size_t in_max,
                                size_t out_max, struct as_buf *out)
{
    struct as_gzip *z;
    enum as_gzip_step r;

    assert_int_equal(as_gzip_new(&z, f, true), 0);
    r = run(z, in, in_max, out_max, out);
    as_gzip_free(z);
    return r;
}

static void round_trip(void **state AS_UNUSED)
{
    static const size_t lengths[] = {0, 1, 100, 5000, 300000};

    for (size_t f = 0; f < AS_COUNT(formats); f++) {
        for (size_t i = 0; i < AS_COUNT(lengths); i++) {
            char *text = malloc(lengths[i] + 1);
            struct as_str in = {text, lengths[i]};
            struct as_buf small, out = {0};

            for (size_t k = 0; k < in.n; k++)
                text[k] = (char)(k * k >> 5);
            small = packed(formats[f], in);
            assert_int_equal(unpack(formats[f], as_buf_slice(&small), 17, 333, &out), AS_GZIP_END);
            assert_true(as_str_eq(as_buf_slice(&out), in));
            as_buf_fini(&small);
            as_buf_fini(&out);
            free(text);
        }
    }
}

static void formats_have_their_own_wrapper(void **state AS_UNUSED)
{
    struct as_buf gzip = packed(AS_GZIP_GZIP, AS_STR("x")),
                  zlib = packed(AS_GZIP_DEFLATE, AS_STR("x"));

    assert_memory_equal(gzip.p, "\x1f\x8b\x08", 3);          /* RFC 1952 */
    assert_int_equal(zlib.p[0] & 15, 8);                     /* RFC 1950: method */
    assert_int_equal((zlib.p[0] * 256 + zlib.p[1]) % 31, 0); /* its check */
    as_buf_fini(&gzip);
    as_buf_fini(&zlib);
}

static void a_state_serves_one_message_after_the_other(void **state AS_UNUSED)
{
    struct as_buf one = packed(AS_GZIP_GZIP, AS_STR("one")),
                  two = packed(AS_GZIP_GZIP, AS_STR("two"));
    struct as_buf out = {0};
    struct as_gzip *z;

    assert_int_equal(as_gzip_new(&z, AS_GZIP_GZIP, true), 0);
    assert_int_equal(run(z, as_buf_slice(&one), 99, 99, &out), AS_GZIP_END);
    as_gzip_reset(z);
    assert_int_equal(run(z, AS_STR("rubbish"), 99, 99, &out), AS_GZIP_BAD);
    as_gzip_reset(z);
    assert_int_equal(run(z, as_buf_slice(&two), 99, 99, &out), AS_GZIP_END);
    assert_true(as_str_eq(as_buf_slice(&out), AS_STR("onetwo")));
    as_gzip_free(z);
    as_buf_fini(&one);
    as_buf_fini(&two);
    as_buf_fini(&out);
}

static void every_truncation_and_every_byte_too_many_is_bad(void **state AS_UNUSED)
{
    for (size_t f = 0; f < AS_COUNT(formats); f++) {
        struct as_buf good = packed(formats[f], AS_STR("hello hello hello hello")), out = {0};

        for (size_t n = 0; n < good.n; n++) {
            out.n = 0;
            assert_int_equal(unpack(formats[f], (struct as_str){(char *)good.p, n}, 5, 100, &out),
                             AS_GZIP_BAD);
        }
        as_buf_add(&good, "!", 1);
        assert_int_equal(unpack(formats[f], as_buf_slice(&good), 1000, 100, &out), AS_GZIP_BAD);
        assert_int_equal(unpack(formats[f], as_buf_slice(&good), good.n - 1, 100, &out),
                         AS_GZIP_BAD);
        as_buf_fini(&good);
        as_buf_fini(&out);
    }
}

static void a_wrong_checksum_or_wrapper_is_bad(void **state AS_UNUSED)
{
    for (size_t f = 0; f < AS_COUNT(formats); f++) {
        struct as_buf good = packed(formats[f], AS_STR("hello")), out = {0};

        assert_int_equal(unpack(formats[!f], as_buf_slice(&good), 99, 99, &out), AS_GZIP_BAD);
        /* gzip ends in checksum and length, zlib in the checksum */
        good.p[good.n - (formats[f] == AS_GZIP_GZIP ? 5 : 1)] ^= 1;
        assert_int_equal(unpack(formats[f], as_buf_slice(&good), 99, 99, &out), AS_GZIP_BAD);
        as_buf_fini(&good);
        as_buf_fini(&out);
    }
}

static void a_step_writes_no_more_than_the_room(void **state AS_UNUSED)
{
    struct as_buf out = {0};
    char *zeros = calloc(1, 1 << 20);
    struct as_buf small = packed(AS_GZIP_GZIP, (struct as_str){zeros, 1 << 20});
    const uint8_t *p = small.p;
    uint8_t room_of[10], *to = room_of;
    size_t n = small.n, room = 10;
    struct as_gzip *z;

    assert_true(small.n < 8192);
    assert_int_equal(as_gzip_new(&z, AS_GZIP_GZIP, true), 0);
    assert_int_equal(as_gzip_step(z, &p, &n, true, &to, &room), AS_GZIP_FULL);
    assert_int_equal(room, 0);
    assert_ptr_equal(to, room_of + 10);
    as_gzip_free(z);
    free(zeros);
    as_buf_fini(&small);
    as_buf_fini(&out);
}

static void names_of_encodings(void **state AS_UNUSED)
{
    enum as_gzip_format f = AS_GZIP_GZIP;

    assert_int_equal(as_gzip_format_of(AS_STR(""), &f), 0);
    assert_int_equal(f, AS_GZIP_NONE);
    assert_int_equal(as_gzip_format_of(AS_STR("gzip"), &f), 0);
    assert_int_equal(f, AS_GZIP_GZIP);
    assert_int_equal(as_gzip_format_of(AS_STR("deflate"), &f), 0);
    assert_int_equal(f, AS_GZIP_DEFLATE);
    assert_int_equal(as_gzip_format_of(AS_STR("identity"), &f), 0);
    assert_int_equal(f, AS_GZIP_NONE);
    assert_int_equal(as_gzip_format_of(AS_STR("GZIP"), &f), AS_EUNIMPLEMENTED);
    assert_int_equal(as_gzip_format_of(AS_STR("snappy"), &f), AS_EUNIMPLEMENTED);
    for (int i = 0; i < AS_GZIP_FORMATS; i++) {
        assert_int_equal(as_gzip_format_of(as_gzip_name((enum as_gzip_format)i), &f), 0);
        assert_int_equal(f, i);
        assert_true(as_gzip_in_grpc_list(AS_STR(AS_GZIP_GRPC_ACCEPT), f));
    }
}

static void lists_of_encodings(void **state AS_UNUSED)
{
    assert_true(as_gzip_in_grpc_list(AS_STR("identity, deflate, gzip"), AS_GZIP_GZIP));
    assert_true(as_gzip_in_grpc_list(AS_STR("identity,deflate,gzip"), AS_GZIP_DEFLATE));
    assert_true(as_gzip_in_grpc_list(AS_STR(" gzip\t,x"), AS_GZIP_GZIP));
    assert_false(as_gzip_in_grpc_list(AS_STR("identity"), AS_GZIP_GZIP));
    assert_false(as_gzip_in_grpc_list(AS_STR("gzipped, agzip"), AS_GZIP_GZIP));
    assert_false(as_gzip_in_grpc_list(AS_STR(",,"), AS_GZIP_GZIP));
    assert_false(as_gzip_in_grpc_list((struct as_str){0}, AS_GZIP_GZIP));
}

/* HTTP's accept-encoding (RFC 9110 §12.5.3): a format that is not listed, or refused by its weight,
 * is not used. */
static void accept_encodings_of_http(void **state AS_UNUSED)
{
    static const struct {
        const char *list;
        bool gzip, deflate;
    } rows[] = {
        {"", false, false},
        {"gzip", true, false},
        {"br, GZip ;q=0.5,deflate", true, true},
        {"gzip;q=0", false, false},
        {"gzip; q=0.000, *", false, true},
        {"*", true, true},
        {"*;q=0, deflate", false, true},
        {"gzip;q=0.001", true, false},
        {"gzip;x=y;q=0", false, false},
        {"identity", false, false},
        {"gzipped, agzip", false, false},
        {",,;", false, false},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        assert_int_equal(as_gzip_in_accept_encoding(as_str_of(rows[i].list), AS_GZIP_GZIP),
                         rows[i].gzip);
        assert_int_equal(as_gzip_in_accept_encoding(as_str_of(rows[i].list), AS_GZIP_DEFLATE),
                         rows[i].deflate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(formats_have_their_own_wrapper),
        cmocka_unit_test(a_state_serves_one_message_after_the_other),
        cmocka_unit_test(every_truncation_and_every_byte_too_many_is_bad),
        cmocka_unit_test(a_wrong_checksum_or_wrapper_is_bad),
        cmocka_unit_test(a_step_writes_no_more_than_the_room),
        cmocka_unit_test(names_of_encodings),
        cmocka_unit_test(lists_of_encodings),
        cmocka_unit_test(accept_encodings_of_http),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
