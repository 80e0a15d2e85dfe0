// What a weight type says to the products: how 32 weights of a row, a unit, come out of its planes.
//
// A matrix lies in three planes, each row after row and each at a multiple of 128 bytes (crates/gpu/src/pack.rs): `lo` has LO bytes a
// unit, `hi` HI bytes a unit, `head` HEAD bytes for each BLOCK weights. A type is a struct `Weight` with these numbers and
//
//   codes(q, lo, hi, head, u)    32 bytes in order: w = (MUL code - BIAS) scale + offset
//   scales(unit, lo, hi, head, u)  scale and offset of the first and the last 16 (of all 32 without HALVES); u is the unit's place in its block
#pragma once
#include "../target.h"

struct Unit {
    u32 q[8];
    float scale[2];
    float offset[2];
};

DEVICE float half_at(const u8* p) { return (float)*(const f16*)p; }
DEVICE float half_of(u32 bits) { return (float)bits_as<f16>((u16)bits); }

// Codes of B bits in one or two planes of bits: in a plane of b bits, word i has in bits b k of its byte j the value 4 (n k + i) + j, n
// being the plane's words.
template <u32 b> DEVICE void plane(u32* q, const u8* p, u32 shift) {
    constexpr u32 words = b, ones = 0x01010101u * ((1u << b) - 1);
    u32 w[words];
    if constexpr (b == 1) w[0] = *(const u32*)p;
    if constexpr (b == 2) { u32x2 v = *(const u32x2*)p; w[0] = v.x; w[1] = v.y; }
    if constexpr (b == 4) { u32x4 v = *(const u32x4*)p; for (u32 i = 0; i < 4; i++) w[i] = v[i]; }
    for (u32 k = 0; k < 8 / words; k++)
        for (u32 i = 0; i < words; i++) q[words * k + i] |= (w[i] >> (b * k) & ones) << shift;
}

struct Plain {
    static constexpr u32 HI = 0, MUL = 1, BIAS = 0;
    static constexpr bool SIGNED = false, HALVES = false, OFFSETS = false;
};

template <u32 B, u32 bias = 0, u32 mul = 1> struct Bits : Plain {
    static constexpr u32 low = B >= 4 ? 4 : B >= 2 ? 2 : 1;
    static constexpr u32 LO = 4 * low, HI = 4 * (B - low), MUL = mul, BIAS = bias;
    DEVICE void codes(u32* q, const u8* lo, const u8* hi, const u8*, u32) {
        for (u32 i = 0; i < 8; i++) q[i] = 0;
        plane<low>(q, lo, 0);
        if constexpr (B - low == 1) plane<1>(q, hi, low);
        if constexpr (B - low == 2) plane<2>(q, hi, low);
    }
};

struct Bytes : Plain {
    static constexpr u32 LO = 32;
    static constexpr bool SIGNED = true;
    DEVICE void codes(u32* q, const u8* lo, const u8*, const u8*, u32) {
        u32x4 a = ((const u32x4*)lo)[0], b = ((const u32x4*)lo)[1];
        for (u32 i = 0; i < 4; i++) { q[i] = a[i]; q[4 + i] = b[i]; }
    }
};

// Codes of 4 bits that name one of 16 signed bytes, four to a word of T::LEVELS.
template <class T> struct Levels : Plain {
    static constexpr u32 LO = 16;
    static constexpr bool SIGNED = true;
    DEVICE void codes(u32* q, const u8* lo, const u8*, const u8*, u32) {
        u32 index[8] = {};
        plane<4>(index, lo, 0);
        for (u32 i = 0; i < 8; i++) {
            u32 low = index[i] & 0x07070707, high = (index[i] >> 3 & 0x01010101) * 255;
            u32 below = chosen_bytes(T::LEVELS[1], T::LEVELS[0], low), above = chosen_bytes(T::LEVELS[3], T::LEVELS[2], low);
            q[i] = (below & ~high) | (above & high);
        }
    }
};

