// What pack_kernel.glsl makes, of weights whose nchw is (outputs, inputs, rows, columns) or, TRANSPOSED, (inputs, outputs,
// rows, columns): their texels are found without counting elements, and those of TRANSPOSED hold four outputs already.
// The numbers are the same.

#define OUTPUT(c, k) \
  if (o + k < end) { vec3 t = corner(l, o + k, i >> 2) + in_tile; v.c = lane(SAMPLE(x0, l, vec3(t.xy * xs, t.z)), i & 3); }

vec4 pixel(ivec4 at) {
  Layout l = u.x[0];
  int part = over(at.z, u_lines), row = at.z - part * u_lines;
  int sheet_row = over(row, u_taps), tap = row - sheet_row * u_taps;
  int o = 4 * (at.x * over(u_lines, u_taps) + sheet_row), i = part * COLUMN_GROUPS * 4 + at.w;
  int end = u_outputs * u_groups;
  if (i >= u_inputs || o >= end) return vec4(0.0);
  int y = over(tap, l.nchw.w), x = tap - y * l.nchw.w;
#if TRANSPOSED
  int group = over(o, u_outputs);
  return texel(x0, l, ivec4(group * u_inputs + i, (o - group * u_outputs) >> 2, y, x)) * u_factor;
#else
  vec2 xs = UNIT(x0), down = place(y, l.phase.x, l.phase.w, l.block.y, l.block.z);
  vec2 across = place(x, l.phase.y, l.phase.z, l.block.z, 1);
  vec3 in_tile = vec3(across.x, down.x, across.y + down.y);
  vec4 v = vec4(0.0);
  OUTPUT(x, 0) OUTPUT(y, 1) OUTPUT(z, 2) OUTPUT(w, 3)
  return v * u_factor;
#endif
}
