#include "ctl/worker/interpreter.h"

#include "base/str.h"

#include <unistd.h>

void as_interpreter_choose(struct as_interpreter *ret_i, const char *option)
{
    /* $ANYSERVE_PYTHON is the interpreter that the package is installed for. It comes before an
     * active environment, since `anyserve` may belong to another one. */
    const char *script = getenv("ANYSERVE_PYTHON"), *venv = getenv("VIRTUAL_ENV");

    if (option[0]) {
        ret_i->path = as_str_dup(as_str_of(option));
        ret_i->why = "--python";
    } else if (script && script[0]) {
        ret_i->path = as_str_dup(as_str_of(script));
        ret_i->why = "that of the anyserve command";
    } else if (venv && venv[0]) {
        ret_i->path = as_str_format("%s/bin/python", venv);
        ret_i->why = "$VIRTUAL_ENV";
    } else {
        ret_i->path = as_str_dup(AS_STR("python3"));
        ret_i->why = "$PATH";
    }
}

void as_interpreter_make_absolute(struct as_interpreter *i)
{
    char cwd[4096];
    char *given = i->path;

    if (i->path[0] == '/' || !strchr(i->path, '/') || !getcwd(cwd, sizeof(cwd)))
        return;
    i->path = as_str_format("%s/%s", cwd, given);
    free(given);
}

void as_interpreter_fini(struct as_interpreter *i)
{
    free(i->path);
    i->path = NULL;
}
