// Q4_K: 4 bits; head: d, dmin, eight scales and minima of 6 bits.
#pragma once
#include "unit.h"

struct Weight : SixBits<Bits<4>> {};
