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

/* Rows start[r] .. start[r] + length[r] - 1 of each of n_states states of n_positions tokens. Beside each other, the
tokens of a row see length_shared[r] tokens from start_shared[r] on, which all states share. Scores of two different
tokens of the row are raised by bias[r]; that of a token with itself is not, nor are those with shared ones. */
typedef struct {
    int64_t n_states, n_positions, n_rows, n_heads;
    const int64_t *start, *length, *start_shared, *length_shared;
    const float *bias;
    float scale;
} rows;

static inline vec larger(vec a, vec b) {
    ints chosen = a > b;
    return (vec)((chosen & (ints)a) | (~chosen & (ints)b));
}

/* exp, relative error below 2e-7 from -87 on, no less than exp(-87), infinite from 88.4 on: 2^n times a polynomial
(coefficients of Cephes' expf). */
static inline vec exponential(vec x) {
    x = larger((vec){0} - 87.0f, x); /* in this order NaN stays NaN */
    x = -larger((vec){0} - 89.0f, -x);
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
    return p * (vec)(((ints)shifted - 0x4B400000 + 127) << 23);
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

static inline void add(float *to, const vec *from, int64_t stride, int64_t n, float scale) {
    float turned[HEAD][LANES];
    memcpy(turned, from, sizeof turned);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < HEAD; d++) to[i * stride + d] += turned[d][i] * scale;
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

/* What is added to the scores of LANES tokens with one that may be the lane-th of them. */
static inline vec raised(float bias, int64_t lane) {
    vec found = (vec){0} + bias;
    if (bias != 0 && 0 <= lane && lane < LANES) found[lane] = 0;
    return found;
}

/* Scores of up to LANES queries with `length` keys, and the largest yet. `own` is the key of the first query. */
static inline vec scored(const vec *q, const float *key, int64_t token, int64_t length, float bias, int64_t own,
                         stored *scores, vec most) {
    for (int64_t j = 0; j < length; j++, key += token) {
        scores[j] = dot(q, key) + raised(bias, j - own);
        most = larger(most, scores[j]);
    }
    return most;
}

/* Adds to o the values weighted by exp(score - most), and gives back the sum of weights. */
static inline vec read(vec *o, const float *value, int64_t token, int64_t length, const stored *scores, vec most) {
    vec sum = {0};
    for (int64_t j = 0; j < length; j++, value += token) {
        const vec p = exponential(scores[j] - most);
        sum += p;
        for (int d = 0; d < HEAD; d++) o[d] += p * value[d];
    }
    return sum;
}

/* qkv (states, positions, 3, heads, HEAD), shared (positions, 3, heads, HEAD) -> out (states, positions, heads, HEAD),
zeros before. Where `largest` is not NULL, it and `inverse` (states, positions, heads) get each query's largest score and
one over its sum of exponentials. `scores` has room for LANES numbers for each key that a query sees. */
void forward(const rows *of, const float *qkv, const float *shared, float *out, float *largest, float *inverse,
             stored *scores) {
    const int64_t width = of->n_heads * HEAD, token = 3 * width;
    for (int64_t s = 0; s < of->n_states; s++)
        for (int64_t r = 0; r < of->n_rows; r++) {
            const int64_t first = s * of->n_positions + of->start[r], length = of->length[r];
            const int64_t n_shared = of->length_shared[r];
            for (int64_t h = 0; h < of->n_heads; h++) {
                const float *queries = qkv + first * token + h * HEAD, *keys = queries + width, *values = keys + width;
                const float *shared_keys = shared + of->start_shared[r] * token + h * HEAD + width;
                for (int64_t i = 0; i < length; i += LANES) {
                    const int64_t n = at_most(length - i);
                    vec q[HEAD], o[HEAD] = {{0}}, most = (vec){0} - 1e30f;
                    load(q, queries + i * token, token, n, of->scale);
                    most = scored(q, shared_keys, token, n_shared, 0.0f, 0, scores, most);
                    most = scored(q, keys, token, length, of->bias[r], i, scores + n_shared, most);
                    vec sum = read(o, shared_keys + width, token, n_shared, scores, most);
                    sum = 1.0f / (sum + read(o, values, token, length, scores + n_shared, most));
                    for (int d = 0; d < HEAD; d++) o[d] *= sum;
                    add(out + (first + i) * width + h * HEAD, o, width, n, 1.0f);
                    if (largest) {
                        store_lanes(largest + (first + i) * of->n_heads + h, most, of->n_heads, n);
                        store_lanes(inverse + (first + i) * of->n_heads + h, sum, of->n_heads, n);
                    }
                }
            }
        }
}

/* What up to LANES queries get from `length` keys and values, given the gradients g of what they have read. `own` is the
key of the first query. */
static inline void to_queries(vec *to_q, const vec *q, const vec *g, vec most, vec over, vec mean, const float *key,
                              int64_t width, int64_t length, float bias, int64_t own) {
    for (int64_t j = 0; j < length; j++, key += 3 * width) {
        const vec p = exponential(dot(q, key) + raised(bias, j - own) - most) * over;
        const vec to_score = p * (dot(g, key + width) - mean);
        for (int d = 0; d < HEAD; d++) to_q[d] += to_score * key[d];
    }
}

/* What `length` keys and values get from all queries of a row: g, most, over and mean are those of its first query. */
static inline void to_keys(float *found, const float *keys, int64_t length, const float *query, const float *given,
                           const float *most, const float *over, const float *mean, int64_t n_queries,
                           int64_t n_heads, float scale, float bias) {
    const int64_t width = n_heads * HEAD, token = 3 * width;
    for (int64_t j = 0; j < length; j += LANES) {
        const int64_t n = at_most(length - j);
        vec k[HEAD], v[HEAD], to_k[HEAD] = {{0}}, to_v[HEAD] = {{0}};
        load(k, keys + j * token, token, n, 1.0f);
        load(v, keys + width + j * token, token, n, 1.0f);
        const float *g = given;
        for (int64_t i = 0; i < n_queries; i++, g += width) {
            float q[HEAD]; /* scaled as in `forward`, so that scores are the same to the last bit */
            for (int d = 0; d < HEAD; d++) q[d] = query[i * token + d] * scale;
            const vec p = exponential(dot(k, q) + raised(bias, i - j) - most[i * n_heads]) * over[i * n_heads];
            const vec to_score = p * (dot(v, g) - mean[i]);
            for (int d = 0; d < HEAD; d++) {
                to_k[d] += to_score * q[d];
                to_v[d] += p * g[d];
            }
        }
        add(found + j * token, to_k, token, n, 1.0f);
        add(found + width + j * token, to_v, token, n, 1.0f);
    }
}

/* Gradients like qkv and shared, zeros before, of what `forward` gave, from that of its output. `mean` has room for a
number for each token of the longest row. */
void backward(const rows *of, const float *qkv, const float *shared, const float *out, const float *largest,
              const float *inverse, const float *of_out, float *of_qkv, float *of_shared, float *mean) {
    const int64_t width = of->n_heads * HEAD, token = 3 * width;
    for (int64_t s = 0; s < of->n_states; s++)
        for (int64_t r = 0; r < of->n_rows; r++) {
            const int64_t first = s * of->n_positions + of->start[r], length = of->length[r];
            const int64_t n_shared = of->length_shared[r], first_shared = of->start_shared[r] * token;
            for (int64_t h = 0; h < of->n_heads; h++) {
                const float *queries = qkv + first * token + h * HEAD, *keys = queries + width;
                const float *shared_keys = shared + first_shared + h * HEAD + width;
                const float *given = of_out + first * width + h * HEAD, *was_read = out + first * width + h * HEAD;
                const float *most = largest + first * of->n_heads + h, *over = inverse + first * of->n_heads + h;
                float *found = of_qkv + first * token + h * HEAD;
                for (int64_t i = 0; i < length; i += LANES) {
                    const int64_t n = at_most(length - i);
                    vec q[HEAD], g[HEAD], o[HEAD], to_q[HEAD] = {{0}}, own = {0};
                    load(q, queries + i * token, token, n, of->scale);
                    load(g, given + i * width, width, n, 1.0f);
                    load(o, was_read + i * width, width, n, 1.0f);
                    for (int d = 0; d < HEAD; d++) own += g[d] * o[d];
                    store_lanes(mean + i, own, 1, n);
                    const vec m = load_lanes(most + i * of->n_heads, of->n_heads, n);
                    const vec l = load_lanes(over + i * of->n_heads, of->n_heads, n);
                    to_queries(to_q, q, g, m, l, own, shared_keys, width, n_shared, 0.0f, 0);
                    to_queries(to_q, q, g, m, l, own, keys, width, length, of->bias[r], i);
                    add(found + i * token, to_q, token, n, of->scale);
                }
                to_keys(found + width, keys, length, queries, given, most, over, mean, length, of->n_heads, of->scale,
                        of->bias[r]);
                if (n_shared)
                    to_keys(of_shared + first_shared + h * HEAD + width, shared_keys, n_shared, queries, given, most,
                            over, mean, length, of->n_heads, of->scale, 0.0f);
            }
        }
}

int64_t lanes(void) { return LANES; }
