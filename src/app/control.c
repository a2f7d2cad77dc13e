#include "app/control.h"

#include "app/await.h"
#include "app/contact.h"
#include "conf/exit_code.h"
#include "edge/route.h"
#include "io/runtime.h"

#include <stdlib.h>

#define PATTERN "/api/v1/applications/{application}/deployments/{deployment}/"

/* "shop/ranker", or "ranker" of the application `default`. */
static struct as_rest_match named(const char *text)
{
    const char *slash = strchr(text, '/');

    return (struct as_rest_match){
        .application = slash ? (struct as_str){text, (size_t)(slash - text)} : AS_STR("default"),
        .deployment = as_str_of(slash ? slash + 1 : text)};
}

/* It has begun. */
static int see_through(const struct as_option_set *opts, const struct as_rest_match *m)
{
    char *app = as_str_dup(m->application), *deployment = as_str_dup(m->deployment);
    bool wait = as_option_bool(opts, AS_OPT_WAIT);
    int code = wait ? as_await_deployment(opts, app, deployment) : AS_CODE_OK;

    if (code == AS_CODE_OK)
        printf("%s/%s %s\n", app, deployment, wait ? "is healthy" : "changes");
    free(app);
    free(deployment);
    return code == AS_CODE_OK && fflush(stdout) ? AS_CODE_FAILED : code;
}

static int tell(const struct as_option_set *opts, const char *verb, struct as_str body)
{
    struct as_rest_match m = named(opts->args[0]);
    struct as_buf target;
    struct as_contact_request q = {.socket = AS_RUNTIME_CONTROL, .method = "POST", .body = body};
    struct as_contact_answer a;
    int code;

    if (!m.application.n || !m.deployment.n) {
        fprintf(stderr, "anyserve: '%s' is not [APPLICATION/]DEPLOYMENT\n", opts->args[0]);
        return AS_CODE_USAGE;
    }
    as_buf_init(&target);
    as_route_put(&target, PATTERN, false, &m);
    as_buf_str(&target, verb);
    as_buf_add(&target, "", 1);
    q.target = (const char *)target.p;
    code = as_contact_ask(opts, &q, &a);
    if (code == AS_CODE_OK)
        code = a.status == 200 ? see_through(opts, &m) : as_contact_print(&q, &a);
    as_contact_fini(&a);
    as_buf_fini(&target);
    return code;
}

int as_scale_main(struct as_option_set *opts)
{
    uint64_t n;
    char body[64];

    if (as_str_u64(as_str_of(opts->args[1]), &n) < 0) {
        fprintf(stderr, "anyserve: '%s' is no number of replicas\n", opts->args[1]);
        return AS_CODE_USAGE;
    }
    snprintf(body, sizeof(body), "{\"target_num_replicas\":%llu}", (unsigned long long)n);
    return tell(opts, "scale", as_str_of(body));
}

int as_restart_main(struct as_option_set *opts)
{
    return tell(opts, "restart", (struct as_str){0});
}

int as_rollback_main(struct as_option_set *opts)
{
    return tell(opts, "rollback", (struct as_str){0});
}
