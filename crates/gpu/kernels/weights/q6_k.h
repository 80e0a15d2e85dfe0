// Q6_K: 6 bits around 32; head: 16 scales of 8 bits, d.
#pragma once
#include "unit.h"

struct Weight : Bits<6, 32> {
    static constexpr u32 BLOCK = 256, HEAD = 18;
    static constexpr bool HALVES = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        float d = half_at(head + 16);
        for (u32 i = 0; i < 2; i++) w.scale[i] = d * (float)(i8)head[2 * u + i];
    }
};
