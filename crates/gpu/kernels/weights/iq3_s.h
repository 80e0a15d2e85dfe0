// IQ3_S: points of 512 with signs; lo: low 8 bits of eight numbers; hi: 32 signs; head: eight bytes of their high bit, eight 4-bit scales, d.
#pragma once
#include "grid_iq3_s.h"
#include "unit.h"

struct Weight : Plain {
    static constexpr u32 BLOCK = 256, LO = 8, HI = 4, HEAD = 14;
    static constexpr bool SIGNED = true;
    DEVICE void codes(u32* q, const u8* lo, const u8* hi, const u8* head, u32 u) {
        u32x2 w = *(const u32x2*)lo;
        u32 signs = *(const u32*)hi, high = head[u];
        for (u32 p = 0; p < 8; p++) q[p] = with_signs(GRID[(w[p / 4] >> (p % 4 * 8) & 255) | (high >> p & 1) << 8], signs >> (4 * p));
    }
    DEVICE void scales(Unit& w, const u8* lo, const u8* hi, const u8* head, u32 u) {
        w.scale[0] = half_at(head + 12) * (float)(2 * (head[8 + u / 2] >> (u % 2 * 4) & 15) + 1);
    }
};
