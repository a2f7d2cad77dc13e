#include "app/commands/keys.h"

#include "app/client/print.h"
#include "conf/option/exit_code.h"
#include "ctl/state/key_file.h"
#include "io/random.h"

#include <errno.h>
#include <signal.h>

/* Fails with the option and what is wrong with its value. */
static int wrong_value(enum as_option_id id, struct as_buf *why)
{
    struct as_buf text = {0};

    as_buf_printf(&text, "--%s %.*s", as_option_key(id), AS_STR_FMT(as_buf_slice(why)));
    as_buf_fini(why);
    return as_print_error(&text, AS_EXIT_CODE_USAGE);
}

static int print_failure(int rc, struct as_buf *err)
{
    return as_print_plain_error(err, rc == AS_ENOTFOUND ? AS_EXIT_CODE_NOT_FOUND
                                     : rc == AS_EINVALID || rc == AS_EDENIED ? AS_EXIT_CODE_CONFIG
                                                                             : AS_EXIT_CODE_FAILED);
}

/* --- add --- */

/* The values of a repeated option, separated by commas; "*" without any. */
static int join_patterns(const struct as_option_set *o, enum as_option_id id, struct as_buf *out)
{
    struct as_buf why = {0};
    const char *item;

    for (uint32_t i = 0; (item = as_option_item(o, id, i)) != NULL; i++) {
        as_buf_str(out, i ? "," : "");
        as_buf_str(out, item);
    }
    if (!as_option_item(o, id, 0))
        as_buf_str(out, "*");
    return as_key_line_parse_patterns(as_buf_slice(out), &why) ? wrong_value(id, &why)
                                                               : AS_EXIT_CODE_OK;
}

/* Quotas and expiry. */
static int read_limits(const struct as_option_set *o, struct as_key_line *k)
{
    struct as_str rate = as_str_of(as_option_str(o, AS_OPT_KEY_RATE)),
                  expires = as_str_of(as_option_str(o, AS_OPT_KEY_EXPIRES));
    uint32_t burst = (uint32_t)as_option_u64(o, AS_OPT_KEY_BURST);
    struct as_buf why = {0};

    if (rate.n && as_key_line_parse_rate(rate, k, &why))
        return wrong_value(AS_OPT_KEY_RATE, &why);
    if (burst && !rate.n) {
        as_buf_str(&why, "needs --rate");
        return wrong_value(AS_OPT_KEY_BURST, &why);
    }
    if (burst)
        k->burst = burst;
    k->in_flight = (uint32_t)as_option_u64(o, AS_OPT_KEY_IN_FLIGHT);
    if (expires.n && as_key_line_parse_time(expires, &k->expires, &why))
        return wrong_value(AS_OPT_KEY_EXPIRES, &why);
    return AS_EXIT_CODE_OK;
}

static int check_names(const struct as_key_line *k)
{
    struct as_buf why = {0}, text = {0};

    if (as_key_line_parse_name(k->name, &why)) {
        as_buf_printf(&text, "the name of a key %.*s", AS_STR_FMT(as_buf_slice(&why)));
        as_buf_fini(&why);
        return as_print_error(&text, AS_EXIT_CODE_USAGE);
    }
    return k->tenant.n && as_key_line_parse_name(k->tenant, &why)
               ? wrong_value(AS_OPT_KEY_TENANT, &why)
               : AS_EXIT_CODE_OK;
}

/* Nobody has the key: its line would be one that nobody can use, and its name would be taken. */
static int take_back(const char *path, struct as_str name, int error)
{
    struct as_buf text = {0}, why = {0};
    int rc = as_key_file_revoke(path, name, AS_KEY_FILE_LOCK_WAIT, &why);

    as_buf_printf(&text, "cannot print the new key: %s. ", strerror(error));
    if (rc)
        as_buf_printf(&text, "It could not be taken out of %s again, revoke it: %.*s", path,
                      AS_STR_FMT(as_buf_slice(&why)));
    else
        as_buf_printf(&text, "It was taken out of %s again", path);
    as_buf_fini(&why);
    return as_print_plain_error(&text, AS_EXIT_CODE_FAILED);
}

/* Makes a key, writes its digest into the file and then prints it. */
static int add_key(const char *path, struct as_key_line *k)
{
    uint8_t bytes[AS_KEY_BYTES];
    char text[AS_KEY_TEXT + 1];
    struct as_buf err = {0};
    int rc, error = 0;

    signal(SIGPIPE, SIG_IGN); /* if nobody reads the key, it is taken back */
    as_random_bytes(bytes, sizeof(bytes));
    as_key_text(bytes, text);
    as_sha256((struct as_str){text, AS_KEY_TEXT}, k->digest);
    rc = as_key_file_add(path, k, AS_KEY_FILE_LOCK_WAIT, &err);
    if (!rc && (printf("%s\n", text) < 0 || fflush(stdout) != 0))
        error = errno;
    explicit_bzero(bytes, sizeof(bytes));
    explicit_bzero(text, sizeof(text));
    if (rc)
        return print_failure(rc, &err);
    return error ? take_back(path, k->name, error) : AS_EXIT_CODE_OK;
}

