/* A worker in C on the native link: "add", the same model as that of examples/workers, so that all
 * of them can serve it together.
 *
 *   add PORT RUNTIME-DIR
 */
#include <anyserve/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct as_worker_call *call, void *ctx)
{
    const struct as_tensor *a = as_worker_call_input(call, "a");
    const struct as_tensor *b = as_worker_call_input(call, "b");
    const float *x = (const float *)(const void *)a->data,
                *y = (const float *)(const void *)b->data;
    float *sum;

    (void)ctx;
    if (a->nbytes != b->nbytes)
        return as_worker_call_fail(call, AS_STATUS_INVALID_ARGUMENT,
                                   "a and b have different lengths");
    sum = as_worker_call_output(call, "sum", AS_DT_FP32, a->ndim, a->shape);
    if (!sum)
        return AS_EINVALID;
    for (size_t i = 0; i < a->nbytes / sizeof(*sum); i++)
        sum[i] = x[i] + y[i];
    return 0;
}

static void say(void *ctx, const char *text)
{
    (void)ctx;
    printf("worker: %s\n", text);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const int64_t any[] = {-1};
    static const struct as_tensor_spec in[] = {{AS_STR_INIT("a"), AS_DT_FP32, 1, any, NULL, 0},
                                               {AS_STR_INIT("b"), AS_DT_FP32, 1, any, NULL, 0}};
    static const struct as_tensor_spec out = {AS_STR_INIT("sum"), AS_DT_FP32, 1, any, NULL, 0};
    struct as_worker_conf conf = {.size = sizeof(conf), .slots = 4, .threads = 4, .replica = "c"};
    struct as_worker_model model = {.size = sizeof(model),
                                    .name = "add",
                                    .idempotent = true,
                                    .max_ongoing = 4,
                                    .has_inputs = true,
                                    .n_inputs = 2,
                                    .inputs = in,
                                    .has_outputs = true,
                                    .n_outputs = 1,
                                    .outputs = &out,
                                    .handler = add};
    struct as_worker *w;
    int err;

    if (argc != 3)
        return 2;
    conf.port = (uint32_t)atoi(argv[1]);
    conf.runtime_dir = argv[2];
    conf.log = say;
    if (as_worker_new(&w, &conf) || as_worker_add(w, &model))
        return 1;
    err = as_worker_run(w);
    if (err)
        fprintf(stderr, "worker: %s\n", as_worker_error(w));
    as_worker_free(w);
    return err != 0;
}
