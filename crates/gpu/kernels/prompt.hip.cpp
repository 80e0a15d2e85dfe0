// Attention of prompts: tiles of 64 queries of one head and some keys, by matrix products of f16 with sums in f32.
//
// Scores are made transposed, S^T = K Q^T, and so is the output, O^T = V^T P^T: a lane has one query, so that the softmax, which is kept as
// it goes along (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao 2023, arXiv:2307.08691), runs within a lane and the one 16 further,
// and weights need but that exchange to become the operand of the next product.
#include "cache.h"
#include "scores.h"

constexpr u32 THREADS = 128, WAVES = THREADS / WAVE, QUERIES = 16 * WAVES;

// MOST is the largest number of a head's keys and values; both are multiples of 16, and a page's tokens a power of two. KEYS of a tile are staged in LDS while the next come in.
template <class T, u32 MOST, u32 KEYS>
DEVICE void prompt(const float* q, const u8* keys, const u8* values, const u32* seen, const u32* spans, const u32* pages, const u32* blocks, const float* sinks, const float* slopes, float* out, Shape s, u32 flags) {
    constexpr u32 K_STRIDE = MOST + 8, V_STRIDE = KEYS + 8, STEPS = MOST / 16;
    constexpr bool Q_IN_LDS = MOST > 128;
    // What a thread brings of a tile: eights of a key and, of two keys each, of values.
    constexpr u32 BRINGS = KEYS * MOST / 8 / THREADS;
    SHARED f16 k_tile[KEYS * K_STRIDE], v_tile[MOST * V_STRIDE], q_tile[Q_IN_LDS ? QUERIES * K_STRIDE : 8];
    SHARED u32 ends[WAVES][2];
    u32 first = blocks[2 * group_x()], count = blocks[2 * group_x() + 1];
    u32 head = group_y(), kv_head = head / (s.heads / s.kv_heads), at = lane() % 16, half = lane() / 16;
    u32 t = first + smaller(wave() * 16 + at, count - 1);
    u32 begin = seen[2 * t], end = seen[2 * t + 1];
    const u32* table = pages + spans[2 * first] * s.most_pages;
    float place = (float)(i32)spans[2 * t + 1], slope = flags & SLOPES ? slopes[head] : 0;

    // The keys that any query of the wave, and of the workgroup, sees.
    u32 low = lowest_over(begin), high = ~lowest_over(~end);
    if (lane() == 0) { ends[wave()][0] = low; ends[wave()][1] = high; }
    f16x16 query[Q_IN_LDS ? 1 : STEPS];
    const float* from = q + ((u64)t * s.heads + head) * s.key;
    for (u32 n = 0; n < STEPS; n++) {
        f16x16 part = {};
        for (u32 i = 0; i < 4 && n * 16 < s.key; i++) {
            f32x4 four = ((const f32x4*)(from + n * 16))[i];
            for (u32 j = 0; j < 4; j++) part[4 * i + j] = (f16)four[j];
        }
        if (!Q_IN_LDS) query[n] = part;
        else if (half == 0)
            for (u32 i = 0; i < 2; i++) ((f16x8*)(q_tile + (wave() * 16 + at) * K_STRIDE + n * 16))[i] = i ? part.hi : part.lo;
    }
    // What a narrower head leaves of the tiles counts as zeros.
    if (s.key < MOST)
        for (u32 i = thread(); i < KEYS * K_STRIDE / 8; i += THREADS) ((f16x8*)k_tile)[i] = f16x8{};
    if (s.value < MOST)
        for (u32 i = thread(); i < MOST * V_STRIDE / 8; i += THREADS) ((f16x8*)v_tile)[i] = f16x8{};
    barrier();
    u32 tile = ends[0][0], last = 0;
    for (u32 w = 0; w < WAVES; w++) {
        tile = smaller(tile, ends[w][0]);
        last = ends[w][1] > last ? ends[w][1] : last;
    }
    tile = uniform(tile / KEYS * KEYS);
    last = uniform(last);

    // A thread brings one eight of some keys, and that of pairs of neighbours of values.
    constexpr u32 EIGHTS = MOST / 8, AT_ONCE = THREADS / EIGHTS;
    u32 eight = thread() % EIGHTS, own = thread() / EIGHTS, shift = __builtin_ctz(s.page_tokens);
    bool has_key = eight * 8 < s.key, has_value = eight * 8 < s.value;
    f16x8 k_next[BRINGS], v_next[BRINGS];
    auto bring = [&](u32 tile) __attribute__((always_inline)) {
#pragma unroll
        for (u32 n = 0; n < BRINGS; n++) {
            u32 key = smaller(tile + n * AT_ONCE + own, last - 1);
            const u8* page = page_of<T>(keys, table[key >> shift], kv_head, s.kv_heads, s.key, s.page_tokens);
            if (has_key) k_next[n] = T::eight(page, key & (s.page_tokens - 1), s.key, s.page_tokens, eight * 8);
        }
#pragma unroll
        for (u32 n = 0; n < BRINGS; n++) {
            u32 key = smaller(tile + (n / 2 * AT_ONCE + own) * 2 + n % 2, last - 1);
            const u8* page = page_of<T>(values, table[key >> shift], kv_head, s.kv_heads, s.value, s.page_tokens);
            if (has_value) v_next[n] = T::eight(page, key & (s.page_tokens - 1), s.value, s.page_tokens, eight * 8);
        }
    };
    bring(tile);
    float most = flags & SINKS ? sinks[head] : NONE, total = flags & SINKS && half == 0 ? 1 : 0;
    f32x8 sums[STEPS] = {};
    for (; tile < last; tile += KEYS) {
        barrier();
#pragma unroll
        for (u32 n = 0; n < BRINGS; n++)
            if (has_key) *(f16x8*)(k_tile + (n * AT_ONCE + own) * K_STRIDE + eight * 8) = k_next[n];
#pragma unroll
        for (u32 n = 0; n < BRINGS; n += 2)
            for (u32 j = 0; j < 8; j++)
                if (has_value) *(f16x2*)(v_tile + (eight * 8 + j) * V_STRIDE + (n / 2 * AT_ONCE + own) * 2) = f16x2{v_next[n][j], v_next[n + 1][j]};
        barrier();
        if (tile + KEYS < last) bring(tile + KEYS);
        for (u32 part = 0; part < KEYS; part += 16) {
            if (tile + part >= high || tile + part + 16 <= low) continue;
            f32x8 dots = {};
            for (u32 n = 0; n < STEPS; n++) {
                f16x16 k, of_query;
                const f16x8* row = (const f16x8*)(k_tile + (part + at) * K_STRIDE + n * 16);
                k.lo = row[0];
                k.hi = row[1];
                if (Q_IN_LDS) {
                    row = (const f16x8*)(q_tile + (wave() * 16 + at) * K_STRIDE + n * 16);
                    of_query.lo = row[0];
                    of_query.hi = row[1];
                } else of_query = query[n];
                dots = multiply16(k, of_query, dots);
            }
            float largest = most, scores[8];
            for (u32 i = 0; i < 8; i++) {
                u32 key = tile + part + 2 * i + half;
                scores[i] = key >= begin && key < end ? scored(dots[i], s, slope, (float)(i32)key - place) : NONE;
                largest = __builtin_fmaxf(largest, scores[i]);
            }
            largest = __builtin_fmaxf(largest, exchanged<16>(largest));
            float before = exponential(most - largest);
            most = largest;
            total *= before;
            f16x16 weights = weights_of(scores, most, total);
            for (u32 n = 0; n < STEPS; n++) {
                for (u32 i = 0; i < 8; i++) sums[n][i] *= before;
                f16x16 v;
                const f16x8* row = (const f16x8*)(v_tile + (n * 16 + at) * V_STRIDE + part);
                v.lo = row[0];
                v.hi = row[1];
                sums[n] = multiply16(v, weights, sums[n]);
            }
        }
    }
    total += exchanged<16>(total);
    if (wave() * 16 + at >= count) return;
    float* to = out + ((u64)t * s.heads + head) * s.value;
    for (u32 n = 0; n < STEPS; n++) {
        if (n * 16 >= s.value) continue;
        for (u32 i = 0; i < 8; i++) to[n * 16 + 2 * i + half] = sums[n][i] / total;
    }
}

// `blocks` has for each group_x its first token and how many there are, at most 64 of one sequence; group_y is a query head.
#define PROMPT(NAME, T, MOST, KEYS) \
    KERNEL(THREADS) void prompt_##NAME##_##MOST(const float* q, const u8* keys, const u8* values, const u32* seen, const u32* spans, const u32* pages, const u32* blocks, const float* sinks, const float* slopes, float* out, \
        u32 heads, u32 kv_heads, u32 key, u32 value, u32 page_tokens, u32 most_pages, u32 flags, float scale, float softcap) { \
        prompt<T, MOST, KEYS>(q, keys, values, seen, spans, pages, blocks, sinks, slopes, out, Shape{heads, kv_heads, key, value, page_tokens, most_pages, scale, softcap}, flags); \
    }
#define PROMPTS(MOST, KEYS) PROMPT(f16, F16, MOST, KEYS) PROMPT(q8, Q8, MOST, KEYS) PROMPT(q4, Q4, MOST, KEYS)
PROMPTS(64, 32)
PROMPTS(128, 32)
PROMPTS(256, 16)
