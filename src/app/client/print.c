#include "app/client/print.h"

#include "conf/option/exit_code.h"

int as_print_error(struct as_buf *text, int code)
{
    if (text->n)
        fprintf(stderr, "anyserve: %.*s\n", AS_STR_FMT(as_buf_slice(text)));
    as_buf_fini(text);
    return code;
}

int as_print_plain_error(struct as_buf *text, int code)
{
    if (text->n)
        fprintf(stderr, "%.*s%s", AS_STR_FMT(as_buf_slice(text)),
                text->p[text->n - 1] == '\n' ? "" : "\n");
    as_buf_fini(text);
    return code;
}

int as_print_result(struct as_buf *text)
{
    fwrite(text->p, 1, text->n, stdout);
    as_buf_fini(text);
    return fflush(stdout) == 0 ? AS_EXIT_CODE_OK : AS_EXIT_CODE_FAILED;
}
