/* yyjson: a ceiling for libraries that make a tree. Its source comes of the Python package of that
 * name, when the benchmark is run. */
#include "json_speed.h"

#include <stdlib.h>
#include <yyjson.h>

size_t speed_parse(const char *body, size_t n, bool fp64, void *out)
{
    yyjson_doc *doc = yyjson_read(body, n, 0);
    yyjson_val *data = yyjson_obj_get(
        yyjson_arr_get(yyjson_obj_get(yyjson_doc_get_root(doc), "inputs"), 0), "data");
    yyjson_arr_iter it = yyjson_arr_iter_with(data);
    yyjson_val *v;
    size_t i = 0;

    while ((v = yyjson_arr_iter_next(&it))) {
        if (fp64)
            ((double *)out)[i++] = yyjson_get_num(v);
        else
            ((float *)out)[i++] = (float)yyjson_get_num(v);
    }
    yyjson_doc_free(doc);
    return i;
}

size_t speed_print(const void *data, size_t n, bool fp64)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc), *outputs = yyjson_mut_arr(doc),
                   *x = yyjson_mut_obj(doc), *shape = yyjson_mut_arr(doc);
    size_t len;

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "model_name", "m");
    yyjson_mut_obj_add_str(doc, root, "model_version", "1");
    yyjson_mut_obj_add_val(doc, root, "outputs", outputs);
    yyjson_mut_arr_append(outputs, x);
    yyjson_mut_obj_add_str(doc, x, "name", "x");
    yyjson_mut_obj_add_str(doc, x, "datatype", fp64 ? "FP64" : "FP32");
    yyjson_mut_arr_add_uint(doc, shape, n);
    yyjson_mut_obj_add_val(doc, x, "shape", shape);
    yyjson_mut_obj_add_val(doc, x, "data",
                           fp64 ? yyjson_mut_arr_with_double(doc, data, n)
                                : yyjson_mut_arr_with_float(doc, data, n));
    free(yyjson_mut_write(doc, 0, &len));
    yyjson_mut_doc_free(doc);
    return len;
}
