// Boxes of maps, each cut into bins, each bin sampled (roi_sampling.glsl). x0 maps, x1 boxes, x2 each one's image.
// This pass adds up the rows of samples of a bin from u_begin to before u_end; u_last: whether it is the last.
// FURTHER: x3 is what earlier passes have found.
// LARGEST: not the mean of the samples, but the largest share that a pixel has of one of them, as ONNX has it.

vec4 pixel(ivec4 at) {
  Layout l = u.x[0];
  vec3 unit = vec3(UNIT(x0), 1.0);
  vec3 image = corner(l, clamp(int(flat_element(x2, u.x[2], at.x)), 0, l.nchw.x - 1), at.y);
  Line down = line_of(coordinate(at.x, 1), coordinate(at.x, 3), at.z, u_bins.x, l.nchw.z);
  Line across = line_of(coordinate(at.x, 0), coordinate(at.x, 2), at.w, u_bins.y, l.nchw.w);
#if FURTHER
  vec4 joined = texel(x3, u.x[3], at);
#else
  vec4 joined = vec4(0.0);
#endif
  bool zero = float(down.count) < down.total || float(across.count) < across.total, begun = false;
  int rows = min(down.count, u_end);
  for (int j = u_begin; j < rows; j++) {
    vec3 y = between(down, j, l.nchw.z);
    vec2 top = place(int(y.x), l.phase.x, l.phase.w, l.block.y, l.block.z);
    vec2 low = place(int(y.y), l.phase.x, l.phase.w, l.block.y, l.block.z);
    for (int i = 0; i < across.count; i++) {
      vec3 x = between(across, i, l.nchw.w);
      if (x.x < 0.0 || y.x < 0.0) { zero = true; continue; }
      vec2 left = place(int(x.x), l.phase.y, l.phase.z, l.block.z, 1);
      vec2 right = place(int(x.y), l.phase.y, l.phase.z, l.block.z, 1);
#define SHARE(w, column, row) ((w) * SAMPLE(x0, l, (image + vec3(column.x, row.x, column.y + row.y)) * unit))
      vec4 a = SHARE((1.0 - y.z) * (1.0 - x.z), left, top), b = SHARE((1.0 - y.z) * x.z, right, top);
      vec4 c = SHARE(y.z * (1.0 - x.z), left, low), d = SHARE(y.z * x.z, right, low);
#if LARGEST
      vec4 v = larger(larger(a, b), larger(c, d));
      joined = begun ? larger(joined, v) : v;
      begun = true;
#else
      joined += a + b + c + d;
#endif
    }
  }
#if LARGEST
  return zero && begun ? larger(joined, vec4(0.0)) : joined;
#else
  return u_last == 0 ? joined : joined / max(down.total * across.total, 1.0);
#endif
}
