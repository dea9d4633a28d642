// Weights computed at run time, packed as weights.conv_texture packs constant ones: texel (4·ig + j, og·taps + k)
// holds tap k from input 4·ig + j of a group to four outputs. x0: the weights in any nchw.
// i[0] inputs and outputs of one group, and the steps from one input and one output to the next among x0's
// elements; i[1] groups, the step between them, taps, rows of one column part. u_factor multiplies. Layers are images.
const int COLUMNS = 4096;  // 4 * COLUMN_GROUPS of lowering/weights.py

vec4 pixel(ivec4 at) {
  int part = at.z / u.i[1].w, row = at.z - part * u.i[1].w;
  int sheet_row = row / u.i[1].z, og = at.x * (u.i[1].w / u.i[1].z) + sheet_row, i = part * COLUMNS + at.w;
  if (i >= u.i[0].x) return vec4(0.0);
  int end = u.i[0].y * u.i[1].x, first = row - sheet_row * u.i[1].z + i * u.i[0].z;
  vec4 v = vec4(0.0);
  for (int lane = 0; lane < min(end - 4 * og, 4); lane++) {
    int o = 4 * og + lane, group = o / u.i[0].y;
    float e = flat_element(x0, u.x[0], first + group * u.i[1].y + (o - group * u.i[0].y) * u.i[0].w);
    if (lane == 0) v.x = e; else if (lane == 1) v.y = e; else if (lane == 2) v.z = e; else v.w = e;
  }
  return v * u_factor;
}
