// Attention of queries over keys and values in pages (cache.h).
//
// A workgroup has a token, a key/value head with up to 8 of the query heads that share it, and a part of SPLIT keys. Its waves take
// tiles of 32 keys in turn: a lane has a key for the scores, and a pair of numbers for the sum of values. The softmax is kept as it
// goes along (Milakov and Gimelshein 2018, arXiv:1805.02867), and waves, then parts, are joined at the end in a fixed order, so that a
// token's result depends on its own keys alone.
#include "cache.h"
#include "columns.h"
#include "scores.h"

constexpr u32 THREADS = 128, WAVES = THREADS / WAVE, SPLIT = 512, HEADS = 8;

struct End {
    const float *sinks, *slopes;
    float* out;
    u32* codes;
    Step* steps;
    u32* counters;
    u32 flags;
};

// Joins the parts of a token's head: number d of it. The sink, if there is one, is one more weight without a value.
struct Joint {
    float most, weight;
};
DEVICE Joint joint_of(const float* from, u32 parts, u32 value, bool has_sink, float sink) {
    float most = has_sink ? sink : NONE, weight = 0;
    for (u32 p = 0; p < parts; p++) most = __builtin_fmaxf(most, from[p * (value + 2)]);
    if (has_sink) weight = exponential(sink - most);
    for (u32 p = 0; p < parts; p++) weight = __builtin_fmaf(from[p * (value + 2) + 1], exponential(from[p * (value + 2)] - most), weight);
    return Joint{most, weight};
}
DEVICE float joined(const float* from, u32 parts, u32 value, const Joint& joint, u32 d) {
    float sum = 0;
    for (u32 p = 0; p < parts; p++) sum = __builtin_fmaf(from[p * (value + 2) + 2 + d], exponential(from[p * (value + 2)] - joint.most), sum);
    return sum / joint.weight;
}

// What the last of a token's workgroups of `count` heads from `head` on does; `counter` counts them.
DEVICE void complete(const float* partial, u32 parts, u32 t, u32 head, u32 count, u32 splits, const Shape& s, const End& finish, u32* counter) {
    SHARED u32 is_last;
    release();
    group_fence();
    if (thread() == 0) {
        is_last = add_at_once(counter, 1) == splits - 1;
        if (is_last) *counter = 0;
    }
    barrier();
    if (!is_last) return;
    acquire();
    for (u32 h = wave(); h < count; h += WAVES) {
        const float* from = partial + ((u64)t * s.heads + head + h) * splits * (s.value + 2);
        u64 to = ((u64)t * s.heads + head + h) * s.value;
        Joint joint = joint_of(from, parts, s.value, finish.flags & SINKS, finish.flags & SINKS ? finish.sinks[head + h] : 0);
        for (u32 d = lane() * 4; d < s.value; d += WAVE * 4) {
            f32x4 numbers = {};
            for (u32 j = 0; j < 4; j++) {
                if (d + j >= s.value) continue;
                numbers[j] = joined(from, parts, s.value, joint, d + j);
                finish.out[to + d + j] = numbers[j];
            }
            if (finish.flags & ROUNDED) round_block(numbers, (to + d) / 32, finish.codes, finish.steps);
        }
    }
}

// The keys that a token attends to: those from `begin` on, or with `only` the chosen ones (sparse.hip.cpp), as floats in ascending order, then
// -1. `begin` and `end` count keys, or places among the chosen.
struct Keys {
    const float* only;
    u32 begin, end;
    __attribute__((device, always_inline)) u32 at(u32 i) const { return only ? (u32)only[i] : i; }
};
DEVICE Keys keys_of(const u32* seen, const float* only, u32 only_width, u32 t) {
    if (!only) return Keys{only, seen[2 * t], seen[2 * t + 1]};
    // How many are chosen, by bisection.
    const float* row = only + (u64)t * only_width;
    u32 low = 0, high = only_width;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (row[middle] >= 0) low = middle + 1;
        else high = middle;
    }
    return Keys{row, 0, low};
}

