// Q2_K: 2 bits; head: 16 pairs of a 4-bit scale and minimum, d, dmin.
#pragma once
#include "unit.h"

struct Weight : Bits<2> {
    static constexpr u32 BLOCK = 256, HEAD = 20;
    static constexpr bool HALVES = true, OFFSETS = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) {
        float d = half_at(head + 16), least = half_at(head + 18);
        for (u32 i = 0; i < 2; i++) {
            u32 pair = head[2 * u + i];
            w.scale[i] = d * (float)(pair & 15);
            w.offset[i] = -(least * (float)(pair >> 4));
        }
    }
};
