#include "app/options/argument.h"

#include "conf/option/exit_code.h"
#include "conf/spec/spec_row.h"
#include "ctl/worker/worker_spec.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LISTED  3u  /* Python files of a folder that are suggested */
#define MAX_ENTRIES 512 /* entries of a folder that are looked at: it may be large */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n > k && strcmp(text + n - k, end) == 0;
}

static bool is_yaml(const char *name)
{
    return ends_with(name, ".yaml") || ends_with(name, ".yml");
}

static bool exists(const char *path, bool *ret_folder)
{
    struct stat st;
    bool found = stat(path, &st) == 0;

    *ret_folder = found && S_ISDIR(st.st_mode);
    return found;
}

static bool has_file(const char *folder, const char *name)
{
    char *path = as_str_format("%s/%s", folder, name);
    bool found = access(path, F_OK) == 0;

    free(path);
    return found;
}

static int print_missing(const char *path)
{
    char *here = getcwd(NULL, 0);

    fprintf(stderr, "anyserve: %s does not exist", path);
    fprintf(stderr, path[0] == '/' || !here ? "\n" : " (in %s)\n", here);
    free(here);
    return AS_EXIT_CODE_NOT_FOUND;
}

/* --- folders --- */

struct folder {
    char *python[MAX_LISTED],
        *spec; /* the first names; for `spec` anyserve.* comes before others */
    uint32_t n_python;
};

static void add_python_file(struct folder *f, const char *name)
{
    uint32_t at = f->n_python;

    while (at > 0 && strcmp(f->python[at - 1], name) > 0)
        at--;
    if (at == MAX_LISTED)
        return;
    if (f->n_python == MAX_LISTED)
        free(f->python[--f->n_python]);
    memmove(f->python + at + 1, f->python + at, (f->n_python - at) * sizeof(*f->python));
    f->python[at] = as_str_dup(as_str_of(name));
    f->n_python++;
}

static void set_spec_file(struct folder *f, const char *name)
{
    bool ours = strncmp(name, "anyserve.", 9) == 0;

    if (f->spec && !ours && (strncmp(f->spec, "anyserve.", 9) == 0 || strcmp(f->spec, name) < 0))
        return;
    free(f->spec);
    f->spec = as_str_dup(as_str_of(name));
}

static void scan_folder(struct folder *f, const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;

    *f = (struct folder){.n_python = 0};
    for (int i = 0; dir && i < MAX_ENTRIES && (e = readdir(dir)); i++) {
        if (e->d_name[0] == '.' || e->d_name[0] == '_')
            continue;
        if (ends_with(e->d_name, ".py"))
            add_python_file(f, e->d_name);
        else if (is_yaml(e->d_name))
            set_spec_file(f, e->d_name);
    }
    if (dir)
        closedir(dir);
}

/* Prints the commands to type for the files in the folder. Returns the exit code. */
static int print_folder(const char *path, const char *what, const char *for_code,
                        const char *for_spec)
{
    const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
    struct folder f;

    scan_folder(&f, path);
    fprintf(stderr, "anyserve: '%s' is a directory; name the %s", path, what);
    fprintf(stderr, f.n_python || f.spec ? " in it:\n" : "\n");
    if (f.spec)
        fprintf(stderr, "  anyserve %s %s%s%s\n", for_spec, path, slash, f.spec);
    for (uint32_t i = 0; i < f.n_python; i++)
        fprintf(stderr, "%sanyserve %s %s%s%s", i ? ", " : "  ", for_code, path, slash,
                f.python[i]);
    if (f.n_python)
        fprintf(stderr, "\n");
    while (f.n_python)
        free(f.python[--f.n_python]);
    free(f.spec);
    return AS_EXIT_CODE_USAGE;
}

/* --- the two kinds --- */

/* FILE or MODULE: the part before the last colon. The caller frees it. */
static char *target_file(const char *target)
{
    const char *colon = strrchr(target, ':');

    return as_str_dup((struct as_str){target, colon ? (size_t)(colon - target) : strlen(target)});
}

/* Python may import the name as a module: NAME.py or the package NAME is in this folder. */
static bool may_be_module(const char *head)
{
    char *file;
    bool found;

    if (strchr(head, '/') || head[0] == '.')
        return false;
    file = as_xalloc(strlen(head) + 4);
    snprintf(file, strlen(head) + 4, "%s.py", head);
    found = has_file(".", file) || has_file(head, "__init__.py");
    free(file);
    return found;
}

