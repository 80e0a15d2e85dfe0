// Q4_K: 4 bits; head: d, dmin, eight scales and minima of 6 bits.
#pragma once
#include "unit.h"

struct Weight : Bits<4> {
    static constexpr u32 BLOCK = 256, HEAD = 16;
    static constexpr bool OFFSETS = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        six_bit_pairs(w, head, u);
    }
};
