// The first and the last pixels that any sample of a tile reads, of coordinates x0: (across, down) of both, with DEPTH
// (across, down, deep) of the first in channels 0 to 3, of the last in 4 to 7. Behind the tiles come larger ones.
// u_across: tiles and large tiles in a row; u_tiles: how many of the former; SMALL and LARGE: samples along a side.
vec4 pixel(ivec4 at) {
  bool small = at.w < u_tiles;
  int tile = small ? at.w : at.w - u_tiles, across = small ? u_across.x : u_across.y, side = small ? SMALL : LARGE;
  int row = tile / across;
  ivec2 from = ivec2(row, tile - row * across) * side, to = min(from + side, u.x[0].nchw.zw);
  ivec3 low = ivec3(1 << 24), high = ivec3(-1), size = u_size.zyx;
  for (int y = from.x; y < to.x; y++)
  for (int x = from.y; x < to.y; x++) {
    ivec3 v = ivec3(floor(texel(x0, u.x[0], ivec4(at.x, 0, y, x)).xyz));
    for (int k = u_first; k <= u_last; k++)
    for (int d = 0; d < 3; d++) {
      int place = inside(v[d] + k, size[d]);
      if (place < 0) continue;
      low[d] = min(low[d], place);
      high[d] = max(high[d], place);
    }
  }
#if DEPTH
  return vec4(at.y == 0 ? low : high, 0.0);
#else
  return vec4(low.xy, high.xy);
#endif
}
