#include "base/defs.h"
extern int as_io_stub; int as_io_stub;
