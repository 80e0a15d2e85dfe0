// Q4_1: 4 bits; head: d, m.
#pragma once
#include "unit.h"

struct Weight : Moved<Bits<4>> {};
