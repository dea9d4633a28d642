// Convolution of a 2×2 block from one patch of the input: neighbouring pixels share most of what they read, so a
// 3×3 kernel needs 16 + 36 reads for its 576 MACs instead of 72. Transposed convolutions whose kernel is
// a multiple of the stride are the same thing for each phase: TAPS_Y × TAPS_X taps, stride 1, kernel flipped.
//
// x0: input in blocks of 2×2 too, w0: weights (weights.conv_texture), x1: bias, x2: residual.
// The numbers are those of conv.glsl.
// TAPS_Y rows of taps are unrolled; STEP is the distance of the block's pixels in the input, EVERY that of the rows
// of taps: a kernel of 4 rows and stride 2 goes over its even rows, of which both pixels together need 3 input rows,
// and then over its odd ones. PLAIN says that the input has no phases, GROUPED that there are several groups; BEFORE
// is a function of the input to read: 1 Relu, 2 LeakyRelu, with u_slope for Relu's 0 (a constant 0 becomes
// max(), which drops NaN) or the slope; SHEETS and DEPTHWISE as in conv.glsl. A loop costs as much as a dozen reads,
// so those that go round once are left out: MORE_ROWS says that the kernel has more than TAPS_Y rows, SINGLE that
// there is one input channel group, of LANES channels. RUNS: 1 where the groups one pixel needs may lie in several rows
// of tiles, 2 where their weights lie in several column parts. POINT says that the kernel is 1×1 and moves nothing: the
// block is read from where it is written.

#if TAPS_X == 1
#define EVERY_X STEP
#else
#define EVERY_X 1
#endif
#define STEP_X (STEP / EVERY_X)
#define STEP_Y (STEP / EVERY)
#define COLUMNS (TAPS_X + STEP_X)
#define ROWS (TAPS_Y + STEP_Y)

// Beyond the texture, whose last column and row hold zeros (layout.py): what is outside the map is read there.
#define OUTSIDE 2.0

#if PLAIN
#define PLACE(r, phases, area, pixels, weight) vec2((r) >> 1, ((r) & 1) * (weight))
#else
#define PLACE(r, phases, area, pixels, weight) place(r, phases, area, pixels, weight)
#endif

// A column or row of the patch: its coordinate, the part of the layer number it decides.
#define COLUMN(c) \
  { int x = left + c * EVERY_X; \
    vec2 p = PLACE(clamp(x, 0, l.nchw.w - 1), l.phase.y, l.phase.z, l.block.z, 1); \
    at_x[c] = x >= 0 && x < l.nchw.w ? (p.x + 0.5) * xs.x : OUTSIDE; layer_x[c] = p.y; }
#define ROW(r) \
  { int y = top + r * EVERY; \
    vec2 p = PLACE(clamp(y, 0, l.nchw.z - 1), l.phase.x, l.phase.w, l.block.y, 2); \
    at_y[r] = y >= 0 && y < l.nchw.z ? (p.x + 0.5) * xs.y : OUTSIDE; layer_y[r] = p.y; }
#if BEFORE == 1
#define APPLY(v) v = mix(v, vec4(u_slope), lessThan(v, vec4(0.0)));
#elif BEFORE == 2
#define APPLY(v) v = mix(v, v * u_slope, lessThan(v, vec4(0.0)));
#else
#define APPLY(v)
#endif
#if RUNS == 1
#define ROW_AT(r) (at_y[r] + shift.y)
#else
#define ROW_AT(r) row_y[r]
#endif
#define LOAD(r, c) \
  v[(r) * COLUMNS + c] = FETCH(x0, vec3(at_x[c] + shift.x, ROW_AT(r), layer_x[c] + layer_y[r])); \
  APPLY(v[(r) * COLUMNS + c])
#if DEPTHWISE
#define WEIGHTS vec4 q0 = FETCH(w0, t);
#define PIXEL(a, p) a += q0 * p;
#elif LANES == 1
#define WEIGHTS vec4 q0 = FETCH(w0, t);
#define PIXEL(a, p) a += q0 * p.x;
#elif LANES == 2
#define WEIGHTS vec4 q0 = FETCH(w0, t), q1 = FETCH(w0, vec3(t.x + ws.x, t.yz));
#define PIXEL(a, p) a += q0 * p.x + q1 * p.y;
#elif LANES == 3
#define WEIGHTS \
    vec4 q0 = FETCH(w0, t), q1 = FETCH(w0, vec3(t.x + ws.x, t.yz)), q2 = FETCH(w0, vec3(t.x + 2.0 * ws.x, t.yz));
#define PIXEL(a, p) a += q0 * p.x + q1 * p.y + q2 * p.z;
#else
#define WEIGHTS \
    vec4 q0 = FETCH(w0, t), q1 = FETCH(w0, vec3(t.x + ws.x, t.yz)); \
    vec4 q2 = FETCH(w0, vec3(t.x + 2.0 * ws.x, t.yz)), q3 = FETCH(w0, vec3(t.x + 3.0 * ws.x, t.yz));
