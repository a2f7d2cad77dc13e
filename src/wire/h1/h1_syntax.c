#include "wire/h1/h1_syntax.h"

/* 16^15 plus one more chunk does not overflow 64 bits. */
#define SIZE_DIGITS 15u

#define SAME(c)  [c] = (c)
#define UPPER(c) [c] = (c) | 0x20, [(c) | 0x20] = (c) | 0x20
const uint8_t as_h1_syntax_token[256] = {
    SAME('!'),  SAME('#'),  SAME('$'),  SAME('%'),  SAME('&'),  SAME('\''), SAME('*'),  SAME('+'),
    SAME('-'),  SAME('.'),  SAME('^'),  SAME('_'),  SAME('`'),  SAME('|'),  SAME('~'),  SAME('0'),
    SAME('1'),  SAME('2'),  SAME('3'),  SAME('4'),  SAME('5'),  SAME('6'),  SAME('7'),  SAME('8'),
    SAME('9'),  UPPER('A'), UPPER('B'), UPPER('C'), UPPER('D'), UPPER('E'), UPPER('F'), UPPER('G'),
    UPPER('H'), UPPER('I'), UPPER('J'), UPPER('K'), UPPER('L'), UPPER('M'), UPPER('N'), UPPER('O'),
    UPPER('P'), UPPER('Q'), UPPER('R'), UPPER('S'), UPPER('T'), UPPER('U'), UPPER('V'), UPPER('W'),
    UPPER('X'), UPPER('Y'), UPPER('Z'),
};

bool as_h1_syntax_is_token(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!as_h1_syntax_token[(uint8_t)s.p[i]])
            return false;
    }
    return s.n > 0;
}

/* --- values --- */

#define ONES  (~UINT64_C(0) / 255)
#define HIGHS (ONES * 128)

/* Nonzero if one of eight bytes is a control character. Tabs are found, too; bytes of 0x80 and
 * above are not. */
static inline bool has_control(uint64_t w)
{
    uint64_t del = w ^ (ONES * 0x7f);

    return (((w - ONES * 0x20) & ~w) | ((del - ONES) & ~del)) & HIGHS;
}

static bool is_control(uint8_t c)
{
    return (c < 0x20 && c != '\t') || c == 0x7f;
}

bool as_h1_syntax_is_value(struct as_str s)
{
    const uint8_t *p = (const uint8_t *)s.p;
    size_t n = s.n;

    while (n >= 8) {
        uint64_t w;

        memcpy(&w, p, 8);
        for (int i = 0; i < 8 && has_control(w); i++) {
            if (is_control(p[i]))
                return false;
        }
        p += 8;
        n -= 8;
    }
    for (size_t i = 0; i < n; i++) {
        if (is_control(p[i]))
            return false;
    }
    return true;
}

bool as_h1_syntax_list_has(struct as_str list, struct as_str entry)
{
    while (list.n) {
        if (as_str_eq_nocase(as_str_split(&list, ','), entry))
            return true;
    }
    return false;
}

/* --- lines --- */

/* Why the name of a field, which ends at p[i], is malformed. */
static const char *name_fault(const uint8_t *p, size_t n, size_t i)
{
    if (i == 0 && n && (p[0] == ' ' || p[0] == '\t'))
        return "the line begins with white space (obs-fold)";
    if (i == n)
        return "a colon is missing";
    if (p[i] == ':')
        return "the name is empty";
    if (p[i] == ' ' || p[i] == '\t')
        return "white space in the name or before the colon";
    return "the name has a byte that is not allowed in a name";
}

const char *as_h1_syntax_field(uint8_t *p, size_t n, struct as_str *ret_name,
                               struct as_str *ret_value)
{
    size_t i = 0;
    uint8_t c;

    while ((c = as_h1_syntax_token[p[i]])) /* ends at CR */
        p[i++] = c;
    if (!i || i == n || p[i] != ':')
        return name_fault(p, n, i);
    *ret_name = (struct as_str){(const char *)p, i};
    *ret_value = as_str_trim((struct as_str){(const char *)p + i + 1, n - i - 1});
    return as_h1_syntax_is_value(*ret_value) ? NULL : "control character in the value";
}

int as_h1_syntax_version(const uint8_t *p, size_t n)
{
    if (n != 8 || memcmp(p, "HTTP/", 5) != 0 || p[6] != '.' || p[5] < '0' || p[5] > '9' ||
        p[7] < '0' || p[7] > '9')
        return -1;
    return p[5] == '1' && p[7] <= '1' ? 10 + p[7] - '0' : 0;
}

/* --- chunks (RFC 9112 §7.1) --- */

static const char *read_size(struct as_h1_chunk *c, uint8_t b)
{
    int digit = as_hex_digit((char)b);

    if (digit >= 0) {
        if (c->n_digits++ == SIZE_DIGITS)
            return "the size has too many digits";
        c->size = c->size << 4 | (unsigned)digit;
        return NULL;
    }
    if (!c->n_digits)
        return "the size is not hexadecimal";
    if (b != '\r' && b != ';')
        return "the size is followed by neither ; nor CR LF";
    c->ext_bytes = b == ';';
    c->at = b == '\r' ? AS_H1_CHUNK_LF : AS_H1_CHUNK_EXT;
    return NULL;
}

static const char *read_byte(struct as_h1_chunk *c, uint8_t b, uint32_t max_ext)
{
    switch (c->at) {
    case AS_H1_CHUNK_SIZE:
        return read_size(c, b);
    case AS_H1_CHUNK_EXT:
        if (b == '\r')
            c->at = AS_H1_CHUNK_LF;
        else if (is_control(b))
            return "control character in the extension";
        else if (++c->ext_bytes > max_ext)
            return "the extension is longer than --max-chunk-extension";
        return NULL;
    case AS_H1_CHUNK_LF:
        if (b != '\n')
            return "CR without LF behind the size";
        c->at = c->size ? AS_H1_CHUNK_DATA : AS_H1_CHUNK_LAST;
        return NULL;
    case AS_H1_CHUNK_END_CR:
    case AS_H1_CHUNK_END_LF:
    case AS_H1_CHUNK_DATA:
    case AS_H1_CHUNK_LAST:
    default:
        if (b != (c->at == AS_H1_CHUNK_END_CR ? '\r' : '\n'))
            return "the data is longer than the size, or does not end with CR LF";
        if (c->at == AS_H1_CHUNK_END_CR)
            c->at = AS_H1_CHUNK_END_LF;
        else
            *c = (struct as_h1_chunk){.n = c->n + 1};
        return NULL;
    }
}

size_t as_h1_syntax_chunk(struct as_h1_chunk *c, const uint8_t *p, size_t n, uint32_t max_ext,
                          const char **ret_fault)
{
    size_t i = 0;

    *ret_fault = NULL;
    while (i < n && c->at < AS_H1_CHUNK_DATA) {
        *ret_fault = read_byte(c, p[i], max_ext);
        if (*ret_fault)
            break;
        i++;
    }
    return i;
}
