// Products with a matrix of one weight type (WEIGHT names its header), and rows of it as numbers.
//
// y[c, r] = sum_k w[r, k] x[c, k], columns being rounded as in columns.h. Each sum has one order whatever the number of columns:
// a lane adds up every 32nd unit of 32 weights, then lanes are added in pairs.
#include WEIGHT
#include "functions.h"
#include "norm.h"

// What is added to a product.
constexpr u32 ADD_ROWS = 1;    // `add` has a number for each row: a bias
constexpr u32 ADD_COLUMNS = 2; // `add` is as large as y: a residual stream, which may be y itself

template <class W> DEVICE float term(const Unit& w, const u32x4& a, const u32x4& b, const Step& step, float sum) {
    i32 first = 0, last = 0;
    for (u32 i = 0; i < 4; i++) first = dot4<W::SIGNED>(w.q[i], a[i], first);
    for (u32 i = 0; i < 4; i++) last = dot4<W::SIGNED>(w.q[4 + i], b[i], last);
    i32 s0 = step.sums[0], s1 = step.sums[1];
    if (!W::HALVES) { first += last; s0 += s1; }
    constexpr i32 mul = W::MUL, bias = W::BIAS;
    sum = __builtin_fmaf(w.scale[0] * step.scale, (float)(mul * first - bias * s0), sum);
    if (W::OFFSETS) sum = __builtin_fmaf(w.offset[0] * step.scale, (float)s0, sum);
    if (W::HALVES) {
        sum = __builtin_fmaf(w.scale[1] * step.scale, (float)(mul * last - bias * s1), sum);
        if (W::OFFSETS) sum = __builtin_fmaf(w.offset[1] * step.scale, (float)s1, sum);
    }
    return sum;
}

DEVICE void put(float sum, const float* add, float* y, u32 row, u64 at, u32 flags) {
    if (flags & ADD_ROWS) sum += add[row];
    if (flags & ADD_COLUMNS) sum += add[at];
    y[at] = sum;
}

// A wave has two rows, a workgroup 2 * MATVEC_THREADS / 32; up to N columns.
constexpr u32 MATVEC_THREADS = 128, MATVEC_ROWS = 2;

template <class W, u32 N>
DEVICE void matvec(const u8* weights, const u8* codes, const Step* steps, const float* add, float* y, u32 rows, u32 width, u32 columns, u32 flags) {
    u32 row = (group_x() * (MATVEC_THREADS / WAVE) + wave()) * MATVEC_ROWS;
    if (row >= rows) return;
    u32 next = smaller(row + 1, rows - 1);
    Matrix<W> m(weights, rows, width);
    float sums[MATVEC_ROWS][N] = {};
    for (u32 u = lane(); u < m.units; u += WAVE) {
        Unit first = m.unit(row, u), second = m.unit(next, u);
        for (u32 c = 0; c < N; c++) {
            u64 block = (u64)smaller(c, columns - 1) * m.units + u;
            const u32x4* x = (const u32x4*)(codes + block * 32);
            u32x4 a = x[0], b = x[1];
            Step step = steps[block];
            sums[0][c] = term<W>(first, a, b, step, sums[0][c]);
            sums[1][c] = term<W>(second, a, b, step, sums[1][c]);
        }
    }
    for (u32 c = 0; c < N; c++)
        for (u32 r = 0; r < MATVEC_ROWS; r++) sums[r][c] = sum_over(sums[r][c]);
    if (lane() == 0)
        for (u32 c = 0; c < N; c++)
            for (u32 r = 0; r < MATVEC_ROWS; r++)
                if (c < columns && row + r < rows) put(sums[r][c], add, y, row + r, (u64)c * rows + row + r, flags);
}

#define MATVEC(N) \
    KERNEL(MATVEC_THREADS) void matvec_##N(const u8* weights, const u8* codes, const Step* steps, const float* add, float* y, u32 rows, u32 width, u32 columns, u32 flags) { \
        matvec<Weight, N>(weights, codes, steps, add, y, rows, width, columns, flags); \
    }
MATVEC(1)
MATVEC(2)
MATVEC(4)
MATVEC(8)

