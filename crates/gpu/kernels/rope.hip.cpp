// Rotary positions, and appending keys and values to their pages.
#include "cache.h"

constexpr u32 THREADS = 128;

// Sine and cosine of an angle in radians: reduced to one turn in two steps, as angles reach far beyond what one f32 factor can.
DEVICE void turn(float angle, float& sine, float& cosine) {
    float turns = __builtin_rintf(angle * 0.15915494f);
    float rest = __builtin_fmaf(-turns, 6.28318548f, angle);
    rest = __builtin_fmaf(-turns, -1.74845553e-7f, rest) * 0.15915494f;
    sine = sine_of_turns(rest);
    cosine = cosine_of_turns(rest);
}

// Turns pair i of each head of row t by positions[t] * frequencies[i], and multiplies it by `scale`: pairs (i, i + pairs), or with
// `neighbours` (2 i, 2 i + 1). What follows the pairs passes unchanged. y may be x. A workgroup has a row.
KERNEL(THREADS) void rope(const float* x, const u32* positions, const float* frequencies, float* y, u32 width, u32 head, u32 pairs, u32 neighbours, float scale) {
    u64 row = (u64)group_x() * width;
    float position = (float)(i32)positions[group_x()];
    for (u32 i = thread(); i < width / head * pairs; i += THREADS) {
        u32 pair = i % pairs;
        u64 start = row + i / pairs * head;
        u64 a = start + (neighbours ? 2 * pair : pair), b = start + (neighbours ? 2 * pair + 1 : pair + pairs);
        float sine, cosine;
        turn(position * frequencies[pair], sine, cosine);
        float p = x[a], q = x[b];
        y[a] = (p * cosine - q * sine) * scale;
        y[b] = (p * sine + q * cosine) * scale;
    }
    for (u32 i = thread(); i < width / head * (head - 2 * pairs); i += THREADS) {
        u64 at = row + i / (head - 2 * pairs) * head + 2 * pairs + i % (head - 2 * pairs);
        y[at] = x[at];
    }
}

// Row t: sines of (positions[t] + offset) * frequencies, then cosines (`Sinusoid` in crates/plan). A workgroup has a row.
KERNEL(THREADS) void sinusoid(const u32* positions, const float* frequencies, float* y, u32 pairs, u32 offset) {
    float position = (float)(positions[group_x()] + offset);
    u64 row = (u64)group_x() * 2 * pairs;
    for (u32 i = thread(); i < pairs; i += THREADS) {
        float sine, cosine;
        turn(position * frequencies[i], sine, cosine);
        y[row + i] = sine;
        y[row + pairs + i] = cosine;
    }
}

// Writes row t of x, `heads` runs of `head` numbers, to its place in a cache of pages [page][head][token of the page][number] in f16.
// pages[spans[t] * most_pages + n] is the page with the tokens from n * page_tokens on.
KERNEL(THREADS) void append(const float* x, const u32* positions, const u32* spans, const u32* pages, f16* cache, u32 heads, u32 head, u32 page_tokens, u32 most_pages) {
    u32 t = group_x(), position = positions[t];
    u64 page = pages[spans[t] * most_pages + position / page_tokens];
    for (u32 i = thread(); i < heads * head; i += THREADS)
        cache[((page * heads + i / head) * page_tokens + position % page_tokens) * head + i % head] = (f16)x[(u64)t * heads * head + i];
}

// What one layer does to queries, keys and values before attention, in one packet: norms of heads, rotation, the caches. A wave has a head
// of a token: query heads, then key heads, then value heads.
constexpr u32 NEIGHBOURS = 1, NORM_QUERIES = 2, NORM_KEYS = 4, ONLY_QUERIES = 8, TURNED = 16;
constexpr u32 MOST = 512;
struct Heads {
    u32 heads, kv_heads, key, value, q_stride, k_stride, v_stride, pairs, page_tokens, most_pages, flags;
    float scale, eps;
};

