// A gather whose input coordinates (n, c, y, x) are sums of multiples of the output's: no divisions.
// i[0] first coordinates, i[1..4] what a step along the output's n, c, y, x adds.
float source(ivec4 at) {
  return element(x0, u.x[0], u.i[0] + u.i[1] * at.x + u.i[2] * at.y + u.i[3] * at.z + u.i[4] * at.w);
}