#define PIXEL(a, p) a += q0 * p.x + q1 * p.y + q2 * p.z + q3 * p.w;
#endif
// What no channel group changes is not left to compilers: those of processors leave it in the loop.
#define ROW_Y(r) row_y[r] = at_y[r] + shift.y;
#define TAP_Y(i, j) tap_y[(i) * TAPS_X + j] = q.y + (float(i) * next.y + float(j) * next.x);
#define TAP(i, j) \
  { vec3 t = vec3(q.x, tap_y[(i) * TAPS_X + j], sheet); \
    WEIGHTS \
    PIXEL(a0, v[(i) * COLUMNS + j]) PIXEL(a1, v[(i) * COLUMNS + j + STEP_X]) \
    PIXEL(a2, v[(i + STEP_Y) * COLUMNS + j]) PIXEL(a3, v[(i + STEP_Y) * COLUMNS + j + STEP_X]) }

// The preprocessor unrolls: with literal indices the patch stays in registers.
#if COLUMNS == 2
#define ALONG(M) M(0) M(1)
#define LOADS(r) LOAD(r, 0) LOAD(r, 1)
#elif COLUMNS == 3
#define ALONG(M) M(0) M(1) M(2)
#define LOADS(r) LOAD(r, 0) LOAD(r, 1) LOAD(r, 2)
#elif COLUMNS == 4
#define ALONG(M) M(0) M(1) M(2) M(3)
#define LOADS(r) LOAD(r, 0) LOAD(r, 1) LOAD(r, 2) LOAD(r, 3)
#elif COLUMNS == 5
#define ALONG(M) M(0) M(1) M(2) M(3) M(4)
#define LOADS(r) LOAD(r, 0) LOAD(r, 1) LOAD(r, 2) LOAD(r, 3) LOAD(r, 4)
#elif COLUMNS == 6
#define ALONG(M) M(0) M(1) M(2) M(3) M(4) M(5)
#define LOADS(r) LOAD(r, 0) LOAD(r, 1) LOAD(r, 2) LOAD(r, 3) LOAD(r, 4) LOAD(r, 5)
#elif COLUMNS == 7
#define ALONG(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6)
#define LOADS(r) LOAD(r, 0) LOAD(r, 1) LOAD(r, 2) LOAD(r, 3) LOAD(r, 4) LOAD(r, 5) LOAD(r, 6)
#elif COLUMNS == 8
#define ALONG(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define LOADS(r) LOAD(r, 0) LOAD(r, 1) LOAD(r, 2) LOAD(r, 3) LOAD(r, 4) LOAD(r, 5) LOAD(r, 6) LOAD(r, 7)
#elif COLUMNS == 9
#define ALONG(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8)
#define LOADS(r) LOAD(r, 0) LOAD(r, 1) LOAD(r, 2) LOAD(r, 3) LOAD(r, 4) LOAD(r, 5) LOAD(r, 6) LOAD(r, 7) LOAD(r, 8)
#endif
#if TAPS_X == 1
#define TAPS(M, i) M(i, 0)
#elif TAPS_X == 2
#define TAPS(M, i) M(i, 0) M(i, 1)
#elif TAPS_X == 3
#define TAPS(M, i) M(i, 0) M(i, 1) M(i, 2)
#elif TAPS_X == 4
#define TAPS(M, i) M(i, 0) M(i, 1) M(i, 2) M(i, 3)
#elif TAPS_X == 5
#define TAPS(M, i) M(i, 0) M(i, 1) M(i, 2) M(i, 3) M(i, 4)
#elif TAPS_X == 6
#define TAPS(M, i) M(i, 0) M(i, 1) M(i, 2) M(i, 3) M(i, 4) M(i, 5)
#elif TAPS_X == 7
#define TAPS(M, i) M(i, 0) M(i, 1) M(i, 2) M(i, 3) M(i, 4) M(i, 5) M(i, 6)
#endif
#if ROWS == 2
#define DOWN(M) M(0) M(1)
#elif ROWS == 3
#define DOWN(M) M(0) M(1) M(2)
#elif ROWS == 4
#define DOWN(M) M(0) M(1) M(2) M(3)
#elif ROWS == 5
#define DOWN(M) M(0) M(1) M(2) M(3) M(4)
#endif
#if TAPS_Y == 1
#define ALL_TAPS(M) TAPS(M, 0)
#elif TAPS_Y == 2
#define ALL_TAPS(M) TAPS(M, 0) TAPS(M, 1)
#elif TAPS_Y == 3
#define ALL_TAPS(M) TAPS(M, 0) TAPS(M, 1) TAPS(M, 2)
#endif

