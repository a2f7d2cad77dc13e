/* ctl/worker/interpreter.h — chooses the Python that runs the workers.
 *
 * In this order: --python, $ANYSERVE_PYTHON (set by the installed `anyserve` script),
 * $VIRTUAL_ENV/bin/python, python3 on the path. The first one that is set is used, whether it works
 * or not: a silent fallback would run other packages than the user expects.
 */
#ifndef AS_CTL_INTERPRETER_H
#define AS_CTL_INTERPRETER_H

struct as_interpreter {
    char *path;      /* as given, or a name to be found in $PATH */
    const char *why; /* where it comes from, for messages: "--python", "$VIRTUAL_ENV" … */
};

void as_interpreter_choose(struct as_interpreter *ret_i, const char *option); /* option may be "" */
/* Makes a relative path absolute, for processes that start in another folder. */
void as_interpreter_make_absolute(struct as_interpreter *i);
void as_interpreter_fini(struct as_interpreter *i);

#endif
