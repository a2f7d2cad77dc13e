/* ctl/worker/interpreter.h — which Python runs the workers.
 *
 * In this order: --python, $ANYSERVE_PYTHON (set by the installed `anyserve` script),
 * $VIRTUAL_ENV/bin/python, python3 on the path. The first that is named is taken, not the first
 * that works: a silent fallback would run other packages than the user thinks.
 */
#ifndef AS_CTL_INTERPRETER_H
#define AS_CTL_INTERPRETER_H

struct as_interpreter {
    char *path;      /* as given, or a name for $PATH */
    const char *why; /* "--python", "$VIRTUAL_ENV" …: for messages */
};

void as_interpreter_choose(struct as_interpreter *ret_i, const char *option); /* option may be "" */
/* A relative path is meant from where we are, also for a process that starts elsewhere. */
void as_interpreter_make_absolute(struct as_interpreter *i);
void as_interpreter_fini(struct as_interpreter *i);

#endif
