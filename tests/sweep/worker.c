/* tests/sweep/worker.c — stands in for the Python interpreter: a worker that starts in a
 * millisecond.
 *
 *   worker -m anyserve.worker TARGET --describe=lines | --deployment=NAME
 *
 * Serves model "echo": the outputs are the inputs; a request whose id is "fail" is answered with
 * FAILED_PRECONDITION. And "parts", which is decoupled: three responses with the inputs. It does
 * what python/anyserve/runtime/worker_loop.py does with the worker library: connect until the
 * dispatcher is there, serve, connect again when the link is lost, end when drained.
 */
#include "base/err.h"
#include "base/str.h"

#include <anyserve/worker.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define CONNECT_TIMEOUT (5 * AS_SEC)
#define PAUSE_NS        2000000L
#define PARTS           3
#define EX_SETUP        71
#define EX_DENIED       77

static struct as_worker *self;

static volatile sig_atomic_t asked_to_end;

static void on_sigterm(int signum AS_UNUSED)
{
    asked_to_end = 1;
    as_worker_wake(self);
}

static void answer_in_parts(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg)
{
    int err = 0;

    for (int i = 0; i < PARTS && !err; i++)
        err = as_worker_part(w, q, msg);
    if (err)
        as_worker_fail(w, q, as_err_grpc(err), as_str_of(as_err_text(err)));
    else
        as_worker_finish(w, q);
}

static void answer(struct as_worker *w, struct as_worker_req *q)
{
    struct as_msg msg = *as_worker_req_msg(q);
    int err;

    if (as_str_eq(msg.id, AS_STR("fail"))) {
        as_worker_fail(w, q, 9, AS_STR("not today"));
        return;
    }
    msg.n_meta = 0;
    if (as_worker_req_model(q) == 1) {
        answer_in_parts(w, q, &msg);
        return;
    }
    err = as_worker_answer(w, q, &msg);
    if (err)
        as_worker_fail(w, q, as_err_grpc(err), as_str_of(as_err_text(err)));
}

/* Until the link is lost (AS_EOF) or everything is drained (AS_ECANCELLED). */
static int serve(struct as_worker *w)
{
    bool draining = false;
    int err;

    do {
        struct as_worker_req *q;

        while ((q = as_worker_next(w)))
            answer(w, q);
        if (asked_to_end && !draining) {
            draining = true;
            as_worker_drain(w);
        }
    } while ((err = as_worker_wait(w)) == 0);
    return err;
}

static int run(struct as_worker *w)
{
    for (;;) {
        int err = as_worker_connect(w, CONNECT_TIMEOUT);

        if (err == AS_EDENIED || err == AS_EEXISTS || err == AS_EINVALID) {
            fprintf(stderr, "worker: refused: %s\n", as_worker_error(w));
            return EX_DENIED;
        }
        if (!err && serve(w) == AS_ECANCELLED)
            return 0;
        fprintf(stderr, "worker: %s; connecting again\n", as_worker_error(w));
        if (asked_to_end)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

static const char *env(const char *name)
{
    const char *v = getenv(name);

    return v ? v : "";
}

int main(int argc, char **argv)
{
    static const int64_t shape[] = {-1};
    static const struct as_tensor_spec x = {
        .name = {"x", 1}, .dtype = AS_DT_INT32, .ndim = 1, .shape = shape};
    const struct as_worker_model echo = {.size = sizeof(echo), .name = "echo", .idempotent = true};
    const struct as_worker_model parts = {.size = sizeof(parts),
                                          .name = "parts",
                                          .idempotent = true,
                                          .decoupled = true,
                                          .has_inputs = true,
                                          .n_inputs = 1,
                                          .inputs = &x};
    struct as_worker_conf conf = {.size = sizeof(conf),
                                  .path = env("ANYSERVE_LINK"),
                                  .token = env("ANYSERVE_TOKEN"),
                                  .deployment = "app",
                                  .peer = "sweep",
                                  .slots = 4,
                                  .max_prefetch = 32,
                                  .max_queued = -1};
    int code;

    if (argc > 4 && strcmp(argv[4], "--describe=lines") == 0) {
        printf("app\techo:1\tparts:1\n");
        return fflush(stdout) ? 1 : 0;
    }
    if (as_worker_new(&self, &conf) || as_worker_add(self, &echo) || as_worker_add(self, &parts)) {
        fprintf(stderr, "worker: cannot set up the link\n");
        return EX_SETUP;
    }
    signal(SIGTERM, on_sigterm);
    code = run(self);
    signal(SIGTERM, SIG_IGN); /* it ends already: the handler would wake what is freed */
    as_worker_free(self);
    return code;
}
