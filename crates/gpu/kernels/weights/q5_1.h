// Q5_1: 5 bits; head: d, m.
#pragma once
#include "unit.h"

struct Weight : Bits<5> {
    static constexpr u32 BLOCK = 32, HEAD = 4;
    static constexpr bool OFFSETS = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        u32 h = *(const u32*)head;
        w.scale[0] = half_of(h & 0xffff);
        w.offset[0] = half_of(h >> 16);
    }
};
