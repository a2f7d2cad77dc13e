#include "app/client/server_names.h"

#include "app/client/control_client.h"
#include "base/suggest.h"
#include "conf/option/exit_code.h"
#include "io/process/runtime.h"
#include "tool/server/record.h"

#include <stdlib.h>

#define MAX_LISTED 10u /* names in one sentence: a line of a terminal or two */

/* --- the server's answer --- */

static void add_deployment(struct as_server_names *s, struct as_str application,
                           struct as_str deployment)
{
    s->all = as_xrealloc(s->all, (s->n + 1) * sizeof(*s->all));
    s->all[s->n++] =
        (struct as_server_names_deployment){as_str_dup(application), as_str_dup(deployment)};
}

struct application { /* the one whose deployments are read */
    struct as_server_names *names;
    struct as_str name;
};

static int read_deployment(struct as_json *j AS_UNUSED, struct as_json_items *it, void *ctx)
{
    const struct application *a = ctx;

    add_deployment(a->names, a->name, it->key);
    return 0;
}

static int read_application(struct as_json *j, struct as_json_items *it, void *ctx)
{
    struct application a = {ctx, it->key};
    struct as_json_list deployments = {.each = read_deployment, .ctx = &a};
    const struct as_json_row rows[] = {{"deployments", AS_JSON_FIELD_MAP, &deployments}};

    return as_json_read(j, &it->value, rows, AS_COUNT(rows));
}

static void read_answer(struct as_server_names *s, struct as_str answer)
{
    struct as_json_list applications = {.each = read_application, .ctx = s};
    const struct as_json_row rows[] = {{"applications", AS_JSON_FIELD_MAP, &applications}};
    struct as_json_text r;

    (void)as_record_parse(&r, answer, rows, AS_COUNT(rows));
    as_json_text_close(&r);
}

int as_server_names_fetch(struct as_server_names *ret_s, const struct as_option_set *opts)
{
    struct as_control_client_request q = {
        .socket = AS_RUNTIME_CONTROL, .method = "GET", .target = "/api/serve/applications/"};
    struct as_control_client_answer a;
    int code = as_control_client_call(opts, &q, &a);

    *ret_s = (struct as_server_names){0};
    if (code == AS_EXIT_CODE_OK && a.status != 200)
        code = as_control_client_print(&a);
    else if (code == AS_EXIT_CODE_OK)
        read_answer(ret_s, a.body);
    as_control_client_answer_fini(&a);
    return code;
}

void as_server_names_fini(struct as_server_names *s)
{
    while (s->n) {
        s->n--;
        free(s->all[s->n].application);
        free(s->all[s->n].deployment);
    }
    free(s->all);
}

const char *as_server_names_find_application(const struct as_server_names *s,
                                             struct as_str deployment)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (as_str_eq(as_str_of(s->all[i].deployment), deployment))
            return s->all[i].application;
    }
    return NULL;
}

bool as_server_names_is_ambiguous(const struct as_server_names *s, const char *deployment)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++)
        n += strcmp(s->all[i].deployment, deployment) == 0;
    return n > 1;
}

/* --- sentences --- */

void as_server_names_write_ambiguous(const struct as_server_names *s, const char *deployment,
                                     struct as_buf *out)
{
    uint32_t n = 0;

    as_buf_printf(out,
                  "several applications have a deployment '%s'; name one of them: ", deployment);
    for (uint32_t i = 0; i < s->n; i++) {
        if (strcmp(s->all[i].deployment, deployment) == 0 && n++ < MAX_LISTED)
            as_buf_printf(out, "%s%s/%s", n > 1 ? ", " : "", s->all[i].application, deployment);
    }
    if (n > MAX_LISTED)
        as_buf_printf(out, " and %u more", n - MAX_LISTED);
}

/* "ranker" of "ranker-0"; n 0: the name does not have the form of a replica's. */
static struct as_str deployment_of_replica(const char *name)
{
    const char *dash = strrchr(name, '-');
    uint64_t number;

    if (!dash || as_str_u64(as_str_of(dash + 1), &number))
        return (struct as_str){NULL, 0};
    return (struct as_str){name, (size_t)(dash - name)};
}

