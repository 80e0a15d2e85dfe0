// TQ1_0: trits, spread to 2 bits; head: d.
#pragma once
#include "unit.h"

struct Weight : Scaled<Bits<2, 1>, 256> {};