// MOST is the largest number of a head's values; a multiple of 64.
// `spans` has span_width numbers a token: its sequence's row of `pages` and, where there are slopes, its place in the sequence.
template <class T, u32 MOST>
DEVICE void attend(const float* q, const u8* keys, const u8* values, const Keys& seen, const u32* spans, u32 span_width, const u32* pages, float* partial, u32 splits, u32 first_head, Shape s, End finish) {
    SHARED float queries[HEADS * MOST], weights[WAVES][HEADS][WAVE], sums[WAVES][HEADS][MOST], stats[WAVES][HEADS][2];
    constexpr u32 PAIRS = MOST / 64;
    u32 t = group_x(), kv_head = group_y(), split = group_z();
    u32 group = s.heads / s.kv_heads, count = smaller(group - first_head, HEADS);
    u32 head = kv_head * group + first_head;
    u32 begin = seen.begin + split * SPLIT, end = smaller(seen.end, begin + SPLIT);
    const u32* table = pages + spans[span_width * t] * s.most_pages;
    for (u32 i = thread(); i < count * s.key; i += THREADS) queries[i / s.key * MOST + i % s.key] = q[((u64)t * s.heads + head) * s.key + i];
    barrier();

    float largest[HEADS], total[HEADS], sum[HEADS][PAIRS][2] = {};
    for (u32 h = 0; h < HEADS; h++) { largest[h] = NONE; total[h] = 0; }
    for (u32 tile = begin + wave() * WAVE; tile < end; tile += THREADS) {
        u32 key = seen.at(smaller(tile + lane(), end - 1));
        bool is_seen = tile + lane() < end;
        u64 page = table[key / s.page_tokens];
        const u8* k = page_of<T>(keys, page, kv_head, s.kv_heads, s.key, s.page_tokens);
        float dots[HEADS] = {};
        for (u32 i = 0; i < s.key; i += 8) {
            f16x8 part = T::eight(k, key % s.page_tokens, s.key, s.page_tokens, i);
            for (u32 h = 0; h < HEADS; h++)
                if (h < count)
                    for (u32 j = 0; j < 8; j++) dots[h] = __builtin_fmaf(queries[h * MOST + i + j], (float)part[j], dots[h]);
        }
        for (u32 h = 0; h < HEADS; h++) {
            if (h >= count) continue;
            float slope = finish.flags & SLOPES ? finish.slopes[head + h] : 0, apart = finish.flags & SLOPES ? (float)(i32)(key - spans[span_width * t + 1]) : 0;
            float score = is_seen ? scored(dots[h], s, slope, apart) : NONE;
            float most = __builtin_fmaxf(largest[h], largest_over(score));
            float weight = is_seen ? exponential(score - most) : 0, before = exponential(largest[h] - most);
            weights[wave()][h][lane()] = weight;
            total[h] = total[h] * before + sum_over(weight);
            largest[h] = most;
            for (u32 p = 0; p < PAIRS; p++) { sum[h][p][0] *= before; sum[h][p][1] *= before; }
        }
        // Only this wave reads what it wrote, yet the compiler must not move the reads up.
        wave_fence();
        u32 here = smaller(end - tile, WAVE);
        for (u32 n = 0; n < here; n++) {
            u32 key = seen.at(tile + n);
            const u8* v = page_of<T>(values, table[key / s.page_tokens], kv_head, s.kv_heads, s.value, s.page_tokens);
            for (u32 p = 0; p < PAIRS; p++) {
                u32 at = p * 64 + lane() * 2;
                if (at >= s.value) continue;
                f32x2 both = T::two(v, key % s.page_tokens, s.value, s.page_tokens, at);
                for (u32 h = 0; h < HEADS; h++) {
                    if (h >= count) continue;
                    sum[h][p][0] = __builtin_fmaf(weights[wave()][h][n], both[0], sum[h][p][0]);
                    sum[h][p][1] = __builtin_fmaf(weights[wave()][h][n], both[1], sum[h][p][1]);
                }
            }
        }
        wave_fence();
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
    if (!(finish.flags & JOINED)) return;
    complete(partial, (seen.end - seen.begin + SPLIT - 1) / SPLIT, t, head, count, splits, s, finish, finish.counters + (t * s.kv_heads + kv_head) * ((group + HEADS - 1) / HEADS) + first_head / HEADS);
}

#define ATTENTION(MOST) \
    KERNEL(THREADS) void attention_##MOST(const float* q, const u8* keys, const u8* values, const u32* seen, const u32* spans, const u32* pages, float* partial, \
        u32 heads, u32 kv_heads, u32 key, u32 value, u32 page_tokens, u32 most_pages, u32 splits, u32 first_head, float scale, float softcap) { \
        attend<F16, MOST>(q, keys, values, keys_of(seen, nullptr, 0, group_x()), spans, 1, pages, partial, splits, first_head, Shape{heads, kv_heads, key, value, page_tokens, most_pages, scale, softcap}, End{}); \
    }
ATTENTION(64)
ATTENTION(128)
ATTENTION(256)

// With all that stands at the end; group_z counts parts, group_y key/value heads. `counters` are zero before and after: one for each token,
// key/value head and eight query heads of it.
#define DECODE(NAME, T, MOST) \
    KERNEL(THREADS) void decode_##NAME##_##MOST(const float* q, const u8* keys, const u8* values, const u32* seen, const u32* spans, const u32* pages, float* partial, const float* sinks, const float* slopes, float* out, u32* codes, Step* steps, u32* counters, \
        u32 heads, u32 kv_heads, u32 key, u32 value, u32 page_tokens, u32 most_pages, u32 splits, u32 first_head, u32 flags, float scale, float softcap) { \
        attend<T, MOST>(q, keys, values, keys_of(seen, nullptr, 0, group_x()), spans, 2, pages, partial, splits, first_head, Shape{heads, kv_heads, key, value, page_tokens, most_pages, scale, softcap}, End{sinks, slopes, out, codes, steps, counters, flags}); \
    }
