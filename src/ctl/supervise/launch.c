#include "ctl/supervise/launch.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* A control group bounds the memory of all processes of a worker together. Without one RLIMIT_DATA
 * bounds each process alone. */
static void limit_memory(struct as_launcher *l, const char *replica, uint64_t bytes,
                         struct as_cgroup *group, struct as_proc_spec *spec)
{
    char name[200];
    int e;

    snprintf(name, sizeof(name), "%u-%.100s", ++l->groups, replica);
    if (as_cgroup_open(group, "", name, bytes, &e) == 0) {
        spec->cgroup = group;
        if (!l->group_logged)
            as_log_event(l->log, AS_LOG_INFO, "memory_bound", "by=%s replica=%s group=\"%s\"",
                         group->v2 ? "memory.max" : "memory.limit_in_bytes", replica, group->path);
        l->group_logged = true;
        return;
    }
    spec->memory = bytes;
    if (!l->limit_logged)
        as_log_event(l->log, AS_LOG_INFO, "memory_bound", "by=RLIMIT_DATA replica=%s reason=\"%s\"",
                     replica, as_cgroup_strerror(e));
    l->limit_logged = true;
}

static void write_start_error(const struct as_spawn *s, int rc, int e, struct as_buf *err)
{
    if (s->dir && access(s->dir, X_OK) < 0)
        as_buf_printf(err, "cannot start in %s: %s\n", s->dir, strerror(errno));
    else if (s->cpus && rc == AS_EINVALID)
        as_buf_printf(err, "cannot run on the CPUs %s: %s\n", s->cpus, strerror(e));
    else
        as_buf_printf(err, "cannot start %s: %s\n", s->argv[0], strerror(e));
}

int as_launch(struct as_launcher *l, const char *name, const struct as_spawn *s, int in,
              const struct as_process_ops *ops, void *ctx, struct as_process **ret_p,
              struct as_buf *err)
{
    struct as_proc_spec spec = {.path = s->argv[0],
                                .argv = s->argv,
                                .env = s->env,
                                .in = l->terminal ? 0 : in,
                                .out = -1,
                                .err = -1,
                                .group = !l->terminal,
                                .batch = s->batch,
                                .dir = s->dir,
                                .cpus = s->cpus,
                                .death_signal = SIGKILL};
    struct as_cgroup group = {.procs = -1};
    int e, rc;

    if (s->memory)
        limit_memory(l, name, s->memory, &group, &spec);
    rc = as_process_start(ret_p, l->loop, &spec, !l->terminal, l->oom_seen, ops, ctx, &e);
    if (rc < 0) {
        as_cgroup_close(&group);
        write_start_error(s, rc, e, err);
    } else {
        as_process_set_cgroup(*ret_p, &group);
    }
    return rc;
}
