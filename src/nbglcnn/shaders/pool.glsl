// Pools: each output pixel joins a window of the input, channel by channel. KIND: 0 largest, 1 mean, 2 p-norm.
//
// The windows of a block's pixels overlap, so each input texel is read once and joined to all windows it is in.
// i[0] kernel and stride (rows, columns), i[1] dilation and padding before, i[2] rows and columns that the block
// spans, padding behind that counts, i[3] whether padding counts, and that behind the depth; f[3].x: p.
// DEPTH: windows over volumes, whose blocks have one row (depth.glsl).

#define KERNEL u.i[0].xy
#define STRIDE u.i[0].zw
#define DILATION u.i[1].xy
#define PADDING u.i[1].zw
#define SPAN u.i[2].xy

#if KIND == 0
const uint LEAST = 0xff800000u;  // -Inf: what padding holds
#define START vec4(uintBitsToFloat(LEAST))
#define JOIN(a, v) a = larger(a, v)
#elif KIND == 1
#define START vec4(0.0)
#define JOIN(a, v) a += v
#else
#define START vec4(0.0)
#define JOIN(a, v) a += u.f[3].x == 1.0 ? abs(v) : u.f[3].x == 2.0 ? v * v : pow(abs(v), vec4(u.f[3].x))
#endif

// Whether the window that begins at 0 has a tap at t.
bool tap(int t, int kernel, int dilation) {
  return t >= 0 && t <= (kernel - 1) * dilation && t % dilation == 0;
}

#if KIND == 1
// How many taps of a window that begins at `from` are on the map, or on its padding where that counts.
int taps(int from, int kernel, int dilation, int length, int behind) {
  int least = u.i[3].x == 1 ? from : 0, end = u.i[3].x == 1 ? length + behind : length;
  int first = from < least ? (least - from + dilation - 1) / dilation : 0;
  int last = from >= end ? 0 : min(kernel, (end - 1 - from) / dilation + 1);
  return last - first;
}
#endif

// Of pixel k of the block.
vec4 result(vec4 v, ivec4 at, int k) {
#if KIND == 1
  int dx = k % BX, dy = (k / BX) % BY;
  ivec2 from = (ivec2(ROW(at.z), at.w) + ivec2(dy, dx)) * STRIDE - PADDING;
  int count = taps(from.x, KERNEL.x, DILATION.x, HEIGHT, u.i[2].z)
    * taps(from.y, KERNEL.y, DILATION.y, u.x[0].frame.w, u.i[2].w);
#if DEPTH
  count *= taps(SLICE(at.z) * DEEP.y - DEEP.w, DEEP.x, DEEP.z, SLICES, u.i[3].y);
#endif
  v /= float(count);
#elif KIND == 2
  v = u.f[3].x == 1.0 ? v : u.f[3].x == 2.0 ? sqrt(v) : pow(v, vec4(1.0 / u.f[3].x));
#endif
  return keep(v, at.y);
}

// Where tile (image n, group g) begins in the texture, and its layer part.
vec3 corner(Layout l, int n, int g) {
  int tile = n / l.block.x * l.tile.w + g, line = tile / l.tile.z;
  return vec3(float((tile - line * l.tile.z) * l.tile.x) + 0.5, float(line * l.tile.y) + 0.5,
              float(n % l.block.x * l.block.y * l.block.z));
}

