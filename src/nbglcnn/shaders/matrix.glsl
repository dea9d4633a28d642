// A matrix computed at run time, packed as weights.conv_texture packs a constant one: texel (4·ig + j, og) holds the
// four outputs of input 4·ig + j. x0: the matrix in any frame.
// i[0] inputs, outputs, and the steps from one input and one output to the next among x0's elements; i[1].x rows of
// one column part. f[3].x multiplies.
const int COLUMNS = 4096;  // 4 * COLUMN_GROUPS of weights.py

vec4 pixel(ivec4 at) {
  int part = at.z / u.i[1].x, i = part * COLUMNS + at.w, o = 4 * (at.z - part * u.i[1].x);
  if (i >= u.i[0].x) return vec4(0.0);
  int first = i * u.i[0].z, last = u.i[0].y - 1;
  vec4 v = vec4(
    flat_element(x0, u.x[0], first + min(o, last) * u.i[0].w),
    flat_element(x0, u.x[0], first + min(o + 1, last) * u.i[0].w),
    flat_element(x0, u.x[0], first + min(o + 2, last) * u.i[0].w),
    flat_element(x0, u.x[0], first + min(o + 3, last) * u.i[0].w)) * u.f[3].x;
  return vec4(v.x, o + 1 <= last ? v.y : 0.0, o + 2 <= last ? v.z : 0.0, o + 3 <= last ? v.w : 0.0);
}
