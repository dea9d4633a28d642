// What weight_gradient.glsl says, of groups whose channels are not by fours: each layer an output channel, the lanes
// input channels of its group, read one by one.
vec4 pixel(ivec4 at) {
  int part = quotient(at.x, u_rows), o = at.x - part * u_rows;
  if (o >= u.x[1].nchw.y) return vec4(0.0);
  int i = 4 * at.y, lanes = min(4, u_inputs - i), first = over(o, u_outputs) * u_inputs + i;
  Sum s = sum_of(part, at.z, at.w);
  vec4 sum = vec4(0.0);
  for (int n = s.first; n < s.end; n++) {
    vec4 image = vec4(0.0);
    for (int z = s.low.x; z < s.high.x; z++) {
      for (int y = s.low.y; y < s.high.y; y++) {
        int row = (z * u_stride.x + s.tap.x) * u_size.y + y * u_stride.y + s.tap.y;
        for (int x = s.low.z; x < s.high.z; x++) {
          int column = x * u_stride.z + s.tap.z;
          vec4 v = vec4(element(x0, u.x[0], ivec4(n, first, row, column)), 0.0, 0.0, 0.0);
          if (lanes > 1) v.y = element(x0, u.x[0], ivec4(n, first + 1, row, column));
          if (lanes > 2) v.z = element(x0, u.x[0], ivec4(n, first + 2, row, column));
          if (lanes > 3) v.w = element(x0, u.x[0], ivec4(n, first + 3, row, column));
          image += element(x1, u.x[1], ivec4(n, o, z * u_places.y + y, x)) * v;
        }
      }
    }
    sum += image;
  }
  return sum;
}