// What one input channel group adds.
#if POINT
#define PATCH(p, layer) vec4 p = FETCH(x0, vec3(shift, layer)); APPLY(p)
#if LAYERS == 1
#define PATCHES PATCH(p0, 0.0)
#define PIXELS PIXEL(a0, p0)
#elif LAYERS == 2
#define PATCHES PATCH(p0, 0.0) PATCH(p1, 1.0)
#define PIXELS PIXEL(a0, p0) PIXEL(a1, p1)
#else
#define PATCHES PATCH(p0, 0.0) PATCH(p1, 1.0) PATCH(p2, 2.0) PATCH(p3, 3.0)
#define PIXELS PIXEL(a0, p0) PIXEL(a1, p1) PIXEL(a2, p2) PIXEL(a3, p3)
#endif
#define GROUP \
  { PATCHES \
    vec3 t = q; \
    WEIGHTS \
    PIXELS }
#else
#define GROUP DOWN(LOADS) ALL_TAPS(TAP)
#endif

void main() {
  // A fragment past the last tile computes the first one again and stores zeros: branches cost more than that.
  ivec4 found = origin(), at = max(found, 0);
  vec4 a0 = vec4(0.0), a1 = vec4(0.0), a2 = vec4(0.0), a3 = vec4(0.0);
  Layout l = u.x[0];
  vec2 xs = 1.0 / vec2(textureSize(x0, 0).xy), ws = 1.0 / vec2(textureSize(w0, 0).xy);
  int groups = u_inputs, first = at.x / BN * l.tile.w;
#if DEPTHWISE
  first += at.y;
#elif GROUPED
  first += over(at.y, u_outputs) * groups;
#endif
#if SHEETS
  int sheet_groups = u_lines / u_taps, weight_row = at.y % sheet_groups * u_taps;
  float sheet = float(at.y / sheet_groups);
#else
  int weight_row = at.y * u_taps;
  const float sheet = 0.0;
#endif
#if !POINT
  float at_x[COLUMNS], layer_x[COLUMNS], at_y[ROWS], layer_y[ROWS], row_y[ROWS], tap_y[TAPS_Y * TAPS_X];
  vec4 v[ROWS * COLUMNS];
#endif
#if TRANSPOSED
  ivec2 begin = at.zw + u_padding, whole = over(begin, u_stride), phase = begin - whole * u_stride;
  int left = whole.y - (TAPS_X - 1), top = whole.x - (TAPS_Y - 1);
  // Weight row of tap (0, 0), and from one tap to the next: the kernel is read backwards, stride apart.
  weight_row += (phase.x + u_stride.x * (TAPS_Y - 1)) * u_kernel.y + phase.y + u_stride.y * (TAPS_X - 1);
  vec2 next = vec2(-u_stride.y, -u_stride.x * u_kernel.y) * ws.y;
#else
  int left = at.w * STEP - u_padding.y, top = at.z * STEP - u_padding.x;
  vec2 next = vec2(1, EVERY * u_kernel.y) * ws.y;
#endif
#if POINT
  vec2 inside = vec2(at.wz / ivec2(BX, BY)) + 0.5;
#else
  const vec2 inside = vec2(0.0);
  ALONG(COLUMN)
#endif
#if MORE_ROWS
  for (int ky = 0; ky * TAPS_Y < u_kernel.x; ky++, top++, weight_row += u_kernel.y) {
#else
  {
#endif
#if !POINT
    DOWN(ROW)
#endif
#if RUNS == 2
    // Between two runs the tile row changes, or the weight column part.
    for (int g = 0; g < groups;) {
      int tile = first + g, line = quotient(tile, l.tile.z), column = tile - line * l.tile.z;
      int part = g / COLUMN_GROUPS;
      int run = min(min(groups - g, l.tile.z - column), (part + 1) * COLUMN_GROUPS - g);
      vec2 shift = (vec2(column * l.tile.x, line * l.tile.y) + inside) * xs;
      vec3 q = vec3((float((g - part * COLUMN_GROUPS) * 4) + 0.5) * ws.x,
                    (float(part * u_lines + weight_row) + 0.5) * ws.y, sheet);
      g += run;
#else
    {
      int line = quotient(first, l.tile.z), column = first - line * l.tile.z, run = groups;
      vec2 shift = (vec2(column * l.tile.x, line * l.tile.y) + inside) * xs;
      vec3 q = vec3(0.5 * ws.x, (float(weight_row) + 0.5) * ws.y, sheet);
#endif
#if !POINT
#if RUNS != 1
      DOWN(ROW_Y)
#endif
      ALL_TAPS(TAP_Y)
#endif
#if SINGLE
      GROUP
#else
      float across = float(l.tile.x) * xs.x;
#if RUNS == 1
      vec2 next_row = vec2(-l.tile.x * l.tile.z, l.tile.y) * xs;
#endif
      do {
        GROUP
        q.x += 4.0 * ws.x;
        shift.x += across;
#if RUNS == 1
        column = column + 1 < l.tile.z ? column + 1 : 0;
        shift += column == 0 ? next_row : vec2(0.0);
#endif
      } while (--run > 0);
#endif
    }
  }
  finish(found, a0
#if LAYERS > 1
    , a1
#endif
#if LAYERS > 2
    , a2, a3
#endif
  );
}
