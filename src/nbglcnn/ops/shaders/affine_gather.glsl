// A gather whose input coordinates (n, c, y, x) are sums of multiples of the output's.
// u_first: the first coordinates; u_steps: what a step along the output's n, c, y, x adds. Images and channels may be
// split into parts of u_inner: then the last two steps go from part to part.
float source(ivec4 at) {
  ivec2 part = ivec2(over(at.x, u_inner.x), over(at.y, u_inner.y));
  at.xy -= part * u_inner;
  return element(x0, u.x[0], u_first + u_steps(0) * at.x + u_steps(1) * at.y + u_steps(2) * at.z + u_steps(3) * at.w
                              + u_steps(4) * part.x + u_steps(5) * part.y);
}
