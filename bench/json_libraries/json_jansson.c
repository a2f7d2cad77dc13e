/* jansson: a tree of values, as most C programs read JSON. */
#include "json_speed.h"

#include <jansson.h>
#include <stdlib.h>

size_t speed_parse(const char *body, size_t n, bool fp64, void *out)
{
    json_t *root = json_loadb(body, n, 0, NULL), *data, *v;
    size_t i;

    data = json_object_get(json_array_get(json_object_get(root, "inputs"), 0), "data");
    json_array_foreach(data, i, v)
    {
        if (fp64)
            ((double *)out)[i] = json_number_value(v);
        else
            ((float *)out)[i] = (float)json_number_value(v);
    }
    n = json_array_size(data);
    json_decref(root);
    return n;
}

size_t speed_print(const void *data, size_t n, bool fp64)
{
    json_t *values = json_array(), *root;
    size_t len;
    char *text;

    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            values, json_real(fp64 ? ((const double *)data)[i] : (double)((const float *)data)[i]));
    root = json_pack("{s:s,s:s,s:[{s:s,s:s,s:[i],s:o}]}", "model_name", "m", "model_version", "1",
                     "outputs", "name", "x", "datatype", fp64 ? "FP64" : "FP32", "shape", (int)n,
                     "data", values);
    text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(fp64 ? 17 : 9));
    for (len = 0; text[len]; len++)
        ;
    free(text);
    json_decref(root);
    return len;
}
