#include "io/process/server_processes.h"

#include "io/process/proc.h"
#include "io/process/process_ancestry.h"
#include "io/process/runtime.h"

#include <stdlib.h>
#include <unistd.h>

static void add_process(struct as_server_processes *f, const char *role, pid_t pid,
                        const struct as_process_ancestry_stat *s)
{
    if (f->n < AS_SERVER_PROCESSES_MAX)
        f->all[f->n++] = (struct as_server_processes_entry){
            role, pid, .is_stopped = s->state == 'T' || s->state == 't'};
}

void as_server_processes_read(struct as_server_processes *ret_f, const char *runtime_dir,
                              uint16_t port)
{
    pid_t supervisor = as_runtime_supervisor_pid(runtime_dir, port);
    char path[64], children[4096], *p = children, *end;
    struct as_process_ancestry_stat s;

    ret_f->n = 0;
    if (supervisor <= 0 || !as_runtime_is_running(runtime_dir, port) ||
        !as_process_ancestry_read(supervisor, &s))
        return;
    add_process(ret_f, "supervisor", supervisor, &s);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)supervisor, (int)supervisor);
    as_proc_read_file(path, children, sizeof(children));
    for (;; p = end) {
        pid_t pid = (pid_t)strtol(p, &end, 10);

        if (end == p)
            return;
        if (!as_process_ancestry_read(pid, &s))
            continue;
        if (strcmp(s.command, AS_SERVER_PROCESSES_DISPATCHER) == 0)
            add_process(ret_f, "dispatcher", pid, &s);
        else if (strcmp(s.command, AS_SERVER_PROCESSES_CONTROLLER) == 0)
            add_process(ret_f, "controller", pid, &s);
    }
}

void as_server_processes_put_name(const struct as_server_processes *f, const char *role,
                                  struct as_buf *out)
{
    as_buf_printf(out, "the %s", role);
    for (uint32_t i = 0; i < f->n; i++) {
        if (strcmp(f->all[i].role, role) == 0) {
            as_buf_printf(out, " (pid %d)", (int)f->all[i].pid);
            return;
        }
    }
}

bool as_server_processes_put_stopped(const struct as_server_processes *f, struct as_buf *out)
{
    bool any = false;

    for (uint32_t i = 0; i < f->n; i++) {
        const struct as_server_processes_entry *m = &f->all[i];

        if (!m->is_stopped)
            continue;
        as_buf_printf(out,
                      "\n  the %s (pid %d) is stopped by a signal or a debugger; continue it with: "
                      "kill -CONT %d",
                      m->role, (int)m->pid, (int)m->pid);
        any = true;
    }
    return any;
}
