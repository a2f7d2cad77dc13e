#include "app/commands/deploy_commands.h"

#include "app/client/control_client.h"
#include "app/client/print.h"
#include "app/client/server_names.h"
#include "app/commands/await.h"
#include "app/options/argument.h"
#include "conf/option/exit_code.h"
#include "edge/admin/control.h"
#include "edge/exchange/route.h"
#include "io/process/runtime.h"
#include "tool/server/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATIONS "/api/serve/applications/"
#define FILE_MAX     ((size_t)64 << 20) /* the largest --max-spec-bytes of a server */

/* --- the file --- */

static int cannot_read(const char *path, int e)
{
    fprintf(stderr, "anyserve: cannot read %s: %s\n", path, strerror(e));
    return e == ENOENT ? AS_EXIT_CODE_NOT_FOUND : AS_EXIT_CODE_FAILED;
}

/* "-": stdin. */
static int read_file(const char *path, struct as_buf *text)
{
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 1;
    int e = errno;

    while (fd >= 0 && n > 0 && text->n <= FILE_MAX) {
        n = read(fd, as_buf_reserve(text, 65536), 65536);
        e = errno;
        if (n > 0)
            text->n += (size_t)n;
        else if (n < 0 && e == EINTR)
            n = 1;
    }
    if (fd >= 0)
        close(fd);
    if (fd < 0 || n < 0)
        return cannot_read(path, e);
    if (text->n > FILE_MAX)
        return cannot_read(path, EFBIG);
    return AS_EXIT_CODE_OK;
}

/* The server names the request's body AS_CONTROL_FILE in its errors: prints the file's path in its
 * place. */
static void print_with_path(struct as_str text, const char *path)
{
    while (text.n) {
        const char *nl = memchr(text.p, '\n', text.n);
        struct as_str line = {text.p, nl ? (size_t)(nl - text.p) : text.n};
        size_t used = line.n + (nl ? 1 : 0), name = sizeof(AS_CONTROL_FILE) - 1;

        if (line.n > name && memcmp(line.p, AS_CONTROL_FILE ":", name + 1) == 0)
            fprintf(stderr, "%s%.*s\n", path, (int)(line.n - name), line.p + name);
        else
            fprintf(stderr, "%.*s\n", AS_STR_FMT(line));
        text = (struct as_str){text.p + used, text.n - used};
    }
}

static int print_refused(const struct as_control_client_answer *a, const char *path)
{
    struct as_buf text = {0};

    if (a->status != 400)
        return as_control_client_print_refused(a);
    as_control_client_error_text(a, &text);
    if (text.n && text.p[text.n - 1] != '\n')
        as_buf_str(&text, "\n");
    as_argument_add_hint(path, &text);
    print_with_path(as_buf_slice(&text), strcmp(path, "-") == 0 ? "stdin" : path);
    as_buf_fini(&text);
    return AS_EXIT_CODE_CONFIG;
}

/* --- the commands --- */

static int print_unreadable(const struct as_control_client_answer *a)
{
    fprintf(stderr, "anyserve: the server's answer cannot be read: %.*s\n",
            AS_STR_CUT(a->body, 200));
    return AS_EXIT_CODE_FAILED;
}

/* Prints what the accepted file changes, and waits until it is healthy or has failed. */
static int print_and_wait(const struct as_option_set *opts,
                          const struct as_control_client_answer *a)
{
    bool is_dry = as_option_bool(opts, AS_OPT_DRY_RUN), json = as_option_bool(opts, AS_OPT_JSON);
    struct as_changes c;
    struct as_buf text = {0};
    int code;

    if (as_changes_read(&c, a->body) < 0) {
        code = print_unreadable(a);
    } else if (json) {
        code = as_control_client_print(a);
    } else {
        as_changes_print(&c, &text);
        code = as_print_result(&text);
    }
    if (code == AS_EXIT_CODE_OK && !is_dry && as_option_bool(opts, AS_OPT_WAIT) &&
        as_changes_count(&c, AS_CHANGE_UNCHANGED) < c.n)
        code = as_await_changes(opts, &c);
    if (code == AS_EXIT_CODE_OK && !is_dry && !json)
        printf("generation %lld %s\n", (long long)c.generation,
               as_option_bool(opts, AS_OPT_WAIT) ? "is healthy" : "has begun");
    as_changes_fini(&c);
    return code == AS_EXIT_CODE_OK && fflush(stdout) ? AS_EXIT_CODE_FAILED : code;
}

