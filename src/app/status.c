#include "app/status.h"

#include "app/local.h"
#include "ctl/exit_code.h"
#include "io/runtime.h"

int as_status_main(const struct as_option_set *opts, const char *page)
{
    char target[64];
    struct as_local_request q = {.socket = AS_RUNTIME_STATUS, .method = "GET", .target = target};
    struct as_local_answer a;
    int code;

    snprintf(target, sizeof(target), "%s%s", page,
             as_option_bool(opts, AS_OPT_JSON) ? "" : "?format=text");
    code = as_local_ask(opts, &q, &a);
    if (code == AS_CODE_OK)
        code = as_local_print(&q, &a);
    as_local_fini(&a);
    return code;
}
