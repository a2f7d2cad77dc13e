#include "app/commands/control_commands.h"

#include "app/client/control_client.h"
#include "app/client/print.h"
#include "app/client/server_names.h"
#include "app/commands/await.h"
#include "conf/option/exit_code.h"
#include "edge/exchange/route.h"
#include "io/process/runtime.h"
#include "tool/server/record.h"

#include <stdlib.h>

#define PATTERN "/api/v1/applications/{application}/deployments/{deployment}/"

struct deployment_name {
    char *application, *deployment;
};

static void free_deployment_name(struct deployment_name *n)
{
    free(n->application);
    free(n->deployment);
}

/* The server serves a deployment with exactly these names. */
static bool is_served(const struct as_server_names *names, const struct deployment_name *n)
{
    for (uint32_t i = 0; i < names->n; i++) {
        if (strcmp(names->all[i].application, n->application) == 0 &&
            strcmp(names->all[i].deployment, n->deployment) == 0)
            return true;
    }
    return false;
}

static void print_no_deployment(const struct as_server_names *names,
                                const struct deployment_name *n, const struct as_option_set *opts,
                                const char *verb)
{
    const char *rest = opts->n_args > 1 ? opts->args[1]
                       : opts->v[AS_OPT_RESET].given && as_option_bool(opts, AS_OPT_RESET)
                           ? "--reset"
                           : "";
    struct as_buf text = {0};

    as_server_names_write_no_deployment(names, n->deployment, verb, rest, &text);
    (void)as_print_error(&text, AS_EXIT_CODE_FAILED);
}

static void print_ambiguous(const struct as_server_names *names, const struct deployment_name *n)
{
    struct as_buf text = {0};

    as_server_names_write_ambiguous(names, n->deployment, &text);
    (void)as_print_error(&text, AS_EXIT_CODE_FAILED);
}

/* The application that has a deployment of this name, if one has it. */
static int find_application(const struct as_option_set *opts, struct deployment_name *n,
                            const char *verb)
{
    struct as_server_names names;
    int code = as_server_names_fetch(&names, opts);
    const char *owner = as_server_names_find_application(&names, as_str_of(n->deployment));

    if (as_server_names_is_ambiguous(&names, n->deployment)) {
        print_ambiguous(&names, n);
        code = AS_EXIT_CODE_FAILED;
    } else if (owner) {
        n->application = as_str_dup(as_str_of(owner));
    } else if (code == AS_EXIT_CODE_OK) {
        print_no_deployment(&names, n, opts, verb);
        code = AS_EXIT_CODE_FAILED;
    }
    as_server_names_fini(&names);
    return code;
}

/* Prints the server's error; for an unknown name, what the name is instead. */
static int print_refused(const struct as_option_set *opts, const struct deployment_name *n,
                         const char *verb, const struct as_control_client_answer *a)
{
    struct as_server_names names;
    int code;

    if (a->status != 404)
        return as_control_client_print_refused(a);
    code = as_server_names_fetch(&names, opts);
    if (code == AS_EXIT_CODE_OK && is_served(&names, n)) {
        code = as_control_client_print_refused(a);
    } else if (code == AS_EXIT_CODE_OK) {
        print_no_deployment(&names, n, opts, verb);
        code = AS_EXIT_CODE_FAILED;
    }
    as_server_names_fini(&names);
    return code;
}

/* Parses [APPLICATION/]DEPLOYMENT. Returns an exit code. Call free_deployment_name in any case. */
static int parse_deployment_name(const struct as_option_set *opts, const char *verb,
                                 struct deployment_name *ret_n)
{
    const char *text = opts->args[0], *slash = strchr(text, '/');

    *ret_n =
        (struct deployment_name){.deployment = as_str_dup(as_str_of(slash ? slash + 1 : text))};
    if (slash == text || !ret_n->deployment[0]) {
        fprintf(stderr, "anyserve: '%s' is not [APPLICATION/]DEPLOYMENT\n", text);
        return AS_EXIT_CODE_USAGE;
    }
    if (!slash)
        return find_application(opts, ret_n, verb);
    ret_n->application = as_str_dup((struct as_str){text, (size_t)(slash - text)});
    return AS_EXIT_CODE_OK;
}

