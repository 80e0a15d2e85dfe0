// Q5_K: 5 bits; head as in Q4_K.
#pragma once
#include "unit.h"

struct Weight : SixBits<Bits<5>> {};
