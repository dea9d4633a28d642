// A gather whose input coordinates (n, c, y, x) are sums of multiples of the output's: no divisions.
// u_first: the first coordinates; u_steps: what a step along the output's n, c, y, x adds.
float source(ivec4 at) {
  return element(x0, u.x[0], u_first + u_steps(0) * at.x + u_steps(1) * at.y + u_steps(2) * at.z
                              + u_steps(3) * at.w);
}