#define DECODES(MOST) DECODE(f16, F16, MOST) DECODE(q8, Q8, MOST) DECODE(q4, Q4, MOST)
DECODES(64)
DECODES(128)
DECODES(256)

// The same over chosen keys; `seen` is not read.
#define CHOSEN(MOST) \
    KERNEL(THREADS) void chosen_f16_##MOST(const float* q, const u8* keys, const u8* values, const float* only, const u32* spans, const u32* pages, float* partial, float* out, u32* codes, Step* steps, u32* counters, \
        u32 heads, u32 kv_heads, u32 key, u32 value, u32 page_tokens, u32 most_pages, u32 splits, u32 first_head, u32 flags, u32 only_width, float scale) { \
        attend<F16, MOST>(q, keys, values, keys_of(nullptr, only, only_width, group_x()), spans, 2, pages, partial, splits, first_head, Shape{heads, kv_heads, key, value, page_tokens, most_pages, scale, 0}, End{nullptr, nullptr, out, codes, steps, counters, flags}); \
    }
CHOSEN(64)
CHOSEN(128)
CHOSEN(256)

// Many query heads with one of keys and values of up to 576 and 512 numbers: latent attention whose up-projections are absorbed (DeepSeek-V2,
// arXiv:2405.04434). A workgroup has 16 heads of a token and a part of SPLIT keys, by matrix products as in prompt.hip.cpp: of 32 keys at
// a time a wave makes the scores of 16 over half of the numbers, then sums values of a quarter of the numbers over all.
constexpr u32 ROWS = 16, LATENT_KEY = 576, LATENT_VALUE = 512, TILE = 32;
template <class T>
DEVICE void attend_latent(const float* q, const u8* keys, const u8* values, const Keys& seen, const u32* spans, const u32* pages, float* partial, u32 splits, Shape s, End finish) {
    constexpr u32 Q_STRIDE = LATENT_KEY + 8, V_STRIDE = TILE + 8, OWN = LATENT_VALUE / WAVES;
    SHARED f16 queries[ROWS * Q_STRIDE], v_tile[LATENT_VALUE * V_STRIDE];
    SHARED float parts[WAVES][ROWS][ROWS + 1];
    u32 t = group_x(), first = group_y() * ROWS, split = group_z(), count = smaller(s.heads - first, ROWS);
    u32 at = lane() % 16, half = lane() / 16;
    u32 begin = seen.begin + split * SPLIT, end = smaller(seen.end, begin + SPLIT);
    const u32* table = pages + spans[2 * t] * s.most_pages;
    for (u32 i = thread(); i < ROWS * Q_STRIDE / 2; i += THREADS) ((u32*)queries)[i] = 0;
    if (s.value < LATENT_VALUE)
        for (u32 i = thread(); i < LATENT_VALUE * V_STRIDE / 2; i += THREADS) ((u32*)v_tile)[i] = 0;
    barrier();
    for (u32 i = thread(); i < count * s.key; i += THREADS) queries[i / s.key * Q_STRIDE + i % s.key] = (f16)q[((u64)t * s.heads + first) * s.key + i];
    float most = NONE, total = 0;
    f32x8 sums[OWN / 16] = {};
    u32 sub = wave() % 2 * 16, steps = s.key / 16, middle = (steps + 1) / 2;
    for (u32 tile = begin; tile < end; tile += TILE) {
        barrier();
        for (u32 i = thread(); i < TILE / 2 * (s.value / 8); i += THREADS) {
            f16x8 two[2];
            for (u32 k = 0; k < 2; k++) {
                u32 key = seen.at(smaller(tile + i / (s.value / 8) * 2 + k, end - 1));
                two[k] = T::eight(page_of<T>(values, table[key / s.page_tokens], 0, 1, s.value, s.page_tokens), key % s.page_tokens, s.value, s.page_tokens, i % (s.value / 8) * 8);
            }
            for (u32 j = 0; j < 8; j++) *(f16x2*)(v_tile + (i % (s.value / 8) * 8 + j) * V_STRIDE + i / (s.value / 8) * 2) = f16x2{two[0][j], two[1][j]};
        }
        u32 key = seen.at(smaller(tile + sub + at, end - 1));
        const u8* page = page_of<T>(keys, table[key / s.page_tokens], 0, 1, s.key, s.page_tokens);
        f32x8 dots = {};
        for (u32 n = wave() < 2 ? 0 : middle; n < (wave() < 2 ? middle : steps); n++) {
            f16x16 k, of_query;
            k.lo = T::eight(page, key % s.page_tokens, s.key, s.page_tokens, n * 16);
            k.hi = T::eight(page, key % s.page_tokens, s.key, s.page_tokens, n * 16 + 8);
            const f16x8* row = (const f16x8*)(queries + at * Q_STRIDE + n * 16);
            of_query.lo = row[0];
            of_query.hi = row[1];
            dots = multiply16(k, of_query, dots);
        }
        for (u32 i = 0; i < 8; i++) parts[wave()][2 * i + half][at] = dots[i];
        barrier();
        float scores[2][8], largest = most;
        for (u32 p = 0; p < 2; p++)
            for (u32 i = 0; i < 8; i++) {
                float dot = parts[p][2 * i + half][at] + parts[p + 2][2 * i + half][at];
                scores[p][i] = tile + p * 16 + 2 * i + half < end ? scored(dot, s, 0, 0) : NONE;
                largest = __builtin_fmaxf(largest, scores[p][i]);
            }
        largest = __builtin_fmaxf(largest, exchanged<16>(largest));
        float before = exponential(most - largest);
        most = largest;
        total *= before;
        for (u32 n = 0; n < OWN / 16; n++)
            for (u32 i = 0; i < 8; i++) sums[n][i] *= before;
        for (u32 p = 0; p < 2; p++) {
            f16x16 weights = weights_of(scores[p], most, total);
            for (u32 n = 0; n < OWN / 16; n++) {
                f16x16 v;
                const f16x8* row = (const f16x8*)(v_tile + (wave() * OWN + n * 16 + at) * V_STRIDE + p * 16);
                v.lo = row[0];
                v.hi = row[1];
                sums[n] = multiply16(v, weights, sums[n]);
            }
        }
    }
    total += exchanged<16>(total);
    if (at < count) {
        float* out = partial + (((u64)t * s.heads + first + at) * splits + split) * (s.value + 2);
        for (u32 n = 0; n < OWN / 16; n++)
            for (u32 i = 0; i < 8; i++) {
                u32 d = wave() * OWN + n * 16 + 2 * i + half;
                if (d < s.value) out[2 + d] = sums[n][i];
            }
        if (thread() < 16) { out[0] = most; out[1] = total; }
    }
    if (finish.flags & JOINED) complete(partial, (seen.end - seen.begin + SPLIT - 1) / SPLIT, t, first, count, splits, s, finish, finish.counters + t * ((s.heads + ROWS - 1) / ROWS) + group_y());
}

