// As CODES_16 with two offsets.
#pragma once
#include "unit.h"

struct Weight : Floats<true, true> {};
