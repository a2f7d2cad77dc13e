// The only C++ of the server: simdjson, Dragonbox and <charconv> behind a C interface.
#include "wire/json/json_cxx.h"

#include <charconv>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <simdjson.h>
#ifdef AS_JSON_CXX_DRAGONBOX
#include AS_JSON_CXX_DRAGONBOX
#endif

extern "C" {
#include "base/fatal.h"
}

// Only the first stage of simdjson is used (the index of tokens). The On-Demand API on top of it
// accepts unmatched brackets, cannot return to a value that was skipped, and guarantees nothing for a
// text that ends inside a value. Our own cursor (json.c) is smaller than a wrapper around it.
using simdjson::internal::dom_parser_implementation;

struct as_json_cxx {
    std::unique_ptr<dom_parser_implementation> parser;
};

namespace
{

constexpr size_t depth = 1; // for the second stage, which is not used

const char *error_text(simdjson::error_code err)
{
    switch (err) {
    case simdjson::UTF8_ERROR:
        return "the text is not valid UTF-8";
    case simdjson::UNCLOSED_STRING:
        return "a string is not closed";
    case simdjson::UNESCAPED_CHARS:
        return "a control character in a string is not escaped";
    case simdjson::EMPTY:
        return "the text is empty";
    case simdjson::CAPACITY:
        return "the text is too long";
    default:
        return simdjson::error_message(err);
    }
}

simdjson::error_code ensure_capacity(as_json_cxx *x, size_t n)
{
    if (x->parser && x->parser->capacity() >= n)
        return simdjson::SUCCESS;
    if (x->parser)
        return x->parser->set_capacity(n);
    return simdjson::get_active_implementation()->create_dom_parser_implementation(n, depth,
                                                                                   x->parser);
}

// Selects the implementation for this processor. simdjson allocates strings for that, and without
// exceptions a failure would end in std::terminate. The new-handler turns it into our own fatal
// error. It is set only here: other allocations use nothrow, and a handler would be called there,
// too.
bool select_implementation()
{
    std::new_handler before = std::set_new_handler([] { as_fatal_memory(sizeof(std::string)); });

    (void)simdjson::get_active_implementation()->name();
    std::set_new_handler(before);
    return true;
}

} // namespace

as_json_cxx *as_json_cxx_new(void)
{
    static const bool chosen = select_implementation();

    (void)chosen;
    return new (std::nothrow) as_json_cxx;
}

void as_json_cxx_free(as_json_cxx *x)
{
    delete x;
}

int as_json_cxx_index(as_json_cxx *x, const uint8_t *p, size_t n, const uint32_t **ret_at,
                      uint32_t *ret_n, const char **ret_why)
{
    simdjson::error_code err = n > simdjson::SIMDJSON_MAXSIZE_BYTES - simdjson::SIMDJSON_PADDING
                                   ? simdjson::CAPACITY
                                   : ensure_capacity(x, n);

    if (err == simdjson::MEMALLOC) {
        x->parser.reset(); // incomplete
        return 1;
    }
    if (!err)
        err = x->parser->stage1(p, n, simdjson::stage1_mode::regular);
    if (err) {
        *ret_why = error_text(err);
        return -1;
    }
    *ret_at = x->parser->structural_indexes.get();
    *ret_n = x->parser->n_structural_indexes;
    return 0;
}

void as_json_cxx_trim(as_json_cxx *x)
{
    if (x->parser && x->parser->capacity() > AS_JSON_CXX_RETAIN_MAX)
        x->parser.reset();
}

double as_json_cxx_double(const char *p, const char *end)
{
    double v;

    // result_out_of_range is returned for too large and too small; strtod returns infinity or 0
    if (std::from_chars(p, end, v).ec == std::errc())
        return v;
    return std::strtod(p, nullptr);
}

bool as_json_cxx_scaled(uint64_t m, int32_t e, bool negative, double *ret_d)
{
#ifdef AS_JSON_CXX_COMPUTES
    // outside the range of its tables the result would be wrong
    return m && e >= simdjson::internal::smallest_power && e <= simdjson::internal::largest_power &&
           simdjson::SIMDJSON_BUILTIN_IMPLEMENTATION::numberparsing::compute_float_64(
               e, m, negative, *ret_d);
#else
    (void)m, (void)e, (void)negative, (void)ret_d;
    return false;
#endif
}

#ifdef AS_JSON_CXX_DRAGONBOX

namespace
{

template <typename T> as_json_decimal digits_of(T v)
{
    using namespace jkj::dragonbox;
    auto d =
        to_decimal(v, policy::sign::ignore, policy::trailing_zero::ignore, policy::cache::full);

    return {d.significand, d.exponent};
}

} // namespace

#else

namespace
{

// Parses the text of std::to_chars, such as "1.25e+01".
template <typename T> as_json_decimal digits_of(T v)
{
    char text[AS_JSON_CXX_DOUBLE + 8];
    auto end = std::to_chars(text, text + sizeof(text), v, std::chars_format::scientific).ptr;
    as_json_decimal d = {};
    const char *p = text + (*text == '-');
    int32_t fraction = 0;
    bool behind = false;

    for (; *p != 'e'; p++) {
        if (*p == '.') {
            behind = true;
            continue;
        }
        d.digits = d.digits * 10 + static_cast<uint64_t>(*p - '0');
        fraction += behind;
    }
    std::from_chars(p + 1 + (p[1] == '+'), end, d.exponent);
    d.exponent -= fraction;
    return d;
}

} // namespace

#endif

as_json_decimal as_json_cxx_double_digits(double v)
{
    return digits_of(v);
}

as_json_decimal as_json_cxx_float_digits(float v)
{
    return digits_of(v);
}

char *as_json_cxx_put_double(char *out, double v)
{
    return std::to_chars(out, out + AS_JSON_CXX_DOUBLE, v).ptr;
}