template <class T>
DEVICE void prepare(const float* q, const float* k, const float* v, const float* q_norm, const float* k_norm, const u32* positions, const u32* axes, const float* frequencies, const u32* spans, const u32* pages, float* q_out, u8* keys, u8* values, u32 axis_count, Heads s) {
    SHARED float numbers[THREADS / WAVE][MOST];
    u32 t = group_x(), unit = group_y() * (THREADS / WAVE) + wave();
    u32 units = s.flags & ONLY_QUERIES ? s.heads : s.heads + 2 * s.kv_heads;
    if (unit >= units) return;
    bool is_query = unit < s.heads, is_value = unit >= s.heads + s.kv_heads;
    u32 head = is_query ? unit : is_value ? unit - s.heads - s.kv_heads : unit - s.heads;
    u32 width = is_value ? s.value : s.key;
    const float* x = is_query ? q + (u64)t * s.q_stride : is_value ? v + (u64)t * s.v_stride : k + (u64)t * s.k_stride;
    x += head * width;
    float* mine = numbers[wave()];
    // The first position is the one in the sequence, the others those on further axes.
    const u32* at = positions + t * axis_count;
    if (!is_value) {
        float factor = 1, squares = 0;
        bool normed = s.flags & (is_query ? NORM_QUERIES : NORM_KEYS);
        for (u32 i = lane(); i < width; i += WAVE) {
            float n = x[i];
            mine[i] = n;
            squares = __builtin_fmaf(n, n, squares);
        }
        if (normed) factor = 1.0f / __builtin_sqrtf(sum_over(squares) / (float)width + s.eps);
        wave_fence();
        if (normed)
            for (u32 i = lane(); i < width; i += WAVE) mine[i] = mine[i] * factor * (is_query ? q_norm : k_norm)[i];
        wave_fence();
        if (s.flags & TURNED)
            for (u32 i = lane(); i < s.pairs; i += WAVE) {
                u32 a = s.flags & NEIGHBOURS ? 2 * i : i, b = s.flags & NEIGHBOURS ? 2 * i + 1 : i + s.pairs;
                u32 axis = axis_count > 1 ? axes[i] : 0;
                float sine, cosine;
                turn((float)(i32)at[axis] * frequencies[i], sine, cosine);
                float p = mine[a], r = mine[b];
                mine[a] = (p * cosine - r * sine) * s.scale;
                mine[b] = (p * sine + r * cosine) * s.scale;
            }
        wave_fence();
    }
    if (is_query) {
        for (u32 i = lane(); i < width; i += WAVE) q_out[((u64)t * s.heads + head) * width + i] = mine[i];
        return;
    }
    u32 position = spans[2 * t + 1];
    u64 page = pages[spans[2 * t] * s.most_pages + position / s.page_tokens];
    u8* to = page_of<T>(is_value ? values : keys, page, head, s.kv_heads, width, s.page_tokens);
    for (u32 j = 0; j < (width + WAVE - 1) / WAVE; j++) {
        u32 i = smaller(j * WAVE + lane(), width - 1);
        T::put(to, position % s.page_tokens, width, s.page_tokens, j, is_value ? x[i] : mine[i]);
    }
}

// `positions` has axis_count numbers a token, by which pairs turn as `axes` says; `spans` for each token its sequence's row of `pages`
// and its place in the sequence. q_out may be q where that has no other stride.
#define PREPARE(NAME, T) \
    KERNEL(THREADS) void prepare_##NAME(const float* q, const float* k, const float* v, const float* q_norm, const float* k_norm, const u32* positions, const u32* axes, const float* frequencies, const u32* spans, const u32* pages, float* q_out, u8* keys, u8* values, \
        u32 heads, u32 kv_heads, u32 key, u32 value, u32 q_stride, u32 k_stride, u32 v_stride, u32 pairs, u32 page_tokens, u32 most_pages, u32 axis_count, u32 flags, float scale, float eps) { \
        prepare<T>(q, k, v, q_norm, k_norm, positions, axes, frequencies, spans, pages, q_out, keys, values, axis_count, Heads{heads, kv_heads, key, value, q_stride, k_stride, v_stride, pairs, page_tokens, most_pages, flags, scale, eps}); \
    }
PREPARE(f16, F16)
PREPARE(q8, Q8)
PREPARE(q4, Q4)
