/* Self-attention within short rows of tokens, forward and backward, for narrow heads on a CPU.

Built with -DHEAD=<channels of a head>. A token is 3 * n_heads * HEAD floats: its queries, keys and values, head by head.
Vectors run over the tokens of a row that are on one side of a product; the other side is read number by number, so that
every sum is vertical and no row has to be as long as another. */

#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float stored __attribute__((vector_size(4 * LANES), aligned(4))); /* a vec in memory of the caller */
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

/* Rows start[r] .. start[r] + length[r] - 1 of each of n_states states of n_positions tokens. */
typedef struct {
    int64_t n_states, n_positions, n_rows, n_heads;
    const int64_t *start, *length;
    float scale;
} rows;

static inline vec larger(vec a, vec b) {
    ints chosen = a > b;
    return (vec)((chosen & (ints)a) | (~chosen & (ints)b));
}

/* exp for x <= 0, relative error below 2e-7; 2^n times a polynomial (coefficients of Cephes' expf). */
static inline vec exponential(vec x) {
    x = larger((vec){0} - 87.0f, x); /* in this order NaN stays NaN */
    vec shifted = x * 1.44269504f + 12582912.0f; /* the sum rounds to an integer, which stands in the lowest bits */
    vec n = shifted - 12582912.0f;
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vec p = (vec){0} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (vec)((ints)p + (((ints)shifted - 0x4B400000) << 23));
}

static inline vec dot(const vec *a, const float *b) {
    vec sum = a[0] * b[0];
    for (int d = 1; d < HEAD; d++) sum += a[d] * b[d];
    return sum;
}

/* One head's channels of up to LANES tokens, channel by channel; lanes without a token are 0. */
static inline void load(vec *to, const float *from, int64_t stride, int64_t n, float scale) {
    float turned[HEAD][LANES] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < HEAD; d++) turned[d][i] = from[i * stride + d] * scale;
    memcpy(to, turned, sizeof turned);
}

static inline void store(float *to, const vec *from, int64_t stride, int64_t n, float scale) {
    float turned[HEAD][LANES];
    memcpy(turned, from, sizeof turned);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < HEAD; d++) to[i * stride + d] = turned[d][i] * scale;
}

static inline vec load_lanes(const float *from, int64_t stride, int64_t n) {
    float lanes[LANES] = {0};
    for (int64_t i = 0; i < n; i++) lanes[i] = from[i * stride];
    vec found;
    memcpy(&found, lanes, sizeof found);
    return found;
}

static inline void store_lanes(float *to, vec from, int64_t stride, int64_t n) {
    float lanes[LANES];
    memcpy(lanes, &from, sizeof lanes);
    for (int64_t i = 0; i < n; i++) to[i * stride] = lanes[i];
}

static inline int64_t at_most(int64_t n) { return n < LANES ? n : LANES; }

/* qkv (states, positions, 3, heads, HEAD) -> out (states, positions, heads, HEAD). Where `largest` is not NULL, it and
`inverse` (states, positions, heads) get each query's largest score and one over its sum of exponentials.
`scores` has room for LANES numbers for each token of the longest row. */
void forward(const rows *of, const float *qkv, float *out, float *largest, float *inverse, stored *scores) {
    const int64_t width = of->n_heads * HEAD, token = 3 * width;
    for (int64_t s = 0; s < of->n_states; s++)
        for (int64_t r = 0; r < of->n_rows; r++) {
            const int64_t first = s * of->n_positions + of->start[r], length = of->length[r];
            for (int64_t h = 0; h < of->n_heads; h++) {
                const float *queries = qkv + first * token + h * HEAD;
                for (int64_t i = 0; i < length; i += LANES) {
                    const int64_t n = at_most(length - i);
                    vec q[HEAD], o[HEAD] = {{0}}, most = (vec){0} - 1e30f, sum = {0};
                    load(q, queries + i * token, token, n, of->scale);
                    const float *key = queries + width, *value = key + width;
                    for (int64_t j = 0; j < length; j++, key += token) {
                        scores[j] = dot(q, key);
                        most = larger(most, scores[j]);
                    }
                    for (int64_t j = 0; j < length; j++, value += token) {
                        const vec p = exponential(scores[j] - most);
                        sum += p;
                        for (int d = 0; d < HEAD; d++) o[d] += p * value[d];
                    }
                    sum = 1.0f / sum;
                    for (int d = 0; d < HEAD; d++) o[d] *= sum;
                    store(out + (first + i) * width + h * HEAD, o, width, n, 1.0f);
                    if (largest) {
                        store_lanes(largest + (first + i) * of->n_heads + h, most, of->n_heads, n);
                        store_lanes(inverse + (first + i) * of->n_heads + h, sum, of->n_heads, n);
                    }
                }
            }
        }
}

