// IQ2_XS: points of 512 with signs; lo: four times 9 bits of number and 7 signs; head: eight pairs of 4-bit scales, d.
#pragma once
#include "grid_iq2_xs.h"
#include "unit.h"

struct Weight : Plain {
    static constexpr u32 BLOCK = 256, LO = 8, HI = 0, HEAD = 10;
    static constexpr bool SIGNED = true, HALVES = true;
    DEVICE void codes(u32* q, const u8* lo, const u8* hi, const u8* head, u32 u) {
        u32x2 w = *(const u32x2*)lo;
        for (u32 p = 0; p < 4; p++) {
            u32 code = w[p / 2] >> (p % 2 * 16) & 0xffff, signs = even_signs(code >> 9);
            u64 point = GRID[code & 511];
            q[2 * p] = with_signs((u32)point, signs);
            q[2 * p + 1] = with_signs((u32)(point >> 32), signs >> 4);
        }
    }
    DEVICE void scales(Unit& w, const u8* lo, const u8* hi, const u8* head, u32 u) {
        float d = half_at(head + 8);
        u32 pair = head[u];
        for (u32 i = 0; i < 2; i++) w.scale[i] = d * (0.5f + (float)(pair >> (4 * i) & 15)) * 0.25f;
    }
};
