// Any type that splits into codes in groups of 32 or more: 8 bits; head: a scale in f32.
#pragma once
#include "unit.h"

struct Weight : Floats<false, false> {};
