#include "app/completion.h"

#include "base/id.h"

#include "app/client/event_stream.h"
#include "app/client/print.h"
#include "app/command.h"
#include "conf/option/exit_code.h"
#include "conf/option/option_row.h"
#include "io/loop/clock.h"

#define COMPLETE_TIMEOUT AS_SEC /* somebody waits at the prompt */

/* --- commands and options --- */

static bool takes_option(const struct as_command *c, size_t option)
{
    const struct as_option_row *row = &as_option_rows[option];

    return (row->scope & c->scope) && !(row->scope & AS_SCOPE_HIDDEN);
}

static bool is_switch(const struct as_option_row *row)
{
    return row->type == AS_OPTION_BOOL;
}

/* What completes the value of an option or an argument, by its placeholder: "file", "dir", "ask"
 * (names that the server knows), or "" for nothing. */
static const char *value_kind(const char *name)
{
    static const char *const rows[][2] = {
        {"FILE", "file"},      {"PATH", "file"},       {"DIR", "dir"},     {"TARGET", "file"},
        {"DEPLOYMENT", "ask"}, {"APPLICATION", "ask"}, {"REPLICA", "ask"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        if (strcmp(rows[i][0], name) == 0)
            return rows[i][1];
    }
    return "";
}

/* "file", "dir", "ask REPLICA", "words a b c", or "" */
static void put_value_kind(struct as_buf *b, const struct as_option_row *row)
{
    const char *place = as_option_placeholder(row);

    if (row->type == AS_OPTION_ENUM) {
        as_buf_str(b, "words ");
        as_option_put_words(row->words, " ", b);
    } else if (row == &as_option_rows[AS_OPT_REPLICA]) {
        as_buf_str(b, "ask REPLICA");
    } else {
        as_buf_str(b, value_kind(place));
    }
}

/* The same for each argument of a command, in order, separated by '|'. */
static void put_args(struct as_buf *b, const struct as_command *c)
{
    const char *p = c->args;

    for (uint32_t n = 0; *p; n++) {
        char word[32];
        size_t len = strcspn(p, " ");

        snprintf(word, sizeof(word), "%.*s", (int)len, p);
        if (word[0] == '[') { /* may be left out */
            memmove(word, word + 1, len);
            word[strcspn(word, "]")] = 0;
        }
        as_buf_str(b, n ? "|" : "");
        if (strcmp(word, "COMMAND") == 0) {
            as_buf_str(b, "words");
            for (uint32_t i = 0; i < as_commands_n; i++) {
                if (!as_commands[i].hidden)
                    as_buf_printf(b, " %s", as_commands[i].name);
            }
        } else if (strcmp(word, "SHELL") == 0) {
            as_buf_str(b, "words bash zsh fish");
        } else {
            as_buf_printf(b, "%s%s%s", value_kind(word), strcmp(value_kind(word), "ask") ? "" : " ",
                          strcmp(value_kind(word), "ask") ? "" : word);
        }
        p += len;
        p += strspn(p, " ");
    }
}

/* --- bash, and zsh by its bashcompinit --- */

/* app/completion.bash: the script, but for the table of commands. It has a function `_anyserve_of
 * COMMAND`, which sets the table of that command, and the function `_anyserve`, which completes
 * from it. An option with a value takes two of the words before the cursor. */
extern const unsigned char as_completion_bash[];
extern const size_t as_completion_bash_len;
#define TABLE_LINE "    # the commands of the table\n"

static void put_bash(struct as_buf *b)
{
    const unsigned char *end = as_completion_bash + as_completion_bash_len,
                        *table = memmem(as_completion_bash, as_completion_bash_len, TABLE_LINE,
                                        sizeof(TABLE_LINE) - 1);

    AS_ASSERT(table);
    as_buf_add(b, as_completion_bash, (size_t)(table - as_completion_bash));
    as_buf_str(b, "    '') commands='");
    for (uint32_t i = 0; i < as_commands_n; i++) {
        if (!as_commands[i].hidden)
            as_buf_printf(b, "%s%s", i ? " " : "", as_commands[i].name);
    }
    as_buf_str(b, "' ;;\n");
    for (uint32_t i = 0; i < as_commands_n; i++) {
        const struct as_command *c = &as_commands[i];

        if (c->hidden)
            continue;
        as_buf_printf(b, "    %s)\n        args='", c->name);
        put_args(b, c);
        as_buf_str(b, "'\n        options='--help");
        for (size_t k = 0; k < AS_OPT_COUNT; k++) {
            if (takes_option(c, k))
                as_buf_printf(b, " --%s", as_option_rows[k].key);
        }
        as_buf_str(b, "'\n        values='");
        for (size_t k = 0; k < AS_OPT_COUNT; k++) {
            if (!takes_option(c, k) || is_switch(&as_option_rows[k]))
                continue;
            as_buf_printf(b, "--%s=", as_option_rows[k].key);
            put_value_kind(b, &as_option_rows[k]);
            as_buf_str(b, " ");
        }
        as_buf_str(b, "' ;;\n");
    }
    table += sizeof(TABLE_LINE) - 1;
    as_buf_add(b, table, (size_t)(end - table));
}

static void put_zsh(struct as_buf *b)
{
    as_buf_str(b, "# Completion of anyserve for zsh; printed by `anyserve completion zsh`.\n"
                  "autoload -Uz bashcompinit && bashcompinit\n");
    put_bash(b);
}

/* --- fish --- */

static void put_quoted(struct as_buf *b, const char *text)
{
    as_buf_str(b, "'");
    for (const char *p = text; *p; p++)
        as_buf_printf(b, *p == '\'' || *p == '\\' ? "\\%c" : "%c", *p);
    as_buf_str(b, "'");
}

static void put_fish_values(struct as_buf *b, const char *kind)
{
    if (strncmp(kind, "words ", 6) == 0)
        as_buf_printf(b, " -xa '%s'", kind + 6);
    else if (strncmp(kind, "ask ", 4) == 0)
        as_buf_printf(b, " -xa '(anyserve complete %s 2>/dev/null)'", kind + 4);
    else if (strcmp(kind, "dir") == 0)
        as_buf_str(b, " -xa '(__fish_complete_directories)'");
    else if (strcmp(kind, "file") == 0)
        as_buf_str(b, " -rF");
    else
        as_buf_str(b, " -x");
}

static void put_fish_command(struct as_buf *b, const struct as_command *c)
{
    struct as_buf kind = {0};

    as_buf_printf(b, "complete -c anyserve -n __fish_use_subcommand -fa %s -d ", c->name);
    put_quoted(b, c->doc);
    as_buf_str(b, "\n");
    put_args(&kind, c);
    kind.n = strcspn(as_buf_cstr(&kind), "|"); /* the first argument only: others are numbers */
    if (kind.n) {
        as_buf_printf(b, "complete -c anyserve -n '__fish_seen_subcommand_from %s'", c->name);
        put_fish_values(b, as_buf_cstr(&kind));
        as_buf_str(b, "\n");
    }
    for (size_t k = 0; k < AS_OPT_COUNT; k++) {
        if (!takes_option(c, k))
            continue;
        as_buf_printf(b, "complete -c anyserve -n '__fish_seen_subcommand_from %s' -l %s", c->name,
                      as_option_rows[k].key);
        if (!is_switch(&as_option_rows[k])) {
            kind.n = 0;
            put_value_kind(&kind, &as_option_rows[k]);
            put_fish_values(b, as_buf_cstr(&kind));
        }
        as_buf_str(b, " -d ");
        put_quoted(b, as_option_rows[k].doc);
        as_buf_str(b, "\n");
    }
    as_buf_fini(&kind);
}

static void put_fish(struct as_buf *b)
{
    as_buf_str(b, "# Completion of anyserve for fish; printed by `anyserve completion fish`.\n"
                  "complete -c anyserve -f\n");
    for (uint32_t i = 0; i < as_commands_n; i++) {
        if (!as_commands[i].hidden)
            put_fish_command(b, &as_commands[i]);
    }
}

/* --- the commands --- */

int as_completion_main(struct as_option_set *opts)
{
    static const struct {
        const char *name;
        void (*put)(struct as_buf *b);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    struct as_buf b = {0};

    for (size_t i = 0; i < AS_COUNT(shells); i++) {
        if (strcmp(shells[i].name, opts->args[0]) != 0)
            continue;
        shells[i].put(&b);
        return as_print_result(&b);
    }
    fprintf(stderr, "anyserve: unknown shell '%s'; choose bash, zsh or fish\n", opts->args[0]);
    return AS_EXIT_CODE_USAGE;
}

/* Stops as soon as the names are complete. */
static bool stop_at_once(void *ctx AS_UNUSED, const struct as_states *s AS_UNUSED)
{
    return false;
}

static void put_name(struct as_buf *b, const struct as_state *st)
{
    const char *name = st->kind == AS_STATE_REPLICA      ? st->replica
                       : st->kind == AS_STATE_DEPLOYMENT ? st->deployment
                                                         : st->application;

    if (st->kind != AS_STATE_APPLICATION && strcmp(st->application, AS_ID_DEFAULT) != 0)
        as_buf_printf(b, "%s/", st->application);
    as_buf_printf(b, "%s\n", name);
}

int as_complete_main(struct as_option_set *opts)
{
    static const char *const kinds[] = {[AS_STATE_APPLICATION] = "APPLICATION",
                                        [AS_STATE_DEPLOYMENT] = "DEPLOYMENT",
                                        [AS_STATE_REPLICA] = "REPLICA"};
    struct as_event_stream f = {
        .on_caught_up = stop_at_once, .stop_fd = -1, .deadline = as_clock_now() + COMPLETE_TIMEOUT};
    struct as_buf b = {0};

    if (strcmp(opts->args[0], kinds[AS_STATE_REPLICA]) == 0)
        as_buf_str(&b, "supervisor\ndispatcher\ncontroller\n"); /* `logs` takes these, too */
    as_event_stream_run(&f, opts);
    for (uint32_t i = 0; i < f.states.n; i++) {
        if (strcmp(opts->args[0], kinds[f.states.all[i]->kind]) == 0)
            put_name(&b, f.states.all[i]);
    }
    as_event_stream_fini(&f);
    return as_print_result(&b);
}
