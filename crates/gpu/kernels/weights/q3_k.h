// Q3_K: 3 bits around 4; head: 16 scales of 6 bits in 12 bytes, d.
#pragma once
#include "unit.h"

struct Weight : Bits<3, 4> {
    static constexpr u32 BLOCK = 256, HEAD = 14;
    static constexpr bool HALVES = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        float d = half_at(head + 12);
        for (u32 i = 0; i < 2; i++) {
            u32 g = 2 * u + i, low = head[g % 8] >> (g / 8 * 4) & 15, high = head[8 + g % 4] >> (g / 4 * 2) & 3;
            w.scale[i] = d * (float)((i32)(low | high << 4) - 32);
        }
    }
};
