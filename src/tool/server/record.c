#include "tool/server/record.h"

#include "base/utf8.h"

#define ELLIPSIS "…"

int as_record_parse(struct as_json_text *t, struct as_str text, const struct as_json_row *rows,
                    uint32_t n)
{
    struct as_json_value root;
    int err = as_json_text_open(t, text, &root);

    return err ? err : as_json_read(t->json, &root, rows, n);
}

static struct as_str last_line(struct as_str text)
{
    const char *nl;

    while (text.n && strchr(" \t\r\n", text.p[text.n - 1]))
        text.n--;
    nl = text.n ? memrchr(text.p, '\n', text.n) : NULL;
    if (nl)
        text = (struct as_str){nl + 1, text.n - (size_t)(nl + 1 - text.p)};
    return text;
}

void as_record_line(struct as_buf *out, struct as_str text, size_t max)
{
    struct as_str line = last_line(text);
    size_t n = line.n;

    if (n > max)
        n = as_utf8_cut(line, max > sizeof(ELLIPSIS) - 1 ? max - (sizeof(ELLIPSIS) - 1) : 0).n;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)line.p[i];

        c = c < ' ' || c == 0x7f ? '?' : c;
        as_buf_add(out, &c, 1);
    }
    if (n < line.n)
        as_buf_str(out, ELLIPSIS);
}
