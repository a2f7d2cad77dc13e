/* tests/unit/support/unit.h — cmocka with what it needs before it, for every unit test. */
#ifndef AS_TESTS_UNIT_H
#define AS_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
