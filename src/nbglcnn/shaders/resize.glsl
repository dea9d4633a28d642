// Resizing rows and columns by tables: for each output row (w0) and column (w1), the source places and weights.
// A table holds TAPS texels (place, weight) for each position, position after position, 1024 texels a line.

vec2 tap(sampler2DArray table, int position, int k) {
  int t = position * TAPS + k;
  return fetch(table, ivec3(t & 1023, t >> 10, 0)).xy;
}

vec4 pixel(ivec4 at) {
  // Pixels of a block that lie outside the map repeat its edge: nobody reads them, but the address must exist.
  at = min(at, ivec4(u.o.frame.x - 1, at.y, u.o.frame.zw - 1));
#if TAPS == 1
  // No product with the weight: nearest neighbours pass NaN and Inf on as they are.
  return texel(x0, u.x[0], ivec4(at.xy, int(tap(w0, at.z, 0).x), int(tap(w1, at.w, 0).x)));
#else
  vec4 sum = vec4(0.0);
  for (int i = 0; i < TAPS; i++) {
    vec2 row = tap(w0, at.z, i);
    vec4 line = vec4(0.0);
    for (int j = 0; j < TAPS; j++) {
      vec2 column = tap(w1, at.w, j);
      line += column.y * texel(x0, u.x[0], ivec4(at.xy, int(row.x), int(column.x)));
    }
    sum += row.y * line;
  }
  return sum;
#endif
}
