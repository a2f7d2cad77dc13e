/* io/process/proc.h — child processes: start, watch, signal, reap.
 *
 * A child starts with exactly the descriptors it is given (0, 1, 2 and 3 …), default signal
 * handling and an empty signal mask. The pidfd becomes readable when it ends. Thread: the one that
 * spawned must live as long as the child when a death signal is asked for (Linux binds the two).
 */
#ifndef AS_IO_PROCESS_PROC_H
#define AS_IO_PROCESS_PROC_H

#include "io/process/cgroup.h"

#include <sys/types.h>

#define AS_PROC_FDS 32u

struct as_proc_spec {
    const char *path;        /* of the program; without a slash it is looked up in $PATH */
    const char *const *argv; /* NULL-terminated */
    const char *const
        *env;         /* "NAME=value" on top of our own environment; NULL-terminated, or NULL */
    int in, out, err; /* become 0, 1, 2; -1: /dev/null for in, ours for out and err */
    const int *fds;   /* become 3, 4, … */
    uint32_t n_fds;   /* at most AS_PROC_FDS */
    bool group;       /* a process group of its own, whose number is the pid */
    bool batch;       /* SCHED_BATCH, unless we run by another policy than the usual one */
    int death_signal; /* sent to the child when we die; 0: none */

    /* what bounds it, and where it runs; all may be left out */
    const char *dir;  /* its working directory */
    const char *cpus; /* CPUs that it may run on, as "0-3,8" (as_proc_count_cpus checks it) */
    uint64_t memory;  /* bytes of data that it may have (RLIMIT_DATA); more is refused to it */
    const struct as_cgroup *cgroup; /* is in it before its first instruction; open while spawning */
};

struct as_proc {
    pid_t pid;
    int pidfd;
    bool group;
};

/* 0; AS_ENOTFOUND, AS_EDENIED, AS_EIO: the program could not be started, *ret_errno says why;
 * AS_EINVALID: `cpus` is no list, or names none that we may use. A directory that is not there is
 * told as a program that is not. */
int as_proc_spawn(struct as_proc *ret_p, const struct as_proc_spec *spec, int *ret_errno);
/* SIGKILL goes to the whole group when it has one; anything else to the process alone, which ends
 * its own children as it likes. Harmless after its end. */
void as_proc_signal(const struct as_proc *p, int signal);
/* After pidfd became readable: kills what is left of its group, then takes the wait status and
 * closes the pidfd. 0; AS_EAGAIN: it lives. */
int as_proc_reap(struct as_proc *p, int *ret_status);
/* Blocks until it ends, then reaps and returns the wait status; for a child that was sent SIGKILL.
 */
int as_proc_wait(struct as_proc *p);

/* Reaps dead children that as_proc_spawn did not start: orphans that we inherit as process 1 of a
 * container. `ours` tells which pids belong to somebody else's as_proc. */
void as_proc_reap_orphans(bool (*ours)(void *ctx, pid_t pid), void *ctx);

/* How many CPUs a list as "0-3,8" names; 0: it is none, or one is above 1023. */
uint32_t as_proc_count_cpus(const char *list);

/* For whoever is not its parent and has to signal it later: a number alone may be another process's
 * by then. A pidfd of `pid` if that is a child of `parent`, else -1; the caller closes it. */
int as_proc_open_pidfd(pid_t pid, pid_t parent);
/* SIGKILL to the group that it leads, or led and left others in. With -1 only while no process has
 * the number: a group keeps its own from being given away. */
void as_proc_kill_group(int pidfd, pid_t pid);

/* A debugger has its first thread: what it does not do says nothing about it. */
bool as_proc_is_traced(pid_t pid);

/* "exit code 3", "signal 11 (SIGSEGV)" */
const char *as_proc_describe(int status, char out[48]);

#endif
