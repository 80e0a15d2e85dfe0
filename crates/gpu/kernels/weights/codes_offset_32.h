// As CODES_32 with an offset.
#pragma once
#include "unit.h"

struct Weight : Floats<false, true> {};
