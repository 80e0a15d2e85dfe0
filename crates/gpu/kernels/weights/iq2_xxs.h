// IQ2_XXS: points of 256 with signs; lo: four numbers, four times 7 signs and a 4-bit scale; head: d.
#pragma once
#include "grid_iq2_xxs.h"
#include "unit.h"

struct Weight : Plain {
    static constexpr u32 BLOCK = 256, LO = 8, HI = 0, HEAD = 2;
    static constexpr bool SIGNED = true;
    DEVICE void codes(u32* q, const u8* lo, const u8* hi, const u8* head, u32 u) {
        u32x2 w = *(const u32x2*)lo;
        for (u32 p = 0; p < 4; p++) {
            u32 signs = even_signs(w.y >> (7 * p));
            u64 point = GRID[w.x >> (8 * p) & 255];
            q[2 * p] = with_signs((u32)point, signs);
            q[2 * p + 1] = with_signs((u32)(point >> 32), signs >> 4);
        }
    }
    DEVICE void scales(Unit& w, const u8* lo, const u8* hi, const u8* head, u32 u) {
        w.scale[0] = half_at(head) * (0.5f + (float)(((const u32*)lo)[1] >> 28)) * 0.25f;
    }
};
