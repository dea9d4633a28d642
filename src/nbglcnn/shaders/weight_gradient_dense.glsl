// What weight_gradient.glsl says, of channels by fours: the layers are output channels, the lanes input channels, so
// that two reads serve 16 products. With DEPTHWISE lanes are channels and the output's images parts. TOGETHER images
// are read at once; REST says that their number is no multiple of it.
//
// A place PERIOD further lies a fixed number of texels further, in the same layer and phase, whatever the layouts of x
// and dy. So a loop goes over every PERIODth place, and only where it begins is looked for.

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

#define IMAGE(k) \
  to_x[k] = start(l, xs, min(n + k, s.end - 1), from); to_dy[k] = start(m, ys, min(n + k, s.end - 1), to);

// Where image n's tile begins, in texture coordinates.
vec3 start(Layout l, vec2 unit, int n, int g) {
  vec3 at = corner(l, n, g);
  return vec3(at.xy * unit, at.z);
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
    int part = quotient(at.x, ROWS), to = (at.x - part * ROWS) >> 2, from = at.y;
#if GROUPED
    from += over(4 * to, u.i[3].w) * (u.i[2].w >> 2);
#endif
#endif
    Sum s = sum_of(part, at.z, at.w);
    Layout l = u.x[0], m = u.x[1];
    vec2 xs = UNIT(x0), ys = UNIT(x1);
    ivec2 period = u.i[6].xy;
    vec2 next_dy = vec2(u.i[7].yx) * ys, next_x = vec2(u.i[7].wz) * xs;
    for (int n = s.first; n < s.end; n += TOGETHER) {
      vec3 to_x[TOGETHER], to_dy[TOGETHER];
      IMAGE(0)
#if TOGETHER > 1
      IMAGE(1)
#endif
#if TOGETHER > 2
      IMAGE(2) IMAGE(3)
#endif
#if REST
      int left = s.end - n;
#endif
      for (int z = s.low.x; z < s.high.x; z++) {
        int above = z * u.i[0].z, over_x = (z * STRIDE.x + s.tap.x) * u.i[4].y;
        for (int py = s.low.y; py < min(s.low.y + period.x, s.high.y); py++) {
          vec2 row_dy = place(above + py, m.phase.x, m.phase.w, m.block.y, m.block.z);
          vec2 row_x = place(over_x + py * STRIDE.y + s.tap.y, l.phase.x, l.phase.w, l.block.y, l.block.z);
          int rows = quotient(s.high.y - py + period.x - 1, period.x);
          for (int px = s.low.z; px < min(s.low.z + period.y, s.high.z); px++) {
            vec2 column_dy = place(px, m.phase.y, m.phase.z, m.block.z, 1);
            vec2 column_x = place(px * STRIDE.z + s.tap.z, l.phase.y, l.phase.z, l.block.z, 1);
            int columns = quotient(s.high.z - px + period.y - 1, period.y);
            vec3 dy = vec3(vec2(column_dy.x, row_dy.x) * ys, column_dy.y + row_dy.y);
            vec3 x = vec3(vec2(column_x.x, row_x.x) * xs, column_x.y + row_x.y);
            vec2 left_at = vec2(dy.x, x.x);
            // One loop, for rows are short and a loop costs as much as a dozen reads. Columns are not added up step by
            // step: long rows would lose their place.
            int column = 0, count = rows * columns;
            for (int k = 0; k < count; k++) {
              dy.x = left_at.x + float(column) * next_dy.x;
              x.x = left_at.y + float(column) * next_x.x;
              ADD(0)
#if TOGETHER > 1
              ADD(1)
#endif
#if TOGETHER > 2
              ADD(2) ADD(3)
#endif
              column++;
              if (column == columns) {
                column = 0;
                dy.y += next_dy.y;
                x.y += next_x.y;
              }
            }
          }
        }
      }
    }
  }
  o0 = keep(a0, max(at.y, 0));
#if !DEPTHWISE
  o1 = keep(a1, max(at.y, 0)), o2 = keep(a2, max(at.y, 0)), o3 = keep(a3, max(at.y, 0));
#endif
}
