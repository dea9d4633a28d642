// Pools: each output pixel joins a window of the input, channel by channel. KIND: 0 largest, 1 mean, 2 p-norm.
// u_behind: padding behind that counts (rows, columns, depth); u_counts: whether padding counts.
// DEPTH: windows over volumes, whose blocks have one row (volume_rows.glsl).


#if KIND == 0
const uint LEAST = 0xff800000u;  // -Inf: what padding holds
#define START vec4(uintBitsToFloat(LEAST))
#define JOIN(a, v) larger(a, v)
#elif KIND == 1
#define START vec4(0.0)
#define JOIN(a, v) (a + v)
#else
#define START vec4(0.0)
#define JOIN(a, v) (a + (u_p == 1.0 ? abs(v) : u_p == 2.0 ? v * v : pow(abs(v), vec4(u_p))))
#endif

#if KIND == 1
// How many taps of a window that begins at `from` are on the map, or on its padding where that counts.
int taps(int from, int kernel, int dilation, int length, int behind) {
  int least = u_counts == 1 ? from : 0, end = u_counts == 1 ? length + behind : length;
  int first = from < least ? (least - from + dilation - 1) / dilation : 0;
  int last = from >= end ? 0 : min(kernel, (end - 1 - from) / dilation + 1);
  return last - first;
}
#endif

// Of pixel k of the block.
vec4 result(vec4 v, ivec4 at, int k) {
#if KIND == 1
  int dx = k % BX, dy = (k / BX) % BY;
  ivec2 from = (ivec2(ROW(at.z), at.w) + ivec2(dy, dx)) * u_stride - u_padding;
  int count = taps(from.x, u_kernel.x, u_dilation.x, HEIGHT, u_behind.x)
    * taps(from.y, u_kernel.y, u_dilation.y, u.x[0].nchw.w, u_behind.y);
#if DEPTH
  count *= taps(SLICE(at.z) * u_deep.y - u_deep.w, u_deep.x, u_deep.z, u_slices, u_behind.z);
#endif
  v /= float(count);
#elif KIND == 2
  v = u_p == 1.0 ? v : u_p == 2.0 ? sqrt(v) : pow(v, vec4(1.0 / u_p));
#endif
  return keep(v, at.y);
}

// For each image, row and column of the block, and for each of its pixels (number, image, row, column).
#if BN == 1
#define IMAGES(M) M(0)
#elif BN == 2
#define IMAGES(M) M(0) M(1)
#else
#define IMAGES(M) M(0) M(1) M(2) M(3)
#endif
#if BY == 1
#define ROWS(M) M(0)
#elif BY == 2
#define ROWS(M) M(0) M(1)
#else
#define ROWS(M) M(0) M(1) M(2) M(3)
#endif
#if BX == 1
#define COLUMNS(M) M(0)
#elif BX == 2
#define COLUMNS(M) M(0) M(1)
#else
#define COLUMNS(M) M(0) M(1) M(2) M(3)
#endif
#if LAYERS == 1
#define PIXELS(M) M(0, 0, 0, 0)
#elif BN == 2
#define PIXELS(M) M(0, 0, 0, 0) M(1, 1, 0, 0)
#elif BN == 4
#define PIXELS(M) M(0, 0, 0, 0) M(1, 1, 0, 0) M(2, 2, 0, 0) M(3, 3, 0, 0)
#elif LAYERS == 2 && BY == 2
#define PIXELS(M) M(0, 0, 0, 0) M(1, 0, 1, 0)
#elif LAYERS == 2
#define PIXELS(M) M(0, 0, 0, 0) M(1, 0, 0, 1)
#elif BY == 2
#define PIXELS(M) M(0, 0, 0, 0) M(1, 0, 0, 1) M(2, 0, 1, 0) M(3, 0, 1, 1)
#elif BY == 4
#define PIXELS(M) M(0, 0, 0, 0) M(1, 0, 1, 0) M(2, 0, 2, 0) M(3, 0, 3, 0)
#else
#define PIXELS(M) M(0, 0, 0, 0) M(1, 0, 0, 1) M(2, 0, 0, 2) M(3, 0, 0, 3)
#endif

#define IMAGE(n) corners[n] = corner(l, min(at.x + n, l.nchw.x - 1), at.y);
#define ROW_OF(j) \
  { int p = y + j * u_stride.x; in_y[j] = p >= 0 && p < HEIGHT; \
    rows[j] = place(top + clamp(p, 0, HEIGHT - 1), l.phase.x, l.phase.w, l.block.y, l.block.z); }
#define COLUMN_OF(i) \
  { int p = x + i * u_stride.y; in_x[i] = p >= 0 && p < l.nchw.w; \
    columns[i] = place(clamp(p, 0, l.nchw.w - 1), l.phase.y, l.phase.z, l.block.z, 1); }
#define PIXEL(k, n, j, i) \
  { vec4 v = SAMPLE(x0, l, (corners[n] + vec3(columns[i].x, rows[j].x, rows[j].y + columns[i].y)) * unit); \
    a[k] = in_y[j] && in_x[i] ? JOIN(a[k], v) : a[k]; }
#define FIRST(k, n, j, i) a[k] = START;

void main() {
  ivec4 at = origin();
  vec4 a[LAYERS];
  PIXELS(FIRST)
  if (at.x < 0) {
    at = ivec4(0, u.o.tile.w, 0, 0);  // past the last tile: no lane is kept
  } else {
    Layout l = u.x[0];
    vec3 unit = vec3(UNIT(x0), 1.0);
    bool in_y[BY], in_x[BX];
    vec2 rows[BY], columns[BX];
    vec3 corners[BN];
    IMAGES(IMAGE)
    ivec2 from = ivec2(ROW(at.z), at.w) * u_stride - u_padding;
#if DEPTH
    for (int kz = 0; kz < u_deep.x; kz++) {
    int slice = SLICE(at.z) * u_deep.y - u_deep.w + kz * u_deep.z;
    if (slice < 0 || slice >= u_slices) continue;
    int top = slice * HEIGHT;
#else
    const int top = 0;
#endif
    for (int ky = 0; ky < u_kernel.x; ky++) {
      int y = from.x + ky * u_dilation.x;
      ROWS(ROW_OF)
      for (int kx = 0; kx < u_kernel.y; kx++) {
        int x = from.y + kx * u_dilation.y;
        COLUMNS(COLUMN_OF)
        PIXELS(PIXEL)
      }
    }
#if DEPTH
    }
#endif
  }
  o0 = result(a[0], at, 0);
#if LAYERS > 1
  o1 = result(a[1], at, 1);
#endif
#if LAYERS > 2
  o2 = result(a[2], at, 2);
  o3 = result(a[3], at, 3);
#endif
}