static bool is_application(const struct as_server_names *s, const char *name)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (strcmp(s->all[i].application, name) == 0)
            return true;
    }
    return false;
}

/* "shop/main, shop/side and 3 more"; `application` NULL: deployments of all applications. */
static void put_deployments(const struct as_server_names *s, const char *application,
                            struct as_buf *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        if (application && strcmp(s->all[i].application, application) != 0)
            continue;
        if (n++ < MAX_LISTED)
            as_buf_printf(out, "%s%s/%s", n > 1 ? ", " : "", s->all[i].application,
                          s->all[i].deployment);
    }
    if (n > MAX_LISTED)
        as_buf_printf(out, " and %u more", n - MAX_LISTED);
}

static void put_applications(const struct as_server_names *s, struct as_buf *out)
{
    const char *last = "";
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        /* deployments of one application follow each other */
        // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): add_deployment sets every name
        if (strcmp(s->all[i].application, last) == 0)
            continue;
        last = s->all[i].application;
        if (n++ < MAX_LISTED)
            as_buf_printf(out, "%s%s", n > 1 ? ", " : "", s->all[i].application);
    }
    if (n > MAX_LISTED)
        as_buf_printf(out, " and %u more", n - MAX_LISTED);
}

/* False: no deployment can have a replica of this name. */
static bool put_replica(const struct as_server_names *s, const char *name, struct as_buf *out)
{
    struct as_str deployment = deployment_of_replica(name);

    if (!deployment.n || !as_server_names_find_application(s, deployment))
        return false;
    as_buf_printf(out, "'%s' is a replica of the deployment '%.*s'", name, AS_STR_FMT(deployment));
    return true;
}

void as_server_names_write_no_deployment(const struct as_server_names *s, const char *name,
                                         const char *command, const char *rest, struct as_buf *out)
{
    struct as_suggest near = {.key = as_str_of(name)};
    struct as_str deployment = deployment_of_replica(name);
    const char *owner = as_server_names_find_application(s, as_str_of(name));

    if (owner) {
        as_buf_printf(out, "'%s' is a deployment of the application '%s': anyserve %s %s/%s%s%s",
                      name, owner, command, owner, name, rest[0] ? " " : "", rest);
        return;
    }
    if (put_replica(s, name, out)) {
        as_buf_printf(out, "; for all of its replicas: anyserve %s %s/%.*s%s%s", command,
                      as_server_names_find_application(s, deployment), AS_STR_FMT(deployment),
                      rest[0] ? " " : "", rest);
        return;
    }
    if (is_application(s, name)) {
        as_buf_printf(out, "'%s' is an application; name one of its deployments: ", name);
        put_deployments(s, name, out);
        return;
    }
    for (uint32_t i = 0; i < s->n; i++)
        as_suggest_offer(&near, as_str_of(s->all[i].deployment));
    as_buf_printf(out, "there is no deployment '%s'; ", name);
    if (as_suggest_best(&near).n) {
        as_buf_printf(out, "did you mean '%.*s'?", AS_STR_FMT(as_suggest_best(&near)));
        return;
    }
    as_buf_str(out, s->n ? "there are: " : "nothing is served");
    put_deployments(s, NULL, out);
}

void as_server_names_write_no_application(const struct as_server_names *s, const char *name,
                                          const char *command, struct as_buf *out)
{
    struct as_suggest near = {.key = as_str_of(name)};
    const char *owner = as_server_names_find_application(s, as_str_of(name));

    if (owner) {
        as_buf_printf(out,
                      "'%s' is a deployment of the application '%s', which can only be %sd whole: "
                      "anyserve %s %s",
                      name, owner, command, command, owner);
        return;
    }
    if (put_replica(s, name, out)) {
        as_buf_printf(out, "; this command takes an application: ");
        put_applications(s, out);
        return;
    }
    for (uint32_t i = 0; i < s->n; i++)
        as_suggest_offer(&near, as_str_of(s->all[i].application));
    as_buf_printf(out, "there is no application '%s'; ", name);
    if (as_suggest_best(&near).n) {
        as_buf_printf(out, "did you mean '%.*s'?", AS_STR_FMT(as_suggest_best(&near)));
        return;
    }
    as_buf_str(out, s->n ? "there are: " : "nothing is served");
    put_applications(s, out);
}
