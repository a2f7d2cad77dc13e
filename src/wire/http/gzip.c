#include "wire/http/gzip.h"

#include <zlib.h>

#define WINDOW_BITS 15
#define GZIP_BITS   16 /* added to the window bits: zlib reads or writes the gzip format */
/* Most tensors compress either hardly or very easily: the fast level reaches nearly the ratio of
 * the best level in a fraction of its time, and that time is the event loop's. */
#define LEVEL     1
#define MEM_LEVEL 8

struct as_gzip {
    z_stream z;
    bool inflate;
};

static const struct as_str names[AS_GZIP_FORMATS] = {
    [AS_GZIP_NONE] = {"identity", 8},
    [AS_GZIP_GZIP] = {"gzip", 4},
    [AS_GZIP_DEFLATE] = {"deflate", 7},
};

struct as_str as_gzip_name(enum as_gzip_format f)
{
    return names[f];
}

int as_gzip_format_of(struct as_str name, enum as_gzip_format *ret_f)
{
    if (!name.n)
        name = names[AS_GZIP_NONE];
    for (int f = 0; f < AS_GZIP_FORMATS; f++) {
        if (as_str_eq(name, names[f])) {
            *ret_f = (enum as_gzip_format)f;
            return 0;
        }
    }
    return AS_EUNIMPLEMENTED;
}

bool as_gzip_in_grpc_list(struct as_str list, enum as_gzip_format f)
{
    while (list.n) {
        if (as_str_eq(as_str_split(&list, ','), names[f]))
            return true;
    }
    return false;
}

/* The parameters contain "q=0", "q=0.000" or the like. */
static bool has_zero_weight(struct as_str params)
{
    while (params.n) {
        struct as_str p = as_str_split(&params, ';');
        bool zero = p.n >= 3 && (p.p[0] | 0x20) == 'q' && p.p[1] == '=' && p.p[2] == '0';

        for (size_t i = 3; zero && i < p.n; i++)
            zero = p.p[i] == '.' || p.p[i] == '0';
        if (zero)
            return true;
    }
    return false;
}

bool as_gzip_in_accept_encoding(struct as_str list, enum as_gzip_format f)
{
    bool star = false;

    while (list.n) {
        struct as_str params = as_str_split(&list, ','), name = as_str_split(&params, ';');

        if (as_str_eq_nocase(name, names[f]))
            return !has_zero_weight(params);
        if (as_str_eq(name, AS_STR("*")))
            star = !has_zero_weight(params);
    }
    return star;
}

int as_gzip_new(struct as_gzip **ret_z, enum as_gzip_format f, bool inflate)
{
    struct as_gzip *z = calloc(1, sizeof(*z));
    int bits = WINDOW_BITS + (f == AS_GZIP_GZIP ? GZIP_BITS : 0);

    AS_ASSERT(f == AS_GZIP_GZIP || f == AS_GZIP_DEFLATE);
    if (!z)
        return AS_ENOMEM;
    z->inflate = inflate;
    if (inflate ? inflateInit2(&z->z, bits)
                : deflateInit2(&z->z, LEVEL, Z_DEFLATED, bits, MEM_LEVEL, Z_DEFAULT_STRATEGY)) {
        free(z);
        return AS_ENOMEM;
    }
    *ret_z = z;
    return 0;
}

void as_gzip_free(struct as_gzip *z)
{
    if (!z)
        return;
    if (z->inflate)
        inflateEnd(&z->z);
    else
        deflateEnd(&z->z);
    free(z);
}

void as_gzip_reset(struct as_gzip *z)
{
    if (z->inflate)
        inflateReset(&z->z);
    else
        deflateReset(&z->z);
}

enum as_gzip_step as_gzip_step(struct as_gzip *z, const uint8_t **p, size_t *n, bool last,
                               uint8_t **out, size_t *room)
{
    /* zlib counts in 32 bits: the remaining bytes are for the next step */
    uInt in = (uInt)AS_MIN(*n, (size_t)UINT32_MAX), space = (uInt)AS_MIN(*room, (size_t)UINT32_MAX);
    bool whole = last && in == *n;
    int rc;

    z->z.next_in = (z_const Bytef *)(uintptr_t)*p;
    z->z.avail_in = in;
    z->z.next_out = *out;
    z->z.avail_out = space;
    rc = z->inflate ? inflate(&z->z, Z_NO_FLUSH) : deflate(&z->z, whole ? Z_FINISH : Z_NO_FLUSH);
    *p += in - z->z.avail_in;
    *n -= in - z->z.avail_in;
    *out += space - z->z.avail_out;
    *room -= space - z->z.avail_out;
    if (rc == Z_STREAM_END)
        return *n || !last ? AS_GZIP_BAD : AS_GZIP_END;
    if (rc == Z_MEM_ERROR)
        return AS_GZIP_NO_MEMORY;
    /* Z_BUF_ERROR: zlib made no progress because the room is full or the input is used up */
    if (rc != Z_OK && rc != Z_BUF_ERROR)
        return AS_GZIP_BAD;
    if (z->z.avail_out == 0)
        return AS_GZIP_FULL;
    return z->inflate && whole && *n == 0 ? AS_GZIP_BAD : AS_GZIP_MORE;
}
