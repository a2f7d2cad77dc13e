#include "base/fatal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*cleanup)(void *ctx);
static void *cleanup_ctx;

void as_fatal_set_cleanup(void (*cleanup_fn)(void *ctx), void *ctx)
{
    cleanup = cleanup_fn;
    cleanup_ctx = ctx;
}

void as_fatal_run_cleanup(void)
{
    void (*cleanup_fn)(void *ctx) = cleanup;

    cleanup = NULL; /* it may end up here itself */
    if (cleanup_fn)
        cleanup_fn(cleanup_ctx);
}

__attribute__((noreturn)) static void exit_system(void)
{
    as_fatal_run_cleanup();
    _Exit(AS_EXIT_SYSTEM); /* no atexit handlers: other threads still use what those tear down */
}

void as_fatal_memory(size_t n)
{
    fprintf(stderr, "anyserve: out of memory (%zu bytes)\n", n);
    exit_system();
}

void as_fatal_system(const char *what, int e)
{
    fprintf(stderr, "anyserve: the system refused %s: %s\n", what, strerror(e));
    exit_system();
}
