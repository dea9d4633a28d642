// The first pixels (channels 0 to 3: across, down, deep) and the last ones (4 to 7) that any sample of a tile reads, of
// coordinates x0. i[2].x tiles in a row; SIDE: samples along one's side.
vec4 pixel(ivec4 at) {
  int tile = at.w, row = tile / u.i[2].x;
  ivec2 from = ivec2(row, tile - row * u.i[2].x) * SIDE, to = min(from + SIDE, u.x[0].nchw.zw);
  ivec3 low = ivec3(1 << 24), high = ivec3(-1), size = u.i[0].zyx;
  for (int y = from.x; y < to.x; y++)
  for (int x = from.y; x < to.y; x++) {
    ivec3 v = ivec3(floor(texel(x0, u.x[0], ivec4(at.x, 0, y, x)).xyz));
    for (int k = u.i[1].z; k <= u.i[1].w; k++)
    for (int d = 0; d < 3; d++) {
      int place = inside(v[d] + k, size[d]);
      if (place < 0) continue;
      low[d] = min(low[d], place);
      high[d] = max(high[d], place);
    }
  }
  return vec4(at.y == 0 ? low : high, 0.0);
}
