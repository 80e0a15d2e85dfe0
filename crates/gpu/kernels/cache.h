// Caches of keys or values: pages of tokens, [page][head] with the numbers of one head at each of the page's tokens.
//
// A type says how the numbers of a token lie there: F16 one after the other; Q8 and Q4 as codes token by token, then a scale in f16 for
// each 32 numbers token by token. Codes and scales are those of Q8_0 and Q4_0; a word of Q4 has number i of its eight in the nibble
// i / 2 + i % 2 * 4, so that two come out at a time. Numbers of a head are a multiple of 8, with scales of 32.
//
//   bytes(width)                                of a token
//   eight(page, token, width, page_tokens, i)   numbers i to i + 7; i is a multiple of 8
//   two(page, token, width, page_tokens, i)     numbers i and i + 1; i is a multiple of 2
//   put(page, token, width, page_tokens, j, x)  writes numbers 32 j + lane, for a whole wave
#pragma once
#include "target.h"

struct F16 {
    DEVICE u64 bytes(u32 width) { return 2 * width; }
    DEVICE f16x8 eight(const u8* page, u32 token, u32 width, u32, u32 i) { return *(const f16x8*)(page + 2 * ((u64)token * width + i)); }
    DEVICE f32x2 two(const u8* page, u32 token, u32 width, u32, u32 i) {
        f16x2 both = *(const f16x2*)(page + 2 * ((u64)token * width + i));
        return f32x2{(float)both[0], (float)both[1]};
    }
    DEVICE void put(u8* page, u32 token, u32 width, u32, u32 j, float x) {
        u32 i = j * WAVE + lane();
        if (i < width) ((f16*)page)[(u64)token * width + i] = (f16)x;
    }
};

// Scales stand behind the page's codes.
DEVICE f16* scale_of(u8* page, u64 codes, u32 token, u32 width, u32 block) { return (f16*)(page + codes + ((u64)token * (width / 32) + block) * 2); }

struct Q8 {
    DEVICE u64 bytes(u32 width) { return width + width / 16; }
    DEVICE f16x8 eight(const u8* page, u32 token, u32 width, u32 page_tokens, u32 i) {
        u32x2 words = *(const u32x2*)(page + (u64)token * width + i);
        f16 scale = *scale_of((u8*)page, (u64)page_tokens * width, token, width, i / 32);
        f16x8 out;
        for (u32 j = 0; j < 8; j++) out[j] = (f16)(float)(i8)(words[j / 4] >> (j % 4 * 8)) * scale;
        return out;
    }
    DEVICE f32x2 two(const u8* page, u32 token, u32 width, u32 page_tokens, u32 i) {
        u32 word = read16(page + (u64)token * width + i);
        float scale = (float)*scale_of((u8*)page, (u64)page_tokens * width, token, width, i / 32);
        return f32x2{(float)(i8)word * scale, (float)(i8)(word >> 8) * scale};
    }
    DEVICE void put(u8* page, u32 token, u32 width, u32 page_tokens, u32 j, float x) {
        float scale = largest_over(__builtin_fabsf(x)) / 127.0f, inverse = scale != 0 ? 1.0f / scale : 0.0f;
        // Halves are rounded away from zero, as Q8_0 has it.
        page[(u64)token * width + j * WAVE + lane()] = (u8)(i8)(i32)__builtin_roundf(x * inverse);
        if (lane() == 0) *scale_of(page, (u64)page_tokens * width, token, width, j) = (f16)scale;
    }
};

struct Q4 {
    DEVICE u64 bytes(u32 width) { return width / 2 + width / 16; }
    DEVICE f16x8 eight(const u8* page, u32 token, u32 width, u32 page_tokens, u32 i) {
        u32 word = *(const u32*)(page + ((u64)token * width + i) / 2);
        f16 scale = *scale_of((u8*)page, (u64)page_tokens * width / 2, token, width, i / 32);
        f16x8 out;
        for (u32 j = 0; j < 4; j++) {
            // A nibble below 0x6400 is 1024 and as many.
            f16x2 pair = bits_as<f16x2>((word >> (4 * j) & 0x000f000f) | 0x64006400);
            out[2 * j] = (pair[0] - (f16)1032) * scale;
            out[2 * j + 1] = (pair[1] - (f16)1032) * scale;
        }
        return out;
    }
    DEVICE f32x2 two(const u8* page, u32 token, u32 width, u32 page_tokens, u32 i) {
        u32 word = *(const u32*)(page + ((u64)token * width + i / 8 * 8) / 2) >> (i % 8 * 2);
        float scale = (float)*scale_of((u8*)page, (u64)page_tokens * width / 2, token, width, i / 32);
        return f32x2{(float)((i32)(word & 15) - 8) * scale, (float)((i32)(word >> 16 & 15) - 8) * scale};
    }
    DEVICE void put(u8* page, u32 token, u32 width, u32 page_tokens, u32 j, float x) {
        // The number of the largest magnitude, the first of several, becomes -8.
        float largest = largest_over(__builtin_fabsf(x));
        u32 at = lowest_over(__builtin_fabsf(x) == largest ? lane() : WAVE - 1);
        float scale = bits_as<float>(from_lane(bits_as<u32>(x), at)) / -8.0f, inverse = scale != 0 ? 1.0f / scale : 0.0f;
        i32 code = (i32)(x * inverse + 8.5f);
        u32 i = lane() % 8, word = (u32)(code > 15 ? 15 : code) << ((i / 2 + i % 2 * 4) * 4);
        word |= exchanged<1>(word);
        word |= exchanged<2>(word);
        word |= exchanged<4>(word);
        if (i == 0) *(u32*)(page + ((u64)token * width + j * WAVE + lane()) / 2) = word;
        if (lane() == 0) *scale_of(page, (u64)page_tokens * width / 2, token, width, j) = (f16)scale;
    }
};

// Where the page of a head lies.
template <class T> DEVICE u8* page_of(const u8* cache, u64 page, u32 head, u32 heads, u32 width, u32 page_tokens) {
    return (u8*)cache + (page * heads + head) * page_tokens * T::bytes(width);
}
