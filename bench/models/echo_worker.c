/* The model of the benchmark (echo_model.py) in C: any tensors, back as they came.
 *
 *   echo_worker [runtime-dir [port]]
 *
 * Joins the server that runs there, or the one that started it ($ANYSERVE_LINK).
 */
#include <anyserve/worker.h>
#include <stdlib.h>

static int echo(struct as_worker_call *call, void *ctx)
{
    const struct as_msg *m = as_worker_call_msg(call);
    int err = 0;

    (void)ctx;
    for (uint32_t i = 0; i < m->n_tensors && !err; i++)
        err = as_worker_call_put(call, &m->tensors[i]);
    return err;
}

int main(int argc, char **argv)
{
    struct as_worker_conf conf = {.size = sizeof(conf), .max_queued = -1};
    struct as_worker_model model = {.size = sizeof(model), .name = "echo", .handler = echo};
    struct as_worker *w;
    int err;

    conf.runtime_dir = argc > 1 ? argv[1] : NULL;
    conf.port = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    if (as_worker_new(&w, &conf) || as_worker_add(w, &model))
        return 1;
    err = as_worker_run(w);
    as_worker_free(w);
    return err != 0;
}
