#include "wire/http/http_field.h"

/* tchar of RFC 9110 §5.6.2, without the upper-case letters. */
static const bool is_of_name[256] = {
    ['!'] = true, ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true, ['\''] = true,
    ['*'] = true, ['+'] = true, ['-'] = true, ['.'] = true, ['^'] = true, ['_'] = true,
    ['`'] = true, ['|'] = true, ['~'] = true, ['0'] = true, ['1'] = true, ['2'] = true,
    ['3'] = true, ['4'] = true, ['5'] = true, ['6'] = true, ['7'] = true, ['8'] = true,
    ['9'] = true, ['a'] = true, ['b'] = true, ['c'] = true, ['d'] = true, ['e'] = true,
    ['f'] = true, ['g'] = true, ['h'] = true, ['i'] = true, ['j'] = true, ['k'] = true,
    ['l'] = true, ['m'] = true, ['n'] = true, ['o'] = true, ['p'] = true, ['q'] = true,
    ['r'] = true, ['s'] = true, ['t'] = true, ['u'] = true, ['v'] = true, ['w'] = true,
    ['x'] = true, ['y'] = true, ['z'] = true,
};

bool as_http_field_is_name(struct as_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        if (!is_of_name[(uint8_t)name.p[i]])
            return false;
    }
    return name.n > 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool as_http_field_is_value(struct as_str value)
{
    for (size_t i = 0; i < value.n; i++) {
        uint8_t c = (uint8_t)value.p[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return !value.n || (!is_blank(value.p[0]) && !is_blank(value.p[value.n - 1]));
}

bool as_http_field_is_hop_by_hop(struct as_str name)
{
    switch (name.n) {
    case 2:
        return as_str_eq(name, AS_STR("te"));
    case 7:
        return as_str_eq(name, AS_STR("upgrade")) || as_str_eq(name, AS_STR("trailer"));
    case 10:
        return as_str_eq(name, AS_STR("connection")) || as_str_eq(name, AS_STR("keep-alive"));
    case 16:
        return as_str_eq(name, AS_STR("proxy-connection"));
    case 17:
        return as_str_eq(name, AS_STR("transfer-encoding"));
    default:
        return false;
    }
}

bool as_http_field_is_valid(const struct as_http_header *f)
{
    return as_http_field_is_name(f->name) && as_http_field_is_value(f->value) &&
           !as_http_field_is_hop_by_hop(f->name);
}

bool as_http_fields_are_valid(const struct as_http_header *f, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!as_http_field_is_valid(&f[i]))
            return false;
    }
    return true;
}

struct as_str as_http_field_bearer(struct as_str value)
{
    struct as_str scheme = {value.p, AS_MIN(value.n, (size_t)7)};

    if (!as_str_eq_nocase(scheme, AS_STR("bearer ")))
        return (struct as_str){0};
    value.p += scheme.n;
    value.n -= scheme.n;
    return as_str_trim(value);
}
