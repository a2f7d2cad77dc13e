#include "core/stat.h"