void main() {
  ivec4 at = origin();
  vec4 a0 = START;
#if LAYERS > 1
  vec4 a1 = START;
#endif
#if LAYERS > 2
  vec4 a2 = START, a3 = START;
#endif
  if (at.x < 0) {
    at = ivec4(0, u.o.tile.w, 0, 0);  // past the last tile: no lane is kept
  } else {
    Layout l = u.x[0];
    vec3 unit = vec3(1.0 / vec2(textureSize(x0, 0).xy), 1.0);
    int end = l.frame.x - 1;
    vec3 c0 = corner(l, min(at.x, end), at.y);
#if BN > 1
    vec3 c1 = corner(l, min(at.x + 1, end), at.y);
#endif
#if BN > 2
    vec3 c2 = corner(l, min(at.x + 2, end), at.y), c3 = corner(l, min(at.x + 3, end), at.y);
#endif
    ivec2 from = ivec2(ROW(at.z), at.w) * STRIDE - PADDING;
#if DEPTH
    for (int kz = 0; kz < DEEP.x; kz++) {
    int slice = SLICE(at.z) * DEEP.y - DEEP.w + kz * DEEP.z;
    if (slice < 0 || slice >= SLICES) continue;
    int top = slice * HEIGHT;
#else
    const int top = 0;
#endif
    for (int r = 0; r < SPAN.x; r++) {
      int y = from.x + r;
      if (y < 0 || y >= HEIGHT) continue;
      bool r0 = tap(r, KERNEL.x, DILATION.x);
#if BY > 1
      bool r1 = tap(r - STRIDE.x, KERNEL.x, DILATION.x);
      bool row_used = r0 || r1;
#if BY > 2
      bool r2 = tap(r - 2 * STRIDE.x, KERNEL.x, DILATION.x), r3 = tap(r - 3 * STRIDE.x, KERNEL.x, DILATION.x);
      row_used = row_used || r2 || r3;
#endif
#else
      bool row_used = r0;
#endif
      if (!row_used) continue;
      vec2 row = place(top + y, l.phase.x, l.phase.w, l.block.y, l.block.z);
      for (int c = 0; c < SPAN.y; c++) {
        int x = from.y + c;
        if (x < 0 || x >= l.frame.w) continue;
        bool k0 = tap(c, KERNEL.y, DILATION.y);
#if BX > 1
        bool k1 = tap(c - STRIDE.y, KERNEL.y, DILATION.y);
        bool used = k0 || k1;
#if BX > 2
        bool k2 = tap(c - 2 * STRIDE.y, KERNEL.y, DILATION.y), k3 = tap(c - 3 * STRIDE.y, KERNEL.y, DILATION.y);
        used = used || k2 || k3;
#endif
#else
        bool used = k0;
#endif
        if (!used) continue;
        vec2 column = place(x, l.phase.y, l.phase.z, l.block.z, 1);
        vec3 p = vec3(column.x, row.x, row.y + column.y);
        vec4 v = FETCH(x0, (c0 + p) * unit);
#if BN > 1
        JOIN(a0, v);
        v = FETCH(x0, (c1 + p) * unit);
        JOIN(a1, v);
#if BN > 2
        v = FETCH(x0, (c2 + p) * unit);
        JOIN(a2, v);
        v = FETCH(x0, (c3 + p) * unit);
        JOIN(a3, v);
#endif
#elif BY > 2
        if (r0) JOIN(a0, v);
        if (r1) JOIN(a1, v);
        if (r2) JOIN(a2, v);
        if (r3) JOIN(a3, v);
#elif BX > 2
        if (k0) JOIN(a0, v);
        if (k1) JOIN(a1, v);
        if (k2) JOIN(a2, v);
        if (k3) JOIN(a3, v);
#elif LAYERS == 4
        if (r0 && k0) JOIN(a0, v);
        if (r0 && k1) JOIN(a1, v);
        if (r1 && k0) JOIN(a2, v);
        if (r1 && k1) JOIN(a3, v);
#elif BY == 2
        if (r0) JOIN(a0, v);
        if (r1) JOIN(a1, v);
#elif BX == 2
        if (k0) JOIN(a0, v);
        if (k1) JOIN(a1, v);
#else
        JOIN(a0, v);
#endif
      }
    }
#if DEPTH
    }
#endif
  }
  o0 = result(a0, at, 0);
#if LAYERS > 1
  o1 = result(a1, at, 1);
#endif
#if LAYERS > 2
  o2 = result(a2, at, 2);
  o3 = result(a3, at, 3);
#endif
}
