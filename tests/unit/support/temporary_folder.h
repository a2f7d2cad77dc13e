/* A folder below /tmp for one test: setup and teardown. */
#ifndef AS_TEST_TEMPORARY_FOLDER_H
#define AS_TEST_TEMPORARY_FOLDER_H

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

static char temporary_folder[64];

/* 0; -1: it cannot be made. */
static int make_temporary_folder(void)
{
    snprintf(temporary_folder, sizeof(temporary_folder), "/tmp/as_unit_XXXXXX");
    return mkdtemp(temporary_folder) ? 0 : -1;
}

static int remove_temporary_folder(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", temporary_folder);
    return system(command);
}

#endif