static int check_code(const char *command, const char *head)
{
    const char *for_spec = strcmp(command, "run") == 0 ? "start" : "check";
    const char *name = strrchr(head, '/') ? strrchr(head, '/') + 1 : head;
    bool folder, found = head[0] && exists(head, &folder);

    if (found && folder)
        return may_be_module(head) ? AS_EXIT_CODE_OK
                                   : print_folder(head, "Python file", command, for_spec);
    if (!found)
        return is_yaml(head) ? print_missing(head) : AS_EXIT_CODE_OK;
    if (is_yaml(head) || ends_with(head, ".json")) {
        fprintf(stderr,
                "anyserve: %s is a deployment file; `%s` takes Python code. Try:\n"
                "  anyserve %s %s\n",
                head, command, for_spec, head);
        return AS_EXIT_CODE_USAGE;
    }
    if (!ends_with(head, ".py") && strchr(name, '.')) {
        fprintf(stderr,
                "anyserve: %s is not a Python file; `%s` takes FILE.py, FILE.py:ATTRIBUTE or "
                "MODULE:ATTRIBUTE\n",
                head, command);
        return AS_EXIT_CODE_USAGE;
    }
    return AS_EXIT_CODE_OK;
}

int as_argument_check_code(const char *command, const char *target)
{
    char *head = target_file(target);
    int code = check_code(command, head);

    free(head);
    return code;
}

int as_argument_check_file(const char *command, const char *path)
{
    bool folder, found = exists(path, &folder);

    if (strcmp(path, "-") == 0)
        return AS_EXIT_CODE_OK;
    if (found && folder)
        return print_folder(path, "deployment file", "run", command);
    if (ends_with(path, ".py") || (!found && strchr(path, ':'))) {
        fprintf(
            stderr,
            "anyserve: %s is Python code; `%s` takes a deployment file. Serve the code, or write "
            "its file:\n"
            "  anyserve run %s\n"
            "  anyserve build %s -o anyserve.yaml\n",
            path, command, path, path);
        return AS_EXIT_CODE_USAGE;
    }
    if (!found && (errno == ENOENT || errno == ENOTDIR))
        return print_missing(path);
    return AS_EXIT_CODE_OK; /* whoever reads the file reports other errors */
}

void as_argument_add_hint(const char *path, struct as_buf *err)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

    if (strcmp(path, "-") != 0 && strchr(name, '.') && !is_yaml(path) && !ends_with(path, ".json"))
        as_buf_printf(err,
                      "  %s may not be a deployment file: that is YAML or JSON with the key "
                      "`applications`\n",
                      path);
}

int as_argument_load_file(const struct as_option_set *opts, struct as_spec **ret_s,
                          struct as_buf *err)
{
    struct as_spec_limits limits;
    int rc;

    as_spec_limits_from_options(&limits, opts);
    rc = as_spec_load(ret_s, &limits, opts->args[0], err);
    if (rc == AS_EINVALID)
        as_argument_add_hint(opts->args[0], err);
    return rc >= 0              ? AS_EXIT_CODE_OK
           : rc == AS_EINVALID  ? AS_EXIT_CODE_CONFIG
           : rc == AS_ENOTFOUND ? AS_EXIT_CODE_NOT_FOUND
                                : AS_EXIT_CODE_FAILED;
}

int as_argument_put_variable(const struct as_option_set *opts, struct as_buf *ret_variable,
                             struct as_buf *err)
{
    size_t most = (size_t)as_spec_rows[AS_SPEC_APPLICATION_ARGS].max;

    if (opts->n_args < 2)
        return AS_EXIT_CODE_OK;
    as_buf_str(ret_variable, AS_WORKER_SPEC_ARGS "={");
    for (uint32_t i = 1; i < opts->n_args; i++) {
        const char *text = opts->args[i], *eq = strchr(text, '=');

        if (!eq || eq == text) {
            as_buf_printf(err,
                          "'%s' is not KEY=VALUE, an argument of a function that builds the "
                          "application",
                          text);
            return AS_EXIT_CODE_USAGE;
        }
        as_buf_str(ret_variable, i > 1 ? "," : "");
        as_buf_json(ret_variable, (struct as_str){text, (size_t)(eq - text)});
        as_buf_str(ret_variable, ":");
        as_buf_json(ret_variable, as_str_of(eq + 1));
    }
    as_buf_str(ret_variable, "}");
    if (ret_variable->n <= sizeof(AS_WORKER_SPEC_ARGS) + most)
        return AS_EXIT_CODE_OK;
    as_buf_printf(err, "the arguments KEY=VALUE have more than %zu bytes", most);
    return AS_EXIT_CODE_USAGE;
}
