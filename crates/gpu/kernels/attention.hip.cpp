// Attention of queries over keys and values in pages of f16 (rope.hip.cpp, `append`).
//
// A workgroup has a token, a key/value head with up to 8 of the query heads that share it, and a part of SPLIT keys. Its waves take
// tiles of 32 keys in turn: a lane has a key for the scores, and a pair of numbers for the sum of values. The softmax is kept as it
// goes along (Milakov and Gimelshein 2018, arXiv:1805.02867), and waves, then parts, are joined at the end in a fixed order, so that a
// token's result depends on its own keys alone.
#include "target.h"

constexpr u32 THREADS = 128, WAVES = THREADS / WAVE, SPLIT = 512, HEADS = 8;
constexpr float NONE = -3.0e38f;

struct Shape {
    u32 heads, kv_heads, key, value, page_tokens, most_pages;
    float scale, softcap;
};

DEVICE float scored(float dot, const Shape& s) {
    float score = dot * s.scale;
    if (s.softcap == 0) return score;
    float e = exponential(-2.0f * __builtin_fabsf(score / s.softcap));
    return __builtin_copysignf(s.softcap * (1.0f - e) / (1.0f + e), score);
}

// MOST is the largest number of a head's values; a multiple of 64.
template <u32 MOST>
DEVICE void attend(const float* q, const f16* keys, const f16* values, const u32* seen, const u32* spans, const u32* pages, float* partial, u32 splits, u32 first_head, Shape s) {
    SHARED float queries[HEADS * MOST], weights[WAVES][HEADS][WAVE], sums[WAVES][HEADS][MOST], stats[WAVES][HEADS][2];
    constexpr u32 PAIRS = MOST / 64;
    u32 t = group_x(), kv_head = group_y(), split = group_z();
    u32 group = s.heads / s.kv_heads, count = smaller(group - first_head, HEADS);
    u32 head = kv_head * group + first_head;
    u32 begin = seen[2 * t] + split * SPLIT, end = smaller(seen[2 * t + 1], begin + SPLIT);
    const u32* table = pages + spans[t] * s.most_pages;
    for (u32 i = thread(); i < count * s.key; i += THREADS) queries[i / s.key * MOST + i % s.key] = q[((u64)t * s.heads + head) * s.key + i];
    barrier();

    float largest[HEADS], total[HEADS], sum[HEADS][PAIRS][2] = {};
    for (u32 h = 0; h < HEADS; h++) { largest[h] = NONE; total[h] = 0; }
    for (u32 tile = begin + wave() * WAVE; tile < end; tile += THREADS) {
        u32 key = smaller(tile + lane(), end - 1);
        bool is_seen = tile + lane() < end;
        u64 page = table[key / s.page_tokens];
        const f16* k = keys + ((page * s.kv_heads + kv_head) * s.page_tokens + key % s.page_tokens) * s.key;
        float dots[HEADS] = {};
        for (u32 i = 0; i < s.key; i += 8) {
            f16x8 part = *(const f16x8*)(k + i);
            for (u32 h = 0; h < HEADS; h++)
                if (h < count)
                    for (u32 j = 0; j < 8; j++) dots[h] = __builtin_fmaf(queries[h * MOST + i + j], (float)part[j], dots[h]);
        }
        for (u32 h = 0; h < HEADS; h++) {
            if (h >= count) continue;
            float score = is_seen ? scored(dots[h], s) : NONE;
            float most = __builtin_fmaxf(largest[h], largest_over(score));
            float weight = is_seen ? exponential(score - most) : 0, before = exponential(largest[h] - most);
            weights[wave()][h][lane()] = weight;
            total[h] = total[h] * before + sum_over(weight);
            largest[h] = most;
            for (u32 p = 0; p < PAIRS; p++) { sum[h][p][0] *= before; sum[h][p][1] *= before; }
        }
        // Only this wave reads what it wrote, yet the compiler must not move the reads up.
        __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
        u32 here = smaller(end - tile, WAVE);
        for (u32 n = 0; n < here; n++) {
            u64 page = table[(tile + n) / s.page_tokens];
            const f16* v = values + ((page * s.kv_heads + kv_head) * s.page_tokens + (tile + n) % s.page_tokens) * s.value;
            for (u32 p = 0; p < PAIRS; p++) {
                u32 at = p * 64 + lane() * 2;
                if (at >= s.value) continue;
                u32 both = *(const u32*)(v + at);
                float a = (float)bits_as<f16>((u16)both), b = (float)bits_as<f16>((u16)(both >> 16));
                for (u32 h = 0; h < HEADS; h++) {
                    if (h >= count) continue;
                    sum[h][p][0] = __builtin_fmaf(weights[wave()][h][n], a, sum[h][p][0]);
                    sum[h][p][1] = __builtin_fmaf(weights[wave()][h][n], b, sum[h][p][1]);
                }
            }
        }
        __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    }
    for (u32 h = 0; h < HEADS; h++) {
        if (h >= count) continue;
        if (lane() == 0) { stats[wave()][h][0] = largest[h]; stats[wave()][h][1] = total[h]; }
        for (u32 p = 0; p < PAIRS; p++)
            for (u32 j = 0; j < 2; j++) sums[wave()][h][p * 64 + lane() * 2 + j] = sum[h][p][j];
    }
    barrier();
    // [token][head][split]: the largest score, the sum of the weights, then the sum of the values.
    for (u32 i = thread(); i < count * s.value; i += THREADS) {
        u32 h = i / s.value, d = i % s.value;
        float most = NONE, weight = 0, value = 0;
        for (u32 w = 0; w < WAVES; w++) most = __builtin_fmaxf(most, stats[w][h][0]);
        for (u32 w = 0; w < WAVES; w++) {
            float factor = exponential(stats[w][h][0] - most);
            weight = __builtin_fmaf(stats[w][h][1], factor, weight);
            value = __builtin_fmaf(sums[w][h][d], factor, value);
        }
        float* out = partial + (((u64)t * s.heads + head + h) * splits + split) * (s.value + 2);
        out[2 + d] = value;
        if (d == 0) { out[0] = most; out[1] = weight; }
    }
}

