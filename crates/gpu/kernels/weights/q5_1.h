// Q5_1: 5 bits; head: d, m.
#pragma once
#include "unit.h"

struct Weight : Moved<Bits<5>> {};
