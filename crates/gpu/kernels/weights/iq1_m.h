// IQ1_M: ternary points of 2048 an eighth up or down; lo: low 8 bits of four numbers; head: 32 nibbles of their high 3 bits and the shift, 16 3-bit scales with the nibbles of d above each four.
#pragma once
#include "grid_iq1.h"
#include "unit.h"

struct Weight : Plain {
    static constexpr u32 BLOCK = 256, LO = 4, HI = 0, HEAD = 24, BIAS = 9;
    static constexpr bool HALVES = true;
    DEVICE void codes(u32* q, const u8* lo, const u8* hi, const u8* head, u32 u) {
        u32 w = *(const u32*)lo, high = read16(head + 2 * u);
        for (u32 p = 0; p < 4; p++) {
            u32 nibble = high >> (4 * p), shift = nibble >> 3 & 1 ? 0 : 0x02020202;
            u64 point = GRID[(w >> (8 * p) & 255) | (nibble & 7) << 8];
            q[2 * p] = (u32)point + shift;
            q[2 * p + 1] = (u32)(point >> 32) + shift;
        }
    }
    DEVICE void scales(Unit& w, const u8* lo, const u8* hi, const u8* head, u32 u) {
        u32x2 s = *(const u32x2*)(head + 16);
        u32 d = (s.x >> 12 & 15) | (s.x >> 28) << 4 | (s.y >> 12 & 15) << 8 | (s.y >> 28) << 12;
        u32 four = read16(head + 16 + u / 2 * 2);
        for (u32 i = 0; i < 2; i++) w.scale[i] = half_of(d) * (float)(2 * (four >> (u % 2 * 2 + i) * 3 & 7) + 1) * 0.125f;
    }
};