// Levels of IQ4_NL, and of E2M1 doubled.
struct Uneven {
    static constexpr u32 LEVELS[4] = {0xbfad9881, 0xf6eaddcf, 0x26190d01, 0x71594535};
};
struct E2M1 {
    static constexpr u32 LEVELS[4] = {0x03020100, 0x0c080604, 0xfdfeff00, 0xf4f8fafc};
};

// Points of a grid: `magnitudes` with the sign of each byte whose bit of `signs` is set; no byte of a point is 0.
DEVICE u32 with_signs(u32 magnitudes, u32 signs) {
    u32 ones = (signs & 15) * 0x00204081 & 0x01010101;
    return (magnitudes ^ ones * 255) + ones;
}
// The eighth of seven signs makes their number even.
DEVICE u32 even_signs(u32 seven) { return (seven & 127) | (__builtin_popcount(seven & 127) & 1) << 7; }

// Scale and minimum u of the eight that Q4_K and Q5_K have in 16 bytes: d, dmin, 12 bytes of 6-bit numbers.
DEVICE void six_bit_pairs(Unit& w, const u8* head, u32 u) {
    u32x4 h = *(const u32x4*)head;
    u32 shift = u % 4 * 8, a = h[1] >> shift & 255, b = h[2] >> shift & 255, c = h[3] >> shift & 255;
    u32 scale = u < 4 ? a & 63 : (c & 15) | a >> 6 << 4;
    u32 least = u < 4 ? b & 63 : c >> 4 | b >> 6 << 4;
    w.scale[0] = half_of(h[0] & 0xffff) * (float)scale;
    w.offset[0] = -(half_of(h[0] >> 16) * (float)least);
}

// Heads that several types have. Codes with a scale for each `block` in f16.
template <class Codes, u32 block> struct Scaled : Codes {
    static constexpr u32 BLOCK = block, HEAD = 2;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32) { w.scale[0] = half_at(head); }
};

// With a scale and an offset for each 32 in f16.
template <class Codes> struct Moved : Codes {
    static constexpr u32 BLOCK = 32, HEAD = 4;
    static constexpr bool OFFSETS = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32) {
        u32 h = *(const u32*)head;
        w.scale[0] = half_of(h & 0xffff);
        w.offset[0] = half_of(h >> 16);
    }
};

// With scales and minima of 6 bits.
template <class Codes> struct SixBits : Codes {
    static constexpr u32 BLOCK = 256, HEAD = 16;
    static constexpr bool OFFSETS = true;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32 u) { six_bit_pairs(w, head, u); }
};

// Bytes with one or two scales in f32, then as many offsets where there are any.
template <bool halves, bool offsets> struct Floats : Bytes {
    static constexpr u32 BLOCK = 32, HEAD = 4 << (halves + offsets);
    static constexpr bool HALVES = halves, OFFSETS = offsets;
    DEVICE void scales(Unit& w, const u8*, const u8*, const u8* head, u32) {
        const float* f = (const float*)head;
        for (u32 i = 0; i < 1 + halves; i++) {
            w.scale[i] = f[i];
            if (offsets) w.offset[i] = f[1 + halves + i];
        }
    }
};

// A matrix of a type.
template <class W> struct Matrix {
    const u8 *lo, *hi, *head;
    u32 units;
    __attribute__((device, always_inline)) Matrix(const u8* base, u32 rows, u32 columns) : units(columns / 32) {
        u64 count = (u64)rows * units;
        lo = base;
        hi = lo + (count * W::LO + 127) / 128 * 128;
        head = hi + (count * W::HI + 127) / 128 * 128;
    }
    __attribute__((device, always_inline)) Unit unit(u32 row, u32 u) const {
        constexpr u32 per_block = W::BLOCK / 32;
        u64 at = (u64)row * units + u;
        u64 block = (u64)row * (units / per_block) + u / per_block;
        const u8* h = head + block * W::HEAD;
        Unit w;
        W::codes(w.q, lo + at * W::LO, hi + at * W::HI, h, u % per_block);
        W::scales(w, lo + at * W::LO, hi + at * W::HI, h, u % per_block);
        if (!W::HALVES) { w.scale[1] = w.scale[0]; w.offset[1] = w.offset[0]; }
        return w;
    }
};