static int add_main(const struct as_option_set *o, const char *path)
{
    struct as_key_line k = {.name = as_str_of(o->args[1]),
                            .tenant = as_str_of(as_option_str(o, AS_OPT_KEY_TENANT))};
    struct as_buf models = {0}, applications = {0}, line = {0};
    int code = check_names(&k);

    if (code == AS_EXIT_CODE_OK)
        code = join_patterns(o, AS_OPT_KEY_MODELS, &models);
    if (code == AS_EXIT_CODE_OK)
        code = join_patterns(o, AS_OPT_KEY_APPLICATIONS, &applications);
    if (code == AS_EXIT_CODE_OK)
        code = read_limits(o, &k);
    k.models = as_buf_slice(&models);
    k.applications = as_buf_slice(&applications);
    if (code == AS_EXIT_CODE_OK) {
        as_key_line_put(&k, &line);
        if (line.n - 1 > AS_KEY_LINE_MAX) { /* without its end */
            as_buf_fini(&line);
            as_buf_printf(&line, "the patterns are too long: a key has at most %u bytes of text",
                          AS_KEY_LINE_MAX);
            code = as_print_error(&line, AS_EXIT_CODE_USAGE);
        }
    }
    if (code == AS_EXIT_CODE_OK)
        code = add_key(path, &k);
    as_buf_fini(&models);
    as_buf_fini(&applications);
    as_buf_fini(&line);
    return code;
}

/* --- list and revoke --- */

/* Never the digest. */
static void list_key(const struct as_key_line *k, void *ctx)
{
    struct as_buf *out = ctx, rate = {0}, expires = {0};
    char in_flight[16] = "-";

    if (k->rate)
        as_key_line_put_rate(k, &rate);
    if (k->expires)
        as_key_line_put_time(k->expires, &expires);
    if (k->in_flight)
        snprintf(in_flight, sizeof(in_flight), "%u", k->in_flight);
    as_buf_printf(out, "%-20.*s %-12.*s %-12s %-9s %-20s %-16.*s %.*s\n", AS_STR_FMT(k->name),
                  AS_STR_FMT(k->tenant.n ? k->tenant : AS_STR("-")),
                  rate.n ? as_buf_cstr(&rate) : "-", in_flight,
                  expires.n ? as_buf_cstr(&expires) : "never", AS_STR_FMT(k->models),
                  AS_STR_FMT(k->applications));
    as_buf_fini(&rate);
    as_buf_fini(&expires);
}

static int list_main(const char *path)
{
    struct as_buf out = {0}, err = {0};
    int rc;

    as_buf_printf(&out, "%-20s %-12s %-12s %-9s %-20s %-16s %s\n", "NAME", "TENANT", "RATE",
                  "IN-FLIGHT", "EXPIRES", "MODELS", "APPLICATIONS");
    rc = as_key_file_list(path, list_key, &out, &err);
    if (!rc)
        return as_print_result(&out);
    as_buf_fini(&out);
    return print_failure(rc, &err);
}

static int revoke_main(const char *path, const char *name)
{
    struct as_buf err = {0};
    int rc = as_key_file_revoke(path, as_str_of(name), AS_KEY_FILE_LOCK_WAIT, &err);

    return rc ? print_failure(rc, &err) : AS_EXIT_CODE_OK;
}

/* --- which --- */

static int usage(const char *sentence)
{
    fprintf(stderr, "anyserve keys: %s\nTry: anyserve keys --help\n", sentence);
    return AS_EXIT_CODE_USAGE;
}

/* True: an option that only `add` has was given. */
static bool has_rights(const struct as_option_set *o)
{
    static const enum as_option_id ids[] = {AS_OPT_KEY_TENANT, AS_OPT_KEY_RATE, AS_OPT_KEY_BURST,
                                            AS_OPT_KEY_IN_FLIGHT, AS_OPT_KEY_EXPIRES};

    for (size_t i = 0; i < AS_COUNT(ids); i++) {
        if (o->v[ids[i]].given)
            return true;
    }
    return as_option_item(o, AS_OPT_KEY_MODELS, 0) || as_option_item(o, AS_OPT_KEY_APPLICATIONS, 0);
}

int as_keys_main(struct as_option_set *opts)
{
    struct as_str verb = as_str_of(opts->args[0]);
    const char *path = as_option_str(opts, AS_OPT_KEY_FILE);
    bool adds = as_str_eq(verb, AS_STR("add")), lists = as_str_eq(verb, AS_STR("list"));

    if (!adds && !lists && !as_str_eq(verb, AS_STR("revoke")))
        return usage("the first argument must be add, list or revoke");
    if (!path[0])
        return usage("--file FILE is missing");
    if (lists && opts->n_args > 1)
        return usage("list takes no name");
    if (!lists && opts->n_args < 2)
        return usage("the name of the key is missing");
    if (!adds && has_rights(opts))
        return usage("only add takes options besides --file");
    return adds ? add_main(opts, path) : lists ? list_main(path) : revoke_main(path, opts->args[1]);
}