// A product with what stands around it in a plan, in one packet. The flags beside ADD_ROWS and ADD_COLUMNS:
constexpr u32 GLU = 4;     // a matrix has `rows` rows of gates, then `rows` that they gate: y = gated_by(gate x, up x)
constexpr u32 ROUND = 8;   // y is rounded to out_codes and out_steps as well: by the wave that completes 32 rows
constexpr u32 NORM = 16;   // its RMS norm, times norm_weight, is rounded so: by the workgroup that completes y
constexpr u32 EACH = 32;   // group_y is a choice of a token: one matrix of many, and the token's column. ROUND and ADD_ROWS as well
constexpr u32 ALL = 64;    // group_y is a token: the sum over its choices, each with a column of its own, times their shares
constexpr u32 GIVEN = 128; // with EACH: what the matrix is given, not what comes of it, is multiplied with the share
constexpr u32 APART = 256; // with EACH: the choice has a column of its own
constexpr u32 EVERY = 512; // with EACH: choice k of a token is matrix k, and `chosen` is not read
// `counters` are zero before and after: with ROUND one for each 32 rows of each group_y, with NORM one. Waves have two rows, with GLU one.
template <class W, u32 N>
DEVICE void fused(const u8* weights, const u8* codes, const Step* steps, const float* add, float* y, const u32* chosen, const float* shares, const float* norm_weight, u32* out_codes, Step* out_steps, u32* counters, u32 rows, u32 width, u32 columns, u32 flags, u32 matrices, u32 choices, u32 function, float limit, float offset, float eps) {
    SHARED float parts[MATVEC_THREADS / WAVE];
    SHARED u32 is_last;
    bool glu = flags & GLU;
    u32 per_wave = glu ? 1 : MATVEC_ROWS;
    u32 row = (group_x() * (MATVEC_THREADS / WAVE) + wave()) * per_wave, which = group_y();
    bool live = row < rows;
    row = smaller(row, rows - 1);
    Matrix<W> m(weights, matrices * (glu ? 2 * rows : rows), width);
    // Lane c finishes column c.
    float totals[MATVEC_ROWS] = {};
    for (u32 k = 0; k < (N == 1 && flags & ALL ? choices : 1); k++) {
        u32 base = 0, column = 0;
        float share = 1;
        if (N == 1 && flags & (EACH | ALL)) {
            u32 pair = flags & ALL ? which * choices + k : which;
            base = uniform(flags & EVERY ? pair % choices : smaller(chosen[pair], matrices - 1)) * (glu ? 2 * rows : rows);
            column = flags & (ALL | APART) ? pair : which / choices;
            share = flags & (ALL | GIVEN) ? shares[pair] : 1;
        }
        u32 first_row = base + row, next_row = glu ? first_row + rows : base + smaller(row + 1, rows - 1);
        float sums[MATVEC_ROWS][N] = {};
        for (u32 u = lane(); u < m.units; u += WAVE) {
            Unit first = m.unit(first_row, u), second = m.unit(next_row, u);
            for (u32 c = 0; c < N; c++) {
                u64 block = (u64)(column + smaller(c, columns - 1)) * m.units + u;
                const u32x4* x = (const u32x4*)(codes + block * 32);
                u32x4 a = x[0], b = x[1];
                Step step = steps[block];
                sums[0][c] = term<W>(first, a, b, step, sums[0][c]);
                sums[1][c] = term<W>(second, a, b, step, sums[1][c]);
            }
        }
        for (u32 r = 0; r < MATVEC_ROWS; r++) {
            float mine = 0;
            for (u32 c = 0; c < N; c++) {
                float sum = sum_over(sums[r][c]);
                if (lane() == c) mine = sum;
            }
            if (N == 1 && flags & GIVEN) mine *= share;
            if (flags & ADD_ROWS) mine += add[r ? next_row : first_row];
            totals[r] = N == 1 && flags & ALL ? __builtin_fmaf(share, mine, totals[r]) : mine;
        }
    }
    if (live && lane() < columns) {
        u64 at = (u64)(which + lane()) * rows + row;
        if (glu) totals[0] = gated_by(function, limit, offset, totals[0], totals[1]);
        for (u32 r = 0; r < per_wave; r++)
            if (row + r < rows) y[at + r] = totals[r] + (flags & ADD_COLUMNS ? add[at + r] : 0.0f);
    }
    if (flags & ROUND && live) {
        u32* counter = counters + which * (rows / 32) + row / 32;
        release();
        u32 before = 0;
        if (lane() == 0) before = add_at_once(counter, 1);
        if (uniform(before) != 32 / per_wave - 1) return;
        acquire();
        if (lane() == 0) *counter = 0;
        for (u32 c = lane() / 8; c < columns; c += WAVE / 8) {
            u64 at = (u64)(which + c) * rows + row / 32 * 32;
            round_block(((const f32x4*)(y + at))[lane() % 8], at / 32, out_codes, out_steps);
        }
    }
    if (flags & NORM) {
        release();
        barrier();
        u32 groups = (rows + per_wave * (MATVEC_THREADS / WAVE) - 1) / (per_wave * (MATVEC_THREADS / WAVE));
        if (thread() == 0) {
            is_last = add_at_once(counters, 1) == groups - 1;
            if (is_last) *counters = 0;
        }
        barrier();
        if (!is_last) return;
        acquire();
        for (u32 c = 0; c < columns; c++) normalise<MATVEC_THREADS>(y, norm_weight, norm_weight, y, out_codes, out_steps, c, rows, 1, eps, WEIGHTED | ONLY_ROUNDED, parts);
    }
}

