#include "tool/fault.h"

#include "base/err.h"
#include "conf/option/exit_code.h"

static const char *code_name(int code)
{
    switch (code) {
    case AS_EXIT_CODE_USAGE:
        return "USAGE";
    case AS_EXIT_CODE_NOT_FOUND:
        return "FILE";
    default:
        return "FAILED";
    }
}

void as_fault_write(struct as_buf *b, const char *command, int code, struct as_str text, bool json)
{
    uint32_t n = code > AS_EXIT_CODE_STATUS ? (uint32_t)(code - AS_EXIT_CODE_STATUS) : 0;
    const char *status = n ? as_grpc_status_name(n) : NULL;

    if (!json) {
        as_buf_printf(b, "anyserve %s: %s%s%.*s\n", command, status ? status : "",
                      status && text.n ? ": " : "", AS_STR_FMT(text));
        return;
    }
    as_buf_printf(b, "{\"error\":{\"code\":\"%s\",\"exit_code\":%d,\"message\":",
                  status ? status : code_name(code), code);
    as_buf_json(b, text);
    as_buf_str(b, "}}\n");
}
