// Q5_K: 5 bits; head as in Q4_K.
#pragma once
#include "unit.h"

struct Weight : Bits<5> {
    static constexpr u32 BLOCK = 256, HEAD = 16;
    static constexpr bool OFFSETS = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        six_bit_pairs(w, head, u);
    }
};
