// IQ1_S: ternary points of 2048 an eighth up or down; lo: low 8 bits of four numbers; head: eight times their high 3 bits, a 3-bit scale and the shift, d.
#pragma once
#include "grid_iq1.h"
#include "unit.h"

struct Weight : Plain {
    static constexpr u32 BLOCK = 256, LO = 4, HI = 0, HEAD = 18, BIAS = 9;
    DEVICE void codes(u32* q, const u8* lo, const u8* hi, const u8* head, u32 u) {
        u32 w = *(const u32*)lo, high = read16(head + 2 * u), shift = high >> 15 ? 0 : 0x02020202;
        for (u32 p = 0; p < 4; p++) {
            u64 point = GRID[(w >> (8 * p) & 255) | (high >> (3 * p) & 7) << 8];
            q[2 * p] = (u32)point + shift;
            q[2 * p + 1] = (u32)(point >> 32) + shift;
        }
    }
    DEVICE void scales(Unit& w, const u8* lo, const u8* hi, const u8* head, u32 u) {
        w.scale[0] = half_at(head + 16) * (float)(2 * (read16(head + 2 * u) >> 12 & 7) + 1) * 0.125f;
    }
};
