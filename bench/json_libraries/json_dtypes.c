/* How fast our JSON reads and prints each datatype: MB of text per second of CPU time.
 *
 *     json_dtypes [ELEMENTS [SECONDS]]
 *
 * One table. FP16 and the like are random in 0…1, integers over the whole of their type; "whole":
 * floats of 0…99999; BYTES are texts of 24 letters, "escaped" ones with a quote among each 12. */
#include "io/loop/clock.h"
#include "wire/oip/oip_json.h"

#include <stdio.h>

#define TEXT_LEN 24u

struct row {
    const char *name;
    enum as_dtype t;
    void (*fill)(uint8_t *p, uint64_t random);
};

static double now(void)
{
    return (double)as_clock_read(CLOCK_THREAD_CPUTIME_ID) * 1e-9;
}

static void put(uint8_t *p, const void *v, size_t n)
{
    memcpy(p, v, n);
}

static void fill_bits(uint8_t *p, uint64_t random)
{
    put(p, &random, 8);
}

static void fill_bool(uint8_t *p, uint64_t random)
{
    *p = random & 1;
}

static void fill_half(uint8_t *p, uint64_t random)
{
    uint16_t v = (uint16_t)(0x2c00 + random % 0x1000);

    put(p, &v, 2);
}

static void fill_brain(uint8_t *p, uint64_t random)
{
    uint16_t v = (uint16_t)(0x3d80 + random % 0x200);

    put(p, &v, 2);
}

static void fill_f32(uint8_t *p, uint64_t random)
{
    float v = (float)(random >> 40) * 0x1p-24f;

    put(p, &v, 4);
}

static void fill_f64(uint8_t *p, uint64_t random)
{
    double v = (double)(random >> 11) * 0x1p-53;

    put(p, &v, 8);
}

static void fill_whole_f32(uint8_t *p, uint64_t random)
{
    float v = (float)(random % 100000);

    put(p, &v, 4);
}

static void fill_whole_f64(uint8_t *p, uint64_t random)
{
    double v = (double)(random % 100000);

    put(p, &v, 8);
}

static void fill_text(uint8_t *p, uint64_t random)
{
    const uint32_t n = TEXT_LEN;

    put(p, &n, 4);
    for (uint32_t i = 0; i < n; i++)
        p[4 + i] = (uint8_t)('a' + (random >> i) % 26);
}

static void fill_escaped(uint8_t *p, uint64_t random)
{
    fill_text(p, random);
    p[4 + 5] = p[4 + 17] = '"';
}

static const struct row rows[] = {
    {"BOOL", AS_DT_BOOL, fill_bool},
    {"UINT8", AS_DT_UINT8, fill_bits},
    {"UINT16", AS_DT_UINT16, fill_bits},
    {"UINT32", AS_DT_UINT32, fill_bits},
    {"UINT64", AS_DT_UINT64, fill_bits},
    {"INT8", AS_DT_INT8, fill_bits},
    {"INT16", AS_DT_INT16, fill_bits},
    {"INT32", AS_DT_INT32, fill_bits},
    {"INT64", AS_DT_INT64, fill_bits},
    {"FP16", AS_DT_FP16, fill_half},
    {"BF16", AS_DT_BF16, fill_brain},
    {"FP32", AS_DT_FP32, fill_f32},
    {"FP32, whole", AS_DT_FP32, fill_whole_f32},
    {"FP64", AS_DT_FP64, fill_f64},
    {"FP64, whole", AS_DT_FP64, fill_whole_f64},
    {"BYTES", AS_DT_BYTES, fill_text},
    {"BYTES, escaped", AS_DT_BYTES, fill_escaped},
};

static void die(const char *what)
{
    fprintf(stderr, "json_dtypes: %s\n", what);
    exit(1);
}

/* Prints the tensor; bytes of the text. */
static size_t print(uint8_t *out, size_t room, const struct as_tensor *t)
{
    uint64_t max = as_json_elements_max(t->dtype, t->data, t->nbytes);

    if (max > room)
        die("no room");
    return as_json_put_elements(out, t->dtype, t->data, t->nbytes);
}

static void parse(struct as_json *j, const char *body, size_t n, const struct as_tensor *t)
{
    static uint8_t first[4096] __attribute__((aligned(64)));
    struct as_oip_infer m;
    struct as_arena a;
    char why[256];

    as_arena_init(&a, first, sizeof(first));
    if (as_oip_json_parse_infer(j, (const uint8_t *)body, n, n, &a, &m, why, sizeof(why)))
        die(why);
    if (m.inputs[0].nbytes != t->nbytes || memcmp(m.inputs[0].data, t->data, t->nbytes) != 0)
        die("other values are read than were printed");
    as_blob_unref(m.blob);
    as_arena_fini(&a);
}

static void measure(struct as_json *j, const struct row *row, size_t n, double seconds)
{
    size_t size = row->t == AS_DT_BYTES ? 4 + TEXT_LEN : as_dtype_size(row->t), room = 64 * n + 256;
    size_t len = 0, head, rounds = 0;
    uint8_t *data = calloc(1, n * size + 8);
    char *body = calloc(1, room + 256);
    struct as_tensor t = {.dtype = row->t, .data = data, .nbytes = n * size};
    uint64_t random = 88172645463325252u;
    double start, parsing, printing;

    for (size_t i = 0; i < n; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        row->fill(data + i * size, random);
    }
    head = (size_t)sprintf(body,
                           "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":[%zu],"
                           "\"data\":[",
                           as_dtype_name(row->t), n);
    start = now();
    do {
        for (int i = 0; i < 16; i++, rounds++)
            len = print((uint8_t *)body + head, room, &t);
        printing = now() - start;
    } while (printing < seconds);
    printing = (double)(rounds * len) / printing / 1e6;
    len = head + len;
    len += (size_t)sprintf(body + len, "]}]}");
    rounds = 0;
    start = now();
    do {
        for (int i = 0; i < 16; i++, rounds++)
            parse(j, body, len, &t);
        parsing = now() - start;
    } while (parsing < seconds);
    printf("| %s | %.1f | %.0f | %.0f |\n", row->name, (double)(len - head - 4) / (double)n,
           (double)(rounds * len) / parsing / 1e6, printing);
    free(data);
    free(body);
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? (size_t)atol(argv[1]) : 1000;
    double seconds = argc > 2 ? atof(argv[2]) : 0.2;
    struct as_json *j = as_json_new();

    printf("| datatype | bytes of an element | parse MB/s | print MB/s |\n|---|---|---|---|\n");
    for (size_t i = 0; i < AS_COUNT(rows); i++)
        measure(j, &rows[i], n, seconds);
    as_json_free(j);
    return 0;
}
