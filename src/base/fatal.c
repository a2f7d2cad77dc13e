#include "base/fatal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*tidy_up)(void *ctx);
static void *tidy_ctx;

void as_fatal_tidy(void (*tidy)(void *ctx), void *ctx)
{
    tidy_up = tidy;
    tidy_ctx = ctx;
}

void as_fatal_tidy_now(void)
{
    void (*tidy)(void *ctx) = tidy_up;

    tidy_up = NULL; /* it may fail itself */
    if (tidy)
        tidy(tidy_ctx);
}

__attribute__((noreturn)) static void end(void)
{
    as_fatal_tidy_now();
    _Exit(AS_EXIT_SYSTEM); /* other threads run on: nothing of theirs is torn down */
}

void as_fatal_memory(size_t n)
{
    fprintf(stderr, "anyserve: out of memory (%zu bytes)\n", n);
    end();
}

void as_fatal_system(const char *what, int e)
{
    fprintf(stderr, "anyserve: the system refused %s: %s\n", what, strerror(e));
    end();
}
