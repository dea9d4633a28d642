// Weights computed at run time, packed as weights.conv_texture packs constant ones: texel (4·ig + j, og·taps + k)
// holds tap k from input 4·ig + j of a group to four outputs. x0: the weights in any nchw.
// u_inputs and u_outputs of one of u_groups; u_steps: from one input, output and group to the next among x0's elements;
// u_lines: rows of one column part. u_factor multiplies. Layers are images.

vec4 pixel(ivec4 at) {
  int part = at.z / u_lines, row = at.z - part * u_lines;
  int sheet_row = row / u_taps, og = at.x * (u_lines / u_taps) + sheet_row, i = part * COLUMN_GROUPS * 4 + at.w;
  if (i >= u_inputs) return vec4(0.0);
  int end = u_outputs * u_groups, first = row - sheet_row * u_taps + i * u_steps.x;
  vec4 v = vec4(0.0);
  for (int lane = 0; lane < min(end - 4 * og, 4); lane++) {
    int o = 4 * og + lane, group = o / u_outputs;
    float e = flat_element(x0, u.x[0], first + group * u_steps.z + (o - group * u_outputs) * u_steps.y);
    if (lane == 0) v.x = e; else if (lane == 1) v.y = e; else if (lane == 2) v.z = e; else v.w = e;
  }
  return v * u_factor;
}
