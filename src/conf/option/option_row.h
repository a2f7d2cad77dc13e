/* conf/option/option_row.h — the rows of the table in conf/option/option.h, and how values are read
 * and written.
 *
 * For the files of conf and their tests; other code uses the functions of conf/option/option.h.
 */
#ifndef AS_CONF_OPTION_ROW_H
#define AS_CONF_OPTION_ROW_H

#include "conf/option/option.h"

struct as_option_row {
    const char *key;
    enum as_option_type type;
    int64_t min, max;
    const char *def; /* as it is typed; always a valid value */
    const char *words;
    uint32_t scope;
    const char *group, *doc;
};

extern const struct as_option_row as_option_rows[AS_OPT_COUNT];

/* Reads the text of a value. 0; AS_EINVALID: `err` gets what is wrong with it, as the end of a
 * sentence ("is not a whole number", "is above the maximum 65535"). */
int as_option_read(const struct as_option_row *row, const char *text, struct as_option_value *ret_v,
                   struct as_buf *err);
/* Appends the shortest text that as_option_read reads as the same value ("16K", "100ms", "off"). */
void as_option_write(const struct as_option_row *row, const struct as_option_value *v,
                     struct as_buf *out);
/* The placeholder behind the key in --help: "N", "SIZE", "TIME", "a|b"; "" for switches. */
const char *as_option_placeholder(const struct as_option_row *row);

/* The i-th word of "a|b|c"; a NULL slice behind the last one. */
struct as_str as_option_word(const char *words, size_t i);
/* The index of a word; -1: it is none of them. */
int64_t as_option_find_word(const char *words, struct as_str word);
/* Appends all of them, with `between` between two. */
void as_option_put_words(const char *words, const char *between, struct as_buf *out);

#endif
