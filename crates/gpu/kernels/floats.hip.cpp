// Products with matrices of plain numbers, and rows of them. Columns are not rounded. See linear.hip.cpp for the order of sums.
#include "target.h"

typedef u16 bf16;

DEVICE float number(float x) { return x; }
DEVICE float number(f16 x) { return (float)x; }
DEVICE float number(bf16 x) { return bits_as<float>((u32)x << 16); }

constexpr u32 ADD_ROWS = 1, ADD_COLUMNS = 2;
constexpr u32 THREADS = 128, CHUNK = 8;

// A wave has a row; a lane takes 8 numbers at a time. Rows begin where the ones before end, whatever their width.
template <class T, u32 N>
DEVICE void matvec(const T* weights, const float* x, const float* add, float* y, u32 rows, u32 width, u32 columns, u32 flags) {
    u32 row = group_x() * (THREADS / WAVE) + wave();
    if (row >= rows) return;
    const T* w = weights + (u64)row * width;
    float sums[N] = {};
    // Chunks are whole, and begin at multiples of their size, where the width is one.
    typedef T Chunk __attribute__((ext_vector_type(CHUNK)));
    bool whole = width % CHUNK == 0;
    for (u32 k = lane() * CHUNK; k < width; k += WAVE * CHUNK) {
        float part[CHUNK] = {};
        if (whole) {
            Chunk chunk = *(const Chunk*)(w + k);
            for (u32 i = 0; i < CHUNK; i++) part[i] = number((T)chunk[i]);
        } else {
            for (u32 i = 0; i < CHUNK; i++) part[i] = k + i < width ? number(w[k + i]) : 0.0f;
        }
        for (u32 c = 0; c < N; c++) {
            const float* from = x + (u64)smaller(c, columns - 1) * width + k;
            float numbers[CHUNK] = {};
            if (whole) {
                f32x4 first = ((const f32x4*)from)[0], last = ((const f32x4*)from)[1];
                for (u32 i = 0; i < 4; i++) { numbers[i] = first[i]; numbers[4 + i] = last[i]; }
            } else {
                for (u32 i = 0; i < CHUNK; i++) numbers[i] = k + i < width ? from[i] : 0.0f;
            }
            for (u32 i = 0; i < CHUNK; i++) sums[c] = __builtin_fmaf(part[i], numbers[i], sums[c]);
        }
    }
    for (u32 c = 0; c < N; c++) sums[c] = sum_over(sums[c]);
    if (lane() == 0)
        for (u32 c = 0; c < N; c++) {
            if (c >= columns) continue;
            u64 at = (u64)c * rows + row;
            float sum = sums[c];
            if (flags & ADD_ROWS) sum += add[row];
            if (flags & ADD_COLUMNS) sum += add[at];
            y[at] = sum;
        }
}

// For each choice of a token the product with its matrix, one of `matrices`: of the token's column, or with OWN of the choice's own. With
// GIVEN the matrix is given the column times the choice's share; with EVERY choice k is matrix k. A wave has a row, group_y is a choice.
constexpr u32 OWN = 4, GIVEN = 8, EVERY = 16;
template <class T>
DEVICE void experts(const T* weights, const float* x, const float* add, float* y, const u32* chosen, const float* shares, u32 rows, u32 width, u32 matrices, u32 choices, u32 flags) {
    u32 row = group_x() * (THREADS / WAVE) + wave(), choice = group_y();
    if (row >= rows) return;
    u32 of = (flags & EVERY ? choice % choices : smaller(chosen[choice], matrices - 1)) * rows + row;
    const T* w = weights + (u64)of * width;
    const float* from = x + (u64)(flags & OWN ? choice : choice / choices) * width;
    float sum = 0;
    for (u32 k = lane(); k < width; k += WAVE) sum = __builtin_fmaf(number(w[k]), from[k], sum);
    sum = sum_over(sum);
    if (flags & GIVEN) sum *= shares[choice];
    if (flags & ADD_ROWS) sum += add[of];
    if (lane() == 0) y[(u64)choice * rows + row] = sum;
}

#define MATVEC(NAME, T, N) \
    KERNEL(THREADS) void matvec_##NAME##_##N(const T* weights, const float* x, const float* add, float* y, u32 rows, u32 width, u32 columns, u32 flags) { \
        matvec<T, N>(weights, x, add, y, rows, width, columns, flags); \
    }
#define TYPE(NAME, T) \
    MATVEC(NAME, T, 1) \
    MATVEC(NAME, T, 2) \
    MATVEC(NAME, T, 4) \
    MATVEC(NAME, T, 8) \
    KERNEL(THREADS) void experts_##NAME(const T* weights, const float* x, const float* add, float* y, const u32* chosen, const float* shares, u32 rows, u32 width, u32 matrices, u32 choices, u32 flags) { \
        experts<T>(weights, x, add, y, chosen, shares, rows, width, matrices, choices, flags); \
    } \
    KERNEL(THREADS) void embed_##NAME(const T* weights, const u32* ids, float* y, u32 rows, u32 width) { \
        u64 from = (u64)smaller(ids[group_x()], rows - 1) * width, to = (u64)group_x() * width; \
        for (u32 i = thread(); i < width; i += THREADS) y[to + i] = number(weights[from + i]); \
    }
TYPE(f32, float)
TYPE(f16, f16)
TYPE(bf16, bf16)
