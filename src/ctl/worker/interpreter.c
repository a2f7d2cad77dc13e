#include "ctl/worker/interpreter.h"

#include "base/buf.h"

#include <unistd.h>

void as_interpreter_choose(struct as_interpreter *ret_i, const char *option)
{
    /* $ANYSERVE_PYTHON is the interpreter that the package is installed for. It comes before an
     * active environment, since `anyserve` may belong to another one. */
    const char *script = getenv("ANYSERVE_PYTHON"), *venv = getenv("VIRTUAL_ENV");
    struct as_buf b = {0};

    if (option[0]) {
        as_buf_str(&b, option);
        ret_i->why = "--python";
    } else if (script && script[0]) {
        as_buf_str(&b, script);
        ret_i->why = "that of the anyserve command";
    } else if (venv && venv[0]) {
        as_buf_printf(&b, "%s/bin/python", venv);
        ret_i->why = "$VIRTUAL_ENV";
    } else {
        as_buf_str(&b, "python3");
        ret_i->why = "$PATH";
    }
    ret_i->path = as_str_dup(as_buf_slice(&b));
    as_buf_fini(&b);
}

void as_interpreter_make_absolute(struct as_interpreter *i)
{
    char cwd[4096];
    struct as_buf b = {0};

    if (i->path[0] == '/' || !strchr(i->path, '/') || !getcwd(cwd, sizeof(cwd)))
        return;
    as_buf_printf(&b, "%s/%s", cwd, i->path);
    free(i->path);
    i->path = as_str_dup(as_buf_slice(&b));
    as_buf_fini(&b);
}

void as_interpreter_fini(struct as_interpreter *i)
{
    free(i->path);
    i->path = NULL;
}
