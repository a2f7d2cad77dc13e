#include "conf/option/option.h"

#include "conf/option/exit_code.h"
#include "conf/option/option_row.h"

/* the column of the descriptions; behind a longer name it starts further right */
#define HELP_COLUMN 36

/* "--key=value" is one word, since a value may begin with '-' or be empty. */
char **as_option_argv(const struct as_option_set *o, uint32_t scope)
{
    char **argv = as_xalloc((AS_OPT_COUNT + o->n_items + 1) * sizeof(*argv));
    size_t n = 0;

    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        const struct as_option_row *row = &as_option_rows[i];
        struct as_buf b = {0};

        if (!o->v[i].given || !(row->scope & scope))
            continue;
        as_buf_printf(&b, "--%s=", row->key);
        as_option_write(row, &o->v[i], &b);
        argv[n++] = as_str_dup(as_buf_slice(&b));
        as_buf_fini(&b);
    }
    for (uint32_t i = 0; i < o->n_items; i++) {
        const struct as_option_row *row = &as_option_rows[o->items[i].id];
        struct as_buf b = {0};

        if (!(row->scope & scope))
            continue;
        as_buf_printf(&b, "--%s=%s", row->key, o->items[i].s);
        argv[n++] = as_str_dup(as_buf_slice(&b));
        as_buf_fini(&b);
    }
    return argv;
}

void as_option_print(struct as_buf *b, enum as_option_id id, const struct as_option_set *o)
{
    as_option_write(&as_option_rows[id], &o->v[id], b);
}

void as_option_argv_free(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}

static bool is_shown(const struct as_option_row *row, uint32_t scope, bool all)
{
    return (row->scope & scope) && !(row->scope & AS_SCOPE_HIDDEN) &&
           (all || (row->scope & AS_SCOPE_BASIC));
}

#define PLACE_MAX 48u /* longest list of words that is shown in the help */

/* A default of 0 or of a switch is not shown: the description says what it means. */
static bool shows_default(const struct as_option_row *row)
{
    return row->def[0] && row->type != AS_OPTION_BOOL && strcmp(row->def, "0") != 0;
}

void as_option_help(struct as_buf *b, uint32_t scope, bool all)
{
    const char *group = "";

    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        const struct as_option_row *row = &as_option_rows[i];
        const char *place = as_option_placeholder(row);
        size_t from;

        if (strlen(place) > PLACE_MAX) /* the page and the error message have the words */
            place = "NAME";
        if (!is_shown(row, scope, all))
            continue;
        if (strcmp(group, row->group) != 0)
            as_buf_printf(b, "%s:\n", row->group);
        group = row->group;
        from = b->n;
        as_buf_printf(b, "  --%s%s%s", row->key, place[0] ? " " : "", place);
        as_buf_printf(b, "%*s%s", b->n - from < HELP_COLUMN ? HELP_COLUMN - (int)(b->n - from) : 1,
                      "", row->doc);
        if (shows_default(row))
            as_buf_printf(b, " [%s]", row->def);
        as_buf_str(b, "\n");
    }
}

/* The bounds as the parser enforces them. */
static void put_bounds(const struct as_option_row *row, struct as_buf *b)
{
    struct as_option_value lo = {.i = row->min}, hi = {.i = row->max};

    switch (row->type) {
    case AS_OPTION_BOOL:
        as_buf_str(b, "on, off");
        break;
    case AS_OPTION_ENUM:
        as_option_put_words(row->words, ", ", b);
        break;
    case AS_OPTION_STRING:
        as_buf_printf(b, "up to %lld bytes", (long long)row->max);
        break;
    case AS_OPTION_LIST:
        as_buf_printf(b, "up to %lld bytes, repeatable", (long long)row->max);
        break;
    case AS_OPTION_INT:
    case AS_OPTION_SIZE:
    case AS_OPTION_DURATION:
        as_option_write(row, &lo, b);
        as_buf_str(b, " … ");
        as_option_write(row, &hi, b);
        break;
    }
}

/* conf/option/option_page.txt: the start of docs/guide/options.md, which is generated;
 * tools/gen_options.py --check compares. */
extern const unsigned char as_option_page_text[];
extern const size_t as_option_page_text_len;

static void markdown_codes(struct as_buf *b)
{
    as_buf_str(b, "\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
#define X(name, code, fatal, text) as_buf_printf(b, "| %d | %s |\n", code, text);
    AS_EXIT_CODE_TABLE(X)
#undef X
    as_buf_printf(
        b,
        "| %d + n | a call of `infer`, or the first call of `bench`, ended with gRPC status "
        "n |\n",
        AS_EXIT_CODE_STATUS);
    as_buf_str(b, "| 128 + n | ended by signal n while starting, or by a second signal |\n");
}

void as_option_markdown(struct as_buf *b)
{
    const char *group = "";

    as_buf_add(b, as_option_page_text, as_option_page_text_len);
    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        const struct as_option_row *row = &as_option_rows[i];

        if (row->scope & AS_SCOPE_HIDDEN)
            continue;
        if (strcmp(group, row->group) != 0)
            as_buf_printf(b,
                          "\n## %s\n\n| option | default | values | meaning |\n"
                          "|---|---|---|---|\n",
                          row->group);
        group = row->group;
        as_buf_printf(b, "| `--%s` | %s%s%s | ", row->key, row->def[0] ? "`" : "", row->def,
                      row->def[0] ? "`" : "");
        put_bounds(row, b);
        as_buf_printf(b, " | %s |\n", row->doc);
    }
    markdown_codes(b);
}
