#include "base/defs.h"
extern int as_ctl_stub; int as_ctl_stub;
