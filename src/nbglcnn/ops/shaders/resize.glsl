// Resizing rows and columns by tables: for each output row (w0) and column (w1), the source places and weights.
// A table holds taps (place, weight) for each position, position after position, 1024 texels a line; u_taps.x of
// them for a row, u_taps.y for a column. At a place below 0 nothing is read: the result is u_outside.
// ONE: there is a single tap, the nearest neighbour. OUTSIDE: such places are in the tables.

vec2 tap(sampler2DArray table, int t) {
  return fetch(table, ivec3(t & 1023, t >> 10, 0)).xy;
}

vec4 pixel(ivec4 at) {
  // Pixels of a block that lie outside the map repeat its edge: nobody reads them, but the address must exist.
  at = min(at, ivec4(u.o.nchw.x - 1, at.y, u.o.nchw.zw - 1));
  ivec2 first = at.zw * u_taps;
#if OUTSIDE
  if (tap(w0, first.x).x < 0.0 || tap(w1, first.y).x < 0.0) return vec4(u_outside);
#endif
#if ONE
  // No product with the weight: nearest neighbours pass NaN and Inf on as they are.
  return texel(x0, u.x[0], ivec4(at.xy, int(tap(w0, first.x).x), int(tap(w1, first.y).x)));
#else
  vec4 sum = vec4(0.0);
  for (int i = 0; i < u_taps.x; i++) {
    vec2 row = tap(w0, first.x + i);
    vec4 line = vec4(0.0);
    for (int j = 0; j < u_taps.y; j++) {
      vec2 column = tap(w1, first.y + j);
      line += column.y * texel(x0, u.x[0], ivec4(at.xy, int(row.x), int(column.x)));
    }
    sum += row.y * line;
  }
  return sum;
#endif
}
