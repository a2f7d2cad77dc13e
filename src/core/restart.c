#include "core/restart.h"
