// What both stages of the display know. One draw is one picture: the viewport.
// i[0]: left and top of the picture in the canvas, where rows may go up or down from; its corner in `table`
// i[1]: width and height of a map with the gap beside it, and without
// i[2]: colour map's layer, reads a pixel along each axis, layer of `table`, layer of marks in `maps`
// i[3]: range (0 channel, 1 layer, 2 fixed), its use (0 signed, 1 minimum to maximum, 2 symmetric, 3 with zero in it)
// i[4]: the value's first texel in `ranges` and how wide that is; column and row of what its maps share there
// f[0]: 1 over the width and height of a map with its gap, and over those of `table`
// f[1]: map pixels a canvas pixel in x and y, lowest and highest value of a fixed range
// f[2]: 1 over the value's phases and blocks, in x and y
// f[3]: 1 over the width and height of the value's texture, what lies below and above the range of an image

// The values at the ends of the colour map, as half the lowest one and half of what lies between: all of it may
// overflow. Where nothing lies between, all values are in the middle of a signed map, else at the low end.
vec2 ends(float low, float high) {
  if (low > high) low = high = 0.0; // no finite value
  float most = max(abs(low), abs(high));
  if (u.i[3].y == 3) { low = min(low, 0.0); high = max(high, 0.0); }
  else if (u.i[3].y != 1) { low = -most; high = most; }
  vec2 half_of = vec2(low * 0.5, high * 0.5 - low * 0.5);
  return half_of.y > 0.0 ? half_of : vec2(u.i[3].y == 0 ? -0.25 * BIG : low * 0.5, 0.5 * BIG);
}