#define FUSED(N) \
    KERNEL(MATVEC_THREADS) void fused_##N(const u8* weights, const u8* codes, const Step* steps, const float* add, float* y, const u32* chosen, const float* shares, const float* norm_weight, u32* out_codes, Step* out_steps, u32* counters, \
        u32 rows, u32 width, u32 columns, u32 flags, u32 matrices, u32 choices, u32 function, float limit, float offset, float eps) { \
        fused<Weight, N>(weights, codes, steps, add, y, chosen, shares, norm_weight, out_codes, out_steps, counters, rows, width, columns, flags, matrices, choices, function, limit, offset, eps); \
    }
FUSED(1)
FUSED(2)
FUSED(4)
FUSED(8)

// Tiles of 64 rows and 64 columns, 32 numbers deep; a wave has 16 rows of a tile. Rows and columns beyond the end repeat the last.
constexpr u32 TILE = 64, TILE_THREADS = 128, STRIDE = 48;

// What a tile of experts is: one matrix of many, and the tokens' choices of it as moe.hip.cpp, `group`, has put them into order.
struct Grouped {
    const u32* order;
    const float* shares;
    u32 matrix, first, choices;
};

template <class W, bool EXPERTS>
DEVICE void matmul(const u8* weights, const u8* codes, const Step* steps, const float* add, float* y, u32 all_rows, u32 rows, u32 width, u32 columns, u32 flags, Grouped g) {
    SHARED u8 w_codes[TILE * STRIDE], x_codes[TILE * STRIDE];
    SHARED float scales[2][TILE], offsets[2][TILE];
    SHARED Step x_steps[TILE];
    u32 first_row = group_x() * TILE, first_column = EXPERTS ? 0 : group_y() * TILE;
    Matrix<W> m(weights, all_rows, width);
    // Half of the threads bring a unit of weights, half a block of a column.
    u32 mine = thread() % TILE;
    bool brings_weights = thread() < TILE;
    u32 row = smaller(first_row + mine, rows - 1), column = smaller(first_column + mine, columns - 1);
    if (EXPERTS) {
        row += g.matrix * rows;
        column = g.order[g.first + column];
        if (flags & EACH) column /= g.choices;
    }
    u32 half = lane() / 16, at = lane() % 16;
    f32x8 sums[TILE / 16] = {};
    for (u32 u = 0; u < m.units; u++) {
        if (brings_weights) {
            Unit unit = m.unit(row, u);
            u32x4* to = (u32x4*)(w_codes + mine * STRIDE);
            to[0] = u32x4{unit.q[0], unit.q[1], unit.q[2], unit.q[3]};
            to[1] = u32x4{unit.q[4], unit.q[5], unit.q[6], unit.q[7]};
            for (u32 i = 0; i < 2; i++) {
                scales[i][mine] = unit.scale[i];
                if (W::OFFSETS) offsets[i][mine] = unit.offset[i];
            }
        } else {
            u64 block = (u64)column * m.units + u;
            const u32x4* from = (const u32x4*)(codes + block * 32);
            u32x4* to = (u32x4*)(x_codes + mine * STRIDE);
            to[0] = from[0];
            to[1] = from[1];
            x_steps[mine] = steps[block];
        }
        barrier();
        const i32x4* a = (const i32x4*)(w_codes + (wave() * 16 + at) * STRIDE);
        i32x4 a0 = a[0], a1 = a[1];
        for (u32 t = 0; t < TILE / 16; t++) {
            const i32x4* b = (const i32x4*)(x_codes + (t * 16 + at) * STRIDE);
            Step step = x_steps[t * 16 + at];
            i32 s0 = step.sums[0], s1 = step.sums[1];
            i32x8 d0 = multiply16<W::SIGNED>(a0, b[0], i32x8{}), d1;
            if (W::HALVES) {
                d1 = multiply16<W::SIGNED>(a1, b[1], i32x8{});
            } else {
                d0 = multiply16<W::SIGNED>(a1, b[1], d0);
                s0 += s1;
            }
            constexpr i32 mul = W::MUL, bias = W::BIAS;
            for (u32 i = 0; i < 8; i++) {
                u32 r = wave() * 16 + 2 * i + half;
                float sum = __builtin_fmaf(scales[0][r] * step.scale, (float)(mul * d0[i] - bias * s0), sums[t][i]);
                if (W::OFFSETS) sum = __builtin_fmaf(offsets[0][r] * step.scale, (float)s0, sum);
                if (W::HALVES) {
                    sum = __builtin_fmaf(scales[1][r] * step.scale, (float)(mul * d1[i] - bias * s1), sum);
                    if (W::OFFSETS) sum = __builtin_fmaf(offsets[1][r] * step.scale, (float)s1, sum);
                }
                sums[t][i] = sum;
            }
        }
        barrier();
    }
    for (u32 t = 0; t < TILE / 16; t++) {
        u32 c = first_column + t * 16 + at;
        u32 column = EXPERTS && c < columns ? g.order[g.first + c] : c;
        float share = EXPERTS && flags & GIVEN && c < columns ? g.shares[column] : 1;
        for (u32 i = 0; i < 8; i++) {
            u32 r = first_row + wave() * 16 + 2 * i + half;
            if (r >= rows || c >= columns) continue;
            if (EXPERTS) put(sums[t][i] * share, add + (flags & ADD_ROWS ? g.matrix * rows : 0), y, r, (u64)column * rows + r, flags);
            else put(sums[t][i], add, y, r, (u64)c * rows + r, flags);
        }
    }
}

