// Which tokens of its sequence a token attends to (`Index` in crates/plan).
#include "cache.h"

constexpr u32 THREADS = 256, WAVES = THREADS / WAVE, MOST = 8192;

// Scores of the complete blocks of `block` tokens: sum over heads of weight * max(q . k, 0), k being that of the block's last token. A
// workgroup has a token and THREADS blocks. Keys lie in f16 as values of one head (cache.h), `heads * head` is MOST at most and head even;
// scores of a token begin `room` numbers behind those before.
constexpr u32 WEIGHTED = 1;
KERNEL(THREADS) void block_scores(const float* q, const float* weights, const u8* keys, const u32* spans, const u32* pages, float* scores, u32 heads, u32 head, u32 page_tokens, u32 most_pages, u32 block, u32 room, u32 flags) {
    SHARED float queries[MOST];
    u32 t = group_x(), count = (spans[2 * t + 1] + 1) / block, n = group_y() * THREADS + thread();
    if (group_y() * THREADS >= count) return;
    for (u32 i = thread(); i < heads * head; i += THREADS) queries[i] = q[(u64)t * heads * head + i];
    barrier();
    if (n >= count) return;
    u32 token = n * block + block - 1;
    u64 page = pages[spans[2 * t] * most_pages + token / page_tokens];
    const u8* k = page_of<F16>(keys, page, 0, 1, head, page_tokens);
    float score = 0;
    for (u32 h = 0; h < heads; h++) {
        const float* of = queries + h * head;
        float dot = 0;
        if (head % 8 == 0)
            for (u32 i = 0; i < head; i += 8) {
                f16x8 part = F16::eight(k, token % page_tokens, head, page_tokens, i);
                for (u32 j = 0; j < 8; j++) dot = __builtin_fmaf(of[i + j], (float)part[j], dot);
            }
        else
            for (u32 i = 0; i < head; i += 2) {
                f32x2 part = F16::two(k, token % page_tokens, head, page_tokens, i);
                for (u32 j = 0; j < 2; j++) dot = __builtin_fmaf(of[i + j], part[j], dot);
            }
        score = __builtin_fmaf(flags & WEIGHTED ? weights[(u64)t * heads + h] : 1.0f, __builtin_fmaxf(dot, 0.0f), score);
    }
    scores[(u64)t * room + n] = score;
}

// A number in the order of `total_cmp`.
DEVICE u32 in_order(float x) {
    u32 bits = bits_as<u32>(x);
    return bits >> 31 ? ~bits : bits | 0x80000000;
}

// In how many threads of the workgroup before this one `x` is set, and in how many of all.
DEVICE u32 set_before(bool x, u32* parts, u32& all) {
    u32 mine = x;
    for (u32 step = 1; step < WAVE; step *= 2) {
        u32 other = from_lane(mine, (lane() - step) % WAVE);
        if (lane() >= step) mine += other;
    }
    barrier();
    if (lane() == WAVE - 1) parts[wave()] = mine;
    barrier();
    u32 before = mine - x;
    all = 0;
    for (u32 w = 0; w < WAVES; w++) {
        if (w == wave()) before += all;
        all += parts[w];
    }
    return before;
}

// The tokens of the `top` blocks with the highest scores, of equals the earlier, in ascending order; then those behind the last complete
// block; then -1 up to `width`. A workgroup has a token. The lowest score that is chosen is found digit by digit, of 8 bits.
KERNEL(THREADS) void choose(const float* scores, const u32* spans, float* out, u32 block, u32 top, u32 width, u32 room) {
    SHARED u32 counts[256], parts[WAVES], digit, left;
    u32 t = group_x(), position = spans[2 * t + 1], count = (position + 1) / block;
    const float* from = scores + (u64)t * room;
    float* to = out + (u64)t * width;
    bool all = count <= top;
    u32 lowest = 0, equals = top;
    for (u32 shift = 32; !all && shift > 0;) {
        shift -= 8;
        counts[thread()] = 0;
        barrier();
        for (u32 i = thread(); i < count; i += THREADS) {
            u32 key = in_order(from[i]);
            if (shift == 24 || key >> (shift + 8) == lowest) add_in_group(counts + (key >> shift & 255), 1);
        }
        barrier();
        if (thread() == 0) {
            u32 d = 255, wanted = equals;
            for (; counts[d] < wanted; d--) wanted -= counts[d];
            digit = d;
            left = wanted;
        }
        barrier();
        lowest = lowest << 8 | digit;
        equals = left;
    }
    u32 written = 0, equal = 0;
    for (u32 start = 0; start < count; start += THREADS) {
        u32 i = start + thread(), key = i < count ? in_order(from[i]) : 0, of_equal, of_taken;
        bool same = i < count && !all && key == lowest;
        u32 rank = equal + set_before(same, parts, of_equal);
        bool taken = i < count && (all || key > lowest || (same && rank < equals));
        u32 place = written + set_before(taken, parts, of_taken);
        if (taken)
            for (u32 j = 0; j < block; j++) to[place * block + j] = (float)(i * block + j);
        written += of_taken;
        equal += of_equal;
    }
    for (u32 n = thread() + written * block; n < width; n += THREADS) {
        u32 token = count * block + n - written * block;
        to[n] = token <= position ? (float)token : -1.0f;
    }
}