/* The gradient (like qkv) of what `forward` gave, from that of its output. `weighted` has room for a
number for each token of the longest row. */
void backward(const rows *of, const float *qkv, const float *out, const float *largest, const float *inverse,
              const float *of_out, float *of_qkv, float *weighted) {
    const int64_t width = of->n_heads * HEAD, token = 3 * width;
    for (int64_t s = 0; s < of->n_states; s++)
        for (int64_t r = 0; r < of->n_rows; r++) {
            const int64_t first = s * of->n_positions + of->start[r], length = of->length[r];
            for (int64_t h = 0; h < of->n_heads; h++) {
                const float *queries = qkv + first * token + h * HEAD, *keys = queries + width, *values = keys + width;
                const float *given = of_out + first * width + h * HEAD, *read = out + first * width + h * HEAD;
                const float *most = largest + first * of->n_heads + h, *over = inverse + first * of->n_heads + h;
                float *found = of_qkv + first * token + h * HEAD;
                for (int64_t i = 0; i < length; i += LANES) { /* lanes are queries */
                    const int64_t n = at_most(length - i);
                    vec q[HEAD], g[HEAD], o[HEAD], to_q[HEAD] = {{0}}, mean = {0};
                    load(q, queries + i * token, token, n, of->scale);
                    load(g, given + i * width, width, n, 1.0f);
                    load(o, read + i * width, width, n, 1.0f);
                    for (int d = 0; d < HEAD; d++) mean += g[d] * o[d];
                    store_lanes(weighted + i, mean, 1, n);
                    const vec m = load_lanes(most + i * of->n_heads, of->n_heads, n);
                    const vec l = load_lanes(over + i * of->n_heads, of->n_heads, n);
                    const float *key = keys, *value = values;
                    for (int64_t j = 0; j < length; j++, key += token, value += token) {
                        const vec p = exponential(dot(q, key) - m) * l;
                        const vec to_score = p * (dot(g, value) - mean);
                        for (int d = 0; d < HEAD; d++) to_q[d] += to_score * key[d];
                    }
                    store(found + i * token, to_q, token, n, of->scale);
                }
                for (int64_t j = 0; j < length; j += LANES) { /* lanes are keys */
                    const int64_t n = at_most(length - j);
                    vec k[HEAD], v[HEAD], to_k[HEAD] = {{0}}, to_v[HEAD] = {{0}};
                    load(k, keys + j * token, token, n, of->scale);
                    load(v, values + j * token, token, n, 1.0f);
                    const float *query = queries, *g = given;
                    for (int64_t i = 0; i < length; i++, query += token, g += width) {
                        const vec p = exponential(dot(k, query) - most[i * of->n_heads]) * over[i * of->n_heads];
                        const vec to_score = p * (dot(v, g) - weighted[i]);
                        for (int d = 0; d < HEAD; d++) {
                            to_k[d] += to_score * query[d];
                            to_v[d] += p * g[d];
                        }
                    }
                    store(found + width + j * token, to_k, token, n, of->scale);
                    store(found + 2 * width + j * token, to_v, token, n, 1.0f);
                }
            }
        }
}

int64_t lanes(void) { return LANES; }