// group_y counts 16 query heads, group_z parts; one counter for each token and 16 heads. Keys and values are multiples of 16.
#define LATENT(NAME, T) \
    KERNEL(THREADS) void latent_##NAME(const float* q, const u8* keys, const u8* values, const u32* seen, const u32* spans, const u32* pages, float* partial, const float* sinks, float* out, u32* codes, Step* steps, u32* counters, \
        u32 heads, u32 key, u32 value, u32 page_tokens, u32 most_pages, u32 splits, u32 flags, float scale, float softcap) { \
        attend_latent<T>(q, keys, values, keys_of(seen, nullptr, 0, group_x()), spans, pages, partial, splits, Shape{heads, 1, key, value, page_tokens, most_pages, scale, softcap}, End{sinks, sinks, out, codes, steps, counters, flags}); \
    }
LATENT(f16, F16)
LATENT(q8, Q8)

KERNEL(THREADS) void latent_chosen_f16(const float* q, const u8* keys, const u8* values, const float* only, const u32* spans, const u32* pages, float* partial, float* out, u32* codes, Step* steps, u32* counters,
    u32 heads, u32 key, u32 value, u32 page_tokens, u32 most_pages, u32 splits, u32 flags, u32 only_width, float scale) {
    attend_latent<F16>(q, keys, values, keys_of(nullptr, only, only_width, group_x()), spans, pages, partial, splits, Shape{heads, 1, key, value, page_tokens, most_pages, scale, 0}, End{nullptr, nullptr, out, codes, steps, counters, flags});
}

// Joins the parts of each token's heads; `sinks` has a score for each head that takes part and carries no value, if there are any.
KERNEL(THREADS) void join(const float* partial, const u32* seen, const float* sinks, float* out, u32 heads, u32 value, u32 splits, u32 has_sinks) {
    u32 t = group_x(), head = group_y();
    u32 parts = (seen[2 * t + 1] - seen[2 * t] + SPLIT - 1) / SPLIT;
    const float* from = partial + ((u64)t * heads + head) * splits * (value + 2);
    Joint joint = joint_of(from, parts, value, has_sinks, has_sinks ? sinks[head] : 0);
    for (u32 d = thread(); d < value; d += THREADS) out[((u64)t * heads + head) * value + d] = joined(from, parts, value, joint, d);
}
