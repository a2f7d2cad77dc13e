// simdjson On-Demand as its documentation shows it: the ceiling for reading. It does not print.
#include "json_speed.h"

#include <simdjson.h>

size_t speed_parse(const char *body, size_t n, bool fp64, void *out)
{
    static simdjson::ondemand::parser parser;
    simdjson::ondemand::document doc;
    simdjson::ondemand::array data;
    size_t i = 0;

    if (parser.iterate(body, n, n + SPEED_PADDING).get(doc) ||
        doc["inputs"].at(0)["data"].get_array().get(data))
        return 0;
    for (auto v : data) {
        double d;

        if (v.get_double().get(d))
            return 0;
        if (fp64)
            static_cast<double *>(out)[i++] = d;
        else
            static_cast<float *>(out)[i++] = static_cast<float>(d);
    }
    return i;
}

size_t speed_print(const void *, size_t, bool)
{
    return 0;
}