#define ATTENTION(MOST) \
    KERNEL(THREADS) void attention_##MOST(const float* q, const f16* keys, const f16* values, const u32* seen, const u32* spans, const u32* pages, float* partial, \
        u32 heads, u32 kv_heads, u32 key, u32 value, u32 page_tokens, u32 most_pages, u32 splits, u32 first_head, float scale, float softcap) { \
        attend<MOST>(q, keys, values, seen, spans, pages, partial, splits, first_head, Shape{heads, kv_heads, key, value, page_tokens, most_pages, scale, softcap}); \
    }
ATTENTION(64)
ATTENTION(128)
ATTENTION(256)

// Joins the parts of each token's heads; `sinks` has a score for each head that takes part and carries no value, if there are any.
KERNEL(THREADS) void join(const float* partial, const u32* seen, const float* sinks, float* out, u32 heads, u32 value, u32 splits, u32 has_sinks) {
    u32 t = group_x(), head = group_y();
    u32 parts = (seen[2 * t + 1] - seen[2 * t] + SPLIT - 1) / SPLIT;
    const float* from = partial + ((u64)t * heads + head) * splits * (value + 2);
    float most = has_sinks ? sinks[head] : NONE, weight = 0;
    for (u32 p = 0; p < parts; p++) most = __builtin_fmaxf(most, from[p * (value + 2)]);
    if (has_sinks) weight = exponential(sinks[head] - most);
    for (u32 p = 0; p < parts; p++) weight = __builtin_fmaf(from[p * (value + 2) + 1], exponential(from[p * (value + 2)] - most), weight);
    for (u32 d = thread(); d < value; d += THREADS) {
        float sum = 0;
        for (u32 p = 0; p < parts; p++) sum = __builtin_fmaf(from[p * (value + 2) + 2 + d], exponential(from[p * (value + 2)] - most), sum);
        out[((u64)t * heads + head) * value + d] = sum / weight;
    }
}
