/* conf/option_row.h — the rows behind conf/option.h and how a value is read and written.
 *
 * For the files of the option module and their test; everybody else asks the set.
 */
#ifndef AS_CONF_OPTION_ROW_H
#define AS_CONF_OPTION_ROW_H

#include "conf/option.h"

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

/* The text of a value of this row. 0; AS_EINVALID: `err` says what is wrong with it, as the end of
 * a sentence ("is not a number", "is above 65535"). */
int as_option_read(const struct as_option_row *row, const char *text, struct as_option_value *ret_v,
                   struct as_buf *err);
/* The shortest exact text that as_option_read takes back ("16K", "100ms", "off"). */
void as_option_write(const struct as_option_row *row, const struct as_option_value *v,
                     struct as_buf *out);
/* What --help shows behind the key: "N", "SIZE", "TIME", "a|b", or nothing for switches. */
const char *as_option_placeholder(const struct as_option_row *row);

/* The i-th of "a|b|c"; n == 0 when there is none. */
struct as_str as_option_word(const char *words, size_t i);

#endif