int as_deploy_main(struct as_option_set *opts)
{
    struct as_control_client_request q = {
        .socket = AS_RUNTIME_CONTROL,
        .method = "PUT",
        .target = as_option_bool(opts, AS_OPT_DRY_RUN) ? APPLICATIONS "?dry_run=1" : APPLICATIONS,
        .is_slow = true}; /* the server loads the code before it answers */
    struct as_control_client_answer a = {0};
    struct as_buf text = {0};
    int code;

    code = as_argument_check_file("deploy", opts->args[0]);
    if (code != AS_EXIT_CODE_OK)
        return code;
    code = read_file(opts->args[0], &text);
    q.body = as_buf_slice(&text);
    if (code == AS_EXIT_CODE_OK && !text.n) {
        fprintf(stderr, "anyserve: %s is empty\n", opts->args[0]);
        code = AS_EXIT_CODE_CONFIG;
    }
    if (code == AS_EXIT_CODE_OK)
        code = as_control_client_call(opts, &q, &a);
    as_buf_fini(&text);
    if (code == AS_EXIT_CODE_OK)
        code = a.status == 200 ? print_and_wait(opts, &a) : print_refused(&a, opts->args[0]);
    as_control_client_answer_fini(&a);
    return code;
}

/* Waits until the application is gone, unless --no-wait. */
static int wait_deleted(const struct as_option_set *opts, const struct as_control_client_answer *a)
{
    bool wait = as_option_bool(opts, AS_OPT_WAIT);
    struct as_changes c;
    int code;

    if (as_changes_read(&c, a->body) < 0)
        code = print_unreadable(a);
    else
        code = wait ? as_await_changes(opts, &c) : AS_EXIT_CODE_OK;
    as_changes_fini(&c);
    if (code == AS_EXIT_CODE_OK)
        printf("%s %s\n", opts->args[0], wait ? "is gone" : "goes");
    return code == AS_EXIT_CODE_OK && fflush(stdout) ? AS_EXIT_CODE_FAILED : code;
}

static int print_not_deleted(const struct as_option_set *opts,
                             const struct as_control_client_answer *a)
{
    struct as_server_names names;
    struct as_buf text = {0};
    int code;

    if (a->status != 404)
        return as_control_client_print_refused(a);
    code = as_server_names_fetch(&names, opts);
    if (code == AS_EXIT_CODE_OK) {
        as_server_names_write_no_application(&names, opts->args[0], "delete", &text);
        code = as_print_error(&text, AS_EXIT_CODE_FAILED);
    }
    as_server_names_fini(&names);
    return code;
}

int as_delete_main(struct as_option_set *opts)
{
    struct as_rest_match m = {.application = as_str_of(opts->args[0])};
    struct as_control_client_request q = {.socket = AS_RUNTIME_CONTROL, .method = "DELETE"};
    struct as_control_client_answer a;
    struct as_buf target = {0};
    int code;

    if (!m.application.n) {
        fprintf(stderr, "anyserve: the name of the application is empty\n");
        return AS_EXIT_CODE_USAGE;
    }
    as_route_put(&target, APPLICATIONS "{application}", false, &m);
    q.target = as_buf_cstr(&target);
    code = as_control_client_call(opts, &q, &a);
    if (code == AS_EXIT_CODE_OK)
        code = a.status == 200 ? wait_deleted(opts, &a) : print_not_deleted(opts, &a);
    as_control_client_answer_fini(&a);
    as_buf_fini(&target);
    return code;
}

int as_config_main(struct as_option_set *opts)
{
    struct as_control_client_request q = {
        .socket = AS_RUNTIME_CONTROL, .method = "GET", .target = "/api/serve/config"};

    return as_control_client_call_print(opts, &q);
}
