#include "base/defs.h"
