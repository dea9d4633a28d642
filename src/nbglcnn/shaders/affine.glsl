// A gather whose input coordinates (n, c, y, x) are sums of multiples of the output's: no divisions.
// i[0] first coordinates, i[1..4] what a step along the output's n, c, y, x adds. TEXEL: four output
// channels are one input texel, so that a single fetch serves them.
vec4 pixel(ivec4 at) {
  ivec4 p = u.i[0] + u.i[1] * min(at.x, u.o.frame.x - 1) + u.i[3] * min(at.z, u.o.frame.z - 1)
          + u.i[4] * min(at.w, u.o.frame.w - 1);
  int c = at.y * 4;
#if TEXEL
  p.y = (p.y + c) >> 2;
  return texel(x0, u.x[0], p);
#else
  int last = u.o.frame.y - 1;
  return vec4(
    element(x0, u.x[0], p + u.i[2] * c), element(x0, u.x[0], p + u.i[2] * min(c + 1, last)),
    element(x0, u.x[0], p + u.i[2] * min(c + 2, last)), element(x0, u.x[0], p + u.i[2] * min(c + 3, last)));
#endif
}