KERNEL(TILE_THREADS) void matmul(const u8* weights, const u8* codes, const Step* steps, const float* add, float* y, u32 rows, u32 width, u32 columns, u32 flags) {
    matmul<Weight, false>(weights, codes, steps, add, y, rows, rows, width, columns, flags, Grouped{});
}

// For each choice of `order` the product with its matrix, of `matrices`: with EACH of the token's column, else of the choice's own.
// A workgroup has a tile of rows and one of `tiles`, which `tiles[0]` counts: matrix, first place in `order`, number of columns.
KERNEL(TILE_THREADS) void matmul_experts(const u8* weights, const u8* codes, const Step* steps, const float* add, float* y, const u32* order, const u32* tiles, const float* shares, u32 rows, u32 width, u32 matrices, u32 choices, u32 flags) {
    if (group_y() >= tiles[0]) return;
    const u32* tile = tiles + 1 + 3 * group_y();
    matmul<Weight, true>(weights, codes, steps, add, y, matrices * rows, rows, width, tile[2], flags, Grouped{order, shares, tile[0], tile[1], choices});
}

// Row `ids[t]` of the matrix as numbers, in row t: the embedding. A workgroup has a row.
KERNEL(128) void embed(const u8* weights, const u32* ids, float* y, u32 rows, u32 width) {
    Matrix<Weight> m(weights, rows, width);
    u32 t = group_x(), row = uniform(smaller(ids[t], rows - 1));
    for (u32 u = thread(); u < m.units; u += 128) {
        Unit w = m.unit(row, u);
        f32x4* to = (f32x4*)(y + (u64)t * width + u * 32);
        for (u32 i = 0; i < 8; i++) {
            f32x4 numbers;
            for (u32 j = 0; j < 4; j++) {
                u32 byte = w.q[i] >> (8 * j) & 255;
                i32 code = Weight::SIGNED ? (i32)(i8)byte : (i32)(Weight::MUL * byte) - (i32)Weight::BIAS;
                numbers[j] = (float)code * w.scale[i / 4];
                if (Weight::OFFSETS) numbers[j] += w.offset[i / 4];
            }
            to[i] = numbers;
        }
    }
}
