#include "wire/name_check.h"

#include "base/err.h"
#include "base/utf8.h"

#define FEW 16u /* up to this many names, comparing all pairs is faster than sorting */

bool as_name_check_utf8_slow(struct as_str s)
{
    const uint8_t *p = (const uint8_t *)s.p;
    size_t i = 0;

    while (i < s.n) {
        size_t len = as_utf8_len(p + i, s.n - i);

        if (!len)
            return false;
        i += len;
    }
    return true;
}

int as_name_check_copy(struct as_arena *a, const char *text, struct as_str *ret)
{
    struct as_str s = as_str_of(text);

    if (!as_name_check_utf8(s))
        return AS_EPROTO;
    ret->p = as_arena_dup(a, s);
    ret->n = s.n;
    return ret->p ? 0 : AS_ENOMEM;
}

static const struct as_str *name_at(const void *first, size_t stride, uint32_t i)
{
    return (const struct as_str *)(const void *)((const char *)first + stride * i);
}

/* By length, then bytes, then position in the array. */
static int compare_names(const void *a, const void *b)
{
    const struct as_str *x = *(const struct as_str *const *)a;
    const struct as_str *y = *(const struct as_str *const *)b;
    int c;

    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    c = x->n ? memcmp(x->p, y->p, x->n) : 0;
    if (c)
        return c;
    return x < y ? -1 : x > y;
}

static void sort_names(const struct as_str **v, const void *first, size_t stride, uint32_t n)
{
    AS_ASSERT(n <= AS_NAME_CHECK_MAX);
    for (uint32_t i = 0; i < n; i++)
        v[i] = name_at(first, stride, i);
    qsort(v, n, sizeof(const struct as_str *), compare_names);
}

static const struct as_str *find_duplicate_sorted(const void *first, size_t stride, uint32_t n)
{
    const struct as_str *v[AS_NAME_CHECK_MAX];

    sort_names(v, first, stride, n);
    for (uint32_t i = 1; i < n; i++) {
        if (as_str_eq(*v[i - 1], *v[i]))
            return v[i];
    }
    return NULL;
}

bool as_name_check_line(struct as_str s)
{
    return s.n == 0 || (!memchr(s.p, 0, s.n) && !memchr(s.p, '\n', s.n) &&
                        !memchr(s.p, '\r', s.n) && as_name_check_utf8(s));
}

const struct as_str *as_name_check_duplicate_slow(const void *first, size_t stride, uint32_t n)
{
    if (n > FEW)
        return find_duplicate_sorted(first, stride, n);
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (as_str_eq(*name_at(first, stride, i), *name_at(first, stride, k)))
                return name_at(first, stride, i);
        }
    }
    return NULL;
}

uint32_t as_name_check_keep_last_slow(void *first, size_t stride, uint32_t n)
{
    const struct as_str *v[AS_NAME_CHECK_MAX];
    bool drop[AS_NAME_CHECK_MAX];
    uint32_t left = 0;

    sort_names(v, first, stride, n);
    memset(drop, 0, n);
    for (uint32_t i = 1; i < n; i++) {
        if (as_str_eq(*v[i - 1], *v[i]))
            drop[(size_t)((const char *)v[i - 1] - (const char *)first) / stride] = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (drop[i])
            continue;
        if (left != i)
            memcpy((char *)first + stride * left, (char *)first + stride * i, stride);
        left++;
    }
    return left;
}
