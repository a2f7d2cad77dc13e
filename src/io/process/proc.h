/* io/process/proc.h — child processes: start, watch, signal, reap.
 *
 * A child starts with exactly the descriptors that it is given (0, 1, 2 and 3 …), default signal
 * handling and an empty signal mask. Its pidfd becomes readable when it ends. With a death signal,
 * the thread that spawned the child must live as long as the child: Linux sends the signal when
 * that thread ends.
 */
#ifndef AS_IO_PROC_H
#define AS_IO_PROC_H

#include "io/process/cgroup.h"

#include <sys/types.h>

#define AS_PROC_FDS 96u

struct as_proc_spec {
    const char *path;        /* of the program; without a slash it is searched in $PATH */
    const char *const *argv; /* NULL-terminated */
    const char *const
        *env;         /* "NAME=value", added to our own environment; NULL-terminated, or NULL */
    int in, out, err; /* become 0, 1, 2; -1: /dev/null for in, our own for out and err */
    const int *fds;   /* become 3, 4, … */
    uint32_t n_fds;   /* at most AS_PROC_FDS */
    bool group;       /* a process group of its own, whose number is the pid */
    bool batch;       /* SCHED_BATCH, unless our own policy is not the default one */
    int death_signal; /* sent to the child when we die; 0: none */

    /* its limits, and where it runs; all are optional */
    const char *dir;  /* its working directory */
    const char *cpus; /* CPUs that it may run on, as "0-3,8" (as_proc_count_cpus checks it) */
    uint64_t memory;  /* limit of its data in bytes (RLIMIT_DATA): the system refuses it more */
    const struct as_cgroup *cgroup; /* it joins this group before exec; open while spawning */
};

struct as_proc {
    pid_t pid;
    int pidfd;
    bool group;
};

/* 0; AS_ENOTFOUND, AS_EDENIED, AS_EIO: the program could not be started, *ret_errno says why;
 * AS_EINVALID: `cpus` is not a list, or names no CPU that we may use. A missing directory is
 * reported in the same way as a missing program. */
int as_proc_spawn(struct as_proc *ret_p, const struct as_proc_spec *spec, int *ret_errno);
/* SIGKILL is sent to the whole group when the child has one; any other signal only to the process,
 * which ends its own children itself. Harmless after its end. */
void as_proc_signal(const struct as_proc *p, int signal);
/* After pidfd became readable: kills the rest of its group, reads the wait status and closes the
 * pidfd. 0; AS_EAGAIN: the child still runs. */
int as_proc_reap(struct as_proc *p, int *ret_status);
/* Blocks until it ends, reaps it and returns the wait status; for a child that was sent SIGKILL. */
int as_proc_wait(struct as_proc *p);

/* Reaps dead children that as_proc_spawn did not start: orphans that we inherit as process 1 of a
 * container. `ours` returns true for the pid of a struct as_proc, which its owner reaps. True: such
 * a child has ended and is not reaped yet; orphans may be behind it, for which no further SIGCHLD
 * comes, so this is to be called again when it was reaped. */
bool as_proc_reap_orphans(bool (*ours)(void *ctx, pid_t pid), void *ctx);

/* How many CPUs a list such as "0-3,8" names; 0: it is not a list, or a CPU is above 1023. */
uint32_t as_proc_count_cpus(const char *list);

/* A pidfd of `pid` if that is a child of `parent`, else -1; the caller closes it. For a process
 * that is not its parent and has to signal it later, when the pid may belong to another process. */
int as_proc_open_pidfd(pid_t pid, pid_t parent);
/* Sends SIGKILL to the group that `pid` leads, or led before it ended. With a pidfd of -1 only
 * while no process has that pid: the kernel does not reuse the number of a group that has members.
 */
void as_proc_kill_group(int pidfd, pid_t pid);

/* The first number of a line of /proc/PID/status; key: "\nUid:". -1: no such process, or no such
 * line. */
long as_proc_status_number(pid_t pid, const char *key);

/* Unix time in ms at which the process began; 0: there is none. */
int64_t as_proc_started_at(pid_t pid);

/* Reads a file that may tell no size, as those of /proc and of cgroups: at most cap - 1 bytes, and
 * a NUL. False: there is none, or it is empty, and the text is "". */
bool as_proc_read_file(const char *path, char *ret_text, size_t cap);

/* Is its main thread traced by a debugger? Then a timeout says nothing about its health. */
bool as_proc_is_traced(pid_t pid);

/* "exit code 3", "signal 11 (SIGSEGV)" */
const char *as_proc_describe(int status, char out[48]);

#endif
