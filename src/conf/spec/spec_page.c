/* conf/spec/spec_page.c — prints docs/guide/deployment-file.md, which is generated. */
#include "conf/option/option_row.h"
#include "conf/spec/spec_internal.h"

/* conf/spec/spec_page.txt: the page up to the tables. */
extern const unsigned char as_spec_page_text[];
extern const size_t as_spec_page_text_len;

static const char *const titles[AS_SPEC_LEVELS] = {
    [AS_SPEC_LEVEL_FILE] = "File",
    [AS_SPEC_LEVEL_APPLICATION] = "Application",
    [AS_SPEC_LEVEL_DEPLOYMENT] = "Deployment",
    [AS_SPEC_LEVEL_WARMUP] = "Request of `warmup_requests`",
    [AS_SPEC_LEVEL_LOGGING] = "`logging_config`",
};

static void put_bounds(const struct as_spec_row *row, struct as_buf *b)
{
    switch (row->type) {
    case AS_SPEC_BOOL:
        as_buf_str(b, "`true`, `false`");
        break;
    case AS_SPEC_INT:
    case AS_SPEC_NUMBER:
    case AS_SPEC_DURATION:
    case AS_SPEC_SIZE:
        as_spec_put_number(row, row->min, b);
        as_buf_str(b, " … ");
        as_spec_put_number(row, row->max, b);
        as_buf_str(b, row->flags & AS_SPEC_NOT_ZERO ? ", not 0" : "");
        if (row->type == AS_SPEC_INT && row->words[0])
            as_buf_printf(b, ", or `%s`", row->words);
        break;
    case AS_SPEC_AMOUNT:
        as_spec_put_number(row, row->min, b);
        as_buf_str(b, " … ");
        as_spec_put_number(row, row->max, b);
        as_buf_str(b, ", or `0%` … `100%`");
        break;
    case AS_SPEC_STRING:
        as_buf_printf(b, "%s, up to %lld bytes",
                      strcmp(row->words, "name") == 0 || strcmp(row->words, "deployment") == 0
                          ? "letters, digits, `.`, `_`, `-`"
                          : "text",
                      (long long)row->max);
        break;
    case AS_SPEC_TEXT:
        as_buf_printf(b, "%s, up to %lld bytes",
                      strcmp(row->words, "cpus") == 0 ? "`auto` or a list" : "any text",
                      (long long)row->max);
        break;
    case AS_SPEC_ENUM:
        as_buf_str(b, "`");
        as_option_put_words(row->words, "`, `", b);
        as_buf_str(b, "`");
        break;
    case AS_SPEC_JSON:
        as_buf_printf(b, "%s, up to %lld KiB as JSON", row->words[0] ? "a mapping" : "anything",
                      (long long)row->max >> 10);
        break;
    case AS_SPEC_TEXTS:
        as_buf_printf(b, "a list of %lld to %lld texts", (long long)row->min, (long long)row->max);
        break;
    case AS_SPEC_MAP:
        as_buf_printf(b, "up to %lld names with a text each, none begins with `ANYSERVE_`",
                      (long long)row->max);
        break;
    case AS_SPEC_OBJECT:
        as_buf_str(b, "a mapping, below");
        break;
    case AS_SPEC_OBJECTS:
        as_buf_str(b, "a list, below");
        if (row->max <= 1000) /* the others are bounded by options */
            as_buf_printf(b, ", of up to %lld", (long long)row->max);
        break;
    }
}

void as_spec_markdown(struct as_buf *b)
{
    as_buf_add(b, as_spec_page_text, as_spec_page_text_len);
    for (int level = 0; level < AS_SPEC_LEVELS; level++) {
        uint32_t first = as_spec_first_key((enum as_spec_level)level);

        as_buf_printf(b,
                      "\n## %s\n\n| key | default | values | a change | meaning |\n"
                      "|---|---|---|---|---|\n",
                      titles[level]);
        for (uint32_t i = 0; i < as_spec_key_count((enum as_spec_level)level); i++) {
            const struct as_spec_row *row = &as_spec_rows[first + i];

            as_buf_printf(b, "| `%s` | ", row->key);
            if (row->flags & AS_SPEC_REQUIRED)
                as_buf_str(b, "needed");
            else if (row->def[0])
                as_buf_printf(b, "`%s`", row->def);
            as_buf_str(b, " | ");
            put_bounds(row, b);
            as_buf_printf(b, " | %s | %s |\n", as_spec_class_name(row->cls), row->doc);
        }
    }
    as_buf_str(b, "\nThe limits of a file (its size, and how many applications and deployments it "
                  "may have) are\n"
                  "options: [Options](options.md), \"Deployment file\".\n");
}
