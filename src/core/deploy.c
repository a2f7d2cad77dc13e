#include "core/deploy.h"
