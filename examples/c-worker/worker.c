/* A model in C: "scale" multiplies the vector "x" by the parameter "factor" (2 unless it is given).
 *
 *   anyserve run --port 8000 &
 *   make && ./worker 8000
 *   anyserve infer scale x=1,2,3 --param factor=10
 */
#include <anyserve/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double factor_of(const struct as_msg *request)
{
    for (uint32_t i = 0; i < request->n_params; i++) {
        const struct as_param *p = &request->params[i];

        if (p->name.n == 6 && memcmp(p->name.p, "factor", 6) == 0)
            return p->type == AS_PARAM_DOUBLE  ? p->f64
                   : p->type == AS_PARAM_INT64 ? (double)p->i64
                                               : 0;
    }
    return 2;
}

static int scale(struct as_worker_call *call, void *ctx)
{
    const struct as_tensor *x = as_worker_call_input(call, "x"); /* the server has checked it */
    const float *from = (const float *)(const void *)x->data;    /* aligned to 64 bytes */
    double factor = factor_of(as_worker_call_msg(call));
    float *to;

    (void)ctx;
    if (factor == 0)
        return as_worker_call_fail(call, AS_STATUS_INVALID_ARGUMENT,
                                   "factor must be a number that is not 0");
    to = as_worker_call_output(call, "y", AS_DT_FP32, x->ndim, x->shape);
    if (!to)
        return AS_EINVALID;
    for (size_t i = 0; i < x->nbytes / sizeof(*to); i++)
        to[i] = (float)(from[i] * factor);
    return 0;
}

static void say(void *ctx, const char *text)
{
    (void)ctx;
    fprintf(stderr, "worker: %s\n", text);
}

int main(int argc, char **argv)
{
    static const int64_t any[] = {-1};
    static const struct as_tensor_spec in = {AS_STR_INIT("x"), AS_DT_FP32, 1, any, NULL, 0};
    static const struct as_tensor_spec out = {AS_STR_INIT("y"), AS_DT_FP32, 1, any, NULL, 0};
    struct as_worker_conf conf = {.size = sizeof(conf), .threads = 2, .log = say};
    struct as_worker_model model = {.size = sizeof(model),
                                    .name = "scale",
                                    .idempotent = true,
                                    .has_inputs = true,
                                    .n_inputs = 1,
                                    .inputs = &in,
                                    .has_outputs = true,
                                    .n_outputs = 1,
                                    .outputs = &out,
                                    .handler = scale};
    struct as_worker *w;
    int err;

    conf.port = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
    conf.runtime_dir = argc > 2 ? argv[2] : NULL;
    if (as_worker_new(&w, &conf) || as_worker_add(w, &model))
        return 1;
    err = as_worker_run(w); /* until SIGTERM, or until the server ends */
    as_worker_free(w);
    return err != 0;
}
