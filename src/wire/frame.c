#include "wire/frame.h"