/* The generation that the request made, from the answer; 0: none. */
static int64_t generation_in(struct as_str answer)
{
    int64_t generation = 0;
    const struct as_json_row fields[] = {{"generation", AS_JSON_FIELD_I64, &generation}};
    struct as_json_text r;

    as_record_parse(&r, answer, fields, AS_COUNT(fields));
    as_json_text_close(&r);
    return generation;
}

/* Waits for the change that the server has accepted, unless --no-wait. */
static int wait_and_print(const struct as_option_set *opts, const struct deployment_name *n,
                          struct as_str answer, int64_t replicas)
{
    const struct as_await_request request = {n->application, n->deployment, generation_in(answer),
                                             replicas};
    bool wait = as_option_bool(opts, AS_OPT_WAIT);
    int code = wait ? as_await_deployment(opts, &request) : AS_EXIT_CODE_OK;

    if (code == AS_EXIT_CODE_OK)
        printf("%s/%s %s\n", n->application, n->deployment, wait ? "is healthy" : "changes");
    return code == AS_EXIT_CODE_OK && fflush(stdout) ? AS_EXIT_CODE_FAILED : code;
}

static int send_request(const struct as_option_set *opts, const struct deployment_name *n,
                        const char *verb, struct as_str body, int64_t replicas)
{
    struct as_control_client_request q = {
        .socket = AS_RUNTIME_CONTROL, .method = "POST", .body = body};
    struct as_control_client_answer a;
    struct as_buf target = {0};
    int code;

    as_route_put(&target, PATTERN, false,
                 &(struct as_rest_match){.application = as_str_of(n->application),
                                         .deployment = as_str_of(n->deployment)});
    as_buf_str(&target, verb);
    q.target = as_buf_cstr(&target);
    code = as_control_client_call(opts, &q, &a);
    if (code == AS_EXIT_CODE_OK)
        code = a.status == 200 ? wait_and_print(opts, n, a.body, replicas)
                               : print_refused(opts, n, verb, &a);
    as_control_client_answer_fini(&a);
    as_buf_fini(&target);
    return code;
}

/* replicas: the number of replicas that the request sets; -1: it sets none. */
static int run_change(const struct as_option_set *opts, const char *verb, struct as_str body,
                      int64_t replicas)
{
    struct deployment_name n;
    int code = parse_deployment_name(opts, verb, &n);

    if (code == AS_EXIT_CODE_OK)
        code = send_request(opts, &n, verb, body, replicas);
    free_deployment_name(&n);
    return code;
}

int as_scale_main(struct as_option_set *opts)
{
    bool reset = as_option_bool(opts, AS_OPT_RESET);
    uint64_t n;
    char body[64];

    if (reset == (opts->n_args == 2)) {
        fprintf(stderr, "anyserve scale: %s\n",
                reset ? "both N and --reset are given; leave out one of them"
                      : "give N, or --reset for the number in the deployment file");
        return AS_EXIT_CODE_USAGE;
    }
    if (reset)
        return run_change(opts, "scale", AS_STR("{\"target_num_replicas\":null}"), -1);
    if (as_str_u64(as_str_of(opts->args[1]), &n) < 0) {
        fprintf(stderr, "anyserve: '%s' is not a number of replicas\n", opts->args[1]);
        return AS_EXIT_CODE_USAGE;
    }
    snprintf(body, sizeof(body), "{\"target_num_replicas\":%llu}", (unsigned long long)n);
    return run_change(opts, "scale", as_str_of(body), (int64_t)AS_MIN(n, (uint64_t)INT64_MAX));
}

int as_restart_main(struct as_option_set *opts)
{
    return run_change(opts, "restart", (struct as_str){0}, -1);
}

int as_rollback_main(struct as_option_set *opts)
{
    return run_change(opts, "rollback", (struct as_str){0}, -1);
}
