// IQ2_S: points of 1024 with signs; lo: low 8 bits of four numbers, 32 signs; head: eight bytes of their high 2 bits, eight pairs of 4-bit scales, d.
#pragma once
#include "grid_iq2_s.h"
#include "unit.h"

struct Weight : Plain {
    static constexpr u32 BLOCK = 256, LO = 8, HI = 0, HEAD = 18;
    static constexpr bool SIGNED = true, HALVES = true;
    DEVICE void codes(u32* q, const u8* lo, const u8* hi, const u8* head, u32 u) {
        u32x2 w = *(const u32x2*)lo;
        u32 high = head[u];
        for (u32 p = 0; p < 4; p++) {
            u32 signs = w.y >> (8 * p);
            u64 point = GRID[(w.x >> (8 * p) & 255) | (high >> (2 * p) & 3) << 8];
            q[2 * p] = with_signs((u32)point, signs);
            q[2 * p + 1] = with_signs((u32)(point >> 32), signs >> 4);
        }
    }
    DEVICE void scales(Unit& w, const u8* lo, const u8* hi, const u8* head, u32 u) {
        float d = half_at(head + 16);
        u32 pair = head[8 + u];
        for (u32 i = 0; i < 2; i++) w.scale[i] = d * (0.5f + (float)(pair >> (4 * i) & 15)) * 0.25f;
    }
};
