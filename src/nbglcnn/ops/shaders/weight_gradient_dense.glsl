// What weight_gradient.glsl says, of channels by fours: the layers are output channels, the lanes input channels, so
// that two reads serve 16 products. With DEPTHWISE lanes are channels and the output's images parts. TOGETHER images
// are read at once; REST says that their number is no multiple of it, STACKED that both tensors have four in a texel's
// layers, ONE that there is one place.
//
// A place PERIOD further lies a fixed number of texels further, in the same layer and phase, whatever the layouts of x
// and dy. So a loop goes over every PERIODth place, and only where it begins is looked for. In SMALL maps such loops
// go round two or three times: there each place is looked for.

#if DEPTHWISE
#define PRODUCTS a0 += d * v;
#else
#define PRODUCTS a0 += d.x * v; a1 += d.y * v; a2 += d.z * v; a3 += d.w * v;
#endif
#if REST
#define KNOWN(k) if (k >= left) d = v = vec4(0.0);
#else
#define KNOWN(k)
#endif
#define ADD(k) \
  { vec4 d = SAMPLE(x1, m, dy + to_dy[k]), v = SAMPLE(x0, l, x + to_x[k]); KNOWN(k) PRODUCTS }

#if STACKED
#define IMAGE(k) to_x[k] = vec3(in_x.xy, in_x.z + float(k)); to_dy[k] = vec3(in_dy.xy, in_dy.z + float(k));
#else
#define IMAGE(k) \
  to_x[k] = start(l, xs, min(n + k, s.end - 1), from); to_dy[k] = start(m, ys, min(n + k, s.end - 1), to);
#endif
#if TOGETHER == 1
#define IMAGES(M) M(0)
#elif TOGETHER == 2
#define IMAGES(M) M(0) M(1)
#else
#define IMAGES(M) M(0) M(1) M(2) M(3)
#endif

// Where image n's tile begins, in texture coordinates.
vec3 start(Layout l, vec2 unit, int n, int g) {
  vec3 at = corner(l, n, g);
  return vec3(at.xy * unit, at.z);
}

// Where a pixel lies in its tile.
vec3 inside(Layout l, vec2 unit, int row, int column) {
  vec2 y = place(row, l.phase.x, l.phase.w, l.block.y, l.block.z);
  vec2 x = place(column, l.phase.y, l.phase.z, l.block.z, 1);
  return vec3(vec2(x.x, y.x) * unit, x.y + y.y);
}

void main() {
  ivec4 at = origin();
  vec4 a0 = vec4(0.0);
#if !DEPTHWISE
  vec4 a1 = vec4(0.0), a2 = vec4(0.0), a3 = vec4(0.0);
#endif
  if (at.x >= 0) {
#if DEPTHWISE
    int part = at.x, from = at.y, to = at.y;
#else
    int part = quotient(at.x, u_rows), to = (at.x - part * u_rows) >> 2, from = at.y;
#if GROUPED
    from += over(4 * to, u_outputs) * (u_inputs >> 2);
#endif
#endif
    Sum s = sum_of(part, at.z, at.w);
    Layout l = u.x[0], m = u.x[1];
    vec2 xs = UNIT(x0), ys = UNIT(x1);
    ivec2 period = u_period;
    vec2 next_dy = vec2(u_step.yx) * ys, next_x = vec2(u_step_x.yx) * xs;
#if ONE
    if (any(greaterThanEqual(s.low, s.high))) s.end = s.first;
    vec3 dy = inside(m, ys, 0, 0);
    vec3 x = inside(l, xs, max(s.tap.x * u_size.y + s.tap.y, 0), max(s.tap.z, 0));
#endif
    for (int n = s.first; n < s.end; n += TOGETHER) {
      vec3 to_x[TOGETHER], to_dy[TOGETHER];
#if STACKED
      vec3 in_x = start(l, xs, n, from), in_dy = start(m, ys, n, to);
#endif
      IMAGES(IMAGE)
#if REST
      int left = s.end - n;
#endif
#if ONE
      IMAGES(ADD)
#else
      for (int z = s.low.x; z < s.high.x; z++) {
        int row = z * u_places.y, row_x = (z * u_stride.x + s.tap.x) * u_size.y + s.tap.y;
#if SMALL
        ivec2 q = s.low.yz, size = max(s.high.yz - s.low.yz, ivec2(0));
        for (int k = 0; k < size.x * size.y; k++) {
          vec3 dy = inside(m, ys, row + q.x, q.y);
          vec3 x = inside(l, xs, row_x + q.x * u_stride.y, q.y * u_stride.z + s.tap.z);
          IMAGES(ADD)
          if (++q.y == s.high.z) q = ivec2(q.x + 1, s.low.z);
        }
#else
        for (int py = s.low.y; py < min(s.low.y + period.x, s.high.y); py++) {
          int rows = over(s.high.y - py + period.x - 1, period.x);
          for (int px = s.low.z; px < min(s.low.z + period.y, s.high.z); px++) {
            int columns = over(s.high.z - px + period.y - 1, period.y);
            vec3 dy = inside(m, ys, row + py, px);
            vec3 x = inside(l, xs, row_x + py * u_stride.y, px * u_stride.z + s.tap.z);
            vec2 left_at = vec2(dy.x, x.x);
            // One loop, for rows are short and a loop costs as much as a dozen reads. Columns are not added up step by
            // step: long rows would lose their place.
            int column = 0, count = rows * columns;
            for (int k = 0; k < count; k++) {
              dy.x = left_at.x + float(column) * next_dy.x;
              x.x = left_at.y + float(column) * next_x.x;
              IMAGES(ADD)
              column++;
              if (column == columns) {
                column = 0;
                dy.y += next_dy.y;
                x.y += next_x.y;
              }
            }
          }
        }
#endif
      }
#endif
    }
  }
  o0 = keep(a0, max(at.y, 0));
#if !DEPTHWISE
  o1 = keep(a1, max(at.y, 0)), o2 = keep(a2, max(at.y, 0)), o3 = keep(a3, max(at.y, 0));
#endif
}
