/* A worker that a deployment file starts as its `command` (tests/e2e/worker/test_command.py). It
 * answers requests with its arguments, its environment and its current configuration.
 *
 *   told MODEL [WORD …]
 *
 * FAIL in the environment: it prints the value and ends. DEAF: it cannot be reconfigured.
 */
#include <anyserve/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT 8192u

static char config[TEXT]; /* the last one; written and read by the runner */

/* Adds a text as a BYTES tensor of one element, which is stored in `room` (TEXT bytes). */
static int put_text(struct as_worker_call *call, const char *name, const char *text, char *room)
{
    static const int64_t one[] = {1};
    uint32_t n = text ? (uint32_t)strlen(text) : 0;
    struct as_tensor t = {.name = {name, strlen(name)},
                          .dtype = AS_DT_BYTES,
                          .ndim = 1,
                          .shape = one,
                          .data = (const uint8_t *)room,
                          .nbytes = n + 4u};

    if (n + 4u > TEXT)
        return AS_ETOOBIG;
    for (int i = 0; i < 4; i++)
        room[i] = (char)(n >> (8 * i));
    if (n)
        memcpy(room + 4, text, n);
    return as_worker_call_put(call, &t);
}

static int report_start(struct as_worker_call *call, void *ctx)
{
    static const int64_t one[] = {1};
    static char cwd[TEXT], rooms[6][TEXT];
    int64_t *pid = as_worker_call_output(call, "pid", AS_DT_INT64, 1, one);
    int err = pid && getcwd(cwd, sizeof(cwd)) ? 0 : AS_EINVALID;

    if (err)
        return err;
    *pid = getpid();
    err = put_text(call, "args", ctx, rooms[0]);
    err = err ? err : put_text(call, "cwd", cwd, rooms[1]);
    err = err ? err : put_text(call, "colour", getenv("COLOUR"), rooms[2]);
    err = err ? err : put_text(call, "size", getenv("SIZE"), rooms[3]);
    err = err ? err : put_text(call, "context", getenv("ANYSERVE_CONTEXT"), rooms[4]);
    return err ? err : put_text(call, "config", config, rooms[5]);
}

static uint32_t reconfigure(void *ctx, struct as_str text, char why[AS_WORKER_REASON])
{
    (void)ctx;
    if (text.n >= sizeof(config)) {
        snprintf(why, AS_WORKER_REASON, "the configuration is longer than 8191 bytes");
        return AS_STATUS_INVALID_ARGUMENT;
    }
    memcpy(config, text.p, text.n);
    config[text.n] = 0;
    return AS_STATUS_OK;
}

int main(int argc, char **argv)
{
    struct as_worker_conf conf = {.size = sizeof(conf), .reconfigure = reconfigure};
    static char words[TEXT];
    struct as_worker_model model = {.size = sizeof(model),
                                    .name = argc > 1 ? argv[1] : "told",
                                    .idempotent = true,
                                    .handler = report_start,
                                    .ctx = words};
    struct as_worker *w;
    int err;

    for (int i = 1; i < argc; i++)
        snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s;", argv[i]);
    if (getenv("FAIL")) {
        fprintf(stderr, "loading %s\n%s\n", words, getenv("FAIL"));
        return 3;
    }
    if (getenv("DEAF"))
        conf.reconfigure = NULL;
    if (as_worker_new(&w, &conf) || as_worker_add(w, &model))
        return 1;
    err = as_worker_run(w);
    if (err)
        fprintf(stderr, "worker: %s\n", as_worker_error(w));
    as_worker_free(w);
    return err != 0;
}
